"""A run's scene: the world of a scenario, who is in it, and who watches.

machines   platform-1, eu-1 (servers), eu-s1 (a scheduler), eu-n1 (a node and its agent), people, reader-1, storm-1
watchers   an audit of each ledger, the truth about processes

Size: who is in a world and who watches it are put in place together, in the order in which chance is drawn for them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from holdfast.agent.drivers.driver import Work
from holdfast.agent.drivers.simulated import EVERYTHING, OF_ONE_USER
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.commit.definition import Book
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import show
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsMoved
from holdfast.core.region.queries.endpoints import Question
from holdfast.core.region.state.tables import RegionState
from holdfast.host.runtime.telemetry import Meters
from holdfast.host.scheduler.standalone import SchedulerApart
from holdfast.host.streams.mirror import Mirror
from holdfast.replay.recording import PLATFORM_NAME
from holdfast.replay.run_plan import Plan
from holdfast.sim.actors.ack_recorder import Heard, Saying
from holdfast.sim.actors.agent import agent
from holdfast.sim.actors.background_clients import reader, storm
from holdfast.sim.actors.initial_objects import Wishes, amounts
from holdfast.sim.actors.node_processes import Metal, Truth
from holdfast.sim.actors.process_behavior import Habits
from holdfast.sim.actors.scheduler import scheduler
from holdfast.sim.actors.servers import Manner, Servers, settings_of_platform, settings_of_region, url
from holdfast.sim.actors.user_client import Line
from holdfast.sim.actors.users import People
from holdfast.sim.actors.watch_faults import Ears
from holdfast.sim.checks.history import Chronicle
from holdfast.sim.checks.ledger_audit import Audit, Finding
from holdfast.sim.checks.ledger_time import EvenTime
from holdfast.sim.checks.session_leases import Hearing, Leases
from holdfast.sim.plan import Cast, drawn
from holdfast.sim.scenario import Regional, Scenario, settings_of
from holdfast.sim.variety import Furnished, furnished
from holdfast.sim.world import links, store_service
from holdfast.sim.world.machine import Machine
from holdfast.sim.world.world import Process, Program, World

#: By the names that scenarios use.
NETWORKS = {
    "calm": links.CALM,
    "rough": links.Weather(latency_ms=(1, 30), loss=0.01, duplication=0.01, answer_loss=0.01),
    "stormy": links.Weather(
        latency_ms=(1, 60), loss=0.03, duplication=0.03, answer_loss=0.05, slow=0.01, slow_ms=4_000
    ),
}
STORES = {
    "calm": store_service.CALM,
    "foul": store_service.Weather(latency_ms=(1, 10), lose_answer=0.01, land_late=0.01),
    "treacherous": store_service.Weather(latency_ms=(1, 20), lose_answer=0.05, land_late=0.04),
}
#: Phases in which the ledger knows of a process, and whoever ends it gives it its time.
UNDER_CARE = (Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING, Phase.TERMINATING)
#: Phases in which a process is to run; of what is unknown its agent says that it has it.
KEPT = (Phase.BOUND, Phase.STARTING, Phase.RUNNING, Phase.READY, Phase.SERVING, Phase.UNKNOWN)
#: Who serves is asked after half of five seconds at the soonest, and is taken from the list after the third failure.
WITHDRAWN, WITHDRAWN_MS = "withdrawn", 7_000
#: How often somebody looks whether the operator's token is there.
PROOF_MS = 100


class Scene:
    """Everything of one run."""

    def __init__(self, scenario: Scenario, seed: int, plan: Plan | None = None, manner: Manner | None = None) -> None:
        self.scenario = scenario
        self.store_weather = STORES[scenario.stores]
        self.world = World(seed, network=NETWORKS[scenario.network], stores=self.store_weather)
        self.plan = plan or drawn(scenario, cast_of(scenario), seed)
        self.cast = cast_of(scenario, self.plan)
        self.truth = Truth(self._is_exclusive, self._grace_of, self._restarts_of, self._is_kept)
        self.servers = Servers(manner or Manner(), self._lives)
        #: Which replicas were asked and have answered, by region, and under which epoch.
        self._answered: set[tuple[str, SlotKey, Revision]] = set()
        #: By server, and by replica under which epoch: when it last answered a question of that server.
        self._heard_well: dict[tuple[str, SlotKey, Revision], int] = {}
        self.metals: dict[str, Metal] = {}
        #: What nodes are, and what operators say that they are for.
        self.furnished: dict[str, Furnished] = {}
        #: How often which gate kept a node out of a scheduler's choice, or a rollout waiting.
        self.acted: Counter[str] = Counter()
        self.people: People | None = None
        self.audits: dict[str, Audit[Any]] = {}
        self.leases: dict[str, Leases] = {}
        self.chronicle = Chronicle()
        #: What schedulers apart see, by machine.
        self.mirrors: dict[str, Mirror] = {}
        #: By region: told of everything that a scheduler apart sends to it.
        self.on_said: dict[str, Saying] = {}
        self._clocks = self.world.chance.stream("clocks")
        self._watch(PLATFORM, PLATFORM_NAME)
        for name in scenario.topology.regions:
            self._watch(REGION, name)
        self._populate()

    def heard(self, ledger: str) -> Heard:
        """Who notes what somebody was told to have landed in a ledger."""
        return Hearing(self.audits[ledger], self.leases[ledger], self.world.now)

    def _said(self, region: str) -> Saying:
        def say(envelope: Envelope[Any], *, answered: bool) -> None:
            if region in self.on_said:
                self.on_said[region](envelope, answered=answered)

        return say

    def _watch(self, book: Book[Any], name: str) -> None:
        disk = self.world.store(name).disk
        audit = self.audits[name] = Audit(book, disk)
        disk.listeners.append(audit.landed)
        audit.listeners.append(lambda batch: self.chronicle.note(self.world.now(), name, batch))
        audit.listeners.append(lambda batch: self._judge_serving(name, batch))
        leases = self.leases[name] = Leases(name, audit.state, self.truth.findings.append, self.world.now)
        audit.listeners += leases.take, EvenTime(name, self.truth.findings.append, self.world.now).take

    def _lives(self, server: str, question: Question) -> bool:
        """Whether a process lives at an address, by what the node really runs; then it has answered who asks."""
        metal = self.metals[question.host]
        binding = metal.answering(question.port)
        if binding is not None:
            self._answered.add((metal.region, *binding))
            self._heard_well[url(server), *binding] = self.world.now()
        return binding is not None

    def _is_exclusive(self, work: Work) -> bool:
        """Whether a process is of an exclusive identity. Of a workload that nobody knows any more it may be."""
        platform: PlatformState = self.audits[PLATFORM_NAME].state
        workload = platform.workloads.get(work.slot[0])
        return work.leased if workload is None else workload.spec.exclusive

    def _grace_of(self, region: str, work: Work) -> int:
        """How long a process has to end when it is asked to: as its template says, or the region. What the ledger has
        given up, or may have, can be ended at once."""
        state: RegionState = self.audits[region].state
        slot = state.slots.get(work.slot)
        if slot is None or slot.epoch != work.epoch or slot.phase not in UNDER_CARE:
            return 0
        grace = state.templates[slot.template].grace or state.facts.settings.grace
        return min(grace, state.facts.settings.grace) if work.leased else grace

    def _restarts_of(self, region: str, work: Work) -> int:
        """How often a binding was started again by what its region's log says."""
        slot = self.audits[region].state.slots.get(work.slot)
        return slot.restarts if slot is not None and slot.epoch == work.epoch else 0

    def _is_kept(self, metal: Metal, work: Work) -> bool:
        """Whether a process is to run where it is, by what its region's log says, and goes on while that is cut off.
        What was given to another machine of the name is no concern of this one."""
        state: RegionState = self.audits[metal.region].state
        slot = state.slots.get(work.slot)
        if slot is None or slot.epoch != work.epoch or slot.phase not in KEPT or self.metals[metal.name] is not metal:
            return False
        assignment = state.assignments[slot.assignment]
        return not (assignment.exclusive or assignment.stops_cut)

    def _judge_serving(self, ledger: str, batch: Batch[Any]) -> None:
        """What serves has answered under its binding epoch; and whoever has answered the same leader a moment ago is
        not taken from the list."""
        for move in [one for r in batch.records for e in r.events if isinstance(e, SlotsMoved) for one in e.moves]:
            if move.phase is Phase.READY and move.cause == WITHDRAWN:
                self._judge_withdrawn(ledger, move.slot)
            slot = self.audits[ledger].state.slots.get(move.slot) if move.phase is Phase.SERVING else None
            if slot is not None and (ledger, move.slot, slot.epoch) not in self._answered:
                detail = f"{move.slot} serves under epoch {show(slot.epoch)}, and was not asked"
                self.truth.findings.append(Finding("answered", detail))

    def _judge_withdrawn(self, ledger: str, slot: SlotKey) -> None:
        epoch, leader = self.audits[ledger].state.slots[slot].epoch, self.leases[ledger].leader
        last = self._heard_well.get((leader, slot, epoch))
        if last is not None and self.world.now() - last < WITHDRAWN_MS:
            detail = f"{slot} is taken from the list, and {leader} had its answer {self.world.now() - last} ms ago"
            self.truth.findings.append(Finding("withdrawn-late", f"{ledger}: {detail}"))

    def _populate(self) -> None:
        settings = settings_of_platform(settings_of(self.scenario.topology.times))
        for name in self.cast.servers[PLATFORM_NAME]:
            self._machine(name, self.servers.server(settings, self.heard(PLATFORM_NAME)))
        for region, written in self.scenario.topology.regions.items():
            self._populate_region(region, written)
        for name in self.scenario.topology.behind:
            book: Book[Any] = PLATFORM if name == PLATFORM_NAME else REGION
            self._machine(old_server(name), self.servers.behind(book, name))
        self._machine("people", self._play_people)
        for number in range(1, self.scenario.traffic.readers + 1):
            self._machine(f"reader-{number}", reader(self._lines, self._proof, self.audits))
        for number in range(1, self.scenario.traffic.storm + 1):
            regions = sorted(self.cast.nodes)
            self._machine(f"storm-{number}", storm(self._lines, self._proof, regions, self._goes_on))

    def _populate_region(self, region: str, written: Regional) -> None:
        times, platform = settings_of(self.scenario.topology.times), self.cast.servers[PLATFORM_NAME]
        settings = settings_of_region(region, platform, times, beside=self.beside(region))
        for name in self.cast.servers[region]:
            self._machine(name, self.servers.server(settings, self.heard(PLATFORM_NAME)))
        servers = [url(name) for name in self.cast.servers[region]]
        for name in self.cast.schedulers[region]:
            self._machine(name, scheduler(servers, self.heard(region), self._said(region), self._begun))
        capacity, tenants = amounts(written.cpu, written.memory), sorted(self.scenario.tenants)
        for number, name in enumerate(self.cast.nodes[region]):
            meters = Meters()
            self.servers.meters.append(meters)
            node = self.furnished[name] = furnished(capacity, self.plan.odd(name), tenants)
            machine = self._machine(name, agent(self.metals, servers, node, self.heard(region), meters))
            habits, zone = Habits(self.world.chance, name), str(1 + number % written.zones)
            is_root = number < written.nodes - written.one_user and not node.one_user
            can = EVERYTHING if is_root else OF_ONE_USER
            self.metals[name] = Metal(name, region, zone, machine.clock, habits, self.truth, can)

    def beside(self, region: str) -> bool:
        """Whether the leader of a region schedules."""
        return self.scenario.topology.regions[region].beside or bool(self.plan.odd(f"region/{region}"))

    def _begun(self, name: str, one: SchedulerApart, meters: Meters) -> None:
        """A scheduler begins: it hears of its region as well as the region's servers hear of themselves."""
        self.servers.meters.append(meters)
        self.mirrors[name] = one.mirror
        self.servers.ears.setdefault(name, Ears(self.servers.heard)).put_on(one.mirror.shown.hub)

    def _machine(self, name: str, program: Program) -> Machine:
        drift = self._clocks.randrange(-500, 500)
        return self.world.machine(name, program, fast_per_million=drift, wrong_by=self._clocks.randrange(-1_500, 1_500))

    async def _play_people(self, process: Process) -> None:
        token = await self._proof()
        wishes = Wishes(self.scenario, self.plan, self.furnished)
        self.people = people = People(process, wishes, self._lines(process), token, self.world.now)
        await people.open()
        await people.live(self.plan.acts)

    def _goes_on(self) -> bool:
        return self.world.now() < self.plan.length

    def _lines(self, process: Process) -> dict[str, Line]:
        """How people on a machine reach each ledger."""
        return {
            name: Line(process, [url(one) for one in servers], self.audits[name].accepted)
            for name, servers in self.cast.servers.items()
        }

    async def _proof(self) -> str:
        """The operator's token, once a server of the platform has put it into its file."""
        while not (token := self.servers.operator_token()):
            await asyncio.sleep(PROOF_MS / 1000)
        return token


def cast_of(scenario: Scenario, plan: Plan | None = None) -> Cast:
    """Who is in a scenario, by name; with whom a plan adds. Whatever that draws strikes those who are always there."""
    regions = scenario.topology.regions
    more = {name: one.beside and plan is not None and bool(plan.odd(f"region/{name}")) for name, one in regions.items()}
    servers = {PLATFORM_NAME: [f"platform-{n}" for n in range(1, scenario.topology.platform + 1)]}
    return Cast(
        servers | {name: _numbered(name, "", one.servers) for name, one in regions.items()},
        {name: _numbered(name, "s", one.schedulers + more[name]) for name, one in regions.items()},
        {name: _numbered(name, "n", one.nodes) for name, one in regions.items()},
    )


def old_server(ledger: str) -> str:
    """The server of a ledger that reads one format level less than the others write."""
    return f"{ledger}-old"


def _numbered(region: str, kind: str, count: int) -> list[str]:
    return [f"{region}-{kind}{number}" for number in range(1, count + 1)]
