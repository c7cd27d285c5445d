"""Probes of one term's endpoints, and their effects.

Ready replicas are probed at once and soon again. Serving replicas are probed periodically: those of one tick together,
at a limited rate. A result counts for the slot's binding epoch only.

Size: what was asked, what came of it and what follows belong together; the two lines are modules of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.ledger.reconciler import ProposedCommand
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE, slot_keys
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.commands import Move, MoveSlot
from holdfast.core.region.queries.endpoints import EndpointCheck, check_for, is_published
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import NODE
from holdfast.host.controllers.leader_controllers import LeaderClient
from holdfast.host.controllers.ledger_client import Proposer, one_line_error
from holdfast.host.controllers.recheck_schedule import RecheckSchedule
from holdfast.host.controllers.worker_pool import WorkerPool
from holdfast.host.controllers.workqueue import QueueOptions, WorkItem, WorkQueue
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.endpoint_prober import EndpointOptions, EndpointProber
from holdfast.host.runtime.deadlines import ClockEvent, DeadlinePassed, within
from holdfast.host.runtime.supervisor import Supervisor
from holdfast.host.runtime.telemetry import Logger

NAME = "endpoints"
#: Nodes that are examined per turn of the loop.
LIST_CHUNK = 100
#: Fewest failing endpoints for the brake.
BRAKE_MIN = 3


class EndpointChecks:
    """The endpoint checks of one term."""

    def __init__(
        self, leader: Leader[RegionState], ledger: Ledger[RegionState], asker: EndpointProber, habits: EndpointOptions
    ) -> None:
        self._region = LeaderClient(leader, ledger.hub, (NODE,))
        self._clock = ledger.clock
        self._metrics = ledger.metrics
        self._asker = asker
        self._habits = habits
        self._logger = Logger(NAME, server=ledger.identity.server)
        retries = QueueOptions(backoff_max_ms=habits.retry_most_ms)
        self._first = WorkQueue(self._clock, "endpoints/first", options=retries)
        self._again = RecheckSchedule[SlotKey](self._clock, habits.again_ms, habits.again_per_second)
        #: Serving replicas with a probe in flight; another one may start.
        self._under_way: dict[SlotKey, None] = {}
        self._room = ClockEvent()
        #: The check of each serving replica, and its rows.
        self._questions: dict[SlotKey, tuple[Slot, Node, Assignment, EndpointCheck]] = {}
        self._proposer = Proposer(NAME, self._region, self._clock, self._metrics, habits.submit_ms)
        #: The last published slots per node, with epoch and phase.
        self._there: dict[Revision, set[SlotKey]] = {}
        self._seen: dict[SlotKey, tuple[Revision, Phase]] = {}
        #: Serving replicas that have a check, and the failed probes in a row of each.
        self._asked: set[SlotKey] = set()
        self._failed: dict[SlotKey, int] = {}
        self._is_braked = False
        self._moves: list[MoveSlot] = []
        self._wake = asyncio.Event()

    @property
    def _state(self) -> RegionState:
        return self._region.state

    # Changes

    async def listen(self) -> None:
        """Follow published replicas: first on all nodes, then on nodes that change."""
        while True:
            changes = self._region.changes()
            await self._note_all()
            async for change in changes:
                for _, key in change.keys:
                    self._note(key)  # type: ignore[arg-type]

    async def patrol(self) -> None:
        """Examine all nodes every `resync_ms`, in case a change was missed."""
        while True:
            await self._clock.sleep(self._habits.resync_ms)
            known = dict(self._seen)
            await self._note_all()
            caught = sum(known.get(key) != found for key, found in self._seen.items())
            self._metrics.count("endpoints_caught", caught)

    async def _note_all(self) -> None:
        for number, uid in enumerate(self._state.nodes.keys(), start=1):
            self._note(uid)
            if number % LIST_CHUNK == 0:
                await self._clock.sleep(0)

    def _note(self, node: Revision) -> None:
        """Queue a node's published slots for probes. Forget slots that are no longer published and have not moved."""
        state = self._state
        slots = {key: state.slots[key] for key in slot_keys(state.node_usage.get(node) or EMPTY_USAGE)}
        published = {key: slot for key, slot in slots.items() if is_published(state, slot)}
        for key in self._there.pop(node, set()) - published.keys():
            if key not in state.slots or state.slots[key].node in (0, node):
                self._forget(key)
        if published:
            self._there[node] = set(published)
        for key, slot in published.items():
            if self._seen.get(key) != (slot.epoch, slot.phase):
                self._seen[key] = slot.epoch, slot.phase
                if slot.phase is Phase.READY:
                    self._stop_asking_again(key)
                    self._first.add(key)
                elif check_for(state, slot) is not None:
                    self._asked.add(key)
                    self._again.add(key)

    def _forget(self, key: SlotKey) -> None:
        self._seen.pop(key, None)
        self._first.forget(key)
        self._stop_asking_again(key)

    def _stop_asking_again(self, key: SlotKey) -> None:
        self._asked.discard(key)
        self._failed.pop(key, None)
        self._again.drop(key)
        self._questions.pop(key, None)

    # Probes of ready replicas

    async def work_first(self) -> None:
        """Probe replicas that are ready, several at a time, until cancelled."""
        await WorkerPool(self._clock, self._first, self._habits.workers, self._look_first).run()

    def _look_first(self, taken: WorkItem) -> Coroutine[Any, Any, None] | None:
        slot = self._found(taken.key, Phase.READY)  # type: ignore[arg-type]
        if slot is None:
            return None
        asked = check_for(self._state, slot)
        if asked is not None:
            return self._ask_first(slot, asked)
        self._answered_first(slot, "it has no address" if slot.ports else "")
        return None

    async def _ask_first(self, slot: Slot, check: EndpointCheck) -> None:
        why: str | Exception = f"no answer within {self._habits.ask_ms} ms"
        try:
            with suppress(DeadlinePassed):
                why = await within(self._clock, self._habits.ask_ms, self._asker.probe(check))
        except Exception as error:
            why = error
        self._answered_first(slot, self._told(check, why))

    def _answered_first(self, slot: Slot, why: str) -> None:
        if not self._is_same(slot):
            return
        if why:
            self._first.retry((slot.workload, slot.ordinal))
            return
        self._metrics.count("endpoints_published")
        self._move(slot, Phase.SERVING, "published")

    # Probes of serving replicas

    async def work_again(self) -> None:
        """Probe serving replicas when due, those of one tick together, until cancelled."""
        tasks: dict[int, asyncio.Task[None]] = {}
        begun = 0
        try:
            while True:
                while len(self._under_way) >= self._habits.workers:
                    self._room.clear()
                    await self._room.wait()
                keys = await self._again.take(self._habits.workers - len(self._under_way))
                asked = [one for one in map(self._look_again, keys) if one is not None]
                if asked:
                    begun += 1
                    tasks[begun] = asyncio.create_task(self._ask_again(asked, partial(tasks.pop, begun)))
        finally:
            left = list(tasks.values())
            for task in left:
                task.cancel()
            await asyncio.gather(*left, return_exceptions=True)

    def _look_again(self, key: SlotKey) -> tuple[Slot, EndpointCheck] | None:
        """Return the check of a replica that still serves and has no probe in flight."""
        if key in self._under_way:
            self._again.add(key)
            return None
        asked = self._question(key)
        if asked is None:
            self._stop_asking_again(key)
            return None
        self._under_way[key] = None
        return asked

    def _question(self, key: SlotKey) -> tuple[Slot, EndpointCheck] | None:
        """Return the check of a serving replica, recomputed if its rows have changed."""
        state = self._state
        known = self._questions.get(key)
        if known is not None:
            slot, node, assignment, asked = known
            same = state.slots.get(key) is slot and state.nodes.get(slot.node) is node
            if same and state.assignments.get(slot.assignment) is assignment:
                return slot, asked
        found = self._found(key, Phase.SERVING)
        told = check_for(state, found) if found is not None else None
        if found is None or told is None:
            return None
        self._questions[key] = found, state.nodes[found.node], state.assignments[found.assignment], told
        return found, told

    async def _ask_again(self, asked: Sequence[tuple[Slot, EndpointCheck]], done: Callable[[], object]) -> None:
        """Probe all of them, and act on each result as it arrives.

        The task calls `done` at its end: a task callback would cost a turn of the loop.
        """
        left = dict(enumerate(asked))

        def answered(number: int, why: str | Exception) -> None:
            slot, question = left.pop(number)
            del self._under_way[slot.workload, slot.ordinal]
            self._room.set()
            self._answered_again(slot, question, self._told(question, why))

        why: str | Exception = f"no answer within {self._habits.ask_ms} ms"
        try:
            everybody = self._asker.probe_all([question for _, question in asked], answered)
            with suppress(DeadlinePassed):
                await within(self._clock, self._habits.ask_ms, everybody)
        except Exception as error:
            why = error
        except BaseException:
            for slot, _ in left.values():  # the term ends, or the supervisor restarts this task
                del self._under_way[slot.workload, slot.ordinal]
                self._again.add((slot.workload, slot.ordinal))
            raise
        for number in list(left):
            answered(number, why)
        done()

    def _answered_again(self, slot: Slot, check: EndpointCheck, why: str) -> None:
        if not self._is_same(slot):
            return
        key = slot.workload, slot.ordinal
        self._again.add(key)
        if not why:
            self._failed.pop(key, None)
            self._brake()
            return
        self._failed[key] = self._failed.get(key, 0) + 1
        if self._failed[key] < self._habits.failures:
            return
        if self._brake():
            self._metrics.count("endpoints_withheld")
            return
        self._metrics.count("endpoints_withdrawn")
        self._logger.warning("withdrawn", slot=key, host=check.host, port=check.port, why=why)
        self._move(slot, Phase.READY, "withdrawn")

    def _found(self, key: SlotKey, phase: Phase) -> Slot | None:
        """Return the slot if it is still in this phase; in the other one, the other queue has it."""
        slot = self._state.slots.get(key)
        if slot is None or not is_published(self._state, slot):
            self._forget(key)
            return None
        return slot if slot.phase is phase else None

    def _is_same(self, before: Slot) -> bool:
        """Whether the slot is unchanged since its probe started. An unpublished slot is forgotten, so that it is noted
        when it is published again."""
        key = before.workload, before.ordinal
        now = self._state.slots.get(key)
        if now is None or not is_published(self._state, now):
            self._forget(key)
            return False
        return now is before or (now.epoch, now.phase) == (before.epoch, before.phase)

    def _told(self, check: EndpointCheck, why: str | Exception) -> str:
        """Return why the probe failed, in words; empty: it succeeded."""
        if isinstance(why, Exception):
            self._logger.error("asking-raised", why, host=check.host, port=check.port)
            why = one_line_error(why)
        self._metrics.count("endpoints_asked", result="failed" if why else "answered")
        return why

    def _brake(self) -> bool:
        """Whether most serving replicas fail: then this server itself is probably disconnected."""
        braked = len(self._failed) >= BRAKE_MIN and 2 * len(self._failed) > len(self._asked)
        if braked is not self._is_braked:
            self._is_braked = braked
            said = {"failing": len(self._failed), "serving": len(self._asked)}
            self._logger.warning("most-do-not-answer" if braked else "most-answer-again", **said)
        return braked

    # Commands

    def _move(self, slot: Slot, target: Phase, cause: str) -> None:
        self._moves.append(MoveSlot((slot.workload, slot.ordinal), slot.epoch, target, cause))
        self._wake.set()

    async def send(self) -> None:
        """Send the moves, up to `PARTS_MAX` per command. A later probe repeats a refused move."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._moves:
                some, self._moves = self._moves[:PARTS_MAX], self._moves[PARTS_MAX:]
                await self._proposer.send(self._region.view(), [ProposedCommand(Move(tuple(some)))])
                for move in some:
                    slot = self._found(move.slot, Phase.READY)
                    if slot is not None and slot.epoch == move.epoch:
                        self._first.retry(move.slot)


class EndpointController:
    """The endpoints of a region, on the server that leads it."""

    def __init__(self, ledger: Ledger[RegionState], asker: EndpointProber, habits: EndpointOptions) -> None:
        self._ledger = ledger
        self._asker = asker
        self._habits = habits

    async def run(self, leader: Leader[RegionState]) -> None:
        """Probe and publish until the term ends. Raises if one of its tasks is given up."""
        given_up: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        def give_up(_name: str, error: BaseException) -> None:
            if not given_up.done():
                given_up.set_result(error)

        ledger = self._ledger
        asking = EndpointChecks(leader, ledger, self._asker, self._habits)
        supervisor = Supervisor(
            ledger.clock, ledger.metrics, Logger(NAME, server=ledger.identity.server), on_give_up=give_up
        )
        supervisor.start("endpoints/listen", asking.listen)
        supervisor.start("endpoints/patrol", asking.patrol)
        supervisor.start("endpoints/send", asking.send)
        supervisor.start("endpoints/first", asking.work_first)
        supervisor.start("endpoints/again", asking.work_again)
        try:
            raise await given_up
        finally:
            await supervisor.stop()
