"""A deletion does not wait for ever: a lost region's finalizer is let go of at its deadline, except for identities."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult, keys_to_wake
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform import commands as c
from holdfast.core.platform.queries.repairs import repairs
from holdfast.core.reconcilers.platform.finalizer import FinalizerReconciler
from tests.support.ledgers.platform import ACME, ROOT, PlatformBench, a_workload, a_world, an_exclusive

REPAIR = "controller/repair"
FINALIZERS = FinalizerReconciler()


def deleted(*lost: str, exclusive: bool = False) -> tuple[PlatformBench, int]:
    """A workload in two regions that is deleted while some of them are lost."""
    bench = a_world()
    uid = bench.put(an_exclusive("web", replicas=2) if exclusive else a_workload())
    for number, region in enumerate(("eu", "us")):
        if exclusive:
            bench.hold(uid, region, number)
        else:
            bench.assign(uid, region, 1)
    for region in lost:
        bench.lose(region)
    bench.accept(ACME, c.DeleteWorkload("acme", "web", uid))
    return bench, uid


def sent(bench: PlatformBench, uid: int) -> list[object]:
    """What one look sends, which is accepted."""
    found = [wanted.command for wanted in FINALIZERS.reconcile(bench.state, uid, bench.at).commands]
    for command in found:
        bench.accept(REPAIR, command)
    return found


def test_while_repair_is_paused_a_lost_region_is_waited_for() -> None:
    bench, uid = deleted("eu")
    bench.later(DEFAULTS.finalizer_deadline)
    ends = bench.at + 1_000
    opened = bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "it comes back", ends))
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == ReconcileResult((), ends)
    bench.refuse(Code.PAUSED, REPAIR, c.ReleaseFinalizer(uid, "eu"))
    assert [*keys_to_wake(FINALIZERS, bench.state, [("override", opened)])] == []
    bench.accept(ROOT, EndOverride(opened, "it does not"))
    assert [*keys_to_wake(FINALIZERS, bench.state, [("override", opened)])] == [uid]
    assert sent(bench, uid) == [c.ReleaseFinalizer(uid, "eu")]


def test_until_its_deadline_a_lost_region_is_waited_for() -> None:
    bench, uid = deleted("eu")
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == ReconcileResult(
        (), bench.at + DEFAULTS.finalizer_deadline
    )
    bench.refuse(Code.TOO_EARLY, REPAIR, c.ReleaseFinalizer(uid, "eu"))


def test_at_its_deadline_a_lost_region_is_let_go_of_and_the_others_are_not() -> None:
    bench, uid = deleted("eu")
    bench.later(DEFAULTS.finalizer_deadline)
    assert sent(bench, uid) == [c.ReleaseFinalizer(uid, "eu")]
    assert [one.owner for one in bench.state.workloads[uid].meta.finalizers] == ["region/us"]
    assert [one.region for one in bench.assignments(uid)] == ["us"]
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == NO_CHANGES


def test_with_the_last_of_them_the_workload_is_gone() -> None:
    bench, uid = deleted("eu", "us")
    bench.later(DEFAULTS.finalizer_deadline)
    sent(bench, uid)
    assert uid not in bench.state.workloads
    assert (len(bench.state.assignments), len(bench.state.templates)) == (0, 0)
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == NO_CHANGES


def test_a_region_that_is_heard_releases_it_itself() -> None:
    bench, uid = deleted()
    bench.later(DEFAULTS.finalizer_deadline)
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == NO_CHANGES
    bench.refuse(Code.NOT_OWNER, REPAIR, c.ReleaseFinalizer(uid, "eu"))


def test_identities_are_let_go_of_by_evidence_alone() -> None:
    bench, uid = deleted("eu", exclusive=True)
    bench.later(DEFAULTS.finalizer_deadline)
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == NO_CHANGES
    bench.refuse(Code.RIGHT_HELD, REPAIR, c.ReleaseFinalizer(uid, "eu"))


def test_what_is_not_there_is_not_found() -> None:
    bench, uid = deleted("eu")
    bench.refuse(Code.NOT_FOUND, REPAIR, c.ReleaseFinalizer(uid, "us2"))
    bench.refuse(Code.NOT_FOUND, REPAIR, c.ReleaseFinalizer(uid + 1, "eu"))


def test_a_region_that_fares_otherwise_wakes_every_deletion() -> None:
    bench, uid = deleted("eu")
    other = bench.put(a_workload("other"))
    assert [*FINALIZERS.keys(bench.state)] == [uid]
    assert [*keys_to_wake(FINALIZERS, bench.state, [("standing", "eu")])] == [uid]
    assert [*FINALIZERS.wake(bench.state, ("workload", other))] == [other]
    assert {*FINALIZERS.watches} == {"workload", "standing", "override"}, "it is woken by nothing else"


def test_a_region_that_is_back_before_the_deadline_is_waited_for_again() -> None:
    bench, uid = deleted("eu")
    bench.later(1)
    bench.join("eu")
    bench.judge("eu", RegionHealth.HEALTHY)
    bench.later(DEFAULTS.finalizer_deadline)
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == NO_CHANGES


def test_people_are_told_whose_turn_it_is() -> None:
    bench, uid = deleted("eu")
    owners = {one.owner: one for one in repairs(bench.state, bench.at) if one.what == "deletion"}
    assert sorted(owners) == [REPAIR, "region/us"]
    assert owners[REPAIR].deadline == bench.at + DEFAULTS.finalizer_deadline
    bench.later(DEFAULTS.finalizer_deadline)
    late = {one.owner: one.overdue for one in repairs(bench.state, bench.at) if one.what == "deletion"}
    assert late == {REPAIR: True, "region/us": True}
    assert uid in bench.state.workloads


def test_of_two_lost_regions_the_first_deadline_says_when_to_look_again() -> None:
    bench, uid = deleted("eu", "us")
    workload = bench.state.workloads[uid]
    deadlines = (bench.at + 9_000, bench.at + 5_000)
    finalizers = tuple(
        replace(one, deadline=deadline) for one, deadline in zip(workload.meta.finalizers, deadlines, strict=True)
    )
    bench.state.workloads.put(uid, replace(workload, meta=replace(workload.meta, finalizers=finalizers)))
    assert FINALIZERS.reconcile(bench.state, uid, bench.at) == ReconcileResult((), deadlines[1])
