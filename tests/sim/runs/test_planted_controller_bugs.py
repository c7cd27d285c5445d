"""A test of the tester: bugs planted in schedulers, controllers, link and escrow, each found by the judge that looks
for such bugs and by nobody else.

Each exists in this file only, and is found in a small world with one kind of trouble, which is clean without it. What
it is found by is told exactly: a promise of safety, or one of liveness that was not kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.simulated import SimulatedDriver
from holdfast.core.ledger.builtin.overrides import NO_OVERRIDES
from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileResult
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values import bitsets
from holdfast.core.platform.decide import assignments, grants
from holdfast.core.platform.queries import feasibility
from holdfast.core.reconcilers.platform import grant_targets
from holdfast.core.reconcilers.region import replica_plan
from holdfast.core.reconcilers.region.node_health import NodeHealthReconciler
from holdfast.core.reconcilers.region.rollout import RolloutReconciler
from holdfast.core.region.commands import Stop
from holdfast.core.region.decide import proposal_scratch, proposal_terms, proposals, reservations, shipments
from holdfast.core.region.queries import gates
from holdfast.core.region.queries.assignments import why_not_runnable
from holdfast.core.region.watch import CURSOR
from holdfast.core.scheduling import cycle
from holdfast.core.scheduling.cycle import SchedulingCycle
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.pending_reasons import node_reasons
from holdfast.core.scheduling.queue.fair_share import FairOrder
from holdfast.core.scheduling.queue.scheduling_queue import BlockReason
from holdfast.core.scheduling.queue.unblocker import Unblocker
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.scores.evenness import EvennessScore
from holdfast.host.controllers.controller import Controller
from holdfast.host.controllers.endpoint_checks import EndpointChecks
from holdfast.host.link.platform.server import _Stream
from holdfast.host.link.region.dirty_set import DirtyObjects
from holdfast.host.link.region.follower import ShipmentFollower
from holdfast.replay.recording import PlannedAction, PlannedFault, PlannedVariant, RunPlan
from holdfast.sim.runs.run import RunReport, RunVerdicts, run
from holdfast.sim.scenario import parse
from tests.sim.runs.test_planted_server_bugs import named

SECOND = 1_000
#: Two replicas fill a node; six fill the region.
FULL = """
name: planted
says: A region that has room for no more than it runs.
settle: 90s
network: calm
stores: calm
topology: {platform: 1, regions: {eu: {servers: 1, nodes: 3, zones: 3, cpu: "1"}}}
workloads:
  web: {replicas: 6}
traffic: {readers: 0}
least: {commands: 1, acknowledged: 1, faults: 0, refused: 0, started: 0, linear: 0}
"""
ROOMY = FULL.replace('cpu: "1"', 'cpu: "4"').replace("no more than it runs", "much more than it runs")
#: Two nodes of four are in one zone: even over nodes is uneven over zones.
SPREAD = ROOMY.replace("replicas: 6", "replicas: 8, spread: 1").replace("nodes: 3", "nodes: 4")
CROWDED = FULL.replace("replicas: 6", "replicas: 8")
RANKED = ROOMY.replace("  web: {replicas: 6}", "  crawl: {replicas: 4}\n  web: {replicas: 4, priority: critical}")
TWO_REGIONS = """
name: planted
says: Two regions and a quota that one of them could use up.
settle: 90s
network: calm
stores: calm
topology:
  platform: 1
  regions: {eu: {servers: 1, nodes: 2}, us: {servers: 1, nodes: 2}}
tenants: {payments: {cpu: "4", memory: 8Gi}}
workloads:
  web: {replicas: 8}
