"""A scenario: topology, traffic, faults, and what a run must have seen.

A scenario is a file in `scenarios/`. Times are written `40s`, or `30s..50s` for a time that the seed draws. Fields have
the defaults of most scenarios. A scenario that cannot run yet states why under `absent`; it is listed and never run.

Size: one struct for each part of a file, and what is refused of it.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from holdfast.core.ledger.reconciler import SCHEDULERS_MAX
from holdfast.core.model.values.quantities import BadQuantity, parse_duration
from holdfast.core.model.values.settings import DEFAULTS, Settings, settings_problems
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION

FOLDER = Path("scenarios")

FAULTS = (
    "crash", "lose-node", "lose-zone", "lose-region", "pause", "step-clock", "partition", "isolate", "clog", "swizzle",
    "cut-link", "cut-store", "stale-view", "hang-store", "depose", "slow-store", "power-cut", "fill", "deafen",
    "replace-node", "leap",
)  # fmt: skip
ACTS = ("scale", "roll", "recreate", "cordon", "taint", "quota", "policy", "override", "emergency", "freeze")
#: Names of the variants of nodes, workloads and tenants (see `variety`).
NODE_VARIANTS = ("label", "taint", "kept", "device", "pool", "size", "ports", "one-user")
RULES = (
    "spread-zones", "spread-pools", "apart-nodes", "apart-zones", "near-zone", "near-node", "label", "gpu", "tolerate",
    "strict", "batch", "budget", "ports", "gang",
)  # fmt: skip
TENANT_VARIANTS = ("quota", "protected", "reclaimable", "weight")
#: Names of the invariants that a scenario may list.
INVARIANTS = (*(one.id for one in PLATFORM.invariants), *(one.id for one in REGION.invariants))
#: Placement rules of workloads. A region's variant is an additional scheduler: embedded, or standalone if it has an
#: embedded one.
PLACES = ("residency", "latency")
REGION_VARIANTS = ("scheduler",)
NETWORKS = ("calm", "rough", "stormy")
STORES = ("calm", "foul", "treacherous")


class InvalidScenario(Exception):
    """A scenario file that cannot be run; the message names it and the error."""


class ScenarioPart(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A part of a scenario file."""


class RegionShape(ScenarioPart, frozen=True):
    """A region: servers, standalone schedulers, `beside` for embedded ones, of which the leader runs
    `leader_schedulers`, and nodes spread over zones. The agents of the last `one_user` nodes are not root: they enforce
    nothing and accept one tenant at a time."""

    servers: int = 2
    schedulers: int = 1
    beside: bool = False
    leader_schedulers: int = 1
    nodes: int = 4
    one_user: int = 0
    zones: int = 2
    cpu: str = "4"
    memory: str = "8Gi"


class LeaseTimes(ScenarioPart, frozen=True):
    """Time settings of all ledgers; the other settings have their defaults."""

    lease: str = "10s"
    grace: str = "10s"
    kill_margin: str = "1s"
    fence: str = "25s"


class Topology(ScenarioPart, frozen=True):
    """Servers and regions."""

    times: LeaseTimes = LeaseTimes()
    platform: int = 2
    #: By default one region has a standalone scheduler, the other the embedded one.
    regions: dict[str, RegionShape] = field(
        default_factory=lambda: {"eu": RegionShape(), "us": RegionShape(schedulers=0, beside=True)}
    )
    #: Ledgers with an additional server that reads one ledger level less than the others write.
    behind: tuple[str, ...] = ()


class WorkloadShape(ScenarioPart, frozen=True):
    """A workload that a tenant creates."""

    tenant: str = "payments"
    replicas: int = 4
    priority: str = "normal"
    cpu: str = "500m"
    memory: str = "512Mi"
    exclusive: bool = False
    leased: bool = False
    recovery: str = ""
    regions: tuple[str, ...] = ()
    #: Largest skew over zones; 0: no rule.
    spread: int = 0


class TenantShape(ScenarioPart, frozen=True):
    """A tenant's quota over all regions."""

    cpu: str = "24"
    memory: str = "48Gi"


class BudgetShape(ScenarioPart, frozen=True):
    """A recovery budget, per region."""

    cpu: str = "4"
    memory: str = "8Gi"


class VarietySpec(ScenarioPart, frozen=True):
    """Rates in percent of the variants of nodes, workload rules, tenants, placement rules and regions."""

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
    weights: dict[str, int] = field(default_factory=lambda: {"weight": 40})


class TrafficSpec(ScenarioPart, frozen=True):
    """The actions of users, their interval and weights, and the numbers of readers and storm clients."""

    every: str = "4s..10s"
    kinds: dict[str, int] = field(
        default_factory=lambda: {"scale": 4, "roll": 3, "recreate": 1, "cordon": 1, "quota": 1}
    )
    readers: int = 1
    #: Clients that only send small commands at a high rate, with almost no retries.
    storm: int = 0


class ScheduledFault(ScenarioPart, frozen=True):
    """A fault at a fixed time: `where` is a region, a zone of it (`eu/1`), a machine, or the platform."""

    what: str
    at: str
    where: str
    lasts: str = "20s..40s"


