"""The processes that really run on nodes, independent of every ledger. A process outlives its agent and ends with its
node's power.

A guard ends leased work at its deadline by the node's boot clock, also without an agent. The guard is simulated at its
slowest: a process lives on for its full grace and the kill margin. `ProcessOracle` observes all processes of all nodes
and checks what no log can show:

- one live process per exclusive identity, and one tenant at a time where all processes run as one user
- no kill before the grace has passed, a longer wait before each restart
- no stop of a healthy process that is to run, even while its node is cut off

Endpoint probes of a region's leader reach the real process, if the link is open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.agent.drivers.driver import Capabilities, RunSpec, RunStatus
from holdfast.agent.drivers.simulated import EVERYTHING, SimulatedBehavior, SimulatedMachine, SimulatedRun
from holdfast.agent.lease_times import AgentLeaseTimes
from holdfast.core.agent.plan import RunKey
from holdfast.core.agent.processes import ProcessState
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.records.nodes import Machine
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.queries.endpoints import EndpointCheck
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.endpoint_prober import EndpointProber, ProbeDone
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.world.world import SimProcess

#: Time of a probe and its answer.
LATENCY_MS = 5

#: Wait for a probe into a partition: longer than every timeout.
NEVER_MS = 3_600_000

#: Whether a process answers a probe from a machine.
IsAlive = Callable[[str, EndpointCheck], bool]

#: Shortest wait before a restart: it doubles with each restart, up to the second number.
PAUSE_MS, PAUSE_MOST_MS = 1_000, 60_000


class ProcessOracle:
    """All processes of all nodes, by identity.

    The callback `is_exclusive` tells which identities may have only one process. `grace_of` is how long a process has
    to end, unless it must end at once. `restarts_of` is the number of restarts in the ledger. `is_kept` tells whether
    the ledger keeps a process running on a machine that is cut off.
    """

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
        """Check a process that starts: no other one of its exclusive identity may live anywhere."""
        self.started += 1
        work = process.work
        self._judge_tenants(metal, work)
        self._judge_haste(metal, process)
        if work.leased and self._is_kept(metal, work):
            told = "was started to end when its node is cut off, but the ledger keeps it running then"
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
        """Find processes of other tenants, if tenants have no own users on the node."""
        if metal.can.users:
            return
        beside = [one for one in metal.processes.values() if _tenant(one.work) != _tenant(work) and metal.may_live(one)]
        if not beside:
            return
        detail = f"{work.name} was started on {metal.name}, where {beside[0].work.name} may live as the same user"
        self.findings.append(Finding("one-tenant", detail))

    def _judge_haste(self, metal: SimulatedNode, process: SimulatedRun) -> None:
        """Find a restart that came too early: the wait doubles each time. Clocks may differ by one percent."""
        work = process.work
        binding = metal.identity.id, (work.slot, work.epoch)
        before, self._last[binding] = self._last.get(binding), process
        if before is None:
            return
        times, pause = self._restarts_of(metal.region, work), metal.clock.boot() - before.ends_at()
        least = min(PAUSE_MOST_MS, PAUSE_MS << min(times, 10))
        if pause < least * 99 // 100:
            told = f"was restarted after {pause} ms; after {times} restarts at least {least} ms are required"
            self.findings.append(Finding("haste", f"{work.name} on {metal.name} {told}"))

    def note_stop(self, metal: SimulatedNode, process: SimulatedRun, grace_ms: int, *, well: bool) -> None:
        """Check a stop: it must allow the guaranteed grace and spare a healthy process that is to run."""
        if well and self._is_kept(metal, process.work):
            told = "was stopped, but it is healthy and is to run there"
            self.findings.append(Finding("kept", f"{process.work.name} on {metal.name} {told}"))
        promised = self._grace_of(metal.region, process.work)
        if grace_ms < promised:
            told = f"was given {grace_ms} ms to end; its grace is {promised} ms"
            self.findings.append(Finding("grace", f"{process.work.name} on {metal.name} {told}"))


def _tenant(work: RunSpec) -> str:
    return work.name.partition("/")[0]


class SimulatedNode(SimulatedMachine):
    """A simulated node with its disk: machine id, newest term, lease times of the region. Its clock outlives every
    agent."""

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
        #: Number of the machine under this name, and number of its boot.
        self._number = self._incarnation = 1
        #: By port: the bindings whose processes used it, in order.
        self._at: dict[int, dict[RunKey, None]] = {}

    @property
    def identity(self) -> Machine:
        """Return the identity that its agent reports."""
        return Machine(f"{self.name}.{self._number}", self.name, str(self._incarnation))

    def replaced(self) -> SimulatedNode:
        """Return another machine of the same name without processes. Those on this one live on."""
        other = SimulatedNode(self.name, self.region, self.zone, self.clock, self.habit, self._oracle, self.can)
        other._number = self._number + 1
        return other

    def lose_power(self) -> None:
        """End all processes and boot again."""
        super().lose_power()
        self._incarnation += 1

    def keep(self, log_id: str, term: int) -> None:
        """Store the newest term on disk."""
        self.newest = log_id, term

    def begin(self, work: RunSpec, habit: SimulatedBehavior) -> None:
        """Start a process and check it."""
        super().begin(work, habit)
        for port in work.ports:
            self._at.setdefault(port, {})[work.slot, work.epoch] = None
        self._oracle.note_start(self, self.processes[work.slot, work.epoch])

    def ask_to_end(self, process: SimulatedRun, grace_ms: int) -> None:
        """Request the end of a process and check the request."""
        well = process.answers(self.clock.boot())
        super().ask_to_end(process, grace_ms)
        self._oracle.note_stop(self, process, grace_ms, well=well)

    def unwell(self) -> list[SimulatedRun]:
        """Return processes that fail their probes now, were healthy before, and have no stop request."""
        now, found = self.clock.boot(), []
        for one in self.processes.values():
            first, last = one.habit.unwell
            if first <= now - one.began < last and now < min(one.asked_at(), one.ends_at()):
                found.append(one)
        return found

    def may_live(self, process: SimulatedRun) -> bool:
        """Return whether this process is alive."""
        return self.clock.boot() < process.ends_at()

    def running(self) -> list[RunStatus]:
        """Return the processes that run and have no stop request."""
        now = self.clock.boot()
        return [live for one in self.processes.values() if (live := one.seen(now)).state is ProcessState.RUNNING]

    def answers(self, slot: SlotKey, epoch: Revision) -> bool:
        """Return whether the process of this binding runs and is healthy."""
        process = self.processes.get((slot, epoch))
        return process is not None and process.answers(self.clock.boot())

    def answering(self, port: int) -> RunKey | None:
        """Return the binding whose process answers at a port."""
        now, given = self.clock.boot(), self._at.get(port, {})
        for key in list(given):
            one = self.processes.get(key)
            if one is None:
                del given[key]
            elif one.answers(now):
                return key
        return None


class SimEndpointProber(EndpointProber):
    """Probes from the machine of a process. The address of a node is the name of its machine."""

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
