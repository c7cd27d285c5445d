"""A region's voice: whom it asks next, what it repeats, and when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.dedup import WINDOW
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform.commands import Acknowledge, JoinRegion
from holdfast.core.platform.definition import PLATFORM
from holdfast.host.link.region.session import PlatformTarget, RegionSession, RetiredByPlatform
from holdfast.host.ports.transport import NoAnswer, Reply, Request, RequestHandler, Unreachable
from holdfast.host.protocol import session_client
from holdfast.host.protocol.commands import (
    ENVELOPES_BATCH,
    JSON,
    LEADER,
    MSGPACK,
    CommandOutcome,
    CommandReply,
    Renewed,
)
from holdfast.host.protocol.problem import ProblemBody, problem_reply
from holdfast.host.protocol.session_client import SessionLost
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from tests.support.ledgers.platform import DIGEST

SERVERS = ("a", "b", "c")
Answering = Callable[[str, Request], Reply]


class Told:
    """A transport that answers as it is told, and remembers what it was asked."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self.asked: list[tuple[str, Request]] = []

    async def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        self.asked.append((peer, request))
        return self._answering(peer, request)

    def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        raise AssertionError("a speaker streams nothing")

    def serve(self, serving: RequestHandler) -> None:
        raise AssertionError("a speaker serves nothing")

    def envelopes(self) -> list[Envelope[object]]:
        read = [PLATFORM.envelopes.read(request.body) for _, request in self.asked]
        return [one for one in read if isinstance(one, Envelope)]


def a_speaker(told: Told, loop: VirtualLoop) -> RegionSession:
    clock = VirtualClock(loop)
    platform = PlatformTarget(SERVERS, "eu", "", lambda: (("authorization", "Bearer x"),))
    return RegionSession(told, clock, platform, clock.wall)


def said(answered: CommandReply, *headers: tuple[str, str]) -> Reply:
    return Reply(200, (MSGPACK, *headers), encode(answered))


def landed(at: int = 0) -> Reply:
    return said(CommandReply(CommandOutcome.LANDED, revision=9, session=7, at=at))


def test_a_server_that_does_not_lead_names_the_one_that_does() -> None:
    def answering(peer: str, request: Request) -> Reply:
        return landed() if peer == "c" else said(CommandReply(CommandOutcome.UNAVAILABLE, "not-leading"), (LEADER, "c"))

    loop, told = VirtualLoop(), Told(answering)
    speaker = a_speaker(told, loop)
    run_virtual(speaker.open(), loop)
    assert ([peer for peer, _ in told.asked], speaker.server, speaker.session) == (["a", "c"], "c", 7)


def test_a_failure_that_is_heard_late_does_not_send_it_on_from_a_better_server() -> None:
    async def story() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        speaker = a_speaker(Told(lambda *_: landed()), loop)
        speaker.try_another_server("a")
        speaker.try_another_server("a")
        return speaker.server

    assert run_virtual(story()) == "b"


def test_a_command_is_repeated_with_its_number_and_its_time_until_it_is_judged() -> None:
    troubles = [NoAnswer("lost"), Unreachable("down"), None]

    def answering(peer: str, request: Request) -> Reply:
        trouble = troubles.pop(0)
        if trouble is not None:
            raise trouble
        return landed()

    loop, told = VirtualLoop(), Told(answering)
    run_virtual(a_speaker(told, loop).send(Acknowledge("eu", "log-eu", 5, 4, DIGEST)), loop)
    assert [peer for peer, _ in told.asked] == ["a", "b", "c"]
    sent = told.envelopes()
    assert len({(one.sent, one.sequence, one.session) for one in sent}) == 1


@pytest.mark.parametrize(("code", "error"), [("no-session", SessionLost), ("tombstoned", RetiredByPlatform)])
def test_what_ends_everything_is_raised(code: str, error: type[Exception]) -> None:
    loop = VirtualLoop()
    speaker = a_speaker(Told(lambda *_: said(CommandReply(CommandOutcome.REFUSED, code, "why"))), loop)
    with pytest.raises(error, match="why"):
        run_virtual(speaker.join("log-eu", DEFAULTS), loop)


def test_a_heartbeat_of_a_session_that_is_over_says_so() -> None:
    loop = VirtualLoop()
    speaker = a_speaker(Told(lambda *_: problem_reply(409, "no-session", "open one")), loop)
    with pytest.raises(SessionLost, match="open one"):
        run_virtual(speaker.renew(), loop)