class FaultSpec(ScenarioPart, frozen=True):
    """Scheduled faults of the scenario, and random ones, drawn by weight."""

    planned: tuple[ScheduledFault, ...] = ()
    every: str = "8s..20s"
    lasts: str = "1s..12s"
    kinds: dict[str, int] = field(
        default_factory=lambda: {"crash": 3, "pause": 2, "partition": 2, "cut-store": 2, "clog": 1, "step-clock": 1}
    )


class Minimums(ScenarioPart, frozen=True):
    """Minimums of a run: below them it is inconclusive and counts as failed."""

    commands: int = 80
    acknowledged: int = 20
    faults: int = 3
    started: int = 2
    refused: int = 1
    linear: int = 5


class QuestionSources(ScenarioPart, frozen=True):
    """Sources of the six answers in addition to the fixed ones: commands, invariants, counters."""

    desired: tuple[str, ...] = ("put-workload", "delete-workload", "put", "assign")
    progress: tuple[str, ...] = ("propose", "bind", "move", "ship")
    repair: tuple[str, ...] = ("move", "expire", "end-session", "start-term", "stop")
    invariants: tuple[str, ...] = ("region.unique-binding", "region.capacity", "region.grants")
    counters: tuple[str, ...] = ("stepped_down", "commands_refused", "append_unknown")


class Scenario(ScenarioPart, frozen=True):
    """One scenario file."""

    name: str
    says: str
    #: Why it cannot be run yet; empty: it can.
    absent: str = ""
    length: str = "60s"
    #: Limit of the settle phase after the faults.
    settle: str = "180s"
    #: Limit from the loss of a region until every critical workload serves its minimum in another one; empty: none.
    recovers: str = ""
    network: str = "rough"
    stores: str = "foul"
    topology: Topology = Topology()
    tenants: dict[str, TenantShape] = field(default_factory=lambda: {"payments": TenantShape(), "data": TenantShape()})
    budgets: dict[str, BudgetShape] = {}
    workloads: dict[str, WorkloadShape] = {}
    #: Rates of variants; empty: all nodes are alike, and workloads have no rules.
    variety: VarietySpec = VarietySpec()
    traffic: TrafficSpec = TrafficSpec()
    faults: FaultSpec = FaultSpec()
    least: Minimums = Minimums()
    answers: QuestionSources = QuestionSources()
    #: Fault kinds, refusals and counters that a swarm of this scenario must have seen.
    covers: tuple[str, ...] = ()


def read(path: Path) -> Scenario:
    """Read the scenario in a file."""
    return parse(path.read_text(encoding="utf-8"), str(path))


def parse(text: str, where: str) -> Scenario:
    """Parse a scenario; errors name `where` as its source."""
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
        ("action", scenario.traffic.kinds, ACTS),
        ("node variant", scenario.variety.nodes, NODE_VARIANTS),
        ("workload rule", scenario.variety.rules, RULES),
        ("tenant variant", [*scenario.variety.tenants, *scenario.variety.weights], TENANT_VARIANTS),
        ("invariant", scenario.answers.invariants, INVARIANTS),
        ("placement rule", scenario.variety.places, PLACES),
        ("region variant", scenario.variety.regions, REGION_VARIANTS),
        ("network", [scenario.network], NETWORKS),
        ("stores", [scenario.stores], STORES),
    ):
        unknown = sorted(set(names) - set(known))
        if unknown:
            raise BadQuantity(unknown[0], f"a known {what}: {', '.join(sorted(known))}")


def _check_schedulers(scenario: Scenario) -> None:
    regions = scenario.topology.regions
    idle = [name for name, one in regions.items() if not one.schedulers and not one.beside]
    if idle:
        raise BadQuantity(idle[0], "a region with a scheduler: set schedulers or beside")
    for name, one in regions.items():
        if not 1 <= one.leader_schedulers <= SCHEDULERS_MAX:
            raise BadQuantity(name, f"a region with 1 to {SCHEDULERS_MAX} leaderSchedulers")
    if scenario.faults.kinds.get("stale-view") and not any(one.schedulers for one in regions.values()):
        raise BadQuantity("stale-view", "possible without standalone schedulers")


def read_folder(folder: Path = FOLDER) -> dict[str, Scenario]:
    """Read every scenario of a folder, by name, in alphabetical order."""
    if not folder.is_dir():
        raise InvalidScenario(f"there is no folder {folder}: run this from the project, or name the folder")
    found = [read(path) for path in sorted(folder.glob("*.yaml"))]
    return {one.name: one for one in found}


def settings_of(times: LeaseTimes) -> Settings:
    """Return the settings of a scenario's ledgers."""
    return replace(
        DEFAULTS, session_lease=parse_duration(times.lease), grace=parse_duration(times.grace),
        kill_margin=parse_duration(times.kill_margin), fence_time=parse_duration(times.fence),
    )  # fmt: skip


def span(text: str) -> tuple[int, int]:
    """Return the earliest and the latest of a time, in milliseconds."""
    first, _, last = text.partition("..")
    earliest = parse_duration(first)
    latest = parse_duration(last) if last else earliest
    if latest < earliest:
        raise BadQuantity(text, "a time, or two with the longer one last, such as 30s..50s")
    return earliest, latest


def draw(text: str, chance: Random) -> int:
    """Draw a time from a span, in milliseconds."""
    return chance.randint(*span(text))
