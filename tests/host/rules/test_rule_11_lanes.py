"""RULES 11: lanes keep their share, overload sheds from the bottom, and a command never spans batches.

Otherwise a flood of proposals holds up the end of a session, or one command that cannot be judged stops all others.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.builtin.overrides import OpenOverride, OverrideOpened
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.commit.rules import CommandCoalescer, CommandLane
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.values.settings import DEFAULTS, with_drift
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Failed, Overloaded
from holdfast.host.leader.lanes import RESERVED, RESERVED_BYTES, SHARES, CommandLanes, QueuedCommand, take_batch
from holdfast.host.leader.session_monitor import MARGIN_MS
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ports.store import BATCH_BYTES
from holdfast.sim.world.virtual_loop import run_virtual
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, an_override, batches_in, in_world, start_log, until
from tests.support.ledgers.region import ROOT

PATIENCE = with_drift(DEFAULTS.session_lease, DEFAULTS) + MARGIN_MS
KIB, MIB = 1 << 10, 1 << 20


def waiting(lane: CommandLane, name: str = "", size_bytes: int = 64) -> QueuedCommand:
    envelope: Envelope[Any] = Envelope(ROOT, OpenSession(), 0, key=name)
    return QueuedCommand(envelope, lane, asyncio.get_running_loop().create_future(), size_bytes)


def one_batch(lanes: CommandLanes, sizes: dict[CommandLane, int], size_bytes: int = BATCH_BYTES) -> list[CommandLane]:
    """The lanes of the commands that the next batch takes, each of which has its lane's size."""
    taking = take_batch(lanes, size_bytes)
    taken: list[CommandLane] = []
    one = next(taking)
    while one is not None:
        taken.append(one.lane)
        one = taking.send(sizes.get(one.lane, KIB))
    return taken


def whole_turn(lanes: CommandLanes) -> list[QueuedCommand]:
    taking, taken = take_batch(lanes, BATCH_BYTES), []
    one = next(taking)
    while one is not None:
        taken.append(one)
        one = taking.send(KIB)
    return taken


def test_a_lane_that_has_had_its_share_to_the_byte_waits_for_what_the_others_leave() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for lane in (CommandLane.PROOFS, CommandLane.PROOFS, CommandLane.PROOFS, CommandLane.REPORTS):
            lanes.add(waiting(lane))
        assert one_batch(lanes, {}, 10 * KIB) == [
            CommandLane.PROOFS,
            CommandLane.PROOFS,
            CommandLane.REPORTS,
            CommandLane.PROOFS,
        ]

    run_virtual(story())


def test_a_batch_that_is_full_to_the_byte_takes_nothing_more() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for lane in (CommandLane.PROOFS, CommandLane.REPORTS):
            lanes.add(waiting(lane))
        assert one_batch(lanes, {CommandLane.PROOFS: 10 * KIB}, 10 * KIB) == [CommandLane.PROOFS]
        assert one_batch(lanes, {}, 10 * KIB) == [CommandLane.REPORTS]

    run_virtual(story())


def test_each_lane_gets_its_share_before_any_gets_more() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for lane in SHARES:
            for _ in range(1_000):
                lanes.add(waiting(lane))
        taken = one_batch(lanes, {}, size_bytes=100 * KIB)
        assert {lane: taken.count(lane) for lane in SHARES} == SHARES

    run_virtual(story())


def test_what_a_lane_does_not_need_goes_to_the_others_the_most_important_first() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for lane in (CommandLane.REPORTS, CommandLane.PROPOSALS):
            for _ in range(1_000):
                lanes.add(waiting(lane))
        taken = one_batch(lanes, {}, size_bytes=100 * KIB)
        assert (taken.count(CommandLane.REPORTS), taken.count(CommandLane.PROPOSALS)) == (80, 20)

    run_virtual(story())


