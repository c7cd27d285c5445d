"""A test of the tester: bugs that hurt whoever uses Holdfast and break no ledger, each found by the judge that looks
for such bugs and by nobody else.

Each exists in this file only, and is found in a small world from seed 1, which is clean without it. Some of these
worlds have what the bug is about: an odd node, a rule, a process that hangs or fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.driver import ExitReason, RunSpec
from holdfast.agent.drivers.simulated import SimulatedBehavior
from holdfast.agent.probe_manager import ProbeManager
from holdfast.api.server.context import ServerContext
from holdfast.core.agent import plan
from holdfast.core.agent.plan import RunKey
from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin import overrides
from holdfast.core.ledger.reconciler import NO_CHANGES
from holdfast.core.reconcilers.platform import assignment, status, status_progress
from holdfast.core.reconcilers.region import repair, rollout
from holdfast.core.reconcilers.region.expiry import RightsReconciler
from holdfast.core.region.decide import proposals, stops, transitions
from holdfast.core.region.queries import domains, feasibility, gates
from holdfast.core.scheduling.filters.labels import LabelsFilter
from holdfast.core.scheduling.filters.taints import TaintsFilter
from holdfast.core.scheduling.nodes.devices import DeviceColumns
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.queue.fair_share import FairOrder
from holdfast.core.scheduling.queue.request_groups import RequestGroup
from holdfast.core.scheduling.queue.tenant_shares import TenantShares
from holdfast.host.controllers.endpoint_checks import EndpointChecks
from holdfast.host.leader import session_monitor, term
from holdfast.host.leader.term import LedgerTime
from holdfast.replay.recording import PlannedAction, PlannedFault, PlannedVariant, RunPlan
from holdfast.sim.actors.process_behavior import ProcessBehaviors
from holdfast.sim.runs.run import RunReport, RunVerdicts, run
from holdfast.sim.scenario import parse
from tests.sim.runs.test_planted_controller_bugs import CROWDED, FULL, ROLL, ROOMY, SECOND, TWO_REGIONS
from tests.sim.runs.test_planted_server_bugs import named

READ = ROOMY.replace("readers: 0", "readers: 2")
PROBED = ROOMY.replace("replicas: 6", "replicas: 6, priority: critical")
EQUALS = ROOMY.replace("  web: {replicas: 6}", "  crawl: {replicas: 6}\n  web: {replicas: 2}")
TENANTS = ROOMY.replace("  web: {replicas: 6}", "  crawl: {replicas: 6, tenant: data}\n  web: {replicas: 2}")
TIGHT = FULL.replace("  web: {replicas: 6}", "  crawl: {replicas: 2, tenant: data}\n  web: {replicas: 2}")
PASSED = ROOMY.replace('cpu: "4"', 'cpu: "8"').replace(
    "  web: {replicas: 6}", "  crawl: {replicas: 4, tenant: data}\n  web: {replicas: 48, priority: critical}"
)
LEASED = TWO_REGIONS.replace("replicas: 8", "replicas: 4, exclusive: true, leased: true")


# What hurts whoever runs something


def labels_ignored(patch: pytest.MonkeyPatch) -> None:
    """Neither the scheduler nor the ledger asks whether a node has the labels that are required."""
    admits = feasibility.admits

    def whatever(node: Any, template: Any, tenant: str, there: tuple[str, ...] = ()) -> Any:
        return admits(node, replace(template, require=()), tenant, there)

    patch.setattr(LabelsFilter, "passes", lambda _self, _window: iter(()))
    patch.setattr(gates, "admits", whatever)


def taints_ignored(patch: pytest.MonkeyPatch) -> None:
    """Neither the scheduler nor the ledger asks whether a taint is tolerated."""
    patch.setattr(TaintsFilter, "passes", lambda _self, _window: iter(()))
    patch.setattr(feasibility, "tolerates", lambda _template, _taint: True)


def models_ignored(patch: pytest.MonkeyPatch) -> None:
    """Any device will do, whatever models the template names."""
    fits_devices = feasibility.fits_devices

    def any_model(node: Any, room: Any, template: Any, devices: tuple[int, ...], *, firm: bool) -> Any:
        return fits_devices(node, room, replace(template, gpu_models=()), devices, firm=firm)

    accepted, pick = DeviceColumns.accepted, DeviceColumns.pick

    def of_any(self: Any, template: Any, at: Any, **named: Any) -> Any:
        return accepted(self, replace(template, gpu_models=()), at, **named)

    def any_of(self: Any, row: int, template: Any, *, firm: bool) -> Any:
        return pick(self, row, replace(template, gpu_models=()), firm=firm)

    patch.setattr(DeviceColumns, "accepted", of_any)
    patch.setattr(DeviceColumns, "pick", any_of)
    patch.setattr(feasibility, "fits_devices", any_model)


def apart_ignored(patch: pytest.MonkeyPatch) -> None:
    """Neither the scheduler nor the ledger keeps members of a group apart."""
    crowded, shut = domains.check_domains, DomainRules.closed_by

    def together(count: Any, standing: Any, reach: Any, node: Any) -> Any:
        return crowded(count, standing._replace(template=replace(standing.template, apart=())), reach, node)

    def open_(self: Any, lane: Any) -> Any:
        found = shut(self, lane)
        return None if found is not None and found[0] is Code.APART else found

    patch.setattr(proposals, "check_domains", together)
    patch.setattr(DomainRules, "closed_by", open_)
    patch.setattr(DomainRules, "takes", lambda _self, _node: 1_000)


def near_ignored(patch: pytest.MonkeyPatch) -> None:
    """Neither the scheduler nor the ledger keeps members of a group near each other, and none is preferred."""
    patch.setattr(domains, "_is_far", lambda *_args: False)
    patch.setattr(DomainRules, "_is_far", lambda *_args: False)
    patch.setattr(DomainRules, "nearer", lambda *_args: 0)


def budget_ignored(patch: pytest.MonkeyPatch) -> None:
    """A rollout stops all that serve at once, and the ledger lets it."""
    patch.setattr(stops, "disruption_left", lambda *_args, **_named: 1_000)
    patch.setattr(rollout, "_to_stop", lambda _state, _assignment, _found, old, _now: old)


def grace_not_given(patch: pytest.MonkeyPatch) -> None:
    """An agent kills what it is to stop, at once."""
    patch.setattr(plan._Slot, "_grace_ms", lambda _self: 0)


def restarted_at_once(patch: pytest.MonkeyPatch) -> None:
    """An agent starts what has failed again without a pause."""
    patch.setattr(plan, "restart_at", lambda _one, _run, now: now)


def liveness_not_asked(patch: pytest.MonkeyPatch) -> None:
    """An agent does not ask whether a process is alive."""

    async def never(*_args: Any) -> None:
        await asyncio.Event().wait()

    patch.setattr(ProbeManager, "_alive", never)


def never_withdrawn(patch: pytest.MonkeyPatch) -> None:
    """An address that does not answer any more stays in the list."""

    def well(self: Any, slot: Any, _asked: Any, _why: str) -> None:
        if self._is_same(slot):
            self._again.add((slot.workload, slot.ordinal))

    patch.setattr(EndpointChecks, "_answered_again", well)


def nothing_said_to_serve(patch: pytest.MonkeyPatch) -> None:
    """The platform says of every workload that none of it serves."""
    progress_of = status_progress.progress_of
    patch.setattr(status, "progress_of", lambda state, one: progress_of(state, one)._replace(serving=0))


def deadline_not_kept(patch: pytest.MonkeyPatch) -> None:
    """What was to fail at its deadline goes on."""
    patch.setattr(assignment, "is_abandoned", lambda _workload: False)


def listed_as_it_was(patch: pytest.MonkeyPatch) -> None:
    """A server lists what there was a while ago, under the token of what there is now."""
    view, kept = ServerContext.view, dict[int, Any]()

    async def old(self: Any, call: Any) -> Any:
        now = await view(self, call)
        before = kept.setdefault(id(self), now.state.fork())
        if before.info.seq + 20 < now.state.info.seq:
            kept[id(self)] = now.state.fork()
        return replace(now, state=before)

    patch.setattr(ServerContext, "view", old)


# What hurts whoever operates it


def repair_not_paused(patch: pytest.MonkeyPatch) -> None:
    """RULES 19: neither repair nor the ledger knows that people have paused it."""
    in_force = overrides.active_overrides
    patch.setattr(repair, "active_overrides", lambda state, now: replace(in_force(state, now), repair=None))
    for where in (stops, transitions):
        patch.setattr(where, "refuse_repair", lambda _overrides: None)


def breaches_not_mended(patch: pytest.MonkeyPatch) -> None:
    """Repair does nothing about what the world has broken, and does not say when that is over."""
    patch.setattr(repair, "reconcile_breach", lambda *_args: NO_CHANGES)


def time_runs_fast(patch: pytest.MonkeyPatch) -> None:
    """RULES 5: ledger time gains a second in ten."""

    def now(self: Any) -> int:
        boot = self._clock.boot()
        elapsed, self._boot = max(0, boot - self._boot), boot
        self._nanos += elapsed * term.NANOS * 11 // 10
        return int(self._nanos // term.NANOS)

    patch.setattr(LedgerTime, "now", now)


def sessions_end_early(patch: pytest.MonkeyPatch) -> None:
    """RULES 3: a leader ends sessions that were silent for half of their lease."""
    patch.setattr(session_monitor, "_patience", lambda settings: settings.session_lease // 2)


def rights_never_lapse(patch: pytest.MonkeyPatch) -> None:
    """RULES 6: a region goes on with what it has a leased right to, though nobody has renewed that."""
    patch.setattr(RightsReconciler, "reconcile", lambda *_args: NO_CHANGES)


# Who comes first


def youngest_first(patch: pytest.MonkeyPatch) -> None:
    """Of a tenant's requests the newest is placed first."""
    oldest = RequestGroup.oldest
    patch.setattr(RequestGroup, "oldest", lambda self: (-oldest(self)[0], oldest(self)[1]))


