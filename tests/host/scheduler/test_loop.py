"""A scheduler at work for a region that answers late, refuses, does not answer at all, or falls silent."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import CommandAnswer, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import WatchKey, principal
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import WATCH_KEYS
from holdfast.core.scheduling import scheduler
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.cycle import RESYNC_MS
from holdfast.core.scheduling.scheduler import BACKOFF_MS
from holdfast.core.scheduling.view import SchedulerView
from holdfast.host.errors import OutcomeUnknown, Unavailable
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.loop import CHANGES_MS, PROPOSALS_IN_FLIGHT_MAX, SchedulerLoop
from holdfast.host.scheduler.pending_reporter import REPORT_AGAIN_MS, REPORTS_IN_FLIGHT_MAX, SOON_MS
from holdfast.host.watch.changes import ChangedKeys
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from tests.support.ledgers.region import REPLICA, RegionBench, a_class, a_template
from tests.support.ledgers.scheduler_world import placed_on

ACTOR = principal("scheduler")
#: Says what becomes of a proposal; None: the ledger judges it.
Judge = Callable[[c.Propose], Awaitable[CommandAnswer | None]]


class Feed:
    """What a scheduler hears, until it is closed."""

    def __init__(self) -> None:
        self.told: asyncio.Queue[ChangedKeys | None] = asyncio.Queue()

    def __aiter__(self) -> AsyncIterator[ChangedKeys]:
        return self._next()

    async def _next(self) -> AsyncIterator[ChangedKeys]:
        while (touched := await self.told.get()) is not None:
            yield touched

    def close(self) -> None:
        self.told.put_nowait(None)


class FakeRegion:
    """A region on a bench: durable at once, and as slow and as faithless as a test wants it."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.bench = RegionBench(checked=False)
        self.bench.a_grant()
        self.feeds: list[Feed] = []
        self.judge: Judge = self.at_once
        self.reachable = True
        self.said: list[tuple[int, Any]] = []
        self.under_way = self.most_under_way = 0
        #: How much ledger time is ahead of this machine's.
        self._ahead = self.bench.at - clock.boot()
        self._published = len(self.bench.log)

    async def at_once(self, command: c.Propose) -> CommandAnswer | None:
        return None

    # What a scheduler asks

    def view(self) -> SchedulerView | None:
        return SchedulerView(self.bench.state, self._now()) if self.reachable else None

    def changes(self) -> Feed:
        self.feeds.append(Feed())
        return self.feeds[-1]

    async def submit(self, command: Any, view: int, policy: int, evidence: bytes) -> CommandAnswer:
        self.said.append((self.clock.boot(), command))
        envelope = Envelope(ACTOR, command, self._now(), view=view, policy=policy, evidence=evidence)
        if not isinstance(command, c.Propose):
            return self.give(envelope)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            return await self.judge(command) or self.give(envelope)
        finally:
            self.under_way -= 1

    # What a test does

    def _now(self) -> int:
        self.bench.at = self._ahead + self.clock.boot()
        return self.bench.at

    def give(self, envelope: Envelope[Any]) -> CommandAnswer:
        self._now()
        answer = self.bench.give(envelope)
        self.publish()
        return answer

    def publish(self) -> None:
        """Tell of what happened on the bench, now."""
        self._now()
        keys: dict[Any, None] = {}
        previous = self.bench.log[self._published - 1][1] if self._published else b""
        for raw, digest in self.bench.log[self._published :]:
            batch = REGION.batches.read(raw, previous, digest)
            previous = digest
            for record in batch.records:
                for event in record.events:
                    keys.update(dict.fromkeys(WATCH_KEYS[type(event)](event, 0)))
        self._published = len(self.bench.log)
        touched = ChangedKeys(pack_revision(self.bench.state.info.seq, INDEX_MAX), tuple(keys))
        if self.feeds:
            self.feeds[-1].told.put_nowait(touched)

    def forget(self) -> None:
        """What happened on the bench is told to nobody."""
        self._published = len(self.bench.log)

    def proposals(self) -> list[tuple[int, c.Propose]]:
        return [(at, command) for at, command in self.said if isinstance(command, c.Propose)]

    def reports(self) -> list[tuple[int, c.ReportPending]]:
        return [(at, command) for at, command in self.said if isinstance(command, c.ReportPending)]


