"""How quotas stand: promised, lent, used, and what cannot be kept."""

from __future__ import annotations

from itertools import chain

from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, Waiting, WorkloadReport
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.platform import commands as c
from holdfast.core.platform.queries.quota_report import (
    NAMED_MAX,
    QuotaReport,
    format_with_unit,
    quota_report_steps,
    shortages,
)
from holdfast.core.platform.state.tables import PlatformState
from tests.support.ledgers.platform import PlatformBench, a_budget, a_quota, a_tenant, a_workload, a_world, cpu
from tests.support.step_counter import StepCounter


def quota_reports(state: PlatformState, tenant: str = "") -> tuple[QuotaReport, ...]:
    return tuple(one for one in quota_report_steps(state, tenant) if one is not None)


def overcommit_warnings(state: PlatformState) -> tuple[str, ...]:
    return tuple(one for one in shortages(state) if one is not None)


def tell(bench: PlatformBench, region: str, capacity: Resources, *free: Resources, uses: Resources = ZERO) -> None:
    """A region's summary: what its nodes have, its largest free pieces, and what the quota is charged there."""
    nodes = Nodes("general", (), (), (), (), 1, capacity, capacity, (capacity,), free)
    charged = (("quota/acme", uses),) if uses != ZERO else ()
    bench.accept(f"region/{region}", c.Report(region, len(bench.log), summary=RegionSummary((nodes,), charged)))


def wait_for_room(bench: PlatformBench, name: str, need: Resources, region: str = "eu") -> None:
    """A workload of acme of which a replica waits."""
    uid = bench.put(a_workload(name, template=Template(command=("serve",), need=need)))
    bench.assign(uid, region, 1)
    seen = WorkloadReport(uid, 1, (), (Waiting("capacity", 1, bench.at),))
    bench.accept(f"region/{region}", c.Report(region, len(bench.log), (seen,)))


def of_acme(bench: PlatformBench) -> QuotaReport:
    (found,) = quota_reports(bench.state, "acme")
    return found


def test_a_quota_is_told_with_what_is_asked_lent_and_used() -> None:
    bench = a_world()
    bench.put(a_quota("acme", cpu(8_000), protected=cpu(2_000)))
    bench.assign(bench.put(a_workload(replicas=4)), "eu", 4)
    bench.settle("eu", bench.offer("eu", cpu(5_000), protected=cpu(1_000)), cpu(5_000))
    tell(bench, "eu", cpu(50_000), uses=cpu(1_500))
    found = of_acme(bench)
    assert (found.hard, found.protected, found.effective) == (cpu(8_000), cpu(2_000), cpu(8_000))
    assert (found.asked, found.granted, found.charged) == (cpu(2_000), cpu(5_000), cpu(1_500))
    eu, us, _ = found.parts
    assert (eu.region, eu.target, eu.settled, eu.charged) == ("eu", cpu(5_000), cpu(5_000), cpu(1_500))
    assert (eu.ends, eu.told_at, eu.protected) == (bench.grant("eu").ends, bench.at, cpu(1_000))
    assert (us.target, us.ends, us.told_at) == (ZERO, None, None)
    assert found.warnings == ()


def test_a_lowered_quota_amounts_to_what_is_still_lent() -> None:
    bench = a_world()
    bench.offer("eu", cpu(7_000))
    bench.put(a_quota("acme", cpu(4_000)))
    assert of_acme(bench).effective == cpu(7_000)


def test_a_region_that_is_not_heard_is_told_as_what_it_is() -> None:
    bench = a_world()
    bench.lose("eu")
    assert [part.health for part in of_acme(bench).parts] == ["lost", "healthy", "healthy"]
    bench.retire("us")
    assert [part.region for part in of_acme(bench).parts] == ["eu", "us2"]


def test_every_tenant_that_has_a_quota_is_told_and_no_other() -> None:
    bench = a_world()
    assert [one.tenant for one in quota_reports(bench.state)] == ["acme", "beta"]
    assert quota_reports(bench.state, "nobody") == ()


def test_nothing_is_said_to_be_promised_in_vain_before_a_region_has_told_what_there_is() -> None:
    assert overcommit_warnings(a_world().state) == ()


def test_what_is_promised_and_does_not_exist_is_named_with_both_amounts() -> None:
    bench = a_world()
    tell(bench, "eu", cpu(15_500))
    wanted = "the quotas of all tenants promise 20 cpu; the regions that have reported have 15500m cpu"
    assert overcommit_warnings(bench.state) == (wanted,)
    tell(bench, "us", cpu(4_500))
    assert overcommit_warnings(bench.state) == ()