traffic: {readers: 0}
least: {commands: 1, acknowledged: 1, faults: 0, refused: 0, started: 0, linear: 0}
"""


def nothing_placed_for_want_of_capacity(patch: pytest.MonkeyPatch) -> None:
    """A scheduler that looks at everybody, places nobody, and says that there is no room."""

    def rest(self: Any, group: Any, entries: Any) -> bool:
        waiting = sum(entry.open for entry in entries)
        self._block(group, entries, BlockReason.NODES, (PendingReason("capacity", waiting),))
        return False

    patch.setattr(SchedulingCycle, "_place", rest)


def another_reason_told(patch: pytest.MonkeyPatch) -> None:
    """A scheduler that says of all that waits that it lacks labels."""

    def labels(*args: Any) -> tuple[PendingReason, ...]:
        return tuple(replace(one, code="labels") for one in node_reasons(*args))

    patch.setattr(cycle, "node_reasons", labels)


def spread_ignored(patch: pytest.MonkeyPatch) -> None:
    """Neither the scheduler nor the ledger counts over domains, nor are those preferred that have few."""
    patch.setattr(DomainRules, "closed_by", lambda _self, _lane: None)
    patch.setattr(DomainRules, "evenness_of", lambda _self, _where: 0)
    patch.setattr(EvennessScore, "score", lambda _self, _window: None)
    patch.setattr(proposals, "check_domains", lambda *_args: None)


def scheduler_not_woken(patch: pytest.MonkeyPatch) -> None:
    """RULES 21: who sleeps is not asked whether what changed cures it."""
    patch.setattr(Unblocker, "heard", lambda *_args: None)


def scheduler_not_woken_and_not_counted(patch: pytest.MonkeyPatch) -> None:
    """The same, and what only the resync has noticed is not counted."""
    scheduler_not_woken(patch)
    patch.setattr(Scheduler, "take_resync_hits", lambda _self: 0)


def controllers_not_woken(patch: pytest.MonkeyPatch) -> None:
    """RULES 21: the controller of replicas is told of no change."""
    hear = Controller.on_change

    def deaf(self: Any, state: Any, change: Any) -> None:
        hear(self, state, type(change)(change.revision, () if self.name == "replica" else change.keys))

    patch.setattr(Controller, "on_change", deaf)


def one_slot_too_many(patch: pytest.MonkeyPatch) -> None:
    """The replica controller wants one more than is asked for."""
    begin = replica_plan._Choice.__init__

    def one_more(self: Any, assignment: Any, kinds: Any, finished: Any) -> None:
        begin(self, assignment, kinds, finished)
        self._lacks = {template: count + 1 for template, count in self._lacks.items()}

    patch.setattr(replica_plan._Choice, "__init__", one_more)


def rollout_fights_the_others(patch: pytest.MonkeyPatch) -> None:
    """The rollout stops what serves, whatever it runs; the others bring it back."""

    def stop(_self: Any, state: Any, key: Any, _now: int) -> ReconcileResult:
        slots = [slot for slot in state.slots.values() if slot.assignment == key and slot.phase is Phase.SERVING]
        asked = sum(share.count for share in state.assignments[key].shares) if key in state.assignments else 0
        if not slots or len(slots) < asked:
            return NO_CHANGES
        chosen = (slots[0].workload, slots[0].ordinal)
        return ReconcileResult((ProposedCommand(Stop((chosen,), "rollout"), state.assignments[key].revision),))

    patch.setattr(RolloutReconciler, "reconcile", stop)


def opened_and_stopped(patch: pytest.MonkeyPatch) -> None:
    """The replica controller opens one too many, and stops it when it serves: each time for a cause that is true."""
    begin = replica_plan._Choice.__init__

    def to_and_fro(self: Any, assignment: Any, kinds: Any, finished: Any) -> None:
        begin(self, assignment, kinds, finished)
        serving = sum(bitsets.count(ordinals) for kind, ordinals in kinds.items() if kind.phase is Phase.SERVING)
        if serving <= replica_plan.replicas_asked(assignment):
            self._lacks = {template: count + 1 for template, count in self._lacks.items()}

    patch.setattr(replica_plan._Choice, "__init__", to_and_fro)


def link_drops_a_step(patch: pytest.MonkeyPatch) -> None:
    """RULES 14: of each step the last assignment is left out, and the cursor moves on."""
    shipment = _Stream._shipment

    def without_one(self: Any, ship: Any, *, whole: bool = True) -> Any:
        found = shipment(self, ship, whole=whole)
        kept = [put for put in ship.puts if type(put).__name__ != "ShippedAssignment"]
        return replace(found, ship=replace(ship, puts=tuple(kept)))

    patch.setattr(_Stream, "_shipment", without_one)


def link_repeats_a_step(patch: pytest.MonkeyPatch) -> None:
    """RULES 14: a step is applied a second time, and nobody looks whether the cursor is past it."""
    apply, refuse = ShipmentFollower._apply, shipments._refuse_cursor

    async def twice(self: Any, server: str, shipment: Any) -> None:
        await apply(self, server, shipment)
        if not shipment.ship.full:
            await self._submit(shipment.ship)

    def anything(state: Any, command: Any) -> Any:
        return None if not command.full else refuse(state, command)

    patch.setattr(ShipmentFollower, "_apply", twice)
    patch.setattr(shipments, "_refuse_cursor", anything)


def grant_counted_twice(patch: pytest.MonkeyPatch) -> None:
    """RULES 7: every region is lent the whole quota."""
    patch.setattr(grant_targets, "slice_targets", lambda hard, slices: [hard for _ in slices])
    patch.setattr(grants, "_refuse_over", lambda *_args: None)


def silence_not_judged(patch: pytest.MonkeyPatch) -> None:
    """Node health waits for a silent node for ever."""
    reconcile = NodeHealthReconciler.reconcile

    def patient(self: Any, state: Any, key: Any, now: int) -> ReconcileResult:
        node = state.nodes.get(key)
        return reconcile(self, state, key, now) if node is not None and node.session else NO_CHANGES

    patch.setattr(NodeHealthReconciler, "reconcile", patient)


def published_unasked(patch: pytest.MonkeyPatch) -> None:
    """An address is listed before anybody has asked there."""

    async def well(self: Any, slot: Any, _asked: Any) -> None:
        self._answered_first(slot, "")

    patch.setattr(EndpointChecks, "_ask_first", well)


def policy_not_compared(patch: pytest.MonkeyPatch) -> None:
    """RULES 19: a scheduler goes by the built-in policy, and the ledger does not look by which."""
    patch.setattr(cycle, "valid_policy", lambda _state, _tenant: 0)

    def whatever(state: Any, overrides: Any, assignment: Any, template: str, case: Any) -> Any:
        misfit = why_not_runnable(state, assignment, template, case.at)
        return misfit or gates.refuse_paused(overrides, assignment.tenant)

    for where in (reservations, proposal_terms):
        patch.setattr(where, "refuse_group", whatever)


def overrides_not_asked(patch: pytest.MonkeyPatch) -> None:
    """RULES 19: neither the scheduler nor the ledger knows what people have paused or avoid."""
    for where in (cycle, proposal_scratch, reservations):
        patch.setattr(where, "active_overrides", lambda *_args: NO_OVERRIDES)


def lowest_first(patch: pytest.MonkeyPatch) -> None:
    """RULES 15: the scheduler begins with whoever is least urgent."""
    begin = FairOrder.begin

    def reversed_(self: Any, *args: Any) -> None:
        begin(self, *args)
        self._levels.reverse()
        self._begin_level()

    patch.setattr(FairOrder, "begin", reversed_)


def rollout_never_begins(patch: pytest.MonkeyPatch) -> None:
    """A rollout opens what is new and stops nothing that is old."""
    patch.setattr(RolloutReconciler, "reconcile", lambda _self, _state, _key, _at: NO_CHANGES)


def stops_are_not_heard(patch: pytest.MonkeyPatch) -> None:
    """A driver that takes the order to stop a process, and does not stop it."""

    async def stop(_self: Any, *_args: Any, **_named: Any) -> None:
        return None

    patch.setattr(SimulatedDriver, "stop", stop)


def workloads_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """RULES 21: what a region tells the platform is not woken by its workloads, and the resync makes up for it."""
    hear = DirtyObjects.on_change

    def deaf(self: Any, state: Any, keys: Any, now: int) -> None:
        hear(self, state, [key for key in keys if key[0] == CURSOR], now)

    patch.setattr(DirtyObjects, "on_change", deaf)


def distance_not_asked(patch: pytest.MonkeyPatch) -> None:
    """Neither the assignment controller nor the platform asks how far a region is from a workload's clients."""
    for where in (assignments, feasibility):
        patch.setattr(where, "within_latency_limits", lambda _spec, _region: True)


