"""A driver without processes, on any clock: for simulations, and for agents by the thousand.

A machine holds what runs, and outlives its agents; a driver is one agent's hold on it. Nothing runs by itself: what has
become of a process is worked out when somebody looks, from when it began, how it is, and what was asked of it. Guards
are there in effect: leased work ends at its deadline, whoever looks.

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
    RunKey,
    RunSpec,
    RunState,
    RunStatus,
    StartFault,
)
from holdfast.core.model.objects.workloads import DriverKind as Kind
from holdfast.core.model.records.nodes import OVERRUN_MS
from holdfast.core.model.values.settings import AgentTimes
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.clock_event import ClockEvent

NEVER = 2**62


class SimulatedBehavior(Struct, frozen=True):
    """How a process behaves, in milliseconds.

    How long it takes to start; after how long it ends by itself, with which code and why, `runs_ms` 0: never; how long
    it takes to end when asked. With a guard that is `slowest` it lives on after its deadline for all of the region's
    grace and kill margin, and for `late_ms` more; otherwise no longer than its own grace.
    It answers once it has run for `ready_ms`, but not between the two times of `unwell`. With a `fault` it cannot be
    started at all.
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
    """One process: what it was begun as, and what was asked of it."""

    def __init__(self, work: RunSpec, habit: SimulatedBehavior, began: int, overrun: int = OVERRUN_MS) -> None:
        self.work = work
        self.habit = habit
        self.began = began
        self.deadline = work.deadline if work.leased else NEVER
        #: When it was asked to end, and when it is killed if it has not.
        self.asked = NEVER
        self.killed = NEVER
        #: For how long its guard lets it live on after its deadline, at its slowest.
        self.overrun = overrun

    def asked_at(self) -> int:
        """When it begins to end, unless it ends by itself before."""
        return min(self.asked, self.deadline)

    def by_itself_at(self) -> int:
        """When it ends if nobody asks."""
        return self.began + self.habit.runs_ms if self.habit.runs_ms else NEVER

    def ends_at(self) -> int:
        """When it is gone."""
        habit = self.habit
        fence_ms = self.overrun + habit.late_ms if habit.slowest else min(habit.stop_ms, self.work.grace_ms)
        return min(self.by_itself_at(), self.asked + habit.stop_ms, self.killed, self.deadline + fence_ms)

    def answers(self, now: int) -> bool:
        """Whether it is there at this time, and well enough to say so."""
        ran = now - self.began
        first, last = self.habit.unwell
        return self.habit.ready_ms <= ran and not first <= ran < last and now < min(self.asked_at(), self.ends_at())

    def seen(self, now: int) -> RunStatus:
        """What it is at this time."""
        work = self.work
        deadline = self.deadline if work.leased else 0
        live = RunStatus(work.slot, work.epoch, work.name, RunState.RUNNING, self.began, 0, work.leased, deadline)
        if now < min(self.asked_at(), self.ends_at()):
            return live
        habit = self.habit
        if self.by_itself_at() <= min(self.asked_at(), now):
            return replace(live, state=RunState.ENDED, code=habit.code, why=habit.why, detail="it ended by itself")
        why = ExitReason.STOPPED if self.asked < self.deadline else ExitReason.DEADLINE
        if now < self.ends_at():
            return replace(live, state=RunState.STOPPING, why=why)
        if self.asked_at() + habit.stop_ms <= self.ends_at():
            return replace(live, state=RunState.ENDED, code=habit.code, why=why, detail="it was asked to end")
        why = ExitReason.KILLED if why is ExitReason.STOPPED else why
        return replace(live, state=RunState.ENDED, signal=9, why=why, detail="it did not end within its grace")


#: What a machine of root's agent can enforce.
EVERYTHING = Capabilities(
    LimitMethod.CGROUP,
    LimitMethod.CGROUP,
    LimitMethod.CGROUP,
    LimitMethod.CGROUP,
    whole=True,
    users=True,
    namespaces=True,
)
#: What one can of an agent that is not root: all runs as its user, and is looked at now and then.
ONE_USER = Capabilities(
    LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED, LimitMethod.SAMPLED, LimitMethod.NOT_LIMITED, whole=False,
    users=False, namespaces=False,
    missing=("the agent is not root",),
)  # fmt: skip


