"""A driver without processes, on any clock: for simulations, and for thousands of agents in one process.

A machine holds the runs and outlives its agents; a driver is one agent's access to it. Nothing runs by itself: the
state of a run is computed on request from its start, its behavior and the requests to it. The effect of guards is
included: leased work ends at its deadline, whether or not an agent runs.

Size: the machine, its processes and the driver; each is of no use without the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.drivers.driver import (
    CannotStart,
    Capabilities,
    ExitReason,
    LimitMethod,
    RunSpec,
    RunStatus,
    StartFault,
)
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.objects.workloads import DriverKind as Kind
from holdfast.core.model.records.nodes import OVERRUN_MS
from holdfast.core.model.values.settings import AgentTimes
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.deadlines import ClockEvent

NEVER = 2**62


class SimulatedBehavior(Struct, frozen=True):
    """How a process behaves, in milliseconds.

    It takes `start_ms` to start and `stop_ms` to stop. It ends by itself after `runs_ms`, with `code` and `why`; 0:
    never. After its deadline it runs on for at most its grace; with a `slowest` guard, for the region's grace, kill
    margin and `late_ms`. It passes probes from `ready_ms` on, but not between the times of `unwell`. With a `fault` it
    cannot start.
    """

    start_ms: int = 0
    runs_ms: int = 0
    code: int = 0
    why: ExitReason = ExitReason.EXIT
    stop_ms: int = 0
    slowest: bool = False
    late_ms: int = 0
    ready_ms: int = 0
    unwell: tuple[int, int] = (0, 0)
    fault: StartFault | None = None


class SimulatedRun:
    """One process: its specification, and the requests to it."""

    def __init__(self, work: RunSpec, habit: SimulatedBehavior, began: int, overrun: int = OVERRUN_MS) -> None:
        self.work = work
        self.habit = habit
        self.began = began
        self.deadline = work.deadline if work.leased else NEVER
        #: When it was asked to stop, and when it is killed at the latest.
        self.asked = NEVER
        self.killed = NEVER
        #: How long its guard lets it run on after its deadline, at most.
        self.overrun = overrun

    def asked_at(self) -> int:
        """Return when it begins to end, unless it ends by itself before."""
        return min(self.asked, self.deadline)

    def by_itself_at(self) -> int:
        """Return when it ends if it is not stopped."""
        return self.began + self.habit.runs_ms if self.habit.runs_ms else NEVER

    def ends_at(self) -> int:
        """Return when it has ended."""
        habit = self.habit
        fence_ms = self.overrun + habit.late_ms if habit.slowest else min(habit.stop_ms, self.work.grace_ms)
        return min(self.by_itself_at(), self.asked + habit.stop_ms, self.killed, self.deadline + fence_ms)

    def answers(self, now: int) -> bool:
        """Whether it passes probes at this time."""
        ran = now - self.began
        first, last = self.habit.unwell
        return self.habit.ready_ms <= ran and not first <= ran < last and now < min(self.asked_at(), self.ends_at())

    def seen(self, now: int) -> RunStatus:
        """Return its status at this time."""
        work = self.work
        deadline = self.deadline if work.leased else 0
        live = RunStatus(work.slot, work.epoch, work.name, ProcessState.RUNNING, self.began, 0, work.leased, deadline)
        if now < min(self.asked_at(), self.ends_at()):
            return live
        habit = self.habit
        if self.by_itself_at() <= min(self.asked_at(), now):
            return replace(live, state=ProcessState.ENDED, code=habit.code, why=habit.why, detail="it ended by itself")
        why = ExitReason.STOPPED if self.asked < self.deadline else ExitReason.DEADLINE
        if now < self.ends_at():
            return replace(live, state=ProcessState.STOPPING, why=why)
        if self.asked_at() + habit.stop_ms <= self.ends_at():
            return replace(live, state=ProcessState.ENDED, code=habit.code, why=why, detail="it was asked to end")
        why = ExitReason.KILLED if why is ExitReason.STOPPED else why
        return replace(live, state=ProcessState.ENDED, signal=9, why=why, detail="it did not end within its grace")


#: What an agent that is root can enforce.
EVERYTHING = Capabilities(
    LimitMethod.CGROUP,
    LimitMethod.CGROUP,
    LimitMethod.CGROUP,
    LimitMethod.CGROUP,
    whole=True,
    users=True,
    namespaces=True,
)
#: What an agent that is not root can enforce: all runs have its user, and limits are sampled.
ONE_USER = Capabilities(
    LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED, LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED, whole=False,
    users=False, namespaces=False,
    missing=("the agent is not root",),
)  # fmt: skip


class SimulatedMachine:
    """The runs on one machine. `habit` returns the behavior of each run; `can` is what the machine enforces."""

    def __init__(
        self, clock: Clock, habit: Callable[[RunSpec], SimulatedBehavior], can: Capabilities = EVERYTHING
    ) -> None:
        self.clock = clock
        self.habit = habit
        self.can = can
        self.processes: dict[RunKey, SimulatedRun] = {}
        #: How long leased work runs on after its deadline, by the durations that were received last.
        self.overrun = OVERRUN_MS
        #: Runs that a power loss ended, with their status from then on.
        self.lost: dict[RunKey, RunStatus] = {}

    def begin(self, work: RunSpec, habit: SimulatedBehavior) -> None:
        """Start a process; it runs once it has started."""
        self.processes[work.slot, work.epoch] = SimulatedRun(
            work, habit, self.clock.boot() + habit.start_ms, self.overrun
        )

    def ask_to_end(self, process: SimulatedRun, grace_ms: int) -> None:
        """Stop a process; it is killed after its grace."""
        now = self.clock.boot()
        process.asked = min(process.asked, now)
        process.killed = min(process.killed, now + grace_ms)

    def lose_power(self) -> None:
        """End everything that runs, at once."""
        now = self.clock.boot()
        for binding, process in self.processes.items():
            seen = process.seen(now)
            gone = replace(
                seen, state=ProcessState.ENDED, why=ExitReason.REBOOTED, detail="the machine was started anew"
            )
            self.lost[binding] = seen if seen.state is ProcessState.ENDED else gone
            process.killed = min(process.killed, now)
        self.processes.clear()


class SimulatedDriver:
    """One agent's access to a machine."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._clock = machine.clock
        self._changed = ClockEvent()
        #: The runs when `changed` last returned.
        self._known: Sequence[RunStatus] = ()

    async def open(self) -> None:
        """Adopt all runs of the machine."""
        self._changed.set()

    @property
    def kinds(self) -> Collection[Kind]:
        """All kinds: every run is simulated."""
        return tuple(Kind)

    def capabilities(self) -> Capabilities:
        """Return what the machine is configured to enforce."""
        return self._machine.can

    def runs(self) -> Sequence[RunStatus]:
        """Return all runs at this time, by binding."""
        now = self._clock.boot()
        seen = {binding: process.seen(now) for binding, process in self._machine.processes.items()}
        return [live for _, live in sorted((seen | self._machine.lost).items())]

    async def start(self, work: RunSpec) -> None:
        """Start it, in the time that its behavior takes."""
        machine, binding = self._machine, (work.slot, work.epoch)
        habit = machine.habit(work)
        if binding in machine.processes or binding in machine.lost:
            raise CannotStart(StartFault.DRIVER, f"{work.name} is there already")
        if habit.fault is not None:
            await self._clock.sleep(habit.start_ms)
            raise CannotStart(habit.fault, "so it was arranged")
        if work.leased and self._clock.boot() >= work.deadline:
            raise CannotStart(StartFault.DRIVER, "its lease has run out")
        machine.begin(work, habit)
        self._changed.set()
        if habit.start_ms:
            await self._clock.sleep(habit.start_ms)

    async def stop(self, slot: SlotKey, epoch: Revision, grace_ms: int) -> None:
        """Begin to end it."""
        process = self._machine.processes.get((slot, epoch))
        if process is not None:
            self._machine.ask_to_end(process, grace_ms)
            self._changed.set()

    async def exec(self, work: RunSpec, command: tuple[str, ...], limit_ms: int) -> int:
        """Return 0 as long as the process runs, and 1 otherwise."""
        del command, limit_ms
        process = self._machine.processes.get((work.slot, work.epoch))
        return 0 if process is not None and process.seen(self._clock.boot()).state is ProcessState.RUNNING else 1

    def keep(self, times: AgentTimes) -> int:
        """Use these durations. They can always be met."""
        self._machine.overrun = times.grace + times.kill_margin
        return self._machine.overrun

    def extend(self, deadline: int) -> None:
        """Extend the deadlines of all leased work that have not passed."""
        now = self._clock.boot()
        for process in self._machine.processes.values():
            if process.work.leased and now < process.deadline:
                process.deadline = max(process.deadline, deadline)
                process.overrun = min(process.overrun, self._machine.overrun)

    async def forget(self, slot: SlotKey, epoch: Revision) -> None:
        """Discard an ended run."""
        self._machine.processes.pop((slot, epoch), None)
        self._machine.lost.pop((slot, epoch), None)
        self._changed.set()

    async def changed(self) -> None:
        """Return after a request, or when the state of a run changes by itself."""
        while not self._changed.is_set() and self.runs() == self._known:
            await self._wait()
        self._changed.clear()
        self._known = self.runs()

    async def close(self) -> None:
        """Close the driver; runs continue."""

    async def _wait(self) -> None:
        """Wait for a request, or until a state may change by itself."""
        now = self._clock.boot()
        processes = self._machine.processes.values()
        times = [time for process in processes for time in (process.asked_at(), process.ends_at())]
        ahead = [time for time in times if now < time < NEVER]
        if ahead:
            await self._changed.within(self._clock, min(ahead) - now)
        else:
            await self._changed.wait()