class Story:
    """A region, its scheduler, and time."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)
        self.region = FakeRegion(self.clock)
        self.bench = self.region.bench
        self.metrics = Metrics()
        self.scheduling = SchedulerLoop(self.region, BUILT_IN, self.clock, self.metrics, Logger("scheduler"))
        self.looks = 0
        look = self.scheduling.scheduler.run_cycle

        def counted(view: SchedulerView) -> Any:
            self.looks += 1
            return look(view)

        self.scheduling.scheduler.run_cycle = counted  # type: ignore[method-assign]
        self.task: asyncio.Task[None] | None = None

    async def go_on(self, ms: int) -> None:
        if self.task is None:
            self.task = asyncio.create_task(self.scheduling.run())
        self.region.publish()
        await self.clock.sleep(ms)
        if self.task.done():
            self.task.result()


def told(story: Callable[[Story], Coroutine[Any, Any, None]]) -> None:
    async def tell() -> None:
        made = Story()
        try:
            await story(made)
        finally:
            if made.task is not None:
                made.task.cancel()
                await asyncio.wait({made.task})

    run_virtual(tell())


# Taking everything


def test_much_is_taken_anew_a_little_at_a_time_and_what_changes_meanwhile_is_heard_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scheduler, "LOADED_AT_ONCE", 4)

    async def story(it: Story) -> None:
        for number in range(10):
            it.bench.a_node(f"n{number}", cpu=100)
        for uid in range(100, 110):
            it.bench.a_workload(a_template(cpu=1000 + uid), count=1, uid=uid, workload=uid)
        pieces: list[int] = []
        load_piece = it.scheduling.scheduler.load_piece

        def counted(state: RegionState, named: Sequence[WatchKey]) -> None:
            load_piece(state, named)
            pieces.append(it.looks)
            if len(pieces) == 3:  # when nodes are taken already
                it.bench.a_node("large", cpu=10**6, memory=10**7)
                it.bench.a_workload(a_template(cpu=900), count=1, uid=200, workload=200)
                it.region.publish()
            if len(pieces) == 5:
                it.region.feeds[-1].close()  # something was left out: it begins anew

        monkeypatch.setattr(it.scheduling.scheduler, "load_piece", counted)
        looks = it.looks
        await it.go_on(5_000)
        assert len(pieces) > 10
        assert set(pieces) == {pieces[0]}, "nothing is looked at before all is there"
        assert it.looks > looks
        assert set(placed_on(it.bench).values()) == {"large"}
        assert len(placed_on(it.bench)) == 11
        assert caught(it) == 0

    told(story)


# Under way


def test_a_few_proposals_are_under_way_at_a_time_and_name_different_slots() -> None:
    async def story(it: Story) -> None:
        async def slowly(command: c.Propose) -> None:
            await it.clock.sleep(300)

        it.region.judge = slowly
        it.bench.a_node(cpu=10**6, memory=10**7)
        for uid in range(100, 105):
            it.bench.a_workload(a_template(cpu=uid), count=1000, uid=uid, workload=uid)
        await it.go_on(5_000)
        assert it.region.most_under_way == PROPOSALS_IN_FLIGHT_MAX
        named = Counter(
            (group.assignment, placement.ordinal)
            for _, command in it.region.proposals()
            for group in command.groups
            for placement in group.placements
        )
        assert len(named) == 5_000
        assert set(named.values()) == {1}
        assert len(placed_on(it.bench)) == 5_000

    told(story)


def test_nothing_is_looked_at_while_the_region_cannot_be_spoken_to() -> None:
    async def story(it: Story) -> None:
        it.bench.a_node()
        it.bench.a_workload(count=1)
        it.region.reachable = False
        await it.go_on(10_000)
        assert (it.looks, it.region.said) == (0, [])
        it.region.reachable = True
        await it.go_on(2_000)
        assert len(placed_on(it.bench)) == 1

    told(story)


def test_a_scheduler_with_nothing_to_do_looks_about_once_a_second() -> None:
    async def story(it: Story) -> None:
        it.bench.a_node()
        await it.go_on(60_000)
        assert it.looks <= 65

    told(story)


# No answer


def test_a_proposal_that_was_lost_is_made_again_once_it_can_land_no_more() -> None:
    async def story(it: Story) -> None:
        async def lost(command: c.Propose) -> CommandAnswer | None:
            if len(it.region.proposals()) == 1:
                raise Unavailable("cut")
            return None

        it.region.judge = lost
        it.bench.a_node(cpu=1000)
        it.bench.a_workload(a_template(cpu=1000), count=1)
        await it.go_on(60_000)
        (first, _), (second, _) = it.region.proposals()
        life = it.bench.state.info.settings.proposal_life
        assert life // 2 < second - first < life + 2_000
        assert len(placed_on(it.bench)) == 1
        assert it.metrics.counted("scheduler_unanswered") == 1

    told(story)


def test_a_proposal_that_landed_and_whose_answer_was_lost_is_not_made_again() -> None:
    async def story(it: Story) -> None:
        async def lost(command: c.Propose) -> CommandAnswer | None:
            envelope = Envelope(ACTOR, command, it.bench.at)
            assert isinstance(it.region.give(envelope), Committed)
            raise OutcomeUnknown("the answer was lost")

        it.region.judge = lost
        it.bench.a_node(cpu=1000)
        it.bench.a_workload(a_template(cpu=1000), count=1)
        await it.go_on(60_000)
        assert len(it.region.proposals()) == 1
        flight = it.scheduling.scheduler.flight
        assert (flight.parts, flight.spent) == ({}, {})
        assert it.scheduling.scheduler.table.free_any[0].tolist() == [0]

    told(story)


def test_a_fault_in_what_answers_ends_the_scheduler_loudly() -> None:
    async def story(it: Story) -> None:
        async def broken(command: c.Propose) -> CommandAnswer | None:
            raise ZeroDivisionError("a fault of ours")

        it.region.judge = broken
        it.bench.a_node()
        it.bench.a_workload(count=1)
        with pytest.raises(ZeroDivisionError):
            await it.go_on(60_000)

    told(story)


# Refusals


@pytest.mark.parametrize("code", [Code.POLICY, Code.EXPIRED, Code.OVER_GRANT, Code.STALE, Code.NO_SESSION])
def test_a_ledger_that_refuses_everything_is_not_asked_all_the_time(code: Code) -> None:
    async def story(it: Story) -> None:
        async def refuse(command: c.Propose) -> CommandAnswer | None:
            facts = {"catch_up_to": 1 << 60} if code is Code.STALE else {}
            return Refused(code, "no", facts)

        it.region.judge = refuse
        it.bench.a_node()
        it.bench.a_workload(count=3)
        await it.go_on(120_000)
        assert 2 <= len(it.region.proposals()) <= 15
        assert it.looks < 300
        before = len(it.region.proposals())
        it.region.judge = it.region.at_once
        await it.go_on(32_000)
        assert len(placed_on(it.bench)) == 3
        assert len(it.region.proposals()) == before + 1

    told(story)


class Declines:
    """Everything is reserved first; of one workload nothing is bound."""

    name, version = "declines", "1"

    def __init__(self, *workloads: Revision) -> None:
        self._workloads = workloads or (1,)

    def waits(self, ask: SlotAsk) -> bool:
        return True

    def refuses(self, ask: SlotAsk, slot: SlotKey, node: Revision) -> str:
        return "no" if slot[0] in self._workloads else ""


def test_who_was_bound_beside_somebody_who_was_declined_is_looked_at_at_once() -> None:
    """The room that is given back is for whoever else waits for it."""

    async def story(it: Story) -> None:
        plugins = replace(BUILT_IN, binds=(Declines(),), reserves=(Declines(),))
        it.scheduling = SchedulerLoop(it.region, plugins, it.clock, it.metrics, Logger("scheduler"))
        it.bench.a_node(cpu=2000)
        it.bench.a_workload(a_template(cpu=1000), count=1, priority_class="critical")
        it.bench.a_workload(a_template(cpu=1000), count=2, uid=101, workload=2)
        began = it.clock.boot()
        await it.go_on(1_000)
        named = [(at - began, [one.assignment for one in command.groups]) for at, command in it.region.proposals()]
        assert named[0] == (0, [100, 101])
        assert named[1][1] == [101]
        assert named[1][0] < BACKOFF_MS

    told(story)


@pytest.mark.parametrize("requests", [1, 2])
def test_what_is_declined_each_time_is_reserved_more_and_more_seldom_though_it_left_the_queue_meanwhile(
    requests: int,
) -> None:
    """All of a request is reserved, so that it waits no more when somebody says no; then it waits anew."""

    async def story(it: Story) -> None:
        declines = Declines(1, 2)
        plugins = replace(BUILT_IN, binds=(declines,), reserves=(declines,))
        say = it.region.submit

        async def from_afar(command: Any, view: int, policy: int, evidence: bytes) -> CommandAnswer:
            answer = await say(command, view, policy, evidence)
            await it.clock.sleep(20)
            return answer

        it.region.submit = from_afar  # type: ignore[method-assign]
        it.scheduling = SchedulerLoop(it.region, plugins, it.clock, it.metrics, Logger("scheduler"))
        it.bench.a_node(cpu=1000)
        it.bench.a_workload(a_template(cpu=1000), count=1)
        if requests == 2:  # of the same kind: one of them waits while the other one is reserved
            it.bench.a_workload(a_template(cpu=1000), count=1, uid=101, workload=2)
        await it.go_on(60_000)
        assert 5 <= len(it.region.proposals()) <= 12
        it.bench.a_grant(version=2)
        await it.go_on(1_000)
        assert len(it.region.proposals()) <= 14, "what the account was granted has changed: once more"

    told(story)


def test_a_ledger_that_refuses_one_tenant_is_asked_for_the_others_at_once() -> None:
    async def story(it: Story) -> None:
        async def refuse(command: c.Propose) -> CommandAnswer | None:
            mine = any(group.assignment == 100 for group in command.groups)
            return Refused(Code.POLICY, "no") if mine and len(command.groups) == 1 else None

        it.region.judge = refuse
        it.bench.a_node()
        it.bench.a_workload(a_template(cpu=100), count=1)
        await it.go_on(20_000)
        it.bench.a_workload(a_template(cpu=200), count=1, uid=101, workload=2)
        await it.go_on(100)
        assert (2, 0) in placed_on(it.bench)

    told(story)


# Reports


def test_why_a_request_waits_is_told_when_it_changes_and_not_at_every_look() -> None:
    async def story(it: Story) -> None:
        it.bench.a_node("n1", cpu=1000)
        it.bench.a_workload(a_template(cpu=2000), count=1)
        await it.go_on(300_000)
        assert len(it.region.reports()) == 1
        (request,) = it.bench.state.requests[100]
        assert [reason.code for reason in request.reasons] == ["never-fits"]
        it.bench.a_grant(version=2, target=Resources())
        it.bench.a_node("n2", cpu=2000)
        await it.go_on(100)
        assert len(it.region.reports()) == 2
        (request,) = it.bench.state.requests[100]
        assert [reason.code for reason in request.reasons] == ["over-grant"]
        await it.go_on(300_000)
        assert len(it.region.reports()) == 2

    told(story)


def test_the_same_reasons_with_other_counts_are_told_now_and_then() -> None:
    async def story(it: Story) -> None:
        it.bench.a_workload(a_template(cpu=2000), count=1)
        for number in range(20):
            it.bench.a_node(f"n{number}", cpu=1000)
            it.bench.ship(c.ShippedPriorityClass(a_class("normal", 50 + number)))
            await it.go_on(6_000)
        at = [boot for boot, _ in it.region.reports()]
        assert 3 <= len(at) <= 6
        gaps = [later - earlier for earlier, later in pairwise(at[1:])]
        assert min(gaps) >= REPORT_AGAIN_MS

    told(story)


def test_a_report_that_nobody_heard_is_made_again_at_the_next_look() -> None:
    async def story(it: Story) -> None:
        say = it.region.submit
        fails = [True]

        async def faithless(command: Any, *rest: Any) -> CommandAnswer:
            if isinstance(command, c.ReportPending) and fails[0]:
                it.region.said.append((it.clock.boot(), command))
                raise Unavailable("cut")
            return await say(command, *rest)

        it.region.submit = faithless  # type: ignore[method-assign,assignment]
        it.bench.a_workload(a_template(cpu=2000), count=1)
        await it.go_on(1_000)
        assert it.bench.state.requests[100][0].reasons == ()
        fails[0] = False
        await it.go_on(61_000)
        assert it.bench.state.requests[100][0].reasons

    told(story)


def test_what_is_placed_soon_is_not_spoken_of() -> None:
    async def story(it: Story) -> None:
        it.bench.a_workload(count=1)
        await it.go_on(SOON_MS - 100)
        assert it.region.reports() == []
        it.bench.a_node()
        await it.go_on(10_000)
        assert len(placed_on(it.bench)) == 1
        assert it.region.reports() == []

    told(story)


def test_of_many_that_wait_a_few_are_told_at_a_time_and_all_in_the_end() -> None:
    async def story(it: Story) -> None:
        say, now, most = it.region.submit, [0], [0]

        async def slowly(command: Any, *rest: Any) -> CommandAnswer:
            now[0] += 1
            most[0] = max(most[0], now[0])
            await it.clock.sleep(20)
            now[0] -= 1
            return await say(command, *rest)

        it.region.submit = slowly  # type: ignore[method-assign,assignment]
        for uid in range(100, 200):
            it.bench.a_workload(a_template(cpu=uid), count=1, uid=uid, workload=uid)
        await it.go_on(SOON_MS + 5_000)
        assert most[0] == REPORTS_IN_FLIGHT_MAX
        assert all(it.bench.state.requests[uid][0].reasons for uid in range(100, 200))
        assert len(it.region.reports()) == 100

    told(story)


# Listening


def test_when_listening_ends_everything_is_loaded_anew() -> None:
    async def story(it: Story) -> None:
        await it.go_on(1_000)
        deaf = it.region.feeds[-1]
        it.region.feeds.append(Feed())  # what happens now is told to nobody
        it.bench.a_node()
        it.bench.a_workload(count=1)
        await it.go_on(5_000)
        assert placed_on(it.bench) == {}
        deaf.close()
        await it.go_on(2_000)
        assert len(placed_on(it.bench)) == 1
        it.bench.accept(REPLICA, c.OpenSlots(100, it.bench.state.assignments[100].shares[0].template, (7,)))
        await it.go_on(500)
        assert len(placed_on(it.bench)) == 2, "and it hears again"

    told(story)


def test_listening_that_ends_again_and_again_is_not_tried_all_the_time() -> None:
    async def story(it: Story) -> None:
        changes = it.region.changes

        def closed() -> Feed:
            feed = changes()
            feed.close()
            return feed

        it.region.changes = closed  # type: ignore[method-assign]
        it.bench.a_node()
        it.bench.a_workload(count=1)
        await it.go_on(10_000)
        assert len(it.region.feeds) < 30
        assert len(placed_on(it.bench)) == 1

    told(story)


# What nobody told of


def caught(it: Story) -> int:
    return sum(count for (name, _), count in it.metrics.counts.items() if name == "scheduler_caught")


def test_a_node_and_a_request_that_nobody_told_of_are_caught_by_the_resync_and_counted() -> None:
    async def story(it: Story) -> None:
        await it.go_on(1_000)
        it.bench.a_node()
        it.bench.a_workload(a_template(cpu=500), count=2)
        it.region.forget()
        await it.clock.sleep(RESYNC_MS + CHANGES_MS + 1_000)
        assert len(placed_on(it.bench)) == 2
        assert caught(it) == 2

    told(story)


def test_where_everything_is_told_the_resync_catches_nothing() -> None:
    async def story(it: Story) -> None:
        it.bench.a_node(cpu=10**6, memory=10**7)
        for number in range(10):
            it.bench.a_workload(a_template(cpu=100 + number), count=3, uid=100 + number, workload=100 + number)
            await it.go_on(RESYNC_MS // 4 + 17)
        assert len(placed_on(it.bench)) == 30
        assert caught(it) == 0

    told(story)