class SimulatedMachine:
    """What runs on one machine. `habit` says of each work how its process behaves; `can` is what is enforced there."""

    def __init__(
        self, clock: Clock, habit: Callable[[RunSpec], SimulatedBehavior], can: Capabilities = EVERYTHING
    ) -> None:
        self.clock = clock
        self.habit = habit
        self.can = can
        self.processes: dict[RunKey, SimulatedRun] = {}
        #: For how long leased work lives on after its deadline, by the numbers that were told last.
        self.overrun = OVERRUN_MS
        #: What ran when the power was lost, as it is told from then on.
        self.lost: dict[RunKey, RunStatus] = {}

    def begin(self, work: RunSpec, habit: SimulatedBehavior) -> None:
        """A process begins; it runs once it has started."""
        self.processes[work.slot, work.epoch] = SimulatedRun(
            work, habit, self.clock.boot() + habit.start_ms, self.overrun
        )

    def ask_to_end(self, process: SimulatedRun, grace_ms: int) -> None:
        """A process is asked to end; after its grace it is killed."""
        now = self.clock.boot()
        process.asked = min(process.asked, now)
        process.killed = min(process.killed, now + grace_ms)

    def lose_power(self) -> None:
        """Everything that ran is gone, at once."""
        now = self.clock.boot()
        for binding, process in self.processes.items():
            seen = process.seen(now)
            gone = replace(seen, state=RunState.ENDED, why=ExitReason.REBOOTED, detail="the machine was started anew")
            self.lost[binding] = seen if seen.state is RunState.ENDED else gone
            process.killed = min(process.killed, now)
        self.processes.clear()


class SimulatedDriver:
    """One agent's hold on a machine."""

    def __init__(self, machine: SimulatedMachine) -> None:
        self._machine = machine
        self._clock = machine.clock
        self._changed = ClockEvent()
        #: What was seen when `changed` last returned.
        self._known: Sequence[RunStatus] = ()

    async def open(self) -> None:
        """Whatever the machine has is found."""
        self._changed.set()

    @property
    def kinds(self) -> Collection[Kind]:
        """Whatever is asked for is played."""
        return tuple(Kind)

    def capabilities(self) -> Capabilities:
        """What the machine is said to be able to enforce."""
        return self._machine.can

    def runs(self) -> Sequence[RunStatus]:
        """What there is at this time, by binding."""
        now = self._clock.boot()
        seen = {binding: process.seen(now) for binding, process in self._machine.processes.items()}
        return [live for _, live in sorted((seen | self._machine.lost).items())]

    async def start(self, work: RunSpec) -> None:
        """Start it, in the time that its habit takes."""
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
        """A command beside a process ends well as long as that runs."""
        del command, limit_ms
        process = self._machine.processes.get((work.slot, work.epoch))
        return 0 if process is not None and process.seen(self._clock.boot()).state is RunState.RUNNING else 1

    def keep(self, times: AgentTimes) -> int:
        """Whatever the numbers are, they are kept."""
        self._machine.overrun = times.grace + times.kill_margin
        return self._machine.overrun

    def extend(self, deadline: int) -> None:
        """Move the deadlines of all leased work that have not passed."""
        now = self._clock.boot()
        for process in self._machine.processes.values():
            if process.work.leased and now < process.deadline:
                process.deadline = max(process.deadline, deadline)
                process.overrun = min(process.overrun, self._machine.overrun)

    async def forget(self, slot: SlotKey, epoch: Revision) -> None:
        """Let go of what has ended."""
        self._machine.processes.pop((slot, epoch), None)
        self._machine.lost.pop((slot, epoch), None)
        self._changed.set()

    async def changed(self) -> None:
        """Return when something was asked for, or the next thing has happened by itself."""
        while not self._changed.is_set() and self.runs() == self._known:
            await self._wait()
        self._changed.clear()
        self._known = self.runs()

    async def close(self) -> None:
        """The agent goes; what runs stays."""

    async def _wait(self) -> None:
        """Until something is asked for, or something may happen."""
        now = self._clock.boot()
        processes = self._machine.processes.values()
        times = [time for process in processes for time in (process.asked_at(), process.ends_at())]
        ahead = [time for time in times if now < time < NEVER]
        if ahead:
            await self._changed.within(self._clock, min(ahead) - now)
        else:
            await self._changed.wait()