@pytest.mark.parametrize(
    ("facts", "successor"), [({"current": "0.0"}, 0), ({"current": "41.3"}, pack_revision(41, 3)), ({}, 0)]
)
def test_a_session_that_is_over_says_who_has_its_name_now(facts: dict[str, str], successor: int) -> None:
    loop, found = VirtualLoop(), ProblemBody("no-session", facts=facts)
    speaker = a_speaker(Told(lambda *_: Reply(409, (), msgspec.json.encode(found))), loop)
    with pytest.raises(SessionLost) as over:
        run_virtual(speaker.renew(), loop)
    assert over.value.successor == successor


def test_heartbeats_go_on_until_the_session_is_over() -> None:
    replies = [renewed(8_000), problem_reply(503, "not-proven", "the store is silent"), renewed(4_000)]

    def answering(peer: str, request: Request) -> Reply:
        return replies.pop(0) if replies else problem_reply(409, "no-session", "open one")

    loop, told = VirtualLoop(), Told(answering)
    with pytest.raises(SessionLost):
        run_virtual(a_speaker(told, loop).keep_alive(), loop)
    assert len(told.asked) == 4
    assert 3_000 <= loop.time() * 1_000 <= 3_200, "four in each lease, and sooner after one that was not heard"


@pytest.mark.parametrize("is_followed", [True, False])
def test_heartbeats_without_an_answer_of_a_leader_it_follows_are_repeated_ever_more_slowly(is_followed: bool) -> None:
    silent = problem_reply(503, "not-proven", "the store is silent")
    replies = [silent, silent, silent, renewed(4_000), silent]
    pauses: list[int] = []

    async def pause(attempt: int) -> None:
        pauses.append(attempt)

    def answering(peer: str, request: Request) -> Reply:
        return replies.pop(0) if replies else problem_reply(409, "no-session", "open one")

    loop = VirtualLoop()
    speaker = a_speaker(Told(answering), loop)
    speaker.back_off = pause  # type: ignore[method-assign]
    with pytest.raises(SessionLost):
        run_virtual(speaker.keep_alive(lambda one, _sent: one.worth_ms if is_followed else None), loop)
    assert (pauses, round(loop.time() * 1_000)) == (([1, 2, 3, 1], 1_000) if is_followed else ([1, 2, 3, 4, 5], 0))


def renewed(worth_ms: int, term: int = 1, at: int = 5) -> Reply:
    return Reply(200, (JSON,), msgspec.json.encode(Renewed(worth_ms, term, "log", at)))


def test_a_heartbeat_that_nobody_hears_goes_to_the_next_server() -> None:
    loop = VirtualLoop()
    speaker = a_speaker(Told(lambda *_: problem_reply(503, "not-proven", "the store is silent")), loop)
    assert run_virtual(speaker.renew(), loop) is None
    assert speaker.server == "b"
    assert speaker.last_error == "a did not accept a request of region/eu: the store is silent (not-proven)"


def test_a_deposed_leader_that_still_answers_says_nothing_of_the_time() -> None:
    answers = iter([renewed(4_000, 1, 9_000_000), renewed(4_000, 2, 5_000_000), renewed(4_000, 1, 9_000_001)])

    async def story() -> list[int]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        clock, speaker = VirtualClock(loop), a_speaker(Told(lambda *_: next(answers)), loop)
        told: list[int] = []
        for _ in range(3):
            await speaker.renew()
            told.append(speaker.offset.to_remote(clock.wall()))
        return told

    assert run_virtual(story()) == [9_000_000, 5_000_000, 5_000_000]


def test_once_the_platforms_time_is_known_commands_are_stamped_with_it() -> None:
    loop = VirtualLoop()
    told = Told(lambda *_: landed(at=5_000))
    speaker = a_speaker(told, loop)

    async def story() -> None:
        await speaker.open()
        await speaker.send(JoinRegion("eu", "log-eu"))

    run_virtual(story(), loop)
    assert told.envelopes()[1].sent == 5_000


def test_every_request_carries_the_credentials() -> None:
    loop, told = VirtualLoop(), Told(lambda *_: landed())
    run_virtual(a_speaker(told, loop).open(), loop)
    assert ("authorization", "Bearer x") in told.asked[0][1].headers


# Several commands in one request


def bodies_of(request: Request) -> list[Envelope[object]]:
    """What a request for many carries."""
    assert request.path == ENVELOPES_BATCH
    read = [PLATFORM.envelopes.read(bytes(one)) for one in msgspec.msgpack.decode(request.body, type=list[msgspec.Raw])]
    return [one for one in read if isinstance(one, Envelope)]


def said_of_each(request: Request, *answers: CommandReply) -> Reply:
    """These answers first, and of all others that they landed."""
    rest = [CommandReply(CommandOutcome.LANDED, revision=9)] * (len(bodies_of(request)) - len(answers))
    return Reply(200, (MSGPACK,), encode([*answers, *rest]))