def shares_ignored(patch: pytest.MonkeyPatch) -> None:
    """One tenant comes before the other, whatever it has."""
    patch.setattr(TenantShares, "share", lambda _self, tenant: int(tenant != "data"))


def age_ignored(patch: pytest.MonkeyPatch) -> None:
    """However long somebody waits, higher priorities come first."""
    patch.setattr(FairOrder, "_left_to_aged", lambda _self: None)


# What happens in some worlds, with a bug and without


def as_ever(_patch: pytest.MonkeyPatch) -> None:
    """Processes have no other habits than elsewhere."""


def the_first_of_it(patch: pytest.MonkeyPatch, changed: Callable[[SimulatedBehavior, int], SimulatedBehavior]) -> None:
    """What becomes of the processes of a workload's ordinal 0, by how often they were started."""
    begun: dict[RunKey, int] = {}
    habit_of = ProcessBehaviors.__call__

    def habit(self: Any, work: RunSpec) -> SimulatedBehavior:
        found = habit_of(self, work)
        if work.slot[1] != 0:
            return found
        times = begun[work.slot, work.epoch] = begun.get((work.slot, work.epoch), 0) + 1
        return changed(found, times)

    patch.setattr(ProcessBehaviors, "__call__", habit)


def one_hangs(patch: pytest.MonkeyPatch) -> None:
    """A process hangs half a minute after it is well."""

    def hangs(habit: SimulatedBehavior, times: int) -> SimulatedBehavior:
        well = replace(habit, ready_ms=2_000, runs_ms=0, fault=None, unwell=(0, 0))
        return replace(well, unwell=(10_000, 50_000)) if times == 1 else well

    the_first_of_it(patch, hangs)


