"""Which slots are opened and withdrawn: numbers, each once, all of them well put or none is taken."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.region import commands as c
from holdfast.core.region.limits import ORDINAL_MAX
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench


def a_bench() -> tuple[RegionBench, Assignment, str]:
    """A workload of which two replicas wait."""
    bench = RegionBench()
    work = bench.a_workload(count=5, ordinals=2)
    return bench, work, work.shares[0].template


@pytest.mark.parametrize("wrong", [-1, 1, ORDINAL_MAX])
def test_ordinals_are_different_numbers_from_0_each_of_them(wrong: int) -> None:
    bench, work, template = a_bench()
    assert bench.refuse(REPLICA, c.OpenSlots(work.uid, template, (3, 1, wrong))).code is Code.MALFORMED
    assert bench.refuse(REPLICA, c.WithdrawSlots(work.uid, (0, 1, wrong))).code is Code.MALFORMED
    assert {ordinal for _, ordinal in dict(bench.state.slots.items())} == {0, 1}


def test_the_last_number_there_is_can_be_opened() -> None:
    bench, work, template = a_bench()
    bench.accept(REPLICA, c.OpenSlots(work.uid, template, (2, ORDINAL_MAX - 1)))
    assert bench.slot(ORDINAL_MAX - 1).phase is Phase.PENDING


def test_a_look_that_is_not_newer_replaces_nothing_that_was_told_of_a_request() -> None:
    bench, work, template = a_bench()
    bench.a_scheduler()
    examined = pack_revision(bench.state.info.seq)
    bench.accept(SCHEDULER, c.ReportPending(work.uid, template, examined, (PendingReason("capacity", 2),)))
    for older in (examined, examined - 1):
        command = c.ReportPending(work.uid, template, older, (PendingReason("spread", 2),))
        assert bench.refuse(SCHEDULER, command).code is Code.ALREADY
    (request,) = bench.state.requests[work.uid]
    assert [reason.code for reason in request.reasons] == ["capacity"]


def test_what_waits_is_not_opened_again_and_what_is_not_there_is_not_withdrawn() -> None:
    bench, work, template = a_bench()
    assert bench.refuse(REPLICA, c.OpenSlots(work.uid, template, (2, 1))).code is Code.EXISTS
    assert bench.refuse(REPLICA, c.WithdrawSlots(work.uid, (1, 2))).code is Code.NOT_FOUND
    bench.accept(REPLICA, c.WithdrawSlots(work.uid, (1,)))
    assert bench.refuse(REPLICA, c.WithdrawSlots(work.uid, (1,))).code is Code.NOT_FOUND
