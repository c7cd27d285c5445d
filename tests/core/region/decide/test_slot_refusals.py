"""Each refusal of what is said of slots has the code of its own reason, also where several could be given."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.partial import RefusedPart, partial_answer
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region import commands as c
from holdfast.core.region.decide.stops import is_urgent_stop
from holdfast.core.region.limits import ORDINAL_MAX
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template

UNKNOWN = 999


def a_bench() -> tuple[RegionBench, int, str]:
    """A node, and a workload of three: the first stands there, the others wait."""
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node()
    work = bench.a_workload(count=3, disruption=1)
    bench.place(work, c.SlotPlacement(0, node))
    return bench, work.uid, work.shares[0].template


@pytest.mark.parametrize(
    ("ordinals", "code"),
    [
        ((), Code.TOO_LARGE),
        ((5, 5), Code.MALFORMED),
        ((-1,), Code.MALFORMED),
        ((ORDINAL_MAX,), Code.MALFORMED),
        ((1,), Code.EXISTS),
        ((0,), Code.ALREADY),
    ],
)
def test_what_is_to_be_opened_is_refused_by_its_numbers_or_by_what_is_there(
    ordinals: tuple[int, ...], code: Code
) -> None:
    bench, uid, template = a_bench()
    assert bench.refuse(REPLICA, c.OpenSlots(uid, template, ordinals)).code is code
    unknown = Code.TOO_LARGE if not ordinals else Code.NOT_FOUND
    assert bench.refuse(REPLICA, c.OpenSlots(UNKNOWN, template, ordinals)).code is unknown


def test_the_last_ordinal_that_there_is_can_be_opened() -> None:
    bench, uid, template = a_bench()
    bench.accept(REPLICA, c.OpenSlots(uid, template, (ORDINAL_MAX - 1,)))


@pytest.mark.parametrize("kind", [c.WithdrawSlots, c.AdoptSlots])
@pytest.mark.parametrize(
    ("uid", "ordinals", "code"),
    [
        (100, (), Code.TOO_LARGE),
        (UNKNOWN, (), Code.TOO_LARGE),
        (UNKNOWN, (0,), Code.NOT_FOUND),
        (100, (0, 0), Code.MALFORMED),
        (100, (7,), Code.NOT_FOUND),
    ],
)
def test_what_is_withdrawn_or_adopted_is_named_once_and_there(
    kind: Any, uid: int, ordinals: tuple[int, ...], code: Code
) -> None:
    bench, known, _ = a_bench()
    assert known == 100
    assert bench.refuse(REPLICA, kind(uid, ordinals)).code is code


@pytest.mark.parametrize(
    ("actor", "command", "code"),
    [
        (REPLICA, c.Stop((), "deleted"), Code.TOO_LARGE),
        (REPLICA, c.Stop(((1, 0),), "whatever"), Code.MALFORMED),
        (REPLICA, c.Stop(((1, 0),), "deleted", "no such template"), Code.NOT_FOUND),
        (SCHEDULER, c.Stop(((1, 0),), "deleted"), Code.NOT_OWNER),
    ],
)
def test_a_stop_is_refused_as_a_whole_by_what_it_names_its_cause_and_who_says_it(
    actor: str, command: c.Stop, code: Code
) -> None:
    bench, _, _ = a_bench()
    assert bench.refuse(actor, command).code is code


def refused_in(bench: RegionBench, actor: str, command: Any) -> list[str]:
    return [one[2] for one in bench.refuse(actor, command).facts["refused"]]


def test_of_several_that_are_stopped_or_moved_each_is_refused_by_its_own_code() -> None:
    bench, _, _ = a_bench()
    assert refused_in(bench, REPLICA, c.Stop(((1, 1), (1, 9)), "deleted")) == ["wrong-phase", "not-found"]
    epoch = bench.slot().epoch
    started = [
        c.MoveSlot((1, 9), 1, Phase.STARTING, "started"),
        c.MoveSlot((1, 1), 1, Phase.STARTING, "started"),
        c.MoveSlot((1, 0), epoch + 1, Phase.STARTING, "started"),
        c.MoveSlot((1, 0), epoch, Phase.STARTING, "started", "two\nlines"),
    ]
    codes = ["not-found", "wrong-phase", "stale", "malformed"]
    assert refused_in(bench, "agent/n1", c.Move(tuple(started))) == codes


@pytest.mark.parametrize(("cause", "pressing"), [("right-lapsed", True), ("deleted", False)])
def test_only_the_end_of_a_right_that_has_lapsed_is_pressing(cause: str, pressing: bool) -> None:
    assert is_urgent_stop(c.Stop(((1, 0),), cause)) is pressing


def test_a_refusal_says_what_to_wait_for_only_where_waiting_helps() -> None:
    plain, stale = RefusedPart(0, 0, Code.CAPACITY, "node/1"), RefusedPart(0, 0, Code.STALE, "node/1", 700)
    refused = partial_answer((), [plain], view=600)
    assert set(refused.facts) == {"refused"}  # type: ignore[union-attr]
    refused = partial_answer((), [stale], view=600)
    told = {key: refused.facts[key] for key in ("key", "seen", "catch_up_to")}  # type: ignore[union-attr]
    assert told == {"key": "node/1", "seen": 600, "catch_up_to": 700}


def test_a_victim_stands_on_the_node_that_its_heir_is_to_have() -> None:
    bench, _, _ = a_bench()
    other = bench.a_node("n2")
    bench.pass_time()
    heir = bench.a_workload(a_template(cpu=8_000), 1, uid=200, workload=2, priority_class="critical")
    for node, victim in ((other, (1, 0)), (bench.slot().node, (1, 9))):
        assert bench.refuse_place(heir, c.SlotPlacement(0, node, waits_for=(victim,))).code is Code.NOT_FOUND
    assert isinstance(bench.place(heir, c.SlotPlacement(0, bench.slot().node, waits_for=((1, 0),))), Committed)


def test_an_assignment_is_forgotten_when_it_has_ended_and_nothing_of_it_is_left() -> None:
    bench, uid, _ = a_bench()
    assert bench.refuse("controller/link", c.ForgetAssignment(UNKNOWN)).code is Code.NOT_FOUND
    assert bench.refuse("controller/link", c.ForgetAssignment(uid)).code is Code.WRONG_PHASE
    ended = replace(bench.state.assignments[uid], stage=AssignmentStage.ENDED, revision=101)
    bench.ship(c.ShippedAssignment(ended))
    assert bench.refuse("controller/link", c.ForgetAssignment(uid)).code is Code.IN_USE


# What follows from an assignment


def test_what_was_decided_by_an_assignment_that_has_changed_is_refused() -> None:
    bench, uid, template = a_bench()
    read = bench.state.assignments[uid].revision
    bench.ship(c.ShippedAssignment(replace(bench.state.assignments[uid], revision=read + 50)))
    for command in (c.OpenSlots(uid, template, (7,)), c.WithdrawSlots(uid, (1,)), c.Stop(((1, 0),), "scaled-down")):
        refused = bench.refuse(REPLICA, command, expect=read)
        assert (refused.code, refused.facts["seen"]) == (Code.STALE, read)
        assert refused.facts["catch_up_to"] == 0  # a revision of the platform's log, for which no view here waits
        bench.branch().accept(REPLICA, command, expect=read + 50)


def test_slots_are_stopped_by_the_assignment_of_the_first_that_is_there() -> None:
    bench, uid, _ = a_bench()
    read = bench.state.assignments[uid].revision
    bench.ship(c.ShippedAssignment(replace(bench.state.assignments[uid], revision=read + 50)))
    stop = c.Stop(((1, 900), (1, 0)), "scaled-down")
    assert bench.refuse(REPLICA, stop, expect=read).code is Code.STALE
    bench.branch().accept(REPLICA, stop, expect=read + 50)
