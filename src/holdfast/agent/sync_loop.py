"""The work of one session: compare bindings with runs, and take one step per slot at a time.

    woken by the stream, the driver, a probe, a timer ──▶ plan ──▶ stop, forget, start ──▶ report the new phases

A step in progress is not started twice. A report that the ledger refused is not repeated at once: it is planned again
after a change, or after a while.
"""

from __future__ import annotations

import asyncio

from holdfast.agent.admission import BindingAdmission, as_start_failure, failed_start, run_of, run_spec_of
from holdfast.agent.bindings_watch import BindingsWatch
from holdfast.agent.drivers.driver import CannotStart, Driver
from holdfast.agent.lease_times import AgentLeaseTimes
from holdfast.agent.probe_manager import ProbeManager
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.plan import AgentSteps, AgentView, RunKey, plan
from holdfast.core.agent.processes import ProcessRun, ProcessState
from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.partial import PARTS_MAX, decode_refused_parts
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.commands import Move, MoveSlot
from holdfast.host.ports.clock import Clock
from holdfast.host.protocol.commands import CommandOutcome
from holdfast.host.protocol.session_client import SessionClient
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.runtime.telemetry import Logger, Metrics

#: Without any change, everything is compared after this time, in case a notification was missed.
RESYNC_MS = 30_000
#: A refused report is repeated after this time.
REJECTED_RETRY_MS = 1_000
#: Largest number of processes that are started at a time.
STARTS_MAX = 8