def test_within_a_lane_first_come_is_first_served() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for number in range(10):
            lanes.add(waiting(CommandLane.OPERATORS, str(number)))
        first = whole_turn(lanes)
        lanes.put_back(first[:4])
        for one in first[4:]:
            lanes.add(one)
        names = [one.envelope.key for one in whole_turn(lanes)]
        assert names == [str(number) for number in range(10)]
        assert len(lanes) == 0

    run_virtual(story())


@pytest.mark.parametrize("flood", [CommandLane.PROOFS, CommandLane.REPORTS, CommandLane.RECONCILERS])
def test_a_flood_of_large_commands_in_one_lane_does_not_starve_another(flood: CommandLane) -> None:
    """One of them fills a batch. A lane that took more than its share waits until the others had theirs."""

    async def story() -> None:
        lanes = CommandLanes()
        for _ in range(500):
            lanes.add(waiting(flood))
        for lane in SHARES:
            if lane is not flood:
                for _ in range(10):
                    lanes.add(waiting(lane))
        batches = [one_batch(lanes, {flood: BATCH_BYTES * 3}) for _ in range(20)]
        assert all(lanes.depth(lane) == 0 for lane in SHARES if lane is not flood)
        # Nor do the others stop the flood: each batch takes some of it.
        assert sum(batch.count(flood) for batch in batches) >= 15

    run_virtual(story())


@pytest.mark.parametrize("by_bytes", [False, True])
def test_a_lane_with_exactly_what_is_kept_for_it_makes_room_for_nobody(by_bytes: bool) -> None:
    async def story() -> None:
        lanes = CommandLanes(most_bytes=2 * RESERVED_BYTES) if by_bytes else CommandLanes(most=2 * RESERVED)
        for lane in (CommandLane.PROPOSALS, CommandLane.OPERATORS):
            for _ in range(1 if by_bytes else RESERVED):
                lanes.add(waiting(lane, size_bytes=RESERVED_BYTES if by_bytes else 64))
        with pytest.raises(Overloaded):
            lanes.add(waiting(CommandLane.OPERATORS))
        assert lanes.depth(CommandLane.PROPOSALS) == lanes.depth(CommandLane.OPERATORS)
        lanes.add(waiting(CommandLane.REPORTS))

    run_virtual(story())


def test_a_batch_is_closed_near_its_size_whatever_waits() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for lane in SHARES:
            for _ in range(100):
                lanes.add(waiting(lane))
        for _ in range(50):
            taken = one_batch(lanes, dict.fromkeys(SHARES, 512 * KIB))
            assert len(taken) <= 2

    run_virtual(story())


def test_what_cost_nothing_in_bytes_still_counts_so_that_a_batch_ends() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for _ in range(9_000):
            lanes.add(waiting(CommandLane.PROPOSALS))
        assert len(one_batch(lanes, {CommandLane.PROPOSALS: 0})) < 9_000

    run_virtual(story())


# Overload


def test_overload_sheds_the_newest_of_the_least_important() -> None:
    async def story() -> None:
        lanes = CommandLanes(most=RESERVED * 10)
        proposals = [waiting(CommandLane.PROPOSALS) for _ in range(RESERVED * 9)]
        for one in [waiting(CommandLane.REPORTS) for _ in range(RESERVED)] + proposals:
            lanes.add(one)
        with pytest.raises(Overloaded):
            lanes.add(waiting(CommandLane.PROPOSALS))
        report = waiting(CommandLane.REPORTS)
        lanes.add(report)
        assert not report.answer.done()
        with pytest.raises(Overloaded):
            await proposals[-1].answer
        assert not proposals[-2].answer.done()
        assert len(lanes) == RESERVED * 10

    run_virtual(story())


