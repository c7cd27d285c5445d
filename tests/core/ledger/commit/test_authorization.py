"""Controllers and schedulers beside a leader: which commands each of them may send."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region.commands import Propose, SlotPlacement
from tests.support.ledgers.region import RegionBench


def proposed_by(actor: str) -> Committed | Refused:
    bench = RegionBench()
    bench.a_grant()
    node = bench.a_node("n1")
    command = bench.proposal(bench.a_workload(count=1), SlotPlacement(0, node))
    assert isinstance(command, Propose)
    answer = bench.give(Envelope(actor, command, bench.at))
    assert isinstance(answer, Committed | Refused)
    if isinstance(answer, Committed):
        assert bench.slot().by == actor
    return answer


@pytest.mark.parametrize("actor", ["controller/scheduler", "controller/scheduler-2", "controller/scheduler-16"])
def test_every_scheduler_beside_the_leader_may_place(actor: str) -> None:
    assert isinstance(proposed_by(actor), Committed)


@pytest.mark.parametrize("actor", ["controller/scheduler-1", "controller/scheduler-17", "controller/replica-2"])
def test_no_other_controller_may_place(actor: str) -> None:
    answer = proposed_by(actor)
    assert isinstance(answer, Refused)
    assert answer.code is Code.NO_RIGHT
