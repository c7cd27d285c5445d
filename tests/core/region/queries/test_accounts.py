"""How often an account can pay, and what is left beside protected tenants: every kind of resource by itself."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region.commands import SlotPlacement
from holdfast.core.region.queries.accounts import GRANT_ENDED, UNLIMITED, affordable_count, unprotected_count
from tests.support.ledgers.region import RegionBench, a_template

KINDS = ["cpu", "memory", "disk", "gpu", "fpga"]
ACME, BETA = "quota/acme", "quota/beta"


def some(kind: str, amount: int, others: int = 0) -> Resources:
    """So many thousands of one kind, and of each other kind."""
    amounts = {one: 1000 * (amount if one == kind else others) for one in KINDS}
    fpga = amounts.pop("fpga")
    return Resources(**amounts, extended=(("fpga", fpga),) if fpga else ())


def placed(
    kind: str, capacity: int, mine: int, theirs: int = 0, *, my_protected: int = 0, their_protected: int = 0
) -> RegionBench:
    """A node of so much of one kind, and a replica of acme and one of beta that take some of it."""
    bench = RegionBench()
    bench.a_scheduler()
    whole = some(kind, capacity, others=60)
    node = bench.a_node(
        cpu=whole.cpu, memory=whole.memory, disk=whole.disk, extended=whole.extended, gpus=("l4",) * (whole.gpu // 1000)
    )
    for number, (tenant, took, protected) in enumerate(
        (("acme", mine, my_protected), ("beta", theirs, their_protected)), start=1
    ):
        bench.a_grant(f"quota/{tenant}", target=some(kind, 10, others=100), protected=some(kind, protected))
        if not took:
            continue
        need = some(kind, took)
        template = a_template(need.cpu, need.memory, disk=need.disk, extended=need.extended, gpus=need.gpu // 1000)
        work = bench.a_workload(template, count=1, uid=100 * number, workload=number, tenant=tenant)
        devices = tuple(range(template.gpus)) if number == 1 else tuple(range(mine, mine + template.gpus))
        bench.place(work, SlotPlacement(0, node, devices=devices))
    return bench


@pytest.mark.parametrize("kind", KINDS)
def test_an_account_affords_what_is_left_of_its_grant_after_what_it_is_charged_and_what_is_spent(kind: str) -> None:
    bench = placed(kind, 20, mine=3)
    need = some(kind, 2)
    assert affordable_count(bench.state, ACME, bench.at, need) == 3
    assert affordable_count(bench.state, ACME, bench.at, need, some(kind, 1)) == 3
    assert affordable_count(bench.state, ACME, bench.at, need, some(kind, 2)) == 2
    assert affordable_count(bench.state, ACME, bench.at, need, some(kind, 9)) == 0
    assert affordable_count(bench.state, ACME, bench.at, some(kind, 2, others=1)) == 3, "the scarcest kind decides"


def test_an_account_without_a_grant_affords_nothing_and_one_whose_grant_has_ended_says_so() -> None:
    bench = placed("cpu", 20, mine=3)
    ends = bench.state.accepted_grants[ACME].ends
    assert affordable_count(bench.state, "quota/nobody", bench.at, some("cpu", 1)) == 0
    assert affordable_count(bench.state, ACME, ends - 1, some("cpu", 1)) == 7
    assert affordable_count(bench.state, ACME, ends, some("cpu", 1)) == GRANT_ENDED
    assert affordable_count(bench.state, ACME, bench.at, ZERO) == UNLIMITED


@pytest.mark.parametrize("kind", KINDS)
def test_what_others_are_still_owed_is_left_alone(kind: str) -> None:
    """20 there are; 3 and 2 are taken; beta is owed 4 more. Acme is owed 1 more itself, which is its own to take."""
    bench = placed(kind, 20, mine=3, theirs=2, my_protected=4, their_protected=6)
    need = some(kind, 2)
    assert bench.state.totals.shield == some(kind, 5)
    assert unprotected_count(bench.state, ACME, ZERO, need) == 5
    assert unprotected_count(bench.state, ACME, some(kind, 2), need) == 4
    assert unprotected_count(bench.state, ACME, some(kind, 20), need) == 0
    assert unprotected_count(bench.state, "quota/nobody", ZERO, some(kind, 5)) == 2
    assert unprotected_count(bench.state, "quota/nobody", ZERO, some(kind, 5), some(kind, 5)) == UNLIMITED
    assert unprotected_count(bench.state, ACME, ZERO, some(kind, 2, others=1)) == 5, "of the others nothing is owed"


@pytest.mark.parametrize("kind", KINDS)
def test_who_alone_is_owed_something_is_asked_nothing(kind: str) -> None:
    bench = placed(kind, 20, mine=1, my_protected=4)
    assert unprotected_count(bench.state, ACME, ZERO, some(kind, 2)) == UNLIMITED
    assert unprotected_count(bench.state, BETA, ZERO, some(kind, 2)) == 8


@pytest.mark.parametrize("kind", ["cpu", "memory", "disk", "gpu"])
def test_room_for_the_largest_command_is_told_without_counting_and_one_unit_less_is_counted(kind: str) -> None:
    """Of 16,000 units 2,000 are taken and 4,000 owed: 10,000 are left, which is 1,000 times 10."""
    bench = placed(kind, 16, mine=2, their_protected=4)
    ten = replace(ZERO, **{kind: 10})
    assert unprotected_count(bench.state, ACME, ZERO, ten) == PARTS_MAX
    assert unprotected_count(bench.state, ACME, ten, ten) == PARTS_MAX - 1
    bench = placed(kind, 16, mine=3, their_protected=4)
    assert unprotected_count(bench.state, ACME, ZERO, ten) == 900
