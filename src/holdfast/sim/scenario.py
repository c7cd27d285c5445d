"""A scenario: where a run takes place, what people do there, what goes wrong, and what must be seen of it.

A file of `scenarios/`. Times are written `40s`, or `30s..50s` for one that the seed draws. What is not written is what
most scenarios have. One whose piece does not exist yet says so under `absent`, is listed, and never run.

Size: one struct for each part of a file, and what is refused of it.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.core.model.values.quantities import BadQuantity, parse_duration
from holdfast.core.model.values.settings import DEFAULTS, Settings, settings_problems
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION

#: Where scenarios are, from the folder that the command is run in.
FOLDER = Path("scenarios")


#: What a scenario may name.
FAULTS = (
    "crash", "lose-node", "lose-zone", "lose-region", "pause", "step-clock", "partition", "isolate", "clog", "swizzle",
    "cut-link", "cut-store", "stale-view", "hang-store", "depose", "slow-store", "power-cut", "fill", "deafen",
    "replace-node", "leap",
)  # fmt: skip
ACTS = ("scale", "roll", "recreate", "cordon", "taint", "quota", "policy", "override", "emergency", "freeze")
#: What may be odd about nodes, workloads and tenants (see `variety`).
NODE_VARIANTS = ("label", "taint", "kept", "device", "pool", "size", "ports", "one-user")
RULES = (
    "spread-zones", "spread-pools", "apart-nodes", "apart-zones", "near-zone", "near-node", "label", "gpu", "tolerate",
    "strict", "batch", "budget", "ports",
)  # fmt: skip
TENANT_VARIANTS = ("quota", "protected", "reclaimable")
#: What a run can be asked to have held.
INVARIANTS = (*(one.id for one in PLATFORM.invariants), *(one.id for one in REGION.invariants))
#: Where a workload may be; and of a region, one scheduler more: beside its leader, or apart if it has one there.
PLACES = ("residency", "latency")
REGION_VARIANTS = ("scheduler",)
NETWORKS = ("calm", "rough", "stormy")
STORES = ("calm", "foul", "treacherous")


class InvalidScenario(Exception):
    """A scenario file that cannot be played: which, and what is wrong with it."""


class ScenarioPart(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a file that people write."""


class RegionShape(ScenarioPart, frozen=True):
    """A region: its servers, its schedulers apart, whether its leader schedules, and its nodes spread over zones. The
    agents of the last `one_user` of these are not root: they enforce nothing, and take one tenant at a time."""

    servers: int = 2
    schedulers: int = 1
    beside: bool = False
    nodes: int = 4
    one_user: int = 0
    zones: int = 2
    cpu: str = "4"
    memory: str = "8Gi"


class LeaseTimes(ScenarioPart, frozen=True):
    """Times that all ledgers have from the start; what is not written is as ever."""

    lease: str = "10s"
    grace: str = "10s"
    kill_margin: str = "1s"
    fence: str = "25s"


class Topology(ScenarioPart, frozen=True):
    """Where it takes place."""

    times: LeaseTimes = LeaseTimes()
    platform: int = 2
    #: Of two that nobody wrote down, one is scheduled from another machine, one by its leader.
    regions: dict[str, RegionShape] = field(
        default_factory=lambda: {"eu": RegionShape(), "us": RegionShape(schedulers=0, beside=True)}
    )
    #: Ledgers that have one server more, which reads one format level less than the others write.
    behind: tuple[str, ...] = ()


class WorkloadShape(ScenarioPart, frozen=True):
    """A workload that somebody asks for."""

    tenant: str = "payments"
    replicas: int = 4
    priority: str = "normal"
    cpu: str = "500m"
    memory: str = "512Mi"
    exclusive: bool = False
    leased: bool = False
    recovery: str = ""
    regions: tuple[str, ...] = ()
    #: At most so many more replicas in one zone than in the emptiest; 0: wherever they go.
    spread: int = 0


