"""Promises of the second kind: broken by right, owed with a deadline, never worse (RULES 18)."""

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as c
from holdfast.core.platform.decide.breaches import disruption_shared
from holdfast.core.platform.definition import ASSIGNMENT, GRANT
from tests.support.ledgers.platform import ACME, HOUR, ROOT, PlatformBench, a_quota, a_region, a_workload, a_world, cpu
from tests.support.ledgers.region import an_assignment


def breaches(bench: PlatformBench) -> list[tuple[str, str, int]]:
    return [(b.invariant, b.key, b.overshoot) for b in bench.state.breaches.values()]


def test_a_lowered_quota_is_owed_with_an_owner_and_a_deadline() -> None:
    bench = a_world()
    bench.offer("eu", cpu(8_000))
    bench.put(a_quota("acme", cpu(5_000)))
    deadline = bench.at + bench.state.info.settings.breach_deadline
    expected = Breach("platform.escrow", "quota/acme/cpu", 3_000, "controller/grant", bench.at, deadline)
    assert bench.state.breaches.values() == [expected]


def test_what_is_owed_shrinks_with_each_acknowledgement_and_keeps_its_deadline() -> None:
    bench = a_world()
    bench.settle("eu", bench.offer("eu", cpu(8_000)), cpu(8_000))
    bench.put(a_quota("acme", cpu(5_000)))
    opened = bench.at
    bench.later(100)
    bench.settle("eu", bench.offer("eu", cpu(2_000)), cpu(6_000))
    (breach,) = bench.state.breaches.values()
    assert (breach.overshoot, breach.opened) == (1_000, opened)
    bench.settle("eu", 2, cpu(2_000))
    assert breaches(bench) == []


def test_nothing_is_added_while_above_target_not_even_of_another_resource() -> None:
    bench = a_world()
    bench.put(a_quota("acme", Resources(cpu=10_000, memory=10_000)))
    bench.offer("eu", cpu(8_000))
    bench.put(a_quota("acme", Resources(cpu=5_000, memory=10_000)))
    for region, target in (("us", Resources(memory=1)), ("us", cpu(1)), ("eu", cpu(8_001))):
        bench.refuse(Code.OVER_QUOTA, GRANT, c.OfferGrant("quota/acme", region, target, bench.at + HOUR))
    bench.offer("eu", cpu(7_000))


def test_what_is_owed_is_written_down_when_it_changes_and_not_again() -> None:
    bench = a_world()
    bench.offer("eu", cpu(8_000))
    bench.put(a_quota("acme", cpu(5_000)))
    assert b"breach-stored" in bench.log[-1][0]
    bench.put(a_quota("acme", cpu(5_000), protected=cpu(1_000)))
    assert b"breach-stored" not in bench.log[-1][0]


def test_a_raised_quota_closes_what_was_owed() -> None:
    bench = a_world()
    bench.offer("eu", Resources(cpu=8_000))
    bench.put(a_quota("acme", cpu(5_000)))
    bench.put(a_quota("acme", cpu(8_000)))
    assert breaches(bench) == []


def test_each_resource_is_owed_by_itself() -> None:
    bench = a_world()
    wide = Resources(cpu=10, memory=10, extended=(("fpga", 4),))
    bench.put(a_quota("acme", wide))
    bench.settle("eu", bench.offer("eu", wide), wide)
    bench.put(a_quota("acme", Resources(cpu=10, memory=3)))
    assert breaches(bench) == [
        ("platform.escrow", "quota/acme/fpga", 4),
        ("platform.escrow", "quota/acme/memory", 7),
    ]
    bench.settle("eu", bench.offer("eu", Resources(cpu=1)), Resources(cpu=1))
    assert breaches(bench) == []


def test_a_lowered_disruption_budget_is_owed_and_no_share_grows() -> None:
    bench = a_world()
    web = bench.put(a_workload(disruption_max=4))
    bench.assign(web, "eu", 3, disruption=2)
    bench.assign(web, "us", 3, disruption=2)
    bench.put(a_workload(disruption_max=1))
    assert breaches(bench) == [("platform.disruption", str(web), 3)]
    bench.refuse(Code.DISRUPTION, ASSIGNMENT, bench.assignment(web, "eu", 3, disruption=3))
    bench.assign(web, "eu", 5, disruption=2)
    bench.assign(web, "eu", 5, disruption=0)
    assert breaches(bench) == [("platform.disruption", str(web), 1)]
    bench.assign(web, "us", 3, disruption=1)
    assert breaches(bench) == []


def test_work_that_may_no_longer_be_where_it_is_is_owed_until_it_ends_there() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    uid = bench.assign(web, "us", 3)
    bench.assign(web, "eu", 1)
    bench.put(a_workload(jurisdictions=("EU",)))
    assert breaches(bench) == [("platform.residency", str(web), 3)]
    bench.refuse(Code.RESIDENCY, ASSIGNMENT, bench.assignment(web, "us", 4))
    bench.assign(web, "us", 2)
    assert breaches(bench) == [("platform.residency", str(web), 2)]
    bench.accept(ASSIGNMENT, c.EndAssignment(uid))
    assert breaches(bench) == []


def test_a_region_whose_law_changes_in_favour_of_the_work_closes_nothing_wrongly() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    bench.assign(web, "us", 3)
    bench.put(a_workload(jurisdictions=("EU",)))
    bench.put(a_region("us", "EU"))
    bench.assign(web, "us", 2)
    assert breaches(bench) == []


def test_a_deleted_workload_owes_nothing() -> None:
    bench = a_world()
    web = bench.put(a_workload(disruption_max=2))
    bench.assign(web, "us", 3, disruption=2)
    bench.put(a_workload(disruption_max=0, jurisdictions=("EU",)))
    assert len(breaches(bench)) == 2
    bench.accept(ACME, c.DeleteWorkload("acme", "web"))
    assert breaches(bench) == []


def test_only_quotas_are_ever_owed() -> None:
    bench = a_world()
    bench.offer("eu", cpu(4_000), "recovery/reserve")
    bench.settle("eu", 1, cpu(4_000), "recovery/reserve")
    bench.retire("eu")
    assert breaches(bench) == []
    bench.accept(ROOT, c.Delete("Quota", "acme"))


@pytest.mark.parametrize(
    ("purpose", "stage", "shared"),
    [
        (AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, 5),
        (AssignmentPurpose.SERVING, AssignmentStage.STANDBY, 5),
        (AssignmentPurpose.SERVING, AssignmentStage.ENDED, 3),
        (AssignmentPurpose.RECOVERY, AssignmentStage.ACTIVE, 3),
        (AssignmentPurpose.RECOVERY, AssignmentStage.ENDED, 3),
    ],
)
def test_a_disruption_budget_is_shared_by_what_serves_and_has_not_ended(
    purpose: AssignmentPurpose, stage: AssignmentStage, shared: int
) -> None:
    other = an_assignment(disruption=3)
    one = an_assignment(disruption=2, purpose=purpose, stage=stage)
    assert disruption_shared([one, other]) == shared
