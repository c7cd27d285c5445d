"""What a sender may expect of an object before it changes or removes it."""

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.envelope import ABSENT
from holdfast.core.platform import commands as c
from tests.support.ledgers.platform import ACME, ROOT, a_quota, a_tenant, a_workload, a_world, cpu

ASSIGNMENT = "controller/assignment"


def test_what_must_not_exist_is_made_once() -> None:
    bench = a_world()
    made = bench.put(a_tenant("new"), expect=ABSENT)
    refused = bench.refuse(Code.EXISTS, ROOT, c.Put(a_tenant("new", most=7), ABSENT))
    assert (refused.facts["key"], refused.facts["revision"]) == ("Tenant/new", made)
    bench.refuse(Code.EXISTS, ROOT, c.Put(a_tenant("new"), ABSENT))


def test_a_workload_that_must_not_exist_may_be_made_beside_one_of_its_name_that_is_ending() -> None:
    bench = a_world()
    first = bench.put(a_workload(), expect=ABSENT)
    refused = bench.refuse(Code.EXISTS, ACME, c.PutWorkload(a_workload(replicas=9), ABSENT))
    assert refused.facts["revision"] == first
    bench.assign(first, "eu", 1)
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    assert bench.put(a_workload(), expect=ABSENT) != first


def test_an_object_that_changed_since_it_was_read_is_not_removed() -> None:
    bench = a_world()
    read = bench.state.quotas["beta"].meta.revision
    changed = bench.put(a_quota("beta", cpu(5_000)))
    refused = bench.refuse(Code.STALE, ROOT, c.Delete("Quota", "beta", expect=read))
    assert (refused.facts["seen"], refused.facts["catch_up_to"]) == (read, changed)
    bench.refuse(Code.EXISTS, ROOT, c.Delete("Quota", "beta", expect=ABSENT))
    bench.accept(ROOT, c.Delete("Quota", "beta", expect=changed))


def test_a_workload_that_changed_since_it_was_read_is_not_ended() -> None:
    bench = a_world()
    read = bench.put(a_workload())
    changed = bench.put(a_workload(replicas=9))
    refused = bench.refuse(Code.STALE, ACME, c.DeleteWorkload("acme", "web", read, read))
    assert refused.facts["catch_up_to"] == changed
    bench.accept(ACME, c.DeleteWorkload("acme", "web", read, changed))


def test_every_stale_put_and_delete_is_told_the_present_revision() -> None:
    bench = a_world()
    read, now = bench.put(a_tenant("new")), bench.put(a_tenant("new", most=7))
    web = bench.put(a_workload())
    stale = (
        (ROOT, c.Put(a_tenant("new", most=8), read), now),
        (ROOT, c.Delete("Tenant", "new", 7), now),
        (ROOT, c.Delete("Tenant", "new", 0, read), now),
        (ACME, c.PutWorkload(a_workload(replicas=9), web - 1), web),
        (ACME, c.DeleteWorkload("acme", "web", 7), web),
    )
    for actor, command, revision in stale:
        assert bench.refuse(Code.STALE, actor, command).facts["catch_up_to"] == revision


# What follows from a workload


def test_what_was_split_by_what_a_workload_wanted_before_is_not_assigned() -> None:
    bench = a_world()
    web = read = bench.put(a_workload(replicas=3))
    changed = bench.put(a_workload(replicas=9))
    refused = bench.refuse(Code.STALE, ASSIGNMENT, bench.assignment(web, "eu", 3), expect=read)
    assert (refused.facts["seen"], refused.facts["catch_up_to"]) == (read, changed)
    bench.accept(ASSIGNMENT, bench.assignment(web, "eu", 9), expect=changed)


def test_an_assignment_is_not_ended_by_what_its_workload_wanted_before() -> None:
    bench = a_world()
    web = read = bench.put(a_workload(replicas=3))
    told = bench.assign(web, "eu", 3)
    changed = bench.put(a_workload(replicas=9))
    refused = bench.refuse(Code.STALE, ASSIGNMENT, c.EndAssignment(told), expect=read)
    assert (refused.facts["seen"], refused.facts["catch_up_to"]) == (read, changed)
    bench.accept(ASSIGNMENT, c.EndAssignment(told), expect=changed)


def test_an_assignment_that_is_unknown_is_not_found_whatever_is_expected() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.refuse(Code.NOT_FOUND, ASSIGNMENT, c.EndAssignment(999), expect=web)