class SyncLoop:
    """Brings bindings and runs together during one session."""

    def __init__(
        self,
        session: SessionClient,
        driver: Driver,
        listening: BindingsWatch,
        probing: ProbeManager,
        refusing: BindingAdmission,
        clock: Clock,
        metrics: Metrics,
        wake: ClockEvent,
        starting: dict[RunKey, asyncio.Task[None]],
        times: AgentLeaseTimes,
    ) -> None:
        self._session = session
        self._driver = driver
        self._listening = listening
        self._probing = probing
        self._refusing = refusing
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._logger = Logger("agent", actor=session.actor)
        self._times = times
        self._lease = 0
        #: By slot: the revision of this agent's last accepted report.
        self._told: dict[SlotKey, Revision] = {}
        #: By slot: the time until which nothing is reported, since the ledger refused the last report.
        self._silent: dict[SlotKey, int] = {}
        #: Runs that must end: the ledger reports that their fence has passed.
        self._barred: set[RunKey] = set()
        #: Starts that were attempted, with whatever result, and are not yet reported.
        self._begun: set[RunKey] = set()
        #: Starts in progress, of this session or an earlier one: until they end, their result is open.
        self._starting = starting
        #: By ended run: when this agent first saw that it had ended.
        self._ended: dict[RunKey, int] = {}
        #: Starts that failed, as runs that ended at once.
        self._failed: dict[RunKey, ProcessRun] = {}
        self._turns = asyncio.Semaphore(STARTS_MAX)

    def leased_until(self, lease: int) -> None:
        """Extend the lease to this time: starts that waited for a lease may begin."""
        was_over = self._lease <= self._clock.boot()
        self._lease = lease
        if was_over:
            self._wake.set()

    async def run(self) -> None:
        """Work until the session is over."""
        heard = asyncio.create_task(self._on_change())
        heard.add_done_callback(lambda _: self._wake.set())
        try:
            was_woken = True
            while True:
                idle_ms = await self._once(was_woken=was_woken)
                was_woken = await self._wake.within(self._clock, idle_ms) or idle_ms < RESYNC_MS
                self._wake.clear()
                if heard.done():
                    heard.result()
        finally:
            self._lease = 0  # starts that still wait for their turn do not begin any more
            heard.cancel()
            await asyncio.gather(heard, return_exceptions=True)

    async def _on_change(self) -> None:
        """Wake the loop whenever the driver reports a change."""
        while True:
            await self._driver.changed()
            self._wake.set()

    async def _once(self, *, was_woken: bool) -> int:
        """Plan and act once; return how long to wait if nothing happens."""
        told, templates = self._listening.bindings, self._listening.templates
        if told is None:
            return RESYNC_MS
        now = self._clock.boot()
        runs = self._runs()
        self._forget_gone(told.slots, runs)
        running = [key for key, run in runs.items() if run.here is ProcessState.RUNNING]
        self._probing.watch(told.slots, running, runs, templates)
        view = AgentView(
            bound=[one for one in told.slots if (one.slot, one.epoch) not in self._starting],
            runs={key: run for key, run in runs.items() if key not in self._starting},
            pulses=self._probing.pulses(),
            templates=templates,
            received=self._told,
            barred=frozenset(self._barred),
            started=frozenset(self._begun),
            refused=self._refusing.of(told.slots, templates, now),
            revision=told.revision,
            session=self._session.session,
            lease=self._lease,
            now=now,
            grace_ms=self._times.now.grace,
        )
        steps = plan(view)
        if not was_woken and (steps.stops or steps.forgets or steps.starts or steps.moves):
            self._metrics.count("agent_caught")
            self._logger.warning("resync-caught", steps=steps)
        await self._do(steps)
        moves = [one for one in steps.moves if self._silent.get(one.slot, 0) <= now]
        if moves:
            await self._tell(moves)
            return 0 if len(moves) == len(steps.moves) else REJECTED_RETRY_MS
        due = min(
            [
                RESYNC_MS,
                *([steps.look_at - now] if steps.look_at else []),
                *([REJECTED_RETRY_MS] if steps.moves else []),
            ]
        )
        return max(1, due)

    def _runs(self) -> dict[RunKey, ProcessRun]:
        """Return the current runs. An ended one counts from when this agent first saw its end."""
        now = self._clock.boot()
        lives = {(live.slot, live.epoch): live for live in self._driver.runs()}
        ended = [key for key, live in lives.items() if live.state is ProcessState.ENDED]
        self._ended = {key: self._ended.get(key, now) for key in ended}
        return self._failed | {key: run_of(live, self._ended.get(key, live.since)) for key, live in lives.items()}

    def _forget_gone(self, bound: tuple[BoundSlot, ...], runs: dict[RunKey, ProcessRun]) -> None:
        """Discard what is stored for slots that are neither bound nor run here any more."""
        slots = {one.slot for one in bound} | {slot for slot, _ in runs}
        for memory in (self._told, self._silent):
            for slot in [slot for slot in memory if slot not in slots]:
                del memory[slot]
        self._barred &= runs.keys()
        self._begun &= runs.keys()

    async def _do(self, steps: AgentSteps) -> None:
        for slot, epoch, grace_ms in steps.stops:
            self._metrics.count("agent_stops")
            await self._driver.stop(slot, epoch, grace_ms)
        for key in steps.forgets:
            if self._failed.pop(key, None) is None:
                await self._driver.forget(*key)
        for one in steps.starts:
            key = one.slot, one.epoch
            self._probing.forget(key)
            self._failed.pop(key, None)
            self._starting[key] = asyncio.create_task(self._start(key, one))

    async def _start(self, key: RunKey, one: BoundSlot) -> None:
        """Start a process. A start that fails is recorded as a run that failed."""
        try:
            async with self._turns:
                if self._clock.boot() >= self._lease or not self._is_to_begin(one):
                    return  # it waited too long for its turn
                work = run_spec_of(one, self._listening.templates[one.template], self._lease, self._times.now.grace)
                await self._driver.start(work)
            self._begun.add(key)
            self._metrics.count("agent_starts", result="started")
            self._logger.info("started", slot=one.name, epoch=one.epoch)
        except Exception as error:
            self._cannot_start(key, one, as_start_failure(error))
        finally:
            self._starting.pop(key, None)
            self._wake.set()

    def _is_to_begin(self, one: BoundSlot) -> bool:
        """Whether its binding is still as it was when the start was planned."""
        told = self._listening.bindings
        return told is not None and any(
            (now.slot, now.epoch, now.phase, now.waits) == (one.slot, one.epoch, one.phase, False) for now in told.slots
        )

    def _cannot_start(self, key: RunKey, one: BoundSlot, error: CannotStart) -> None:
        self._failed[key] = failed_start(error, self._clock.boot())
        self._begun.add(key)
        self._metrics.count("agent_starts", result=error.code)
        self._logger.warning("cannot-start", slot=one.name, code=error.code, why=error)

    async def _tell(self, moves: list[MoveSlot]) -> None:
        for first in range(0, len(moves), PARTS_MAX):
            some = moves[first : first + PARTS_MAX]
            answered = await self._session.send(Move(tuple(some)))
            if answered.said is CommandOutcome.LANDED:
                lost = {one.index: (one.code, one.detail) for one in decode_refused_parts(answered.answer)}
            else:
                lost = dict.fromkeys(range(len(some)), (answered.code, answered.message))
            for index, move in enumerate(some):
                self._answered(move, answered.revision, lost.get(index))

    def _answered(self, move: MoveSlot, at: Revision, lost: tuple[str, str] | None) -> None:
        if lost is None:
            self._told[move.slot] = at
            if move.target is Phase.STARTING:
                self._begun.discard((move.slot, move.epoch))
            self._metrics.count("agent_moves", target=move.target.value)
            return
        code, detail = lost
        self._silent[move.slot] = self._clock.boot() + REJECTED_RETRY_MS
        if code == Code.FENCE and move.cause == "found-again":
            self._barred.add((move.slot, move.epoch))
        self._metrics.count("agent_refused", code=code)
        self._logger.info("move-refused", slot=move.slot, target=move.target.value, code=code, why=detail)
