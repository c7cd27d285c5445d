"""Small decisions of a link, each by itself: when it pauses, whose trouble it tells, what it forgets and sends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.records.region_reports import RegionSummary, TemplateCounts, WorkloadReport
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.resources import ZERO
from holdfast.core.model.values.settings import agent_times
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from holdfast.host.link.platform import request
from holdfast.host.link.platform.server import MARK_BATCHES, STEP_OBJECTS, _Stream
from holdfast.host.link.region import link, reports
from holdfast.host.link.region.link import REJECTED_RETRY_MS, Link
from holdfast.host.link.region.report_sender import ReportSender
from holdfast.host.link.region.reporter import RESYNC_MS
from holdfast.host.link.region.reports import OFFERS, LinkWorkloadReport, ReportCommand
from holdfast.host.protocol.commands import CommandOutcome, CommandReply
from holdfast.host.protocol.session_client import SessionLost
from holdfast.host.runtime.telemetry import Metrics
from tests.support.hosts.link_actors import link_actors
from tests.support.hosts.link_world import LinkWorld, linked
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template, an_assignment


class Quiet:
    """Meters and a journal that nobody reads."""

    def __getattr__(self, _name: str) -> Any:
        return lambda *_, **__: None


# Standing down


def test_whoever_stands_down_pauses_after_a_failure_and_not_after_a_part_that_was_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter([None, "landed", "landed", Refused(Code.TOO_EARLY, "", {}), Refused(Code.ALREADY, "", {})])
    done: list[str] = []

    async def submit(*_: Any) -> Any:
        done.append("sent")
        return next(answers)

    async def sleep(ms: int) -> None:
        assert ms == link.STAND_DOWN_RETRY_MS
        done.append("paused")

    monkeypatch.setattr(link, "_submit", submit)
    empty = SimpleNamespace(assignments=SimpleNamespace(is_empty=lambda: True))
    term = SimpleNamespace(clock=SimpleNamespace(sleep=sleep), metrics=Quiet(), durable=SimpleNamespace(state=empty))
    leader: Any = SimpleNamespace(term=term)
    asyncio.run(link.stand_down(leader, "retired", Quiet()))  # type: ignore[arg-type]
    assert done == ["sent", "paused", "sent", "sent", "sent", "paused", "sent"]


def test_whoever_stands_down_counts_the_assignments_that_were_really_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = Refused(Code.ALREADY, "", {})
    answers, metrics, left = iter([refused, None, refused, *["landed"] * 4]), Metrics(), [1, 2, 3]

    async def submit(_leader: Any, command: Any, _journal: Any) -> Any:
        answer = next(answers)
        if answer == "landed":
            left.remove(command.assignment)
        return answer

    async def sleep(_ms: int) -> None: ...

    monkeypatch.setattr(link, "_submit", submit)
    monkeypatch.setattr(link, "is_over", lambda *_: True)
    assignments = SimpleNamespace(is_empty=lambda: not left, values=lambda: [SimpleNamespace(uid=uid) for uid in left])
    durable = SimpleNamespace(state=SimpleNamespace(assignments=assignments))
    leader: Any = SimpleNamespace(
        term=SimpleNamespace(clock=SimpleNamespace(sleep=sleep), metrics=metrics, durable=durable)
    )
    asyncio.run(link.stand_down(leader, "retired", Quiet()))  # type: ignore[arg-type]
    assert metrics.counted("link_forgotten") == 3


# Trouble


@pytest.mark.parametrize(
    ("outlook", "speaker", "told"),
    [
        ("", None, ""),
        ("", "refused", "refused"),
        ("no stream", "refused", "no stream"),
        ("no stream", None, "no stream"),
    ],
)
def test_a_link_tells_what_keeps_it_from_hearing_and_else_what_keeps_it_from_speaking(
    outlook: str, speaker: str | None, told: str
) -> None:
    link: Any = Link.__new__(Link)
    link._outlook = SimpleNamespace(last_error=outlook)
    link._speaker = None if speaker is None else SimpleNamespace(last_error=speaker)
    assert link.degraded_reason() == told


# Words


def saying(answer: CommandReply, forgotten: list[int]) -> Any:
    found: Any = ReportSender.__new__(ReportSender)
    found._metrics = found._logger = Quiet()

    async def send_many(commands: list[Any]) -> list[CommandReply]:
        return [answer] * len(commands)

    async def forget(assignment: int) -> bool:
        forgotten.append(assignment)
        return True

    found._speaker = SimpleNamespace(send_many=send_many, offset=SimpleNamespace(to_remote=lambda now: now))
    found._leader = SimpleNamespace(term=SimpleNamespace(now=lambda: 100))
    found._forget = forget
    return found


@pytest.mark.parametrize(
    ("command", "code", "forgotten"),
    [
        (p.RemoveAssignment(7), Code.NOT_FOUND, [7]),
        (p.RemoveAssignment(7), Code.ALREADY, []),
        (p.AcknowledgeGrant("quota/acme", 1, None), Code.NOT_FOUND, []),  # type: ignore[arg-type]
    ],
)
def test_only_an_assignment_that_the_platform_does_not_know_is_forgotten_here(
    command: Any, code: Code, forgotten: list[int]
) -> None:
    found: list[int] = []
    assert asyncio.run(saying(CommandReply(CommandOutcome.REFUSED, code), found).submit([ReportCommand(command)], {}))
    assert found == forgotten


@pytest.mark.parametrize(("until", "later"), [(0, 900), (500, 500), (50, 100)])
def test_an_offer_that_came_too_early_is_made_again_when_it_may_be_for_all_that_it_is_of(
    until: int, later: int
) -> None:
    first, second = ("offer", 1), ("offer", 2)
    word = ReportCommand(p.OfferBack(7, 2), ((first, 300), (second, 900)))
    told: dict[Any, Any] = {}
    answer = CommandReply(CommandOutcome.REFUSED, Code.TOO_EARLY, facts={"until": until} if until else {})
    assert asyncio.run(saying(answer, []).submit([word], told))
    assert told == {first: later, second: later, OFFERS: later}


def test_an_offer_that_is_refused_for_good_keeps_no_other_offer_waiting() -> None:
    told: dict[Any, Any] = {}
    word = ReportCommand(p.OfferBack(7, 2), ((("offer", 1), 300),))
    assert asyncio.run(saying(CommandReply(CommandOutcome.REFUSED, Code.NOT_FOUND), []).submit([word], told))
    early: dict[Any, Any] = {}
    acknowledged = ReportCommand(p.AcknowledgeGrant("quota/acme", 1, ZERO), ((("grant", "quota/acme"), 1),))
    assert asyncio.run(saying(CommandReply(CommandOutcome.REFUSED, Code.TOO_EARLY), []).submit([acknowledged], early))
    assert (told, early) == ({("offer", 1): 300}, {("grant", "quota/acme"): 1})


def test_what_has_landed_is_counted_and_a_summary_only_where_there_is_one() -> None:
    found, metrics = saying(CommandReply(CommandOutcome.LANDED), []), Metrics()
    found._metrics = metrics
    seen = (WorkloadReport(1, 1, ()), WorkloadReport(2, 1, ()))
    words = [ReportCommand(p.Report("eu", 1, seen)), *[ReportCommand(p.Report("eu", 1, seen[:1], RegionSummary()))] * 2]
    assert asyncio.run(found.submit(words, {}))
    assert [metrics.counted(f"link_{name}") for name in ("reports", "reported", "summaries")] == [3, 4, 2]


# Looking at everything


def test_everything_is_looked_at_once_in_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def forgetting(*_: Any) -> Iterator[None]:
        looked.append("all of it")
        yield from ()

    monkeypatch.setattr(reports, "forget_deleted", forgetting)

    async def story(world: LinkWorld) -> None:
        await link_actors(world)
        looked.clear()
        await world.clock.sleep(3 * RESYNC_MS)
        assert len(looked) == 3

    linked(story)


# Steps


@pytest.mark.parametrize(
    ("waiting", "has_heard_all", "steps"),
    [(0, True, 0), (1, True, 1), (1, False, 0), (STEP_OBJECTS, False, 0), (STEP_OBJECTS + 1, False, 1)],
)
def test_before_all_is_heard_only_what_is_more_than_one_step_is_sent(
    waiting: int, has_heard_all: bool, steps: int
) -> None:
    found: Any = _Stream.__new__(_Stream)
    found._gathered, found._cursor = [None] * waiting, 0

    def step(*_: Any, **__: Any) -> str:
        del found._gathered[:STEP_OBJECTS]
        return "step"

    found._step = step
    assert found._steps(SimpleNamespace(seq=0), has_heard_all=has_heard_all) == ["step"] * steps


@pytest.mark.parametrize(
    ("cursor", "behind", "has_heard_all", "is_marked"),
    [
        (7, MARK_BATCHES, True, True),
        (7, MARK_BATCHES - 1, True, False),
        (MARK_BATCHES, 1, True, False),
        (7, MARK_BATCHES, False, False),
    ],
)
def test_the_cursor_of_a_region_that_nothing_was_for_is_moved_on_after_so_many_batches(
    cursor: int, behind: int, has_heard_all: bool, is_marked: bool
) -> None:
    found: Any = _Stream.__new__(_Stream)
    found._gathered, found._cursor, found._shipment = [], pack_revision(cursor), lambda ship: ship
    head: Any = SimpleNamespace(log_id="log", term=1, seq=cursor + behind)
    steps = found._steps(head, has_heard_all=has_heard_all)
    assert [ship.to for ship in steps] == ([pack_revision(cursor + behind, INDEX_MAX)] if is_marked else [])


# What is news


def test_progress_is_more_that_is_over_for_good_however_it_ended() -> None:
    def sighting(done: int, failed: int) -> LinkWorkloadReport:
        return LinkWorkloadReport(
            WorkloadReport(1, 1, (TemplateCounts("one", 3, 2, 1, done=done, failed=failed),)), (100,)
        )

    told: dict[Any, Any] = {("seen", 1): sighting(2, 1)}
    progress = [reports.is_progress(sighting(*one), told) for one in ((2, 1), (3, 1), (2, 2), (1, 1), (1, 2))]
    assert progress == [False, True, True, False, False]


@pytest.mark.parametrize(("waited", "is_offered"), [(-1, False), (0, True)])
def test_what_waits_for_room_is_offered_back_from_the_end_of_its_patience_on(waited: int, is_offered: bool) -> None:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    work = bench.a_workload(count=2)
    template, since = work.shares[0].template, bench.at
    reason = PendingReason("capacity", 2, "no node has 1 cpu")
    bench.accept(SCHEDULER, c.ReportPending(work.uid, template, bench.state.info.seq << 20, (reason,)))
    now = since + bench.state.info.settings.overflow_after + waited
    word = reports.offered_back(bench.state, work.uid, now, {})
    assert (word is not None) is is_offered
    assert word is None or word.command == p.OfferBack(work.uid, 2, "capacity no node has 1 cpu")


def test_identities_are_given_back_once_for_each_list_that_asks_for_them() -> None:
    bench = RegionBench()
    work = an_assignment(exclusive=True, shares=(), returning=((0, 3),))
    bench.ship(c.ShippedAssignment(work))
    told: dict[Any, Any] = {}
    for asked, is_news in ((200, True), (200, False), (300, True)):
        bench.state.assignments.put(work.uid, replace(work, revision=asked))
        words = list(reports.released(bench.state, work.workload, told))
        told.update(pair for word in words for pair in word.reported)
        given = [word.command for word in words if isinstance(word.command, p.ReleaseRights)]
        assert given == ([p.ReleaseRights(work.workload, ((0, 3),), asked)] if is_news else [])
    assert told["rights", work.uid] == (300, ((0, 3),))


def test_streams_that_are_open_are_counted() -> None:
    found: Any = _Stream.__new__(_Stream)
    gauges = {"shipping_streams": 0}
    metrics = SimpleNamespace(gauge=gauges.__setitem__, gauged=gauges.__getitem__)
    found._ledger = SimpleNamespace(metrics=metrics)
    counted = []
    for by in (1, 1, -1):
        found._count_streams(by)
        counted.append(gauges["shipping_streams"])
    assert counted == [1, 2, 1]


def test_an_account_is_above_its_target_only_while_more_is_charged_than_that() -> None:
    bench = RegionBench()
    assert not reports.is_above_target(bench.state, "quota/acme"), "there is no such account"
    bench.a_grant()
    assert not reports.is_above_target(bench.state, "quota/acme")


def waiting_in_two_requests(bench: RegionBench) -> tuple[int, int]:
    """An assignment of two templates that both wait for room, each for a reason of its own; and when both are late."""
    bench.a_scheduler()
    bench.a_grant()
    first, second = a_template(cpu=1_000), a_template(cpu=2_000)
    work = an_assignment(template=first, count=2)
    shares = (Share(template_digest(first), 2), Share(template_digest(second), 3))
    bench.ship(*(c.ShippedTemplate(template_digest(one), one) for one in (first, second)))
    bench.ship(c.ShippedAssignment(replace(work, shares=shares)))
    ordinal = 0
    for number, share in enumerate(shares):
        bench.accept(REPLICA, c.OpenSlots(work.uid, share.template, tuple(range(ordinal, ordinal + share.count))))
        ordinal += share.count
        reason = PendingReason("capacity", share.count, f"reason {number}")
        bench.accept(SCHEDULER, c.ReportPending(work.uid, share.template, bench.state.info.seq << 20, (reason,)))
        bench.at += 1_000
    return work.uid, bench.at + bench.state.info.settings.overflow_after


def test_what_is_offered_back_is_told_with_the_reason_that_has_been_there_longest() -> None:
    bench = RegionBench()
    uid, now = waiting_in_two_requests(bench)
    word = reports.offered_back(bench.state, uid, now, {})
    assert word is not None
    assert word.command == p.OfferBack(uid, 5, "capacity reason 0")


@pytest.mark.parametrize("name", ["offer", OFFERS])
def test_an_offer_is_made_again_from_the_time_on_that_was_told(name: Any) -> None:
    bench = RegionBench()
    uid, now = waiting_in_two_requests(bench)
    key = ("offer", uid) if name == "offer" else name
    assert reports.offered_back(bench.state, uid, now, {key: now + 1}) is None
    assert reports.offered_back(bench.state, uid, now, {key: now}) is not None


def test_identities_that_were_given_back_for_one_list_are_told_with_those_that_follow_for_it_alone() -> None:
    bench = RegionBench()
    work = an_assignment(exclusive=True, shares=(), returning=((0, 5),))
    bench.ship(c.ShippedAssignment(work))
    bench.state.assignments.put(work.uid, replace(work, revision=200))
    for asked, told in ((200, (200, ((0, 5),))), (100, (200, ((0, 5),)))):
        [word] = reports.released(bench.state, work.workload, {("rights", work.uid): (asked, ((0, 2),))})
        assert word.reported == ((("rights", work.uid), told),)
        assert isinstance(word.command, p.ReleaseRights)
        assert word.command.ordinals == (((2, 5),) if asked == 200 else ((0, 5),))


def test_a_little_that_was_told_is_forgotten_in_one_go() -> None:
    told: dict[Any, Any] = {("offer", 7): 1, ("seen", 8): None, OFFERS: 3}
    assert list(reports.forget_deleted(RegionBench().state, told)) == []
    assert told == {OFFERS: 3}


# Joining, and staying


def a_link(slept: list[int]) -> Any:
    """A link on a server that leads, whose clock writes down how long it was asked to sleep."""
    link: Any = Link.__new__(Link)

    async def sleep(ms: int) -> None:
        slept.append(ms)

    async def leads(*_: Any) -> None: ...

    link._clock, link._must_lead = SimpleNamespace(sleep=sleep), leads
    link._ledger, link._logger = SimpleNamespace(metrics=Quiet()), Quiet()
    link._outlook, link._own = SimpleNamespace(last_error=""), []
    return link


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        ([CommandReply(CommandOutcome.LANDED)], 0),
        ([CommandReply(CommandOutcome.REFUSED, Code.ALREADY)], 0),  # an earlier try has landed after all
        ([CommandReply(CommandOutcome.REFUSED, Code.NOT_FOUND), CommandReply(CommandOutcome.LANDED)], 1),
    ],
)
def test_a_region_has_joined_when_that_landed_or_was_done_already(answers: list[CommandReply], waits: int) -> None:
    slept: list[int] = []
    left = iter(answers)

    async def opened() -> CommandReply:
        return CommandReply(CommandOutcome.LANDED)

    async def join(*_: Any) -> CommandReply:
        return next(left)

    speaker = SimpleNamespace(open=opened, join=join, session=7 << 20, server="p1")
    durable = SimpleNamespace(state=RegionBench().state)
    leader = SimpleNamespace(term=SimpleNamespace(durable=durable, now=lambda: 100))
    asyncio.run(a_link(slept)._join(leader, speaker))
    assert slept == [REJECTED_RETRY_MS] * waits
    assert next(left, None) is None


def test_a_session_lives_as_long_as_the_shorter_lease_of_both_ledgers_and_as_the_times_it_joined_with() -> None:
    settings = RegionBench().state.info.settings
    state = SimpleNamespace(info=SimpleNamespace(settings=settings))
    leader = SimpleNamespace(term=SimpleNamespace(durable=SimpleNamespace(state=state)))
    speaker = SimpleNamespace(offset=SimpleNamespace(high=0), times=agent_times(settings))
    link = a_link([])
    leases = [link._renewed(leader, speaker, SimpleNamespace(worth_ms=worth), 0) for worth in (4_000, 1 << 40)]
    assert leases == [4_000, settings.session_lease]
    state.info.settings = replace(settings, grace=settings.grace + 1)
    with pytest.raises(SessionLost):
        link._renewed(leader, speaker, SimpleNamespace(worth_ms=4_000), 0)


@pytest.mark.parametrize(("heard_at", "is_refused"), [(49, True), (50, True), (51, False)])
def test_a_region_that_was_lost_has_to_join_once_more_unless_it_was_heard_after_that(
    heard_at: int, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "proven_leader", lambda _: None)
    status = SimpleNamespace(health=RegionHealth.LOST, heard_at=heard_at, since=50, session=7)
    state = SimpleNamespace(regions={"eu": SimpleNamespace(status=status)}, sessions={7: None})
    ledger: Any = SimpleNamespace(durable=SimpleNamespace(state=state))
    assert (request.session_problem(ledger, "eu", 7) is not None) is is_refused
