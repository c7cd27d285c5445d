"""The plan of a run, drawn from its seed before it begins: faults, actions and variants.

A plan is data: removing a piece changes no other piece, so a failing run can be shrunk.
"""

from __future__ import annotations

from random import Random

from msgspec import Struct

from holdfast.replay.recording import PlannedAction, PlannedFault, PlannedVariant, RunPlan
from holdfast.sim.scenario import Scenario, draw
from holdfast.sim.world.machine import SeedStreams

#: Start of random faults and actions: by then sessions are open and the first workloads are under way.
BEGIN_MS = 6_000
#: Largest error of a wall clock. Tests of their own cover larger errors.
STEP_MS = 4_000
#: Range by which the clock of the next leader is ahead.
LEAP_MS = 30_000, 240_000
#: Rules that few nodes satisfy, if any. The first workload of a scenario has none, so that something runs.
SCARCE = ("label", "gpu", "strict")


class Roster(Struct, frozen=True):
    """The possible targets of faults, by ledger."""

    servers: dict[str, list[str]]
    schedulers: dict[str, list[str]]
    nodes: dict[str, list[str]]

    def ledger_of(self, machine: str) -> str:
        """Return the ledger of a server."""
        for ledger, names in self.servers.items():
            if machine in names:
                return ledger
        raise AssertionError(f"{machine} has no store")


def draw_plan(scenario: Scenario, cast: Roster, seed: int) -> RunPlan:
    chance = SeedStreams(seed).stream("plan")
    length = draw(scenario.length, chance)
    faults = [
        PlannedFault(draw(one.at, chance), one.what, one.where, draw(one.lasts, chance), chance.getrandbits(32))
        for one in scenario.faults.planned
    ]
    kinds = scenario.faults.kinds
    at = BEGIN_MS + draw(scenario.faults.every, chance)
    while kinds and at < length:
        what = _weighted(kinds, chance)
        faults.append(
            PlannedFault(
                at, what, _where(what, cast, chance), draw(scenario.faults.lasts, chance), chance.getrandbits(32)
            )
        )
        at += draw(scenario.faults.every, chance)
    acts = []
    at = BEGIN_MS + draw(scenario.traffic.every, chance)
    while scenario.traffic.kinds and at < length:
        acts.append(PlannedAction(at, _weighted(scenario.traffic.kinds, chance), chance.getrandbits(32)))
        at += draw(scenario.traffic.every, chance)
    ordered = tuple(sorted(faults, key=lambda fault: fault.at))
    odd = draw_variants(scenario, cast, SeedStreams(seed).stream("fittings"))
    return RunPlan(length, ordered, tuple(acts), (*odd, *draw_sites(scenario, SeedStreams(seed).stream("sites"))))


def draw_variants(scenario: Scenario, cast: Roster, chance: Random) -> tuple[PlannedVariant, ...]:
    """Draw the variants of nodes, workloads and tenants, each kind independently for each subject."""
    variety, nodes = scenario.variety, [name for names in cast.nodes.values() for name in names]
    first = next(iter(scenario.workloads), "")
    workloads = _free(scenario)
    tenants = [f"tenant/{name}" for name in scenario.tenants]
    return tuple(
        PlannedVariant(subject, kind, chance.getrandbits(32))
        for subjects, kinds in ((nodes, variety.nodes), (workloads, variety.rules), (tenants, variety.tenants))
        for subject in subjects
        for kind, percent in kinds.items()
        if chance.randrange(100) < percent and not (subject == first and kind in SCARCE)
    )


def draw_sites(scenario: Scenario, chance: Random) -> tuple[PlannedVariant, ...]:
    """Draw placement rules of workloads, an additional scheduler for regions that have exactly one, and weights."""
    places, odd, weights = scenario.variety.places, scenario.variety.regions, scenario.variety.weights
    tenants = [f"tenant/{name}" for name in scenario.tenants]
    alone = [f"region/{name}" for name, one in scenario.topology.regions.items() if one.schedulers + one.beside == 1]
    return tuple(
        PlannedVariant(subject, kind, chance.getrandbits(32))
        for subjects, kinds in ((_free(scenario), places), (alone, odd), (tenants, weights))
        for subject in subjects
        for kind, percent in kinds.items()
        if chance.randrange(100) < percent
    )


def _free(scenario: Scenario) -> list[str]:
    """Return workloads that may have rules. Those with a recovery budget have none: rules may delay recovery."""
    return [name for name, asked in scenario.workloads.items() if not asked.recovery]


def _weighted(kinds: dict[str, int], chance: Random) -> str:
    return chance.choices(list(kinds), list(kinds.values()))[0]


def _where(what: str, cast: Roster, chance: Random) -> str:
    """Draw the target of a fault."""
    servers = [name for names in cast.servers.values() for name in names]
    schedulers = [name for names in cast.schedulers.values() for name in names]
    nodes = [name for names in cast.nodes.values() for name in names]
    match what:
        case "crash" | "pause":
            return chance.choice(chance.choice([names for names in (servers, schedulers, nodes) if names]))
        case "step-clock":
            return chance.choice([*servers, *schedulers, *nodes])
        case "isolate" | "cut-store" | "hang-store":
            return chance.choice(servers)
        case "stale-view":
            return chance.choice(schedulers)
        case "lose-node" | "replace-node":
            return chance.choice(nodes)
        case "partition" | "clog":
            server = chance.choice(servers)
            others = [name for name in (*servers, *schedulers, *nodes, "people") if name != server]
            return f"{server} {chance.choice(others)}"
        case "depose" | "swizzle" | "power-cut" | "fill" | "slow-store" | "deafen":
            return chance.choice(sorted(cast.servers))
        case "cut-link" | "lose-region" | "leap":
            return chance.choice(sorted(cast.nodes))
        case "lose-zone":
            return f"{chance.choice(sorted(cast.nodes))}/{chance.randint(1, 2)}"
    raise ValueError(f"unknown fault {what!r}")