def test_few_large_commands_are_too_much_and_the_newest_of_the_least_important_make_room() -> None:
    async def story() -> None:
        lanes = CommandLanes(most_bytes=8 * MIB)
        proposals = [waiting(CommandLane.PROPOSALS, size_bytes=MIB) for _ in range(8)]
        for one in proposals:
            lanes.add(one)
        with pytest.raises(Overloaded, match=rf"{8 * MIB} bytes of commands are queued, {MIB} more exceed"):
            lanes.add(waiting(CommandLane.PROPOSALS, size_bytes=MIB))
        report = waiting(CommandLane.REPORTS, size_bytes=3 * MIB)
        lanes.add(report)
        assert [one.answer.done() for one in proposals] == [False] * 5 + [True] * 3
        for one in proposals[5:]:
            with pytest.raises(Overloaded):
                await one.answer
        assert lanes.size_bytes() == 8 * MIB
        taken = whole_turn(lanes)
        lanes.put_back(taken)
        assert lanes.size_bytes() == 8 * MIB
        assert len(lanes.drain()) == 6
        assert (len(lanes), lanes.size_bytes()) == (0, 0)

    run_virtual(story())


def test_a_flood_of_large_commands_leaves_room_for_the_largest_of_every_other_lane() -> None:
    async def story() -> None:
        lanes = CommandLanes(most_bytes=8 * MIB)
        for _ in range(8):
            lanes.add(waiting(CommandLane.REPORTS, size_bytes=MIB))
        kept = [waiting(lane, size_bytes=MIB) for lane in SHARES if lane is not CommandLane.REPORTS]
        for one in kept:
            lanes.add(one)
        assert not any(one.answer.done() for one in kept)

    run_virtual(story())


def test_what_waits_is_counted_with_all_that_it_brings() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        leader = server.ledger.leader
        assert leader is not None
        leader.term.lanes._most_bytes = RESERVED_BYTES
        store.append_ms = 1_000
        sent = [server.override(f"k{number}", evidence=b"e" * 100_000) for number in range(50)]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        assert 15 <= sum(isinstance(answer, Committed) for answer in answers) <= 25
        assert all(isinstance(answer, Committed | Overloaded) for answer in answers)

    in_world(story)


@pytest.mark.parametrize("flood", [CommandLane.PROOFS, CommandLane.REPORTS])
def test_a_flood_of_what_is_more_important_does_not_keep_the_others_out(flood: CommandLane) -> None:
    """Each lane has a little room of its own: a share of each batch is worth nothing to whoever cannot wait for it."""

    async def story() -> None:
        lanes = CommandLanes(most=RESERVED * 10)
        for _ in range(RESERVED * 10):
            lanes.add(waiting(flood))
        kept = [waiting(lane) for lane in (CommandLane.OPERATORS, CommandLane.PROPOSALS) for _ in range(RESERVED)]
        for one in kept:
            lanes.add(one)
        with pytest.raises(Overloaded):
            lanes.add(waiting(CommandLane.OPERATORS))
        with pytest.raises(Overloaded):
            lanes.add(waiting(flood))
        assert not any(one.answer.done() for one in kept)

    run_virtual(story())


def test_too_much_that_waits_is_turned_away_with_a_word_and_nothing_has_happened() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        leader = server.ledger.leader
        assert leader is not None
        leader.term.lanes._most = RESERVED
        store.append_ms = 1_000
        answers = await asyncio.gather(
            *(server.override(f"k{number}") for number in range(RESERVED + 50)), return_exceptions=True
        )
        assert sum(isinstance(answer, Overloaded) for answer in answers) > 0
        assert sum(isinstance(answer, Committed) for answer in answers) == len(server.state.overrides) >= RESERVED

    in_world(story)


def test_a_flood_of_lesser_commands_does_not_hold_up_the_ends_and_beginnings_of_sessions() -> None:
    """One append takes half a second, and more waits all the time than a batch can hold."""

    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        await server.prepare()
        silent = await server.open_session("agent/silent")
        store.append_ms = 500

        async def flood(number: int) -> None:
            for again in range(1_000):
                try:
                    answer = await server.override(f"k{number}-{again}", evidence=b"e" * 4_000)
                except Overloaded:
                    answer = None
                if not isinstance(answer, Committed):
                    await server.clock.sleep(100)

        flooding = [asyncio.create_task(flood(number)) for number in range(200)]
        opened_at = server.clock.boot()
        await until(lambda: silent not in server.state.sessions, server.clock)
        assert server.clock.boot() - opened_at <= PATIENCE + 4_000
        asked_at = server.clock.boot()
        await server.open_session("agent/new")
        assert server.clock.boot() - asked_at <= 2_000
        for task in flooding:
            task.cancel()

    in_world(story)