def steps(count: int) -> list[Acknowledge]:
    return [Acknowledge("eu", "log-eu", number, 0, DIGEST) for number in range(1, count + 1)]


def test_many_commands_go_in_one_request_in_their_order_under_growing_numbers() -> None:
    loop = VirtualLoop()
    told = Told(lambda _, request: said_of_each(request))
    answers = run_virtual(a_speaker(told, loop).send_many(steps(5)), loop)
    assert [one.said for one in answers] == [CommandOutcome.LANDED] * 5
    ((_, request),) = told.asked
    assert [one.sequence for one in bodies_of(request)] == [1, 2, 3, 4, 5]
    assert [one.command for one in bodies_of(request)] == steps(5)


def test_many_commands_are_repeated_as_a_whole_until_each_is_judged() -> None:
    unjudged = [CommandReply(CommandOutcome.LANDED), CommandReply(CommandOutcome.UNAVAILABLE, "not-proven")]

    def answering(peer: str, request: Request) -> Reply:
        if peer == "a":
            raise NoAnswer("lost")
        return (
            said_of_each(request, *unjudged)
            if peer == "b"
            else said_of_each(request, CommandReply(CommandOutcome.LANDED))
        )

    loop, told = VirtualLoop(), Told(answering)
    answers = run_virtual(a_speaker(told, loop).send_many(steps(3)), loop)
    assert [peer for peer, _ in told.asked] == ["a", "b", "c"]
    assert len({request.body for _, request in told.asked}) == 1
    assert [one.said for one in answers] == [CommandOutcome.LANDED] * 3


def test_a_reply_about_the_request_as_a_whole_judges_none_of_many() -> None:
    replies = [problem_reply(503, "not-leading", "elsewhere"), None]

    def answering(peer: str, request: Request) -> Reply:
        return replies.pop(0) or said_of_each(request)

    loop, told = VirtualLoop(), Told(answering)
    answers = run_virtual(a_speaker(told, loop).send_many(steps(2)), loop)
    assert (len(told.asked), [one.said for one in answers]) == (2, [CommandOutcome.LANDED] * 2)


def test_more_than_may_be_in_flight_or_than_one_request_carries_goes_in_several(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = VirtualLoop()
    told = Told(lambda _, request: said_of_each(request))
    speaker = a_speaker(told, loop)

    async def story() -> None:
        await speaker.send_many(steps(2 * WINDOW + 10))
        assert [len(bodies_of(request)) for _, request in told.asked] == [WINDOW, WINDOW, 10]
        told.asked.clear()
        monkeypatch.setattr(session_client, "REQUEST_BYTES", 200)
        await speaker.send_many(steps(10))

    run_virtual(story(), loop)
    assert sum(len(bodies_of(request)) for _, request in told.asked) == 10
    assert all(len(request.body) <= 210 for _, request in told.asked)
    assert len(told.asked) > 2


@pytest.mark.parametrize(("code", "error"), [("no-session", SessionLost), ("tombstoned", RetiredByPlatform)])
def test_what_ends_everything_is_raised_for_one_of_many(code: str, error: type[Exception]) -> None:
    loop = VirtualLoop()
    ending = (CommandReply(CommandOutcome.LANDED), CommandReply(CommandOutcome.REFUSED, code, "why"))
    speaker = a_speaker(Told(lambda _, request: said_of_each(request, *ending)), loop)
    with pytest.raises(error, match="why"):
        run_virtual(speaker.send_many(steps(3)), loop)


def test_a_session_whose_commands_were_refused_as_often_as_it_is_wide_is_left_for_another() -> None:
    """A refused number is not used up in the ledger's eyes, which would take no number beyond its window any more."""
    loop, refused = VirtualLoop(), CommandReply(CommandOutcome.REFUSED, "already")
    told = Told(lambda _, request: said_of_each(request, *[refused] * len(bodies_of(request))))
    speaker = a_speaker(told, loop)

    async def story() -> None:
        await speaker.send_many(steps(WINDOW - 1))
        await speaker.send_many(steps(1))
        with pytest.raises(SessionLost, match="used up"):
            await speaker.send_many(steps(1))

    run_virtual(story(), loop)


def test_one_command_that_lands_opens_the_window_again() -> None:
    loop, refused = VirtualLoop(), CommandReply(CommandOutcome.REFUSED, "already")

    def answering(peer: str, request: Request) -> Reply:
        sent = bodies_of(request)
        return said_of_each(request, *[refused] * (len(sent) - 1))

    told = Told(answering)
    speaker = a_speaker(told, loop)

    async def story() -> None:
        for _ in range(4):
            await speaker.send_many(steps(WINDOW))

    run_virtual(story(), loop)
    assert [bodies_of(request)[0].sequence for _, request in told.asked] == [1, 257, 513, 769]