def one_fails(patch: pytest.MonkeyPatch) -> None:
    """A process fails twice, soon after it was started."""

    def fails(habit: SimulatedBehavior, times: int) -> SimulatedBehavior:
        well = replace(habit, ready_ms=1_000, runs_ms=0, fault=None, unwell=(0, 0))
        return replace(well, runs_ms=2_000, code=1, why=ExitReason.EXIT) if times < 3 else well

    the_first_of_it(patch, fails)


class Planted(NamedTuple):
    """A bug, the world that brings it out, and exactly what it is found by."""

    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: str
    found: frozenset[str]
    seconds: int = 14
    faults: tuple[PlannedFault, ...] = ()
    acts: tuple[PlannedAction, ...] = ()
    fittings: tuple[PlannedVariant, ...] = ()
    habits: Callable[[pytest.MonkeyPatch], None] = as_ever


def planted(plant: Callable[[pytest.MonkeyPatch], None], scenario: str, *found: str, **more: Any) -> Planted:
    return Planted(plant, scenario, frozenset(found), **more)


TAINTED = tuple(PlannedVariant(f"eu-n{number}", "taint", 0) for number in (1, 2, 3))
LABELLED = (PlannedVariant("web", "label", 0), PlannedVariant("eu-n3", "label", 0))
DEVICES = (PlannedVariant("web", "gpu", 0), PlannedVariant("eu-n1", "device", 4), PlannedVariant("eu-n2", "device", 1))
#: One may be gone at a time; pause repair for 23 s; fail 5.8 s after it was asked for.
BUDGET, BATCH = (PlannedVariant("web", "budget", 1),), (PlannedVariant("web", "batch", 31),)
PAUSED = PlannedAction(38 * SECOND, "override", 0)
LOST = PlannedFault(12 * SECOND, "lose-node", "eu-n1", 70 * SECOND)
CUT = PlannedFault(12 * SECOND, "isolate", "eu-n1", 7 * SECOND)
CUT_OFF = PlannedFault(20 * SECOND, "cut-link", "eu", 200 * SECOND)
#: Nobody schedules while people ask for more: of `crawl`, and then of `web`, of which there is less.
AGAIN = PlannedFault(14 * SECOND, "crash", "eu-s1", 12 * SECOND)
MORE = (PlannedAction(16 * SECOND, "scale", 15), PlannedAction(18 * SECOND, "scale", 16))
#: Draws that change web, for it to be placed anew over and over.
ROLLS = tuple(
    PlannedAction((10 + 4 * turn) * SECOND, "roll", draw)
    for turn, draw in enumerate([n for n in range(200) if Random(n).choice(("crawl", "web")) == "web"][:55])
)
LATER = tuple(PlannedAction((10 + 10 * turn) * SECOND, "roll", turn) for turn in range(6))

