"""A test of the tester: bugs in how work leaves a place, each found by the judge that looks for such bugs and by nobody
else: it is stopped for nothing, too late, in the wrong order, or is not moved; and copies that are not what was meant.

Each exists in this file only, and is found in a small world from seed 1, which is clean without it.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.simulated import SimulatedBehavior, SimulatedDriver
from holdfast.core.agent import bindings
from holdfast.core.ledger.reconciler import NO_CHANGES
from holdfast.core.model.objects.topology import RegionHealth, TaintEffect
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.platform.decide import rights
from holdfast.core.platform.state.lookups import latest_lease_end
from holdfast.core.reconcilers.platform import assignment, assignment_candidates, assignment_identities, region_health
from holdfast.core.reconcilers.region import node_health, repair, repair_breaches, replica_plan, rollout
from holdfast.core.reconcilers.region.expiry import EmergencyQuotaReconciler
from holdfast.core.region.queries import breaches as region_breaches
from holdfast.core.region.queries import fence
from holdfast.host.controllers.endpoint_checks import EndpointChecks
from holdfast.host.leader.session_monitor import SessionMonitor
from holdfast.host.link.platform.server import _Stream
from holdfast.host.link.region import reports
from holdfast.replay.recording import PlannedAction, PlannedFault, PlannedVariant
from holdfast.sim import variety
from holdfast.sim.runs.run import RunVerdicts
from tests.sim.runs.test_planted_controller_bugs import (
    CROWDED,
    FULL,
    OVERRIDES,
    POLICIES,
    ROLL,
    ROOMY,
    SECOND,
    TWO_REGIONS,
)
from tests.sim.runs.test_planted_server_bugs import named
from tests.sim.runs.test_planted_user_visible_bugs import (
    BUDGET,
    CUT_OFF,
    LEASED,
    Planted,
    planted,
    played,
    the_first_of_it,
)

#: A small region and a large one, and two workloads that each would just fit into the small one.
UNEQUAL = (
    TWO_REGIONS.replace("eu: {servers: 1, nodes: 2}", 'eu: {servers: 1, nodes: 2, cpu: "1"}')
    .replace("  web: {replicas: 8}", "  crawl: {replicas: 8}\n  web: {replicas: 8}")
    .replace('{cpu: "4", memory: 8Gi}', "{}")
)
#: Of six replicas the quota pays for two.
POOR = ROOMY.replace("workloads:", 'tenants: {payments: {cpu: "1", memory: 2Gi}}\nworkloads:')
IDENTITIES = TWO_REGIONS.replace("replicas: 8", "replicas: 8, exclusive: true")


# What is ended, and how


def evictions_wait(patch: pytest.MonkeyPatch) -> None:
    """What a taint evicts waits for the deadline of the breach, as all else that may not stay."""
    patch.setattr(repair_breaches, "is_evicted", lambda *_args: False)


def tolerant_evicted(patch: pytest.MonkeyPatch) -> None:
    """A taint evicts whoever serves there, also who tolerates it."""

    def is_evicted(_state: Any, node: Any, slot: Any) -> bool:
        return slot.phase is Phase.SERVING and any(taint.effect is TaintEffect.EVICT for taint in node.taints)

    for where in (repair_breaches, region_breaches):
        patch.setattr(where, "is_evicted", is_evicted)


def fences_fall_late(patch: pytest.MonkeyPatch) -> None:
    """Repair gives up what is unknown two minutes after it could."""
    falls_at = fence.fenced_at
    patch.setattr(repair, "fenced_at", lambda *args: falls_at(*args) + 120 * SECOND)


def all_given_up_at_once(patch: pytest.MonkeyPatch) -> None:
    """RULES 5: however many nodes are silent, what stood there is given up when their fences fall."""
    for where in (node_health, repair):
        patch.setattr(where, "counts_as_gone_at", lambda _state, node: node.session_ended)


def silence_not_doubted(patch: pytest.MonkeyPatch) -> None:
    """RULES 5: a leader that hears nobody ends everybody's session after one lease."""
    patch.setattr(SessionMonitor, "_is_mass", lambda *_args: False)


def emergencies_last(patch: pytest.MonkeyPatch) -> None:
    """What an emergency paid for runs on when that is over."""
    patch.setattr(EmergencyQuotaReconciler, "reconcile", lambda *_args: NO_CHANGES)


def serving_go_first(patch: pytest.MonkeyPatch) -> None:
    """Where fewer are wanted, those go that serve, and those stay that wait."""
    patch.setattr(replica_plan, "_COST", {phase: -cost for phase, cost in replica_plan._COST.items()})


def nothing_adopted(patch: pytest.MonkeyPatch) -> None:
    """An agent that begins ends what it finds."""
    begin = SimulatedDriver.open

    async def ended(self: Any) -> None:
        for process in self._machine.processes.values():
            self._machine.ask_to_end(process, 10 * SECOND)
        await begin(self)

    patch.setattr(SimulatedDriver, "open", ended)