# What cannot be judged


def a_book(**changes: Any) -> LedgerDefinition[RegionState]:
    return msgspec.structs.replace(REGION, **changes)


def poisoned_handler() -> LedgerDefinition[RegionState]:
    rule = REGION.rules[OpenOverride]

    def handler(state: Any, command: OpenOverride, case: Any) -> Any:
        if command.reason == "poison":
            raise ZeroDivisionError("a bug in a handler")
        return rule.handler(state, command, case)

    return a_book(rules={**REGION.rules, OpenOverride: msgspec.structs.replace(rule, handler=handler)})


def poisoned_iterator() -> LedgerDefinition[RegionState]:
    """The classic: `next()` of nothing, in a loop that itself ends by `StopIteration`."""
    rule = REGION.rules[OpenOverride]

    def handler(state: Any, command: OpenOverride, case: Any) -> Any:
        if command.reason == "poison":
            next(iter(()))
        return rule.handler(state, command, case)

    return a_book(rules={**REGION.rules, OpenOverride: msgspec.structs.replace(rule, handler=handler)})


def poisoned_evolve() -> LedgerDefinition[RegionState]:
    apply = REGION.apply[OverrideOpened]

    def applied(state: Any, event: OverrideOpened, stamp: Any) -> None:
        apply(state, event, stamp)
        if event.override.reason == "poison":
            raise KeyError("a bug in evolve")

    return a_book(apply={**REGION.apply, OverrideOpened: applied})


class LateRow:
    """Overrides judged in a row: what they do is applied when the row is settled, and only then it fails."""

    def __init__(self, state: RegionState, at: int) -> None:
        self.at = at
        self._state = state
        self._events: list[tuple[Any, int, str]] = []

    def try_accept(self, command: Any, ctx: Any) -> Any:
        answer = REGION.rules[OpenOverride].handler(self._state, command, ctx)
        return None if isinstance(answer, Refused) else answer

    def stage(self, events: tuple[Any, ...], first: int, actor: str) -> None:
        self._events.append((events[0], first, actor))

    def flush(self) -> None:
        for event, _, _ in self._events:
            if event.override.reason == "poison":
                raise KeyError("a bug that shows when the row is settled")
            self._state.overrides.put(event.override.uid, event.override)


def poisoned_row() -> LedgerDefinition[RegionState]:
    rule = REGION.rules[OpenOverride]

    def in_a_row(state: RegionState, at: int) -> CommandCoalescer:
        return LateRow(state, at)

    return a_book(rules={**REGION.rules, OpenOverride: msgspec.structs.replace(rule, coalescer=in_a_row)})


def with_book(world: World, definition: LedgerDefinition[RegionState], store: Any) -> Server:
    server = world.server(store)
    server.ledger = Ledger(definition, store, server.clock, ServerIdentity("s1", start_log()))
    return server


POISON = {
    "handler": poisoned_handler(),
    "iterator": poisoned_iterator(),
    "evolve": poisoned_evolve(),
    "row": poisoned_row(),
}


@pytest.mark.parametrize("where", POISON)
def test_a_command_that_cannot_be_judged_is_set_aside_and_the_others_of_its_batch_land(where: str) -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await with_book(world, POISON[where], store).start().leads()
        now = server.clock.wall()
        reasons = ["a", "b", "poison", "c", "poison", "d"]
        asked = [
            asyncio.create_task(server.send(ROOT, an_override(now, reason), key=f"k{number}"))
            for number, reason in enumerate(reasons)
        ]
        await asyncio.wait(asked, timeout=30)
        assert all(task.done() for task in asked)
        answers = [task.exception() or task.result() for task in asked]
        assert [isinstance(answer, Committed) for answer in answers] == [reason != "poison" for reason in reasons]
        assert all(
            isinstance(answer, Failed) for answer, reason in zip(answers, reasons, strict=True) if reason == "poison"
        )
        assert server.ledger.role is Role.LEADING
        assert server.state.info.term == 1
        kept = [one.reason for one in server.state.overrides.values()]
        logged = [
            event.override.reason
            for batch in await batches_in(store)
            for record in batch.records
            for event in record.events
            if isinstance(event, OverrideOpened)
        ]
        assert sorted(kept) == sorted(logged) == ["a", "b", "c", "d"]

    in_world(story)