class TenantShape(ScenarioPart, frozen=True):
    """A tenant's quota over all regions."""

    cpu: str = "24"
    memory: str = "48Gi"


class BudgetShape(ScenarioPart, frozen=True):
    """Room for recovery, in each region."""

    cpu: str = "4"
    memory: str = "8Gi"


class VarietySpec(ScenarioPart, frozen=True):
    """How often, in percent, what is odd about a node, which rule a workload has, what a tenant may have, where a
    workload may be, and what is odd about a region."""

    nodes: dict[str, int] = field(
        default_factory=lambda: {
            "label": 50, "taint": 10, "kept": 8, "device": 30, "pool": 30, "size": 70, "ports": 10, "one-user": 8,
        }
    )  # fmt: skip
    rules: dict[str, int] = field(
        default_factory=lambda: {
            "spread-zones": 35, "spread-pools": 12, "apart-nodes": 10, "apart-zones": 10, "near-zone": 12,
            "near-node": 8, "label": 15, "gpu": 15, "tolerate": 15, "strict": 15, "batch": 45, "budget": 80,
            "ports": 15,
        }
    )  # fmt: skip
    tenants: dict[str, int] = field(default_factory=lambda: {"quota": 40, "protected": 40, "reclaimable": 20})
    places: dict[str, int] = field(default_factory=lambda: {"residency": 12, "latency": 12})
    regions: dict[str, int] = field(default_factory=lambda: {"scheduler": 25})


class TrafficSpec(ScenarioPart, frozen=True):
    """What people do, how often, and how much of each kind; how many read; with how much patience."""

    every: str = "4s..10s"
    kinds: dict[str, int] = field(
        default_factory=lambda: {"scale": 4, "roll": 3, "recreate": 1, "cordon": 1, "quota": 1}
    )
    readers: int = 1
    #: How many clients do nothing but ask again and again, with almost no patience.
    storm: int = 0


class ScheduledFault(ScenarioPart, frozen=True):
    """A fault that this scenario is about: `where` is a region, a zone of it (`eu/1`), a machine, or the platform."""

    what: str
    at: str
    where: str
    lasts: str = "20s..40s"


class FaultSpec(ScenarioPart, frozen=True):
    """What goes wrong: the faults that the scenario is about, and others now and then, drawn by weight."""

    planned: tuple[ScheduledFault, ...] = ()
    every: str = "8s..20s"
    lasts: str = "1s..12s"
    kinds: dict[str, int] = field(
        default_factory=lambda: {"crash": 3, "pause": 2, "partition": 2, "cut-store": 2, "clog": 1, "step-clock": 1}
    )


class Minimums(ScenarioPart, frozen=True):
    """What a run must have seen: with less of it the run says nothing, and counts as failed."""

    commands: int = 80
    acknowledged: int = 20
    faults: int = 3
    started: int = 2
    refused: int = 1
    linear: int = 5


class QuestionSources(ScenarioPart, frozen=True):
    """Where the six answers are looked for, beside what every scenario has: commands, invariants, counters."""

    desired: tuple[str, ...] = ("put-workload", "delete-workload", "put", "assign")
    progress: tuple[str, ...] = ("propose", "bind", "move", "ship")
    repair: tuple[str, ...] = ("move", "expire", "end-session", "start-term", "stop")
    invariants: tuple[str, ...] = ("region.unique-binding", "region.capacity", "region.grants")
    counters: tuple[str, ...] = ("stepped_down", "commands_refused", "append_unknown")


