"""What nodes really run, whatever anybody believes: a process outlives its agent, and ends with its node's power.

Leased work runs under a guard, which ends it at its deadline by the node's even clock, also while the agent is gone.
The guard is taken at its slowest: what it ends lives on for all its grace and the kill margin. `ProcessOracle` sees all
processes of all nodes, and judges the promises that no log can: never two of one exclusive identity, and never two
tenants at a time where all runs as one user; nothing is killed before its grace is over, what fails is started again
later each time, and what is well and is to run is ended by nobody, however long its node is cut off.

How a region's leader asks endpoints in a made-up world: what really lives there answers, if the way is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.agent.drivers.driver import Capabilities, RunKey, RunSpec, RunState, RunStatus
from holdfast.agent.drivers.simulated import EVERYTHING, SimulatedBehavior, SimulatedMachine, SimulatedRun
from holdfast.agent.lease_times import AgentLeaseTimes
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.records.nodes import Machine
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.queries.endpoints import EndpointCheck
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.endpoint_prober import EndpointProber, ProbeDone
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.world.world import SimProcess

#: How long a question and its answer are under way.
LATENCY_MS = 5

#: What is sent into a partition is never answered: longer than anybody waits.
NEVER_MS = 3_600_000

#: Whether a process lives where a machine asks a question.
IsAlive = Callable[[str, EndpointCheck], bool]


#: Before what failed is started again so long at least; twice as long each time, and not longer than that.
PAUSE_MS, PAUSE_MOST_MS = 1_000, 60_000


class ProcessOracle:
    """All processes there are, by identity. `is_exclusive` says of which no two may live, `grace_of` how long one has
    to end where nothing says that it must end at once, `restarts_of` how often the ledger says it was started again,
    `is_kept` of what on a machine the ledger says that it is to run there, also while that is cut off."""

    def __init__(
        self,
        is_exclusive: Callable[[RunSpec], bool],
        grace_of: Callable[[str, RunSpec], int],
        restarts_of: Callable[[str, RunSpec], int],
        is_kept: Callable[[SimulatedNode, RunSpec], bool],
    ) -> None:
        self.findings: list[Finding] = []
        self.started = 0
        self._is_exclusive = is_exclusive
        self._grace_of = grace_of
        self._restarts_of = restarts_of
        self._is_kept = is_kept
        #: By machine and binding: its last process there.
        self._last: dict[tuple[str, RunKey], SimulatedRun] = {}
        self._exclusive: dict[SlotKey, list[tuple[SimulatedNode, SimulatedRun]]] = {}

    def note_start(self, metal: SimulatedNode, process: SimulatedRun) -> None:
        """A process begins: no other one of its exclusive identity may live anywhere."""
        self.started += 1
        work = process.work
        self._judge_tenants(metal, work)
        self._judge_haste(metal, process)
        if work.leased and self._is_kept(metal, work):
            told = "is started so that it ends when its node is cut off, and it is to be kept then"
            self.findings.append(Finding("kept", f"{work.name} on {metal.name} {told}"))
        if not self._is_exclusive(work):
            return
        others = [(where, one) for where, one in self._exclusive.get(work.slot, ()) if where.may_live(one)]
        for where, one in others:
            detail = (
                f"{work.slot} was started on {metal.name} under epoch {format_revision(work.epoch)} "
                f"while {format_revision(one.work.epoch)} may live on {where.name}"
            )
            self.findings.append(Finding("one-live-process", detail))
        self._exclusive[work.slot] = [*others, (metal, process)]

    def _judge_tenants(self, metal: SimulatedNode, work: RunSpec) -> None:
        """Where tenants have no users of their own, nothing of another one may live."""
        if metal.can.users:
            return
        beside = [one for one in metal.processes.values() if _tenant(one.work) != _tenant(work) and metal.may_live(one)]
        if not beside:
            return
        detail = f"{work.name} was started on {metal.name}, where {beside[0].work.name} may live as the same user"
        self.findings.append(Finding("one-tenant", detail))

    def _judge_haste(self, metal: SimulatedNode, process: SimulatedRun) -> None:
        """What is started again on its node waits before that, twice as long each time; clocks are not that exact."""
        work = process.work
        binding = metal.identity.id, (work.slot, work.epoch)
        before, self._last[binding] = self._last.get(binding), process
        if before is None:
            return
        times, pause = self._restarts_of(metal.region, work), metal.clock.boot() - before.ends_at()
        least = min(PAUSE_MOST_MS, PAUSE_MS << min(times, 10))
        if pause < least * 99 // 100:
            told = f"is started again after {pause} ms, after {times} restarts, and {least} ms are the least"
            self.findings.append(Finding("haste", f"{work.name} on {metal.name} {told}"))

    def note_stop(self, metal: SimulatedNode, process: SimulatedRun, grace_ms: int, *, well: bool) -> None:
        """A process is asked to end, `well` or not: it has the time to do so that was promised to it; and of what is
        well and is to run nobody asks it."""
        if well and self._is_kept(metal, process.work):
            told = "is asked to end, and it is well and is to run there"
            self.findings.append(Finding("kept", f"{process.work.name} on {metal.name} {told}"))
        promised = self._grace_of(metal.region, process.work)
        if grace_ms < promised:
            told = f"is asked to end within {grace_ms} ms, and {promised} ms were promised to it"
            self.findings.append(Finding("grace", f"{process.work.name} on {metal.name} {told}"))


def _tenant(work: RunSpec) -> str:
    return work.name.partition("/")[0]


class SimulatedNode(SimulatedMachine):
    """A machine, and what is kept on its disk: its id, the newest term it heard of, the region's numbers. Its clock
    outlives every agent."""

    def __init__(
        self,
        name: str,
        region: str,
        zone: str,
        clock: Clock,
        habit: Callable[[RunSpec], SimulatedBehavior],
        truth: ProcessOracle,
        can: Capabilities = EVERYTHING,
    ) -> None:
        super().__init__(clock, habit, can)
        self.name = name
        self.region = region
        self.zone = zone
        self.newest: tuple[str, int] = ("", 0)
        self.times = AgentLeaseTimes()
        self._oracle = truth
        #: Which machine of this name it is, and which life of that.
        self._number = self._incarnation = 1
        #: By port: the bindings whose processes it was given to, in their order.
        self._at: dict[int, dict[RunKey, None]] = {}

    @property
    def identity(self) -> Machine:
        """What its agent says that it runs on."""
        return Machine(f"{self.name}.{self._number}", self.name, str(self._incarnation))

    def replaced(self) -> SimulatedNode:
        """Another machine of the same name, with nothing on it. What runs on this one is no concern of it."""
        other = SimulatedNode(self.name, self.region, self.zone, self.clock, self.habit, self._oracle, self.can)
        other._number = self._number + 1
        return other

    def lose_power(self) -> None:
        """Everything that ran is gone; the machine is started anew."""
        super().lose_power()
        self._incarnation += 1

    def keep(self, log_id: str, term: int) -> None:
        """Remember the newest term, whatever becomes of the agent."""
        self.newest = log_id, term

    def begin(self, work: RunSpec, habit: SimulatedBehavior) -> None:
        """A process begins, and is judged."""
        super().begin(work, habit)
        for port in work.ports:
            self._at.setdefault(port, {})[work.slot, work.epoch] = None
        self._oracle.note_start(self, self.processes[work.slot, work.epoch])

    def ask_to_end(self, process: SimulatedRun, grace_ms: int) -> None:
        """It is asked to end, and that is judged."""
        well = process.answers(self.clock.boot())
        super().ask_to_end(process, grace_ms)
        self._oracle.note_stop(self, process, grace_ms, well=well)

    def unwell(self) -> list[SimulatedRun]:
        """What runs, was well, and does not answer now though nobody has asked it to end."""
        now, found = self.clock.boot(), []
        for one in self.processes.values():
            first, last = one.habit.unwell
            if first <= now - one.began < last and now < min(one.asked_at(), one.ends_at()):
                found.append(one)
        return found

    def may_live(self, process: SimulatedRun) -> bool:
        """Whether this process is alive."""
        return self.clock.boot() < process.ends_at()

    def running(self) -> list[RunStatus]:
        """What runs, and is not being ended."""
        now = self.clock.boot()
        return [live for one in self.processes.values() if (live := one.seen(now)).state is RunState.RUNNING]

    def answers(self, slot: SlotKey, epoch: Revision) -> bool:
        """Whether the process of this binding runs, and is well."""
        process = self.processes.get((slot, epoch))
        return process is not None and process.answers(self.clock.boot())

    def answering(self, port: int) -> RunKey | None:
        """Whose process answers at a port."""
        now, given = self.clock.boot(), self._at.get(port, {})
        for key in list(given):
            one = self.processes.get(key)
            if one is None:
                del given[key]
            elif one.answers(now):
                return key
        return None


class SimEndpointProber(EndpointProber):
    """Asks from the machine of a process. The address of a node is the name of its machine."""

    def __init__(self, process: SimProcess, lives: IsAlive) -> None:
        self._process = process
        self._lives = lives

    async def probe(self, question: EndpointCheck) -> str:
        await self._process.clock.sleep(LATENCY_MS)
        if not self._is_open(question):
            await self._process.clock.sleep(NEVER_MS)
        return self._found(question)

    async def probe_all(self, questions: Sequence[EndpointCheck], answered: ProbeDone) -> None:
        await self._process.clock.sleep(LATENCY_MS)
        heard = [number for number, question in enumerate(questions) if self._is_open(question)]
        for number in heard:
            answered(number, self._found(questions[number]))
        if len(heard) < len(questions):
            await self._process.clock.sleep(NEVER_MS)

    def _is_open(self, question: EndpointCheck) -> bool:
        return self._process.transport.network.is_open(self._process.machine, question.host)

    def _found(self, question: EndpointCheck) -> str:
        return "" if self._lives(self._process.machine, question) else "connection refused"