PLANTED = {
    "labels ignored": planted(labels_ignored, ROOMY, "meant", fittings=LABELLED),
    "taints ignored": planted(taints_ignored, ROOMY, "meant", fittings=TAINTED),
    "models ignored": planted(models_ignored, ROOMY, "given", "meant", fittings=DEVICES),
    "apart ignored": planted(apart_ignored, ROOMY, "apart", fittings=(PlannedVariant("web", "apart-nodes", 0),)),
    "near ignored": planted(near_ignored, FULL, "near", fittings=(PlannedVariant("web", "near-node", 1),)),
    "budget ignored": planted(budget_ignored, ROOMY, "budget", seconds=24, acts=(ROLL,), fittings=BUDGET),
    "grace not given": planted(grace_not_given, ROOMY, "grace", seconds=24, acts=(ROLL,)),
    "restarted at once": planted(restarted_at_once, ROOMY, "haste", habits=one_fails),
    "liveness not asked": planted(liveness_not_asked, PROBED, "revived", habits=one_hangs),
    "never withdrawn": planted(never_withdrawn, ROOMY, "withdrawn", habits=one_hangs),
    "nothing said to serve": planted(nothing_said_to_serve, ROOMY, "status"),
    "deadline not kept": planted(deadline_not_kept, CROWDED, "deadline", seconds=24, fittings=BATCH),
    "listed as it was": planted(listed_as_it_was, READ, "listed", seconds=24, acts=(ROLL,)),
    "repair not paused": planted(repair_not_paused, FULL, "paused", seconds=84, faults=(LOST,), acts=(PAUSED,)),
    "breaches not mended": planted(
        breaches_not_mended, ROOMY, "mended", acts=(PlannedAction(11 * SECOND, "taint", 2),)
    ),
    "time runs fast": planted(time_runs_fast, ROOMY, "even-time", seconds=72, acts=LATER),
    "sessions end early": planted(sessions_end_early, ROOMY, "lease", seconds=24, faults=(CUT,)),
    "rights never lapse": planted(
        rights_never_lapse, LEASED, "one-live-process", "one-region-each", "right-held", seconds=230, faults=(CUT_OFF,)
    ),
    "youngest first": planted(youngest_first, EQUALS, "turns", seconds=34, faults=(AGAIN,), acts=MORE),
    "shares ignored": planted(shares_ignored, TENANTS, "turns", seconds=34, faults=(AGAIN,), acts=MORE),
    "age ignored": planted(age_ignored, PASSED, "aged", seconds=250, acts=ROLLS),
}


@pytest.fixture(params=PLANTED)
def bug(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Planted:
    found = PLANTED[request.param]
    found.habits(monkeypatch)
    return found


def played(bug: Planted) -> RunReport:
    drawn = RunPlan(bug.seconds * SECOND, bug.faults, bug.acts, bug.fittings)
    return run(parse(bug.scenario, "in a test"), 1, drawn)


def test_a_bug_that_hurts_is_found_by_its_judge_alone(bug: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    bug.plant(monkeypatch)
    report = played(bug)
    assert named(report) == bug.found, (report.findings[:3], report.unsettled[:5])


def test_the_same_world_is_clean_without_it(bug: Planted) -> None:
    report = played(bug)
    assert report.verdicts == RunVerdicts("held", "held"), (report.findings, report.unsettled, report.lacking)
