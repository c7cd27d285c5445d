"""DeleteWorkload: deleting asks, releasing answers."""

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.values.metadata import Deletion
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT
from tests.support.ledgers.platform import ACME, PlatformBench, a_region, a_template, a_workload, a_world, an_exclusive


def deleted_in_two_regions() -> tuple[PlatformBench, int]:
    bench = a_world()
    workload = bench.put(a_workload())
    for region in ("eu", "us"):
        bench.assign(workload, region, 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "web", workload))
    return bench, workload


def remove_all(bench: PlatformBench, workload: int, region: str) -> None:
    for assignment in bench.assignments(workload):
        if assignment.region == region:
            bench.accept(f"region/{region}", c.RemoveAssignment(assignment.uid))


def test_without_assignments_a_workload_is_gone_at_once_with_its_template_and_rights() -> None:
    bench = a_world()
    workload = bench.put(an_exclusive())
    bench.accept(ASSIGNMENT, c.GrantRight(workload, 0, "eu"))
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    assert (len(bench.state.workloads), len(bench.state.templates), len(bench.state.rights)) == (0, 0, 0)


def test_with_assignments_it_keeps_a_finalizer_for_each_region_and_ends_them_all() -> None:
    bench, workload = deleted_in_two_regions()
    meta = bench.state.workloads[workload].meta
    deadline = bench.at + bench.state.info.settings.finalizer_deadline
    assert [(f.owner, f.deadline) for f in meta.finalizers] == [("region/eu", deadline), ("region/us", deadline)]
    assert meta.deletion == Deletion(by=ACME, at=bench.at)
    assert [(a.stage, a.shares) for a in bench.assignments(workload)] == [(AssignmentStage.ENDED, ())] * 2


def test_the_last_region_to_release_removes_it() -> None:
    bench, workload = deleted_in_two_regions()
    for region in ("eu", "us"):
        assert workload in bench.state.workloads
        remove_all(bench, workload, region)
    assert workload not in bench.state.workloads
    assert len(bench.state.templates) == 0


def test_a_region_releases_with_its_last_assignment_and_not_before() -> None:
    bench = a_world()
    workload = bench.put(a_workload(budget="reserve"))
    bench.assign(workload, "eu", 2)
    bench.assign(workload, "eu", 1, purpose=AssignmentPurpose.RECOVERY, stage=AssignmentStage.STANDBY)
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    first, last = bench.assignments(workload)
    bench.accept("region/eu", c.RemoveAssignment(first.uid))
    assert [f.owner for f in bench.state.workloads[workload].meta.finalizers] == ["region/eu"]
    bench.accept("region/eu", c.RemoveAssignment(last.uid))
    assert workload not in bench.state.workloads


def test_an_exclusive_workload_goes_with_every_right_to_it() -> None:
    bench = a_world()
    db = bench.put(an_exclusive(replicas=3))
    bench.hold(db, "eu", 0, 1)
    bench.ask_back(db, "eu", 1)
    bench.accept(ASSIGNMENT, c.GrantRight(db, 2, "us"))
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    remove_all(bench, db, "eu")
    assert (len(bench.state.workloads), len(bench.state.rights)) == (0, 0)


def test_a_region_releases_for_itself_only() -> None:
    bench, workload = deleted_in_two_regions()
    (mine,) = [a for a in bench.assignments(workload) if a.region == "eu"]
    bench.refuse(Code.NOT_OWNER, "region/us", c.RemoveAssignment(mine.uid))


def test_an_end_without_a_deletion_leaves_the_workload() -> None:
    bench = a_world()
    workload = bench.put(a_workload())
    uid = bench.assign(workload, "eu", 2)
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    bench.accept("region/eu", c.RemoveAssignment(uid))
    assert workload in bench.state.workloads


def test_a_delete_names_who_is_meant() -> None:
    bench = a_world()
    workload = bench.put(a_workload())
    bench.refuse(Code.STALE, ACME, c.DeleteWorkload("acme", "web", workload + 1))
    bench.refuse(Code.NOT_FOUND, ACME, c.DeleteWorkload("acme", "api"))
    bench.refuse(Code.WRONG_SCOPE, "tenant/beta", c.DeleteWorkload("acme", "web"))


def test_a_second_delete_of_the_same_object_changes_nothing() -> None:
    bench, workload = deleted_in_two_regions()
    bench.refuse(Code.ALREADY, ACME, c.DeleteWorkload("acme", "web", workload))
    bench.refuse(Code.NOT_FOUND, ACME, c.DeleteWorkload("acme", "web"))


def test_a_template_stays_while_another_workload_names_it() -> None:
    bench = a_world()
    bench.put(a_workload("one"))
    bench.put(a_workload("two"))
    bench.accept(ACME, c.DeleteWorkload("acme", "one"))
    assert len(bench.state.templates) == 1
    bench.accept(ACME, c.DeleteWorkload("acme", "two"))
    assert len(bench.state.templates) == 0


def test_a_template_of_an_older_generation_stays_as_long_as_the_workload() -> None:
    """A region may still run it: an assignment that no longer names it proves nothing."""
    bench = a_world()
    bench.put(a_workload())
    bench.put(a_workload(template=a_template(command="serve-v2")))
    assert len(bench.state.templates) == 2
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    assert len(bench.state.templates) == 0


def test_a_workload_ends_in_one_record_however_much_its_assignments_say() -> None:
    bench = a_world()
    laws = ("EU", "US", *(f"{number:0250}" for number in range(998)))
    workload = bench.put(a_workload(replicas=8, jurisdictions=laws))
    names = [f"r{number}" for number in range(8)]
    for name in names:
        bench.put(a_region(name, "EU"))
        bench.join(name)
        bench.assign(workload, name, 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    assert {(one.stage, one.shares) for one in bench.assignments(workload)} == {(AssignmentStage.ENDED, ())}
    for name in names:
        remove_all(bench, workload, name)
    assert workload not in bench.state.workloads