def all_is_leased(patch: pytest.MonkeyPatch) -> None:
    """Whatever an agent starts ends when that is cut off, as if it were exclusive."""
    patch.setattr(bindings, "is_leased", lambda _assignment: True)


def withdrawn_at_once(patch: pytest.MonkeyPatch) -> None:
    """An address is taken from the list after one question without an answer."""
    begin = EndpointChecks.__init__

    def hasty(self: Any, leader: Any, ledger: Any, asker: Any, habits: Any) -> None:
        begin(self, leader, ledger, asker, replace(habits, failures=1))

    patch.setattr(EndpointChecks, "__init__", hasty)


def all_withdrawn(patch: pytest.MonkeyPatch) -> None:
    """A leader that reaches nobody takes all addresses from the list."""
    patch.setattr(EndpointChecks, "_brake", lambda _self: False)


def nothing_settles(patch: pytest.MonkeyPatch) -> None:
    """A rollout stops at once what runs an old template and has yet to serve, as after an outage everybody has."""
    patch.setattr(rollout, "SETTLES_MS", 0)


# What moves between regions


def never_lost(patch: pytest.MonkeyPatch) -> None:
    """A region that is silent stays suspect."""
    judged = region_health._judged

    def suspect(region: Any, health: RegionHealth, reason: str) -> Any:
        return NO_CHANGES if health is RegionHealth.LOST else judged(region, health, reason)

    patch.setattr(region_health, "_judged", suspect)


def ended_before_begun(patch: pytest.MonkeyPatch) -> None:
    """A region is told to have less at once, whether others are ready or not."""
    patch.setattr(assignment, "next_step", lambda _places, targets, *_args: list(targets))


def identities_at_once(patch: pytest.MonkeyPatch) -> None:
    """All identities that are to move are asked back at once."""
    let_go = assignment_identities._let_go

    def all_of_them(workload: Any, *args: Any) -> None:
        let_go(replace(workload, spec=replace(workload.spec, disruption_max=1_000)), *args)

    patch.setattr(assignment_identities, "_let_go", all_of_them)


def lost_regions_counted_on(patch: pytest.MonkeyPatch) -> None:
    """What a lost region has is part of what is wanted, as if it were well."""
    site_of = assignment_candidates._site

    def counted(*args: Any, **named: Any) -> Any:
        site = site_of(*args, **named)
        if site.left:
            site.left, site.counts = False, True
        return site

    patch.setattr(assignment_candidates, "_site", counted)


def leases_not_renewed(patch: pytest.MonkeyPatch) -> None:
    """The platform does not renew what it has leased to a region that is well."""
    patch.setattr(assignment, "lease_needs_renewal", lambda *_args: False)


def rights_given_away_early(patch: pytest.MonkeyPatch) -> None:
    """RULES 6: a leased right is given to another region when the lease is over that its own was told, whatever that
    needs to stop what runs."""

    def early(state: Any, workload: Any, region: str, _ordinals: Any) -> int:
        return latest_lease_end(state, workload, region)

    for where in (rights, assignment_identities):
        patch.setattr(where, "lease_expired_for_sure_at", early)


def nothing_offered_back(patch: pytest.MonkeyPatch) -> None:
    """A region keeps what it has no room for, however long that waits."""
    patch.setattr(reports, "offered_back", lambda *_args: None)


# What regions have a copy of