def test_every_command_of_a_batch_lies_in_that_batch_alone() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        store.append_ms = 50
        answers = await asyncio.gather(*(server.override(f"k{number}", evidence=b"e" * 9_000) for number in range(190)))
        places: dict[int, int] = {}
        for batch in await batches_in(store):
            for record in batch.records:
                if record.key:
                    assert record.key not in places
                    places[record.key] = batch.header.seq
        assert len(places) == 190
        assert len(set(places.values())) < 60
        assert all(isinstance(answer, Committed) for answer in answers)

    in_world(story)


def test_a_draft_that_is_dropped_leaves_no_trace() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        draft = BatchDraft(REGION, server.state)
        envelope: Envelope[Any] = Envelope(ROOT, an_override(server.state.info.at, "a"), server.state.info.at, key="a")
        assert isinstance(draft.add(envelope, server.state.info.at), Committed)
        assert len(server.state.overrides) == 0
        assert isinstance(await server.override("b"), Committed)
        assert [one.reason for one in server.state.overrides.values()] == ["b"]

    in_world(story)


def test_more_than_is_kept_for_a_lane_may_wait_in_it_while_nobody_else_needs_the_room() -> None:
    async def story() -> None:
        lanes = CommandLanes()
        for _ in range(5):
            lanes.add(waiting(CommandLane.PROPOSALS, size_bytes=MIB))
        assert lanes.size_bytes() == 5 * MIB > RESERVED_BYTES

    run_virtual(story())


def test_of_two_lanes_with_more_than_their_own_the_less_important_makes_room() -> None:
    async def story() -> None:
        lanes = CommandLanes(most=5 * RESERVED)
        last = waiting(CommandLane.PROPOSALS)
        for one in [waiting(CommandLane.REPORTS) for _ in range(RESERVED)]:
            lanes.add(one)
        for lane in (CommandLane.OPERATORS, CommandLane.PROPOSALS):
            for _ in range(2 * RESERVED - (lane is CommandLane.PROPOSALS)):
                lanes.add(waiting(lane))
        lanes.add(last)
        lanes.add(waiting(CommandLane.REPORTS))
        assert (lanes.depth(CommandLane.OPERATORS), lanes.depth(CommandLane.PROPOSALS)) == (
            2 * RESERVED,
            2 * RESERVED - 1,
        )
        with pytest.raises(Overloaded):
            await last.answer

    run_virtual(story())


@pytest.mark.parametrize(
    ("most_bytes", "first", "second", "fits"),
    [
        (4 * MIB, 3 * MIB, MIB, True),  # all that may wait, to the byte
        (4 * MIB, 3 * MIB, MIB + 1, False),
        (MIB, MIB, RESERVED_BYTES - MIB, True),  # all that is kept for the lane, to the byte
        (MIB, MIB, RESERVED_BYTES - MIB + 1, False),
    ],
)
def test_a_lane_takes_what_may_wait_or_what_is_kept_for_it_to_the_byte(
    most_bytes: int, first: int, second: int, fits: bool
) -> None:
    async def story() -> None:
        lanes = CommandLanes(most_bytes=most_bytes)
        lanes.add(waiting(CommandLane.OPERATORS, size_bytes=first))
        try:
            lanes.add(waiting(CommandLane.OPERATORS, size_bytes=second))
        except Overloaded:
            assert not fits
        else:
            assert fits

    run_virtual(story())