class Scenario(ScenarioPart, frozen=True):
    """One scenario file."""

    name: str
    says: str
    #: Why it cannot be played yet; empty when it can.
    absent: str = ""
    length: str = "60s"
    #: After the faults: by then everything must be as asked for.
    settle: str = "180s"
    #: After a region was lost, by then every critical workload serves what it must in another one; empty: not asked.
    recovers: str = ""
    network: str = "rough"
    stores: str = "foul"
    topology: Topology = Topology()
    tenants: dict[str, TenantShape] = field(default_factory=lambda: {"payments": TenantShape(), "data": TenantShape()})
    budgets: dict[str, BudgetShape] = {}
    workloads: dict[str, WorkloadShape] = {}
    #: What is odd in its world; empty: all nodes are alike, and nothing asks for more than room.
    variety: VarietySpec = VarietySpec()
    traffic: TrafficSpec = TrafficSpec()
    faults: FaultSpec = FaultSpec()
    least: Minimums = Minimums()
    answers: QuestionSources = QuestionSources()
    #: Fault kinds, refusals and counters that a swarm of this scenario must have seen at least once.
    covers: tuple[str, ...] = ()


def read(path: Path) -> Scenario:
    """The scenario in a file."""
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, where: str) -> Scenario:
    """The scenario in a text; `where` is said when it is none."""
    try:
        found = msgspec.yaml.decode(text, type=Scenario)
        for one in (found.length, found.settle, found.traffic.every, found.faults.every, found.faults.lasts):
            span(one)
        _check_names(found)
        _check_schedulers(found)
        wrong = settings_problems(settings_of(found.topology.times))
        if wrong:
            raise InvalidScenario(f"{where}: {wrong[0]}")
        for planned in found.faults.planned:
            span(planned.at), span(planned.lasts)
    except (msgspec.DecodeError, BadQuantity) as error:
        raise InvalidScenario(f"{where}: {error}") from None
    return found


def _check_names(scenario: Scenario) -> None:
    kinds = [*scenario.faults.kinds, *(planned.what for planned in scenario.faults.planned)]
    for what, names, known in (
        ("fault", kinds, FAULTS),
        ("thing to do", scenario.traffic.kinds, ACTS),
        ("oddity of nodes", scenario.variety.nodes, NODE_VARIANTS),
        ("rule of workloads", scenario.variety.rules, RULES),
        ("oddity of tenants", scenario.variety.tenants, TENANT_VARIANTS),
        ("invariant", scenario.answers.invariants, INVARIANTS),
        ("rule of places", scenario.variety.places, PLACES),
        ("oddity of regions", scenario.variety.regions, REGION_VARIANTS),
        ("network", [scenario.network], NETWORKS),
        ("stores", [scenario.stores], STORES),
    ):
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise BadQuantity(unknown[0], f"a {what} that anybody knows: {', '.join(sorted(known))}")


def _check_schedulers(scenario: Scenario) -> None:
    regions = scenario.topology.regions
    idle = [name for name, one in regions.items() if not one.schedulers and not one.beside]
    if idle:
        raise BadQuantity(idle[0], "a region in which somebody schedules: say schedulers, or beside")
    if scenario.faults.kinds.get("stale-view") and not any(one.schedulers for one in regions.values()):
        raise BadQuantity("stale-view", "a fault of schedulers apart, of which there are none")


def read_folder(folder: Path = FOLDER) -> dict[str, Scenario]:
    """Every scenario of a folder, by name, in alphabetical order."""
    if not folder.is_dir():
        raise InvalidScenario(f"there is no folder {folder}: run this from the project, or name the folder")
    found = [read(path) for path in sorted(folder.glob("*.yaml"))]
    return {one.name: one for one in found}


def settings_of(times: LeaseTimes) -> Settings:
    """The settings of a scenario's ledgers."""
    return replace(
        DEFAULTS, session_lease=parse_duration(times.lease), grace=parse_duration(times.grace),
        kill_margin=parse_duration(times.kill_margin), fence_time=parse_duration(times.fence),
    )  # fmt: skip


def span(text: str) -> tuple[int, int]:
    """The earliest and the latest of a time, in milliseconds."""
    first, _, last = text.partition("..")
    earliest = parse_duration(first)
    latest = parse_duration(last) if last else earliest
    if latest < earliest:
        raise BadQuantity(text, "a time, or two with the longer one last, such as 30s..50s")
    return earliest, latest


def draw(text: str, chance: Random) -> int:
    """One time out of a span, in milliseconds."""
    return chance.randint(*span(text))
