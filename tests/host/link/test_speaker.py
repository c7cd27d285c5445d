"""A region's voice: whom it asks next, what it repeats, and when it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.platform.book import PLATFORM
from holdfast.core.platform.commands import Acknowledge, JoinRegion
from holdfast.host.link.speaker import Platform, SessionOver, Speaker, ToldToStop
from holdfast.host.transport import NoAnswer, Reply, Request, Serving, Unreachable
from holdfast.host.wire import LEADER, MSGPACK, Answered, Said, problem
from holdfast.sim.loop import VirtualClock, VirtualLoop, run_virtual

SERVERS = ("a", "b", "c")
Answering = Callable[[str, Request], Reply]


class Told:
    """A transport that answers as it is told, and remembers what it was asked."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering
        self.asked: list[tuple[str, Request]] = []

    async def ask(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        self.asked.append((peer, request))
        return self._answering(peer, request)

    def stream(self, peer: str, request: Request, idle_ms: int) -> AsyncIterator[bytes]:
        raise AssertionError("a speaker streams nothing")

    def serve(self, serving: Serving) -> None:
        raise AssertionError("a speaker serves nothing")

    def envelopes(self) -> list[Envelope[object]]:
        read = [PLATFORM.envelopes.read(request.body) for _, request in self.asked]
        return [one for one in read if isinstance(one, Envelope)]


def a_speaker(told: Told, loop: VirtualLoop) -> Speaker:
    clock = VirtualClock(loop)
    platform = Platform(SERVERS, "eu", "", lambda: (("authorization", "Bearer x"),))
    return Speaker(told, clock, platform, clock.wall)


def said(answered: Answered, *headers: tuple[str, str]) -> Reply:
    return Reply(200, (MSGPACK, *headers), encode(answered))


def landed(at: int = 0) -> Reply:
    return said(Answered(Said.LANDED, revision=9, session=7, at=at))


def test_a_server_that_does_not_lead_names_the_one_that_does() -> None:
    def answering(peer: str, request: Request) -> Reply:
        return landed() if peer == "c" else said(Answered(Said.UNAVAILABLE, "not-leading"), (LEADER, "c"))

    loop, told = VirtualLoop(), Told(answering)
    speaker = a_speaker(told, loop)
    run_virtual(speaker.open(), loop)
    assert ([peer for peer, _ in told.asked], speaker.server, speaker.session) == (["a", "c"], "c", 7)


def test_a_failure_that_is_heard_late_does_not_send_it_on_from_a_better_server() -> None:
    async def story() -> str:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        speaker = a_speaker(Told(lambda *_: landed()), loop)
        speaker.elsewhere("a")
        speaker.elsewhere("a")
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
    run_virtual(a_speaker(told, loop).send(Acknowledge("eu", "log-eu", 5, 4)), loop)
    assert [peer for peer, _ in told.asked] == ["a", "b", "c"]
    sent = told.envelopes()
    assert len({(one.sent, one.sequence, one.session) for one in sent}) == 1


@pytest.mark.parametrize(("code", "error"), [("no-session", SessionOver), ("tombstoned", ToldToStop)])
def test_what_ends_everything_is_raised(code: str, error: type[Exception]) -> None:
    loop = VirtualLoop()
    speaker = a_speaker(Told(lambda *_: said(Answered(Said.REFUSED, code, "why"))), loop)
    with pytest.raises(error, match="why"):
        run_virtual(speaker.join("log-eu"), loop)


def test_a_heartbeat_of_a_session_that_is_over_says_so() -> None:
    loop = VirtualLoop()
    speaker = a_speaker(Told(lambda *_: problem(409, "no-session", "open one")), loop)
    with pytest.raises(SessionOver, match="open one"):
        run_virtual(speaker.renew(), loop)


def test_a_heartbeat_that_nobody_hears_goes_to_the_next_server() -> None:
    loop = VirtualLoop()
    speaker = a_speaker(Told(lambda *_: problem(503, "not-proven", "the store is silent")), loop)
    assert run_virtual(speaker.renew(), loop) is None
    assert speaker.server == "b"
    assert speaker.trouble == "a does not take what this region says: the store is silent (not-proven)"


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