def test_what_is_kept_and_does_not_exist_is_named_for_all_regions_and_for_each() -> None:
    bench = a_world()
    bench.put(a_quota("acme", cpu(10_000), protected=cpu(3_000)))
    bench.put(a_budget("reserve", ("eu", "us"), Resources(cpu=4_000, memory=4_096)))
    bench.offer("eu", cpu(3_000), protected=cpu(3_000))
    tell(bench, "eu", Resources(cpu=6_000, memory=8_192))
    tell(bench, "us", Resources(cpu=14_000, memory=8_192))
    wanted = "7 cpu are protected or held for recovery in region eu, which has 6 cpu"
    assert overcommit_warnings(bench.state) == (wanted,)
    bench.put(a_budget("reserve", ("eu", "us"), Resources(cpu=4_000, memory=9_216)))
    assert "18Gi memory are protected or held for recovery; the regions that have reported have 16Gi memory" in (
        overcommit_warnings(bench.state)
    )


def test_what_was_lent_in_a_region_and_is_not_there_is_named() -> None:
    bench = a_world()
    bench.offer("eu", cpu(9_000))
    tell(bench, "eu", cpu(8_000))
    assert "tenants were granted 9 cpu in region eu, which has 8 cpu" in overcommit_warnings(bench.state)


def test_reclaimable_shares_are_promised_too() -> None:
    bench = a_world()
    bench.put(a_quota("acme", cpu(10_000), reclaimable=25))
    tell(bench, "eu", cpu(24_000))
    who = "the quotas of all tenants and their reclaimable shares"
    assert overcommit_warnings(bench.state) == (f"{who} promise 26 cpu; the regions that have reported have 24 cpu",)
    tell(bench, "us", cpu(8_000))
    assert overcommit_warnings(bench.state) == ()
    bench.offer("us", cpu(7_000))
    assert overcommit_warnings(bench.state) == ()
    bench.offer("us", cpu(2_000), "reclaimable/acme")
    assert overcommit_warnings(bench.state) == ("tenants were granted 9 cpu in region us, which has 8 cpu",)


def test_a_replica_that_no_free_piece_holds_is_named_with_the_largest_piece() -> None:
    bench = a_world()
    wait_for_room(bench, "web", Resources(cpu=4_000, memory=1_024))
    tell(bench, "eu", cpu(9_000), Resources(cpu=2_500, memory=8_192))
    wanted = "the largest free piece in region eu has 2500m cpu; one replica of web requires 4 cpu"
    assert of_acme(bench).warnings == (wanted,)


def test_a_replica_whose_needs_lie_in_different_pieces_is_named() -> None:
    bench = a_world()
    wait_for_room(bench, "web", Resources(cpu=4_000, memory=2_048))
    tell(bench, "eu", cpu(9_000), Resources(cpu=5_000, memory=512), Resources(cpu=500, memory=8_192))
    wanted = "no free piece in region eu has all of what one replica of web requires at once: 4 cpu and 2Gi memory"
    assert of_acme(bench).warnings == (wanted,)


def test_a_replica_that_would_fit_or_does_not_wait_is_not_named() -> None:
    bench = a_world()
    wait_for_room(bench, "web", cpu(2_000))
    bench.assign(bench.put(a_workload("idle", template=Template(command=("serve",), need=cpu(9_000)))), "eu", 1)
    tell(bench, "eu", cpu(9_000), cpu(2_500))
    assert of_acme(bench).warnings == ()


def test_of_many_workloads_that_do_not_fit_some_are_named_and_the_rest_counted() -> None:
    bench = a_world()
    bench.checked = False
    for number in range(NAMED_MAX + 2):
        wait_for_room(bench, f"w{number}", cpu(2_000))
    tell(bench, "eu", cpu(9_000), cpu(1_000))
    found = of_acme(bench).warnings
    assert (len(found), found[-1]) == (NAMED_MAX + 1, "and 2 more workloads")


def test_amounts_are_said_as_people_say_them() -> None:
    said = [
        format_with_unit("cpu", 500),
        format_with_unit("gpu", 2_000),
        format_with_unit("memory", 4_096),
        format_with_unit("disk", 10),
        format_with_unit("fpga", 3),
    ]
    assert said == ["500m cpu", "2 gpu", "4Gi memory", "10Mi disk", "3 fpga"]


def test_a_suspect_region_still_counts_with_what_it_told_last() -> None:
    bench = a_world()
    tell(bench, "eu", cpu(30_000), uses=cpu(1_000))
    bench.judge("eu", RegionHealth.SUSPECT)
    assert of_acme(bench).charged == cpu(1_000)


def test_a_report_of_all_quotas_is_made_in_bits_that_do_not_grow_with_it() -> None:
    longest = {}
    for tenants in (4, 40):
        bench = a_world()
        for number in range(tenants):
            name = f"tenant-{number:02}"
            bench.put(a_tenant(name, "normal"))
            bench.put(a_quota(name, cpu(1_000)))
        work, steps = chain(quota_report_steps(bench.state), shortages(bench.state)), [0]
        for _ in range(tenants):
            with StepCounter() as counted:
                next(work)
            steps.append(counted.calls)
        longest[tenants] = max(steps)
    assert longest[40] < 2 * longest[4] + 100


def test_nothing_is_short_where_one_free_piece_holds_a_replica() -> None:
    bench = a_world()
    tell(bench, "eu", cpu(8_000), cpu(500), cpu(2_000))
    wait_for_room(bench, "web", cpu(1_000))
    assert of_acme(bench).warnings == ()
