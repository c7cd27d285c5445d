"""The cluster of one run: the world of a scenario, its machines, and the checks that observe them.

machines   platform-1, eu-1 (servers), eu-s1 (a scheduler), eu-n1 (a node and its agent), people, reader-1, storm-1
checks     an audit of each ledger, the process oracle

Size: who is in a world and who watches it are put in place together, in the order in which chance is drawn for them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from holdfast.agent.drivers.driver import RunSpec
from holdfast.agent.drivers.simulated import EVERYTHING, ONE_USER
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsMoved
from holdfast.core.region.queries.endpoints import EndpointCheck
from holdfast.core.region.state.tables import RegionState
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.scheduler.standalone import StandaloneScheduler
from holdfast.host.streams.mirror import Mirror
from holdfast.replay.recording import PLATFORM_NAME, RunPlan
from holdfast.sim.actors.ack_recorder import AckSink, SendListener
from holdfast.sim.actors.background_clients import UserConnection, reader, storm
from holdfast.sim.actors.initial_objects import ScenarioObjects, amounts
from holdfast.sim.actors.node_processes import ProcessOracle, SimulatedNode
from holdfast.sim.actors.process_behavior import ProcessBehaviors
from holdfast.sim.actors.scheduler import agent, scheduler
from holdfast.sim.actors.servers import ServerPrograms, ServerSetup, platform_settings, region_settings, url
from holdfast.sim.actors.users import Users
from holdfast.sim.actors.watch_faults import WatchFaults
from holdfast.sim.checks.history import History
from holdfast.sim.checks.ledger_audit import Finding, LedgerAudit
from holdfast.sim.checks.session_leases import AuditAckSink, LedgerTimeCheck, SessionLeaseCheck
from holdfast.sim.plan import Roster, draw_plan
from holdfast.sim.scenario import RegionShape, Scenario, settings_of
from holdfast.sim.variety import NodeProfile, node_profile
from holdfast.sim.world import links, store_service
from holdfast.sim.world.machine import SimMachine
from holdfast.sim.world.world import Program, SimProcess, World

#: By the names that scenarios use.
NETWORKS = {
    "calm": links.CALM,
    "rough": links.NetworkConditions(latency_ms=(1, 30), loss=0.01, duplication=0.01, answer_loss=0.01),
    "stormy": links.NetworkConditions(
        latency_ms=(1, 60), loss=0.03, duplication=0.03, answer_loss=0.05, slow=0.01, slow_ms=4_000
    ),
}
STORES = {
    "calm": store_service.CALM,
    "foul": store_service.StoreConditions(latency_ms=(1, 10), lose_answer=0.01, land_late=0.01),
    "treacherous": store_service.StoreConditions(latency_ms=(1, 20), lose_answer=0.05, land_late=0.04),
}
#: Phases in which the ledger has a report of the process, and a stop allows it its grace.
UNDER_CARE = (Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING, Phase.TERMINATING)
#: Phases in which a process is to run; in phase unknown its agent may still run it.
KEPT = (Phase.BOUND, Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING, Phase.UNKNOWN)
#: A serving replica is probed every five seconds, the first time after half of that, and withdrawn after three
#: failures.
WITHDRAWN, WITHDRAWN_MS = "withdrawn", 7_000
PROOF_MS = 100


class SimulatedCluster:
    """The world, actors, audits and checks of one run."""

    def __init__(
        self, scenario: Scenario, seed: int, plan: RunPlan | None = None, manner: ServerSetup | None = None
    ) -> None:
        self.scenario = scenario
        self.store_weather = STORES[scenario.stores]
        self.world = World(seed, network=NETWORKS[scenario.network], stores=self.store_weather)
        self.plan = plan or draw_plan(scenario, roster_of(scenario), seed)
        self.cast = roster_of(scenario, self.plan)
        self.oracle = ProcessOracle(self._is_exclusive, self._grace_of, self._restarts_of, self._is_kept)
        self.servers = ServerPrograms(manner or ServerSetup(), self._lives)
        #: By region: probed replicas that have answered, with their binding epoch.
        self._answered: set[tuple[str, SlotKey, Revision]] = set()
        #: By server, replica and binding epoch: the time of the last successful probe.
        self._heard_well: dict[tuple[str, SlotKey, Revision], int] = {}
        self.metals: dict[str, SimulatedNode] = {}
        #: By name: what a node is, and how operators administer it.
        self.furnished: dict[str, NodeProfile] = {}
        #: How often each gate excluded a node from a scheduler's choice, or delayed a rollout.
        self.acted: Counter[str] = Counter()
        self.users: Users | None = None
        self.audits: dict[str, LedgerAudit[Any]] = {}
        self.leases: dict[str, SessionLeaseCheck] = {}
        self.chronicle = History()
        self.mirrors: dict[str, Mirror] = {}
        self._clocks = self.world.chance.stream("clocks")
        self._watch(PLATFORM, PLATFORM_NAME)
        for name in scenario.topology.regions:
            self._watch(REGION, name)
        self._populate()

    def heard(self, ledger: str) -> AckSink:
        """Return the recorder of what the servers of a ledger acknowledge."""
        return AuditAckSink(self.audits[ledger], self.leases[ledger], self.world.now)

    def _said(self, region: str) -> SendListener:
        def say(envelope: Envelope[Any], *, answered: bool) -> None:
            if region in self.servers.on_said:
                self.servers.on_said[region](envelope, answered=answered)

        return say

    def _watch(self, definition: LedgerDefinition[Any], name: str) -> None:
        disk = self.world.store(name).disk
        audit = self.audits[name] = LedgerAudit(definition, disk)
        disk.listeners.append(audit.landed)
        audit.listeners.append(lambda batch: self.chronicle.note(self.world.now(), name, batch))
        audit.listeners.append(lambda batch: self._judge_serving(name, batch))
        leases = self.leases[name] = SessionLeaseCheck(name, audit.state, self.oracle.findings.append, self.world.now)
        audit.listeners += leases.take, LedgerTimeCheck(name, self.oracle.findings.append, self.world.now).take

    def _lives(self, server: str, question: EndpointCheck) -> bool:
        """Return whether a process really answers at an address, and record its answer."""
        metal = self.metals[question.host]
        binding = metal.answering(question.port)
        if binding is not None:
            self._answered.add((metal.region, *binding))
            self._heard_well[url(server), *binding] = self.world.now()
        return binding is not None

    def _is_exclusive(self, work: RunSpec) -> bool:
        """Return whether a process is of an exclusive identity; of a deleted workload, whether it is leased."""
        platform: PlatformState = self.audits[PLATFORM_NAME].state
        workload = platform.workloads.get(work.slot[0])
        return work.leased if workload is None else workload.spec.exclusive

    def _grace_of(self, region: str, work: RunSpec) -> int:
        """Return the grace of a process by its template or region; 0 if the ledger has released its binding or may
        have."""
        state: RegionState = self.audits[region].state
        slot = state.slots.get(work.slot)
        if slot is None or slot.epoch != work.epoch or slot.phase not in UNDER_CARE:
            return 0
        grace = state.templates[slot.template].grace or state.info.settings.grace
        return min(grace, state.info.settings.grace) if work.leased else grace

    def _restarts_of(self, region: str, work: RunSpec) -> int:
        """Return the number of restarts of a binding by its region's log."""
        slot = self.audits[region].state.slots.get(work.slot)
        return slot.restarts if slot is not None and slot.epoch == work.epoch else 0

    def _is_kept(self, metal: SimulatedNode, work: RunSpec) -> bool:
        """Return whether a process is to run, by its region's log, even while its node is cut off. Bindings of a
        replaced machine do not count."""
        state: RegionState = self.audits[metal.region].state
        slot = state.slots.get(work.slot)
        if slot is None or slot.epoch != work.epoch or slot.phase not in KEPT or self.metals[metal.name] is not metal:
            return False
        assignment = state.assignments[slot.assignment]
        return not (assignment.exclusive or assignment.stops_cut)

    def _judge_serving(self, ledger: str, batch: Batch[Any]) -> None:
        """Check that a serving replica has answered a probe under its binding epoch, and that no replica is withdrawn
        shortly after it answered the same leader."""
        for move in [one for r in batch.records for e in r.events if isinstance(e, SlotsMoved) for one in e.moves]:
            if move.phase is Phase.READY and move.cause == WITHDRAWN:
                self._judge_withdrawn(ledger, move.slot)
            slot = self.audits[ledger].state.slots.get(move.slot) if move.phase is Phase.SERVING else None
            if slot is not None and (ledger, move.slot, slot.epoch) not in self._answered:
                detail = f"{move.slot} serves under epoch {format_revision(slot.epoch)}, but was not probed"
                self.oracle.findings.append(Finding("answered", detail))

    def _judge_withdrawn(self, ledger: str, slot: SlotKey) -> None:
        epoch, leader = self.audits[ledger].state.slots[slot].epoch, self.leases[ledger].leader
        last = self._heard_well.get((leader, slot, epoch))
        if last is not None and self.world.now() - last < WITHDRAWN_MS:
            detail = f"{slot} is withdrawn, but answered {leader} {self.world.now() - last} ms ago"
            self.oracle.findings.append(Finding("withdrawn-late", f"{ledger}: {detail}"))

    def _populate(self) -> None:
        settings = platform_settings(settings_of(self.scenario.topology.times))
        for name in self.cast.servers[PLATFORM_NAME]:
            self._machine(name, self.servers.server(settings, self.heard(PLATFORM_NAME)))
        for region, written in self.scenario.topology.regions.items():
            self._populate_region(region, written)
        for name in self.scenario.topology.behind:
            definition: LedgerDefinition[Any] = PLATFORM if name == PLATFORM_NAME else REGION
            self._machine(old_server(name), self.servers.behind(definition, name))
        self._machine("people", self._play_people)
        for number in range(1, self.scenario.traffic.readers + 1):
            self._machine(f"reader-{number}", reader(self._lines, self._proof, self.audits))
        for number in range(1, self.scenario.traffic.storm + 1):
            regions = sorted(self.cast.nodes)
            self._machine(f"storm-{number}", storm(self._lines, self._proof, regions, self._goes_on))

    def _populate_region(self, region: str, written: RegionShape) -> None:
        times, platform = settings_of(self.scenario.topology.times), self.cast.servers[PLATFORM_NAME]
        settings = region_settings(region, platform, times, beside=self.beside(region) * written.leader_schedulers)
        for name in self.cast.servers[region]:
            self._machine(name, self.servers.server(settings, self.heard(PLATFORM_NAME)))
        servers = [url(name) for name in self.cast.servers[region]]
        for name in self.cast.schedulers[region]:
            self._machine(name, scheduler(servers, self.heard(region), self._said(region), self._begun))
        capacity, tenants = amounts(written.cpu, written.memory), sorted(self.scenario.tenants)
        for number, name in enumerate(self.cast.nodes[region]):
            metrics = Metrics()
            self.servers.metrics.append(metrics)
            node = self.furnished[name] = node_profile(capacity, self.plan.odd(name), tenants)
            machine = self._machine(name, agent(self.metals, servers, node, self.heard(region), metrics))
            habits, zone = ProcessBehaviors(self.world.chance, name), str(1 + number % written.zones)
            is_root = number < written.nodes - written.one_user and not node.one_user
            can = EVERYTHING if is_root else ONE_USER
            self.metals[name] = SimulatedNode(name, region, zone, machine.clock, habits, self.oracle, can)

    def beside(self, region: str) -> bool:
        """Return whether the leader of a region runs the embedded scheduler."""
        return self.scenario.topology.regions[region].beside or bool(self.plan.odd(f"region/{region}"))

    def has_one_scheduler(self, region: str) -> bool:
        """Return whether only one scheduler ever works for a region."""
        beside = self.beside(region) * self.scenario.topology.regions[region].leader_schedulers
        return len(self.cast.schedulers[region]) + beside == 1

    def _begun(self, name: str, one: StandaloneScheduler, metrics: Metrics) -> None:
        """Register a standalone scheduler that starts. Its watches get the same faults as those of the region's
        servers."""
        self.servers.metrics.append(metrics)
        self.mirrors[name] = one.mirror
        self.servers.watch_faults.setdefault(name, WatchFaults(self.servers.heard)).put_on(one.mirror.shown.hub)

    def _machine(self, name: str, program: Program) -> SimMachine:
        drift = self._clocks.randrange(-500, 500)
        return self.world.machine(name, program, fast_per_million=drift, wrong_by=self._clocks.randrange(-1_500, 1_500))

    async def _play_people(self, process: SimProcess) -> None:
        token = await self._proof()
        wishes = ScenarioObjects(self.scenario, self.plan, self.furnished)
        self.users = people = Users(process, wishes, self._lines(process), token, self.world.now)
        await people.open()
        await people.live(self.plan.acts)

    def _goes_on(self) -> bool:
        return self.world.now() < self.plan.length

    def _lines(self, process: SimProcess) -> dict[str, UserConnection]:
        """Return the users' connection to each ledger from a machine."""
        return {
            name: UserConnection(process, [url(one) for one in servers], self.audits[name].accepted)
            for name, servers in self.cast.servers.items()
        }

    async def _proof(self) -> str:
        """Wait for the operator's token in the file of a platform server, and return it."""
        while not (token := self.servers.operator_token()):
            await asyncio.sleep(PROOF_MS / 1000)
        return token


def roster_of(scenario: Scenario, plan: RunPlan | None = None) -> Roster:
    """Return the machines of a scenario by name, with those that a plan adds. Faults hit only machines that are there
    without the plan."""
    regions = scenario.topology.regions
    more = {name: one.beside and plan is not None and bool(plan.odd(f"region/{name}")) for name, one in regions.items()}
    servers = {PLATFORM_NAME: [f"platform-{n}" for n in range(1, scenario.topology.platform + 1)]}
    return Roster(
        servers | {name: _numbered(name, "", one.servers) for name, one in regions.items()},
        {name: _numbered(name, "s", one.schedulers + more[name]) for name, one in regions.items()},
        {name: _numbered(name, "n", one.nodes) for name, one in regions.items()},
    )


def old_server(ledger: str) -> str:
    """Return the name of a ledger's server that reads one ledger level less than the others write."""
    return f"{ledger}-old"


def _numbered(region: str, kind: str, count: int) -> list[str]:
    return [f"{region}-{kind}{number}" for number in range(1, count + 1)]
