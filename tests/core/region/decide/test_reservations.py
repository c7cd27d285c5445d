"""A reservation's next step: what is bound, given back or expired, and what of a command is refused and why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.region import commands as c
from tests.support.ledgers.region import SCHEDULER, RegionBench

#: One that is reserved, the same again, one that waits, and one that there is not.
NAMED = ((1, 0), (1, 0), (1, 1), (1, 9))


def a_reserved_slot() -> tuple[RegionBench, int]:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node()
    bench.place(bench.a_workload(count=2), c.SlotPlacement(0, node), bind=False)
    return bench, node


def lost(answer: Any) -> list[tuple[int, int, str]]:
    assert isinstance(answer, Committed), answer
    found = msgspec.msgpack.decode(answer.answer, type=list[RefusedPart]) if answer.answer else []
    return [(one.group, one.index, one.code) for one in found]


@pytest.mark.parametrize("command", [c.Bind(NAMED), c.Unreserve(NAMED)], ids=["bind", "unreserve"])
def test_of_what_a_command_names_only_what_is_reserved_goes_on_and_once(command: Any) -> None:
    bench, node = a_reserved_slot()
    refused = [(0, 1, "wrong-phase"), (0, 2, "wrong-phase"), (0, 3, "not-found")]
    assert lost(bench.accept(SCHEDULER, command)) == refused
    assert bench.slot().node == (node if isinstance(command, c.Bind) else 0)
    again = bench.refuse(SCHEDULER, command)
    assert [one[2] for one in again.facts["refused"]] == ["wrong-phase"] * 3 + ["not-found"]


@pytest.mark.parametrize(("early_by", "code"), [(1, "too-early"), (0, "")])
def test_a_reservation_expires_at_its_end_and_not_before_and_cannot_be_bound_then(early_by: int, code: str) -> None:
    bench, _ = a_reserved_slot()
    ends = bench.slot().ends
    bench.at = ends - early_by
    bound = bench.branch().send(SCHEDULER, c.Bind(((1, 0),)))
    assert isinstance(bound, Committed if code else Refused)
    answer = bench.send("ledger", c.Expire(NAMED))
    if code:
        assert isinstance(answer, Refused)
        assert [one[2] for one in answer.facts["refused"]] == [code, code, "wrong-phase", "not-found"]
    else:
        assert lost(answer) == [(0, 1, "wrong-phase"), (0, 2, "wrong-phase"), (0, 3, "not-found")]