class Planted(NamedTuple):
    """A bug, the world that brings it out, and exactly what it is found by."""

    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: str
    found: frozenset[str]
    seconds: int = 14
    faults: tuple[PlannedFault, ...] = ()
    acts: tuple[PlannedAction, ...] = ()
    odd: tuple[PlannedVariant, ...] = ()


def planted(plant: Callable[[pytest.MonkeyPatch], None], scenario: str, *found: str, **more: Any) -> Planted:
    return Planted(plant, scenario, frozenset(found), **more)


#: As near to its clients as eu is, which us is not.
NEAR_EU = PlannedVariant("web", "latency", 1)
ROLL = PlannedAction(10 * SECOND, "roll", 0)
LOST = PlannedFault(12 * SECOND, "lose-node", "eu-n1", 58 * SECOND)
LONG_LOST = PlannedFault(12 * SECOND, "lose-node", "eu-n1", 70 * SECOND)
POLICIES = tuple(
    PlannedAction((8 + 3 * n) * SECOND, kind, n) for n, kind in enumerate(("policy", "scale", "scale", "roll"))
)
OVERRIDES = tuple(
    PlannedAction((8 + n) * SECOND, kind, n) for n, kind in enumerate(("override", "override", "roll", "scale"))
)

PLANTED = {
    "places nothing, for want of capacity": planted(nothing_placed_for_want_of_capacity, ROOMY, "placed"),
    "tells another reason": planted(another_reason_told, CROWDED, "reason-true"),
    "ignores spread": planted(spread_ignored, SPREAD, "spread", seconds=24, acts=(ROLL,)),
    "scheduler not woken": planted(scheduler_not_woken, FULL, "woken", "placed", seconds=72, faults=(LOST,)),
    "scheduler not woken, and nobody counts": planted(
        scheduler_not_woken_and_not_counted, FULL, "placed", seconds=72, faults=(LOST,)
    ),
    "controllers not woken": planted(controllers_not_woken, ROOMY, "woken"),
    "one slot too many": planted(one_slot_too_many, ROOMY, "replicas"),
    "rollout fights the others": planted(rollout_fights_the_others, ROOMY, "churn", "cause-true", "runs"),
    "opened and stopped": planted(
        opened_and_stopped, ROOMY, "churn", "replicas", "runs", "processes", "served", seconds=60
    ),
    "rollout never begins": planted(rollout_never_begins, ROOMY, "rolled", seconds=24, acts=(ROLL,)),
    "stops are not heard": planted(
        stops_are_not_heard, ROOMY, "runs", "rolled", "woken", "processes", seconds=24, acts=(ROLL,)
    ),
    "link drops a step": planted(link_drops_a_step, ROOMY, "step-missed", "shipped"),
    "link not woken by workloads": planted(workloads_not_noticed, ROOMY, "woken", seconds=72, acts=(ROLL,)),
    "link repeats a step": planted(link_repeats_a_step, ROOMY, "step-once", seconds=24, acts=POLICIES),
    "a grant counted twice": planted(grant_counted_twice, TWO_REGIONS, "platform.escrow"),
    "silence not judged": planted(silence_not_judged, FULL, "silence", seconds=84, faults=(LONG_LOST,)),
    "published unasked": planted(published_unasked, ROOMY, "answered"),
    "policy not compared": planted(policy_not_compared, ROOMY, "policy-valid", seconds=24, acts=POLICIES),
    "overrides not asked": planted(overrides_not_asked, ROOMY, "paused", acts=OVERRIDES),
    "lowest first": planted(lowest_first, RANKED, "queue-order"),
    "distance not asked": planted(distance_not_asked, TWO_REGIONS, "near-enough", odd=(NEAR_EU,)),
}


def played(bug: str) -> RunReport:
    _, scenario, _, seconds, faults, acts, odd = PLANTED[bug]
    return run(parse(scenario, "in a test"), 1, RunPlan(seconds * SECOND, faults, acts, odd))


@cache
def clean(
    scenario: str,
    seconds: int,
    faults: tuple[PlannedFault, ...],
    acts: tuple[PlannedAction, ...],
    odd: tuple[PlannedVariant, ...],
) -> RunReport:
    return run(parse(scenario, "in a test"), 1, RunPlan(seconds * SECOND, faults, acts, odd))


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_by_its_judge_alone(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug].plant(monkeypatch)
    report = played(bug)
    assert named(report) == PLANTED[bug].found, (report.findings[:3], report.unsettled[:5])


@pytest.mark.parametrize("bug", PLANTED)
def test_the_same_world_is_clean_without_it(bug: str) -> None:
    report = clean(*PLANTED[bug][1:2], *PLANTED[bug][3:])
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)
