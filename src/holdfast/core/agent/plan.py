"""The agent steps of a node, from its bindings and runs: start, stop, forget and report.

    bound, no run ──▶ start          run without a binding ──▶ stop
    run is ahead of the ledger ──▶ the next edge that an agent owns ──▶ report

One step per slot at a time: the next is planned after the answer of the ledger or the node. Nothing is started without
a lease, on a binding older than the agent's own last report, or on one of an earlier session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from holdfast.core.agent import processes
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.agent.processes import restart_at
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.commands import MoveSlot
from holdfast.core.region.limits import DETAIL_MAX

#: A run: its slot and binding epoch.
RunKey = tuple[SlotKey, Revision]
#: Why the node declines a binding, and from when on the agent reports it, by run.
Refusals = Mapping[RunKey, tuple[str, int]]


class AgentView(Struct, frozen=True):
    """The input of a plan.

    The agent's session epoch is `session`. `received` maps slots to the revision at which the agent's last report was
    committed. `barred` are runs that the ledger does not allow the agent to adopt, `started` those that were started
    and not reported yet. `lease` is the end of the agent's session lease on the node's boot clock.
    """

    bound: Sequence[BoundSlot]
    runs: Mapping[RunKey, processes.ProcessRun]
    pulses: Mapping[RunKey, processes.ProbeState]
    templates: Mapping[str, Template]
    received: Mapping[SlotKey, Revision]
    barred: frozenset[RunKey]
    started: frozenset[RunKey]
    refused: Refusals
    revision: Revision
    session: Revision
    lease: int
    now: int
    grace_ms: int


class AgentSteps(Struct):
    """The steps to take now, in this order; and the time of the next plan if nothing happens before; 0: none."""

    stops: list[tuple[SlotKey, Revision, int]]
    forgets: list[RunKey]
    starts: list[BoundSlot]
    moves: list[MoveSlot]
    look_at: int = 0

    def requeue_at(self, at: int) -> None:
        """Plan again at this time at the latest."""
        self.look_at = min(self.look_at, at) if self.look_at else at


def plan(view: AgentView) -> AgentSteps:
    """Return the next steps of a node."""
    steps = AgentSteps([], [], [], [])
    wanted = {(one.slot, one.epoch) for one in view.bound}
    for key, run in view.runs.items():
        if key not in wanted:
            _end_unwanted(steps, key, run, view.grace_ms)
    for one in view.bound:
        if view.received.get(one.slot, 0) <= view.revision:
            _Slot(view, steps, one).step()
    return steps


def _end_unwanted(steps: AgentSteps, key: RunKey, run: processes.ProcessRun, grace_ms: int) -> None:
    if run.here is processes.ProcessState.ENDED:
        steps.forgets.append(key)
    elif run.here is processes.ProcessState.RUNNING:
        steps.stops.append((*key, grace_ms))


class _Slot:
    """One slot: its binding, its run, and the state of its probes."""

    def __init__(self, view: AgentView, steps: AgentSteps, one: BoundSlot) -> None:
        key = one.slot, one.epoch
        self._sight = view
        self._steps = steps
        self._one = one
        self._run = view.runs.get(key)
        self._pulse = view.pulses.get(key, processes.NOT_PROBED)
        self._template = view.templates[one.template]

    def step(self) -> None:
        """Add the slot's next step, if there is one."""
        one = self._one
        if one.phase is Phase.TERMINATING:
            self._terminate()
        elif one.phase is Phase.UNKNOWN:
            self._find_again()
        elif one.phase is Phase.SUCCEEDED:
            self._move(Phase.RELEASED, "collected")
        elif one.reported <= self._sight.session:
            return  # of an earlier session: the ledger marks it unknown first, then the agent reports it
        elif one.phase is Phase.BOUND:
            self._begin()
        elif one.phase in (Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING):
            self._go_on()
        elif one.phase is Phase.FAILED and one.cause != "fenced":
            self._restart()

    def _begin(self) -> None:
        if self._run is not None:
            self._move(Phase.STARTING, "started")
        elif (self._one.slot, self._one.epoch) in self._sight.refused:
            self._refuse(*self._sight.refused[self._one.slot, self._one.epoch])
        elif not self._one.waits and self._sight.now < self._sight.lease:
            self._steps.starts.append(self._one)

    def _refuse(self, why: str, at: int) -> None:
        if self._sight.now < at:
            self._steps.requeue_at(at)
        else:
            self._move(Phase.RELEASED, "declined", why)

    def _go_on(self) -> None:
        """Compare a live phase with the run and its probes."""
        run, one = self._run, self._one
        if run is None:
            self._move(Phase.FAILED, "exit", "nothing of it was found on its node")
        elif run.here is processes.ProcessState.ENDED:
            self._ended(run)
        elif run.here is processes.ProcessState.STOPPING:
            return
        elif self._pulse.failed:
            self._steps.stops.append((one.slot, one.epoch, self._grace_ms()))
        elif one.phase is Phase.STARTING and self._pulse.started:
            self._move(Phase.RUNNING, "running")
        elif one.phase is Phase.RUNNING and self._pulse.ready:
            self._move(Phase.READY, "probe-passed")
        elif one.phase in (Phase.READY, Phase.SERVING) and not self._pulse.ready:
            self._move(Phase.RUNNING, "probe-lost", self._pulse.detail)

    def _ended(self, run: processes.ProcessRun) -> None:
        phase = self._one.phase
        if self._is_done(run) and phase is Phase.STARTING:
            self._move(Phase.RUNNING, "running")
        elif self._is_done(run):
            self._move(Phase.SUCCEEDED, "completed")
        elif self._pulse.failed:
            self._move(Phase.FAILED, "probe-failed", self._pulse.detail)
        else:
            self._move(Phase.FAILED, run.cause, run.detail)

    def _is_done(self, run: processes.ProcessRun) -> bool:
        return self._one.batch and run.here is processes.ProcessState.ENDED and run.code == 0

    def _find_again(self) -> None:
        """Report an unknown slot: adopt its run, or report how it ended."""
        run, one = self._run, self._one
        may_keep = (one.slot, one.epoch) not in self._sight.barred
        if run is not None and run.here is processes.ProcessState.RUNNING and not may_keep:
            self._steps.stops.append((one.slot, one.epoch, 0))
        elif run is not None and may_keep and (run.here is processes.ProcessState.RUNNING or self._is_done(run)):
            self._move(Phase.RUNNING, "found-again")
        elif run is None or run.here is processes.ProcessState.ENDED:
            self._move(Phase.FAILED, "gone", "" if run is None else run.detail)

    def _restart(self) -> None:
        one, run, now = self._one, self._run, self._sight.now
        if (one.slot, one.epoch) in self._sight.started:
            self._move(Phase.STARTING, "restarted")
            return
        if run is not None and run.here is not processes.ProcessState.ENDED:
            return
        again = processes.may_restart(self._template, one, run)
        due = restart_at(one, run, now) if again else processes.give_up_at(one, run, now)
        if now < due:
            self._steps.requeue_at(due)
        elif not again:
            self._move(Phase.RELEASED, "given-up", "" if run is None else run.detail)
        elif not one.waits and now < self._sight.lease:
            if run is not None:
                self._steps.forgets.append((one.slot, one.epoch))
            self._steps.starts.append(one)

    def _terminate(self) -> None:
        run, one = self._run, self._one
        if run is None or run.here is processes.ProcessState.ENDED:
            self._move(Phase.RELEASED, "stopped", "" if run is None else run.detail)
        elif run.here is processes.ProcessState.RUNNING:
            self._steps.stops.append((one.slot, one.epoch, self._grace_ms()))

    def _grace_ms(self) -> int:
        return self._template.grace or self._sight.grace_ms

    def _move(self, target: Phase, cause: str, detail: str = "") -> None:
        self._steps.moves.append(MoveSlot(self._one.slot, self._one.epoch, target, cause, single_line(detail)))


def single_line(detail: str) -> str:
    """Return a detail in the form that the ledger accepts: one line of at most `DETAIL_MAX` characters."""
    line = "; ".join(filter(None, map(str.strip, detail.splitlines())))
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:DETAIL_MAX]
