"""RULES 19, the region's side: one valid policy, overrides that end by ledger time, late ones not applied."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride, active_overrides
from holdfast.core.model.objects.policies import Override, OverrideAction, Validity
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.region.commands import Move, MoveSlot, ShippedOverride, ShippedValidity, SlotPlacement
from tests.support.ledgers.node_world import NodeWorld
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench


def a_region() -> tuple[RegionBench, int, Assignment]:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    return bench, node, bench.a_workload(count=5)


def an_override(bench: RegionBench, action: OverrideAction, target: str = "", ends: int = 60_000) -> Override:
    return Override(
        uid=9, action=action, region="eu", target=target, reason="incident", owner=ROOT, opened=bench.at - 10**6,
        ends=bench.at + ends,
    )  # fmt: skip


def test_a_proposal_under_a_policy_that_is_not_valid_is_refused_with_the_valid_one() -> None:
    bench, node, work = a_region()
    bench.place(work, SlotPlacement(0, node))
    bench.ship(ShippedValidity(Validity("eu", "acme", 7)))
    refused = bench.refuse_place(work, SlotPlacement(1, node))
    assert refused.code is Code.POLICY
    assert "7" in refused.message
    bench.accept(SCHEDULER, bench.proposal(work, SlotPlacement(1, node)), policy=7)


def test_a_tenants_policy_goes_before_the_one_for_everywhere() -> None:
    bench, node, work = a_region()
    bench.ship(ShippedValidity(Validity("eu", "", 5)))
    bench.accept(SCHEDULER, bench.proposal(work, SlotPlacement(0, node)), policy=5)
    bench.ship(ShippedValidity(Validity("eu", "acme", 6)))
    bench.accept(SCHEDULER, bench.proposal(work, SlotPlacement(1, node)), policy=6)


def test_a_paused_region_places_nothing_until_the_override_ends_by_itself() -> None:
    bench, node, work = a_region()
    bench.ship(ShippedOverride(an_override(bench, OverrideAction.PAUSE_SCHEDULING)))
    assert bench.refuse_place(work, SlotPlacement(0, node)).code is Code.PAUSED
    bench.at += 60_000
    bench.place(work, SlotPlacement(0, node))


def test_an_override_received_after_its_end_is_recorded_and_not_applied() -> None:
    bench, node, work = a_region()
    bench.ship(ShippedOverride(an_override(bench, OverrideAction.PAUSE_SCHEDULING, ends=-1)))
    assert 9 in bench.state.platform_overrides
    bench.place(work, SlotPlacement(0, node))


def test_an_avoided_zone_takes_nothing() -> None:
    bench, node, work = a_region()
    bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", "power work", bench.at + 60_000))
    assert bench.refuse_place(work, SlotPlacement(0, node)).code is Code.NODE_UNAVAILABLE
    other = bench.a_node("n2", zone="b")
    bench.place(work, SlotPlacement(0, other))


def test_an_override_has_a_reason_and_an_end_and_only_people_end_it_early() -> None:
    bench, _, _ = a_region()
    pause = OverrideAction.PAUSE_REPAIR
    assert bench.refuse(ROOT, OpenOverride(pause, "eu", "", " ", bench.at + 1)).code is Code.MALFORMED
    assert bench.refuse(ROOT, OpenOverride(pause, "eu", "", "why", bench.at)).code is Code.EXPIRED
    assert bench.refuse(ROOT, OpenOverride(pause, "eu", "", "why", bench.at + 10**12)).code is Code.EXPIRED
    uid = bench.accept(ROOT, OpenOverride(pause, "eu", "", "why", bench.at + 1000)).revision
    assert bench.refuse("controller/override", EndOverride(uid, "over")).code is Code.TOO_EARLY
    bench.at += 1000
    bench.accept("controller/override", EndOverride(uid, "over"))


def moved(slots: list[Slot], target: Phase, cause: str) -> tuple[MoveSlot, ...]:
    return tuple(MoveSlot((slot.workload, slot.ordinal), slot.epoch, target, cause) for slot in slots)


def test_repair_asks_once_what_overrides_say_however_much_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command moves a thousand slots, and four hundred overrides may be open."""
    asked: list[int] = []

    def counted(state: Any, at: int) -> Any:
        asked.append(at)
        return active_overrides(state, at)

    nodes = NodeWorld(3)
    bench = nodes.bench
    nodes.silence(0, 1, 2)
    slots = [slot for _, slot in bench.state.slots.items()]
    bench.accept("controller/node-health", Move(moved(slots, Phase.UNKNOWN, "session-ended")))
    bench.at += 60_000
    bench.accept(ROOT, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "z", "smoke", bench.at + 60_000))
    monkeypatch.setattr("holdfast.core.region.decide.transitions.active_overrides", counted)
    bench.accept("controller/repair", Move(moved(slots, Phase.FAILED, "fenced")))
    assert asked == [bench.at]
    assert {slot.phase for _, slot in bench.state.slots.items()} == {Phase.FAILED}
