"""RULES 13 on the platform: uids are log revisions, never used again, also across delete and recreate."""

from holdfast.core.ledger.answers import Code
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT
from tests.support.ledgers.platform import ACME, ROOT, PlatformBench, a_class, a_workload, a_world, an_exclusive, cpu


def finalising(bench: PlatformBench, name: str = "web") -> int:
    """A deleted workload that eu has not released yet."""
    old = bench.put(a_workload(name))
    bench.assign(old, "eu", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", name))
    return old


def test_a_new_object_of_one_name_may_exist_while_the_old_one_finalises() -> None:
    bench = a_world()
    old = finalising(bench)
    new = bench.put(a_workload())
    assert new > old
    assert (old in bench.state.workloads, bench.workload("web").meta.uid) == (True, new)


def test_delete_and_recreate_while_cut_leaves_each_with_its_own_assignments() -> None:
    bench = a_world()
    old = finalising(bench)
    new = bench.put(a_workload())
    fresh = bench.assign(new, "eu", 3)
    (ended,) = bench.assignments(old)
    bench.accept("region/eu", c.RemoveAssignment(ended.uid))
    assert [a.uid for a in bench.assignments(new)] == [fresh]
    assert bench.workload("web").meta.uid == new


def test_the_end_of_the_old_object_does_not_free_the_name_of_the_new_one() -> None:
    bench = a_world()
    old = finalising(bench)
    bench.put(a_workload())
    bench.retire("eu")
    assert old not in bench.state.workloads
    bench.refuse(Code.ALREADY, ACME, c.PutWorkload(a_workload()))


def test_three_lives_of_one_name_have_three_uids() -> None:
    bench = a_world()
    uids = [finalising(bench), finalising(bench), bench.put(a_workload())]
    assert len(set(uids)) == 3
    assert uids == sorted(uids)
    assert bench.state.workload_counts["acme"] == 3


def test_a_delete_by_uid_never_hits_the_successor() -> None:
    bench = a_world()
    old = finalising(bench)
    bench.put(a_workload())
    bench.refuse(Code.STALE, ACME, c.DeleteWorkload("acme", "web", old))


def test_the_same_identity_of_the_successor_is_another_identity() -> None:
    bench = a_world()
    old = bench.put(an_exclusive())
    bench.hold(old, "eu", 0)
    bench.accept(ACME, c.DeleteWorkload("acme", "db"))
    new = bench.put(an_exclusive())
    bench.hold(new, "us", 0)
    assert [(held.workload, held.region) for held in bench.state.rights.values()] == [(old, "eu"), (new, "us")]


def test_a_controller_that_means_the_old_object_is_told_that_it_is_ending() -> None:
    bench = a_world()
    old = finalising(bench)
    bench.put(a_workload())
    bench.refuse(Code.WRONG_PHASE, ASSIGNMENT, bench.assignment(old, "us", 1))


def test_uids_of_all_kinds_grow_with_the_log() -> None:
    bench = a_world()
    first = bench.put(a_class("low", 1))
    bench.accept(ROOT, c.Delete("PriorityClass", "low"))
    again = bench.put(a_class("low", 1))
    web = bench.put(a_workload())
    assignment = bench.assign(web, "eu", 1)
    bench.offer("eu", cpu(1))
    assert first < again < web < assignment < bench.grant("eu").uid