def dropped(*kinds: str) -> Any:
    """The link leaves objects of a kind out of its steps, and the cursor moves on."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        shipment = _Stream._shipment

        def without(self: Any, ship: Any, *, whole: bool = True) -> Any:
            found = shipment(self, ship, whole=whole)
            kept = [put for put in found.ship.puts if type(put).__name__ not in kinds]
            return replace(found, ship=replace(found.ship, puts=tuple(kept)))

        patch.setattr(_Stream, "_shipment", without)

    return plant


def ends_not_told(patch: pytest.MonkeyPatch) -> None:
    """The link does not tell of overrides that are gone."""
    shipment = _Stream._shipment

    def without(self: Any, ship: Any, *, whole: bool = True) -> Any:
        found = shipment(self, ship, whole=whole)
        kept = [one for one in found.ship.gone if one.kind != "override"]
        return replace(found, ship=replace(found.ship, gone=tuple(kept)))

    patch.setattr(_Stream, "_shipment", without)


# What happens in some worlds, with a bug and without


def one_stalls(patch: pytest.MonkeyPatch) -> None:
    """A process does not answer for a few seconds, too few for three questions."""

    def stalls(habit: SimulatedBehavior, _times: int) -> SimulatedBehavior:
        return replace(habit, ready_ms=2_000, runs_ms=0, fault=None, unwell=(12_000, 17_000))

    the_first_of_it(patch, stalls)


def web_tolerates_drills(patch: pytest.MonkeyPatch) -> None:
    """What is tolerated is the taint that people give to nodes in a drill."""
    patch.setattr(variety, "TAINT", "drill")


TAINT = PlannedAction(11 * SECOND, "taint", 25)
SHORT = PlannedAction(11 * SECOND, "taint", 157)
TOLERANT = (PlannedVariant("web", "tolerate", 0),)
LONG_LOST = PlannedFault(12 * SECOND, "lose-node", "eu-n1", 70 * SECOND)
CRASHED = PlannedFault(14 * SECOND, "crash", "eu-n1", 3 * SECOND)
ALL_LOST = tuple(PlannedFault((72 + n) * SECOND, "lose-node", f"eu-n{n}", 80 * SECOND) for n in (1, 2, 3))
ALL_CUT = tuple(PlannedFault(14 * SECOND, "isolate", f"eu-n{n}", 15 * SECOND) for n in (1, 2, 3))
CUT_FOR_LONGER = tuple(PlannedFault(14 * SECOND, "isolate", f"eu-n{n}", 20 * SECOND) for n in (1, 2, 3))
CUT_FOR_LONG = tuple(PlannedFault(14 * SECOND, "isolate", f"eu-n{n}", 32 * SECOND) for n in (1, 2, 3))
LATE_ROLL = PlannedAction(30 * SECOND, "roll", 0)
EMERGENCY = PlannedAction(14 * SECOND, "emergency", 1)
#: One region hears of nothing at first, so that the other one has all of it.
LATE = PlannedFault(1, "cut-link", "us", 40 * SECOND)
LOST = PlannedFault(14 * SECOND, "lose-region", "us", 76 * SECOND)
#: Six, as many as there is room for.
FEWER = PlannedAction(20 * SECOND, "scale", 13)

PLANTED = {
    "evictions wait": planted(evictions_wait, ROOMY, "evicted", seconds=24, acts=(ROLL, TAINT)),
    "tolerant evicted": planted(
        tolerant_evicted, ROOMY, "cause-true", seconds=24, acts=(SHORT,), fittings=TOLERANT, habits=web_tolerates_drills
    ),
    "fences fall late": planted(fences_fall_late, FULL, "given-up", seconds=84, faults=(LONG_LOST,)),
    "all given up at once": planted(all_given_up_at_once, FULL, "few-gone", seconds=160, faults=ALL_LOST),
    "silence not doubted": planted(silence_not_doubted, ROOMY, "doubted", seconds=34, faults=ALL_CUT),
    "emergencies last": planted(emergencies_last, POOR, "repaid", seconds=44, acts=(EMERGENCY,)),
    "serving go first": planted(serving_go_first, CROWDED, "cause-true", seconds=24, acts=(FEWER,)),
    "nothing adopted": planted(nothing_adopted, ROOMY, "kept", seconds=24, faults=(CRASHED,)),
    "all is leased": planted(all_is_leased, ROOMY, "kept"),
    "withdrawn at once": planted(withdrawn_at_once, ROOMY, "withdrawn-late", seconds=30, habits=one_stalls),
    "ended before begun": planted(ended_before_begun, TWO_REGIONS, "moved-late", seconds=44, faults=(LATE,)),
    "identities at once": planted(
        identities_at_once, IDENTITIES, "few-at-once", seconds=44, faults=(LATE,), fittings=BUDGET
    ),
    "all withdrawn": planted(all_withdrawn, ROOMY, "most-listed", seconds=44, faults=CUT_FOR_LONGER),
    "nothing settles": planted(
        nothing_settles, ROOMY, "cause-true", seconds=64, faults=CUT_FOR_LONG, acts=(LATE_ROLL,)
    ),
    "never lost": planted(never_lost, TWO_REGIONS, "lost", seconds=94, faults=(LOST,)),
    "lost regions counted on": planted(lost_regions_counted_on, TWO_REGIONS, "replaced", seconds=94, faults=(LOST,)),
    "leases not renewed": planted(leases_not_renewed, LEASED, "replicas", seconds=100),
    "rights given away early": planted(
        rights_given_away_early, LEASED, "one-live-process", "one-region-each", seconds=230, faults=(CUT_OFF,)
    ),
    "nothing offered back": planted(nothing_offered_back, UNEQUAL, "moved"),
    "overrides not shipped": planted(dropped("ShippedOverride"), ROOMY, "step-missed", acts=OVERRIDES),
    "tokens not shipped": planted(dropped("ShippedToken"), ROOMY, "step-missed"),
    "validities not shipped": planted(dropped("ShippedValidity"), ROOMY, "shipped", seconds=24, acts=POLICIES),
    "ends not told": planted(ends_not_told, ROOMY, "shipped", seconds=24, acts=OVERRIDES),
}


@pytest.fixture(params=PLANTED)
def bug(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Planted:
    found = PLANTED[request.param]
    found.habits(monkeypatch)
    return found


def test_a_bug_in_how_work_leaves_is_found_by_its_judge_alone(bug: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    report = played(bug)
    assert named(report) == bug.found, (report.findings[:3], report.unsettled[:5])


def test_such_a_world_is_clean_without_it(bug: Planted) -> None:
    report = played(bug)
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)
