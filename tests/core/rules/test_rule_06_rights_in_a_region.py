"""RULES 6 and 3, the region's side: an exclusive identity runs here only by right, and moves only past its fence."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.draft import Landed
from holdfast.core.ledger.house import EndSession
from holdfast.core.model.allotment import Assignment
from holdfast.core.model.lifecycle import Phase
from holdfast.core.region.breaches import RIGHT
from holdfast.core.region.commands import AssignmentShipped, OpenSlots, Placement, Stop
from tests.support.region import REPLICA, RegionBench

HEALTH, REPAIR = "controller/node-health", "controller/repair"
FENCE = 25_000


def granted(bench: RegionBench, work: Assignment, *ordinals: int, **fields: int) -> Assignment:
    changed = replace(work, ordinals=ordinals, **fields)
    bench.ship(AssignmentShipped(changed))
    return changed


def running() -> tuple[RegionBench, int, Assignment]:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=3, exclusive=True, ordinals=0)
    work = granted(bench, work, 0, 1)
    bench.accept(REPLICA, OpenSlots(work.uid, work.shares[0].template, (0, 1)))
    bench.place(work, Placement(0, node))
    bench.walk(Phase.SERVING)
    return bench, node, work


def test_an_identity_without_right_is_neither_opened_nor_placed() -> None:
    bench, node, work = running()
    template = work.shares[0].template
    assert bench.refuse(REPLICA, OpenSlots(work.uid, template, (2,))).code is Code.NOT_ASSIGNED
    work = granted(bench, work, 0)
    assert bench.refuse_place(work, Placement(1, node)).code is Code.NOT_ASSIGNED


def test_a_lapsed_right_places_nothing() -> None:
    bench, node, work = running()
    work = granted(bench, work, 0, 1, right_until=bench.at + 1000)
    bench.at += 1000
    assert bench.refuse_place(work, Placement(1, node)).code is Code.NOT_ASSIGNED
    bench.accept("controller/rights", Stop(((1, 0),), "right-lapsed"))
    assert bench.slot().next_template == ""


def test_a_right_taken_away_while_it_runs_is_an_open_breach() -> None:
    bench, _, work = running()
    granted(bench, work, 1)
    assert bench.state.breaches[RIGHT, f"assignment/{work.uid}"].overshoot == 1


def test_repair_waits_for_the_fence_before_anything_is_released() -> None:
    bench, _, _ = running()
    bench.accept(HEALTH, EndSession(bench.sessions["agent/n1"], "silent"))
    bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    bench.at += FENCE - 1
    early = bench.move(REPAIR, Phase.FAILED, "fenced")
    assert isinstance(early, Refused)
    assert early.code is Code.FENCE
    bench.at += 1
    assert isinstance(bench.move(REPAIR, Phase.FAILED, "fenced"), Landed)
    assert isinstance(bench.move(REPAIR, Phase.RELEASED, "fenced"), Landed)
    assert bench.slot().phase is Phase.PENDING


def test_what_was_fenced_is_known_to_be_dead_and_never_unknown_again() -> None:
    bench, _, _ = running()
    bench.accept(HEALTH, EndSession(bench.sessions["agent/n1"], "silent"))
    bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    bench.at += FENCE
    assert isinstance(bench.move(REPAIR, Phase.FAILED, "fenced"), Landed)
    refused = bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    assert isinstance(refused, Refused)
    assert refused.code is Code.WRONG_PHASE
    assert isinstance(bench.move(REPAIR, Phase.RELEASED, "fenced"), Landed)


def test_an_exclusive_replica_is_found_again_only_before_its_fence() -> None:
    for wait, kept in ((FENCE - 1, True), (FENCE, False)):
        bench, _, _ = running()
        bench.accept(HEALTH, EndSession(bench.sessions["agent/n1"], "silent"))
        bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
        bench.open_session("agent/n1")
        bench.a_node()
        bench.at += wait
        answer = bench.move("agent/n1", Phase.RUNNING, "found-again")
        assert isinstance(answer, Landed) == kept


def test_the_slots_of_a_node_whose_agent_lives_are_not_unknown() -> None:
    bench, _, _ = running()
    refused = bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    assert isinstance(refused, Refused)
    assert refused.code is Code.TOO_EARLY


def test_a_dead_session_cannot_report() -> None:
    bench, _, _ = running()
    bench.accept(HEALTH, EndSession(bench.sessions["agent/n1"], "silent"))
    refused = bench.move("agent/n1", Phase.FAILED, "exit")
    assert isinstance(refused, Refused)
    assert refused.code is Code.NO_SESSION
