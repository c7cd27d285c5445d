"""RULES 6 and 3, the region's side: an exclusive identity runs here only by right, and moves only past its fence."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import StartTerm
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.breaches import REGION_RIGHT
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.queries.identities import lease_expired_for_sure_at
from holdfast.core.reconcilers.region.expiry import RightsReconciler
from holdfast.core.region.commands import Bind, OpenSlots, ShippedAssignment, SlotPlacement, Stop
from tests.support.ledgers.platform import a_world, an_exclusive
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench

HEALTH, REPAIR = "controller/node-health", "controller/repair"
FENCE = 25_000


def granted(bench: RegionBench, work: Assignment, *ordinals: int, **fields: int) -> Assignment:
    changed = replace(work, ordinals=ordinals, **fields)
    bench.ship(ShippedAssignment(changed))
    return changed


def running() -> tuple[RegionBench, int, Assignment]:
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = bench.a_workload(count=3, exclusive=True, ordinals=0)
    work = granted(bench, work, 0, 1)
    bench.accept(REPLICA, OpenSlots(work.uid, work.shares[0].template, (0, 1)))
    bench.place(work, SlotPlacement(0, node))
    bench.walk(Phase.SERVING)
    return bench, node, work


def test_an_identity_without_right_is_neither_opened_nor_placed() -> None:
    bench, node, work = running()
    template = work.shares[0].template
    assert bench.refuse(REPLICA, OpenSlots(work.uid, template, (2,))).code is Code.NOT_ASSIGNED
    work = granted(bench, work, 0)
    assert bench.refuse_place(work, SlotPlacement(1, node)).code is Code.NOT_ASSIGNED


def test_what_is_reserved_is_not_bound_once_its_right_is_taken_back() -> None:
    bench, node, work = running()
    bench.place(work, SlotPlacement(1, node), bind=False)
    both = work
    work = granted(bench, work, 0)
    assert bench.refuse(SCHEDULER, Bind(((1, 1),))).code is Code.NOT_ASSIGNED
    assert bench.slot(1).phase is Phase.RESERVED
    granted(bench, both, 0, 1)
    bench.accept(SCHEDULER, Bind(((1, 1),)))


def test_a_lapsed_right_places_nothing() -> None:
    bench, node, work = running()
    work = granted(bench, work, 0, 1, right_until=bench.at + 1000)
    bench.at += 1000
    assert bench.refuse_place(work, SlotPlacement(1, node)).code is Code.NOT_ASSIGNED
    bench.accept("controller/rights", Stop(((1, 0),), "right-lapsed"))
    assert bench.slot().next_template == ""


# A region's time may stand still between two terms


def leased_and_led_anew(lease: int, terms: int = 1) -> tuple[RegionBench, int, Assignment]:
    """An identity serves and one waits, by a lease; and then other leaders, before the region's time has moved on."""
    bench, node, work = running()
    work = granted(bench, work, 0, 1, right_until=bench.at + lease)
    for term in range(2, 2 + terms):
        bench.accept("ledger", StartTerm(term, f"server-{term}"))
    return bench, node, work


def stops_at(bench: RegionBench, work: Assignment) -> Instant:
    """When the region ends what runs, as its controller says."""
    outcome = RightsReconciler().reconcile(bench.state, work.uid, bench.at)
    return bench.at if outcome.commands else outcome.requeue_at or 0


def test_a_lease_that_was_told_in_another_term_places_nothing() -> None:
    bench, node, work = leased_and_led_anew(60_000)
    assert bench.refuse_place(work, SlotPlacement(1, node)).code is Code.NOT_ASSIGNED
    work = granted(bench, work, 0, 1, right_until=bench.at + 60_000)
    bench.place(work, SlotPlacement(1, node))


def test_what_runs_by_a_lease_of_another_term_restarts_nothing() -> None:
    bench, _, work = leased_and_led_anew(60_000)
    assert isinstance(bench.move("agent/n1", Phase.FAILED, "exit"), Committed)
    refused = bench.move("agent/n1", Phase.STARTING, "restarted")
    assert isinstance(refused, Refused)
    assert refused.code is Code.NOT_ASSIGNED
    granted(bench, work, 0, 1, right_until=bench.at + 60_000)
    assert isinstance(bench.move("agent/n1", Phase.STARTING, "restarted"), Committed)


def test_what_runs_by_a_lease_of_the_last_term_has_one_session_lease_to_be_told_again() -> None:
    bench, _, work = leased_and_led_anew(60_000)
    assert stops_at(bench, work) == bench.at + DEFAULTS.session_lease
    granted(bench, work, 0, 1, right_until=bench.at + 60_000)
    assert stops_at(bench, work) == bench.at + 60_000


def test_what_runs_by_a_lease_of_the_term_before_that_ends_at_once() -> None:
    """Else leaders that follow one another quickly would each wait again, and the platform cannot know how many."""
    bench, _, work = leased_and_led_anew(60_000, terms=2)
    assert stops_at(bench, work) == bench.at


def test_a_leader_whose_clock_was_ahead_leaves_nothing_running_when_its_right_is_given_away() -> None:
    """Its successor's time stands still until that clock is reached: the lease would end when the platform has long
    given the right to another region. The leader goes just before the end, the next one comes as the last guard acts.
    """
    platform = a_world()
    db = platform.put(an_exclusive(leased=True, replicas=2))
    told_at = platform.at
    lease = platform.state.assignments[platform.hold(db, "eu", 0)].right_until - told_at
    platform.lose("eu")
    given_at = lease_expired_for_sure_at(platform.state, db, "eu", ((0, 1),))

    bench, node, work = running()
    work = granted(bench, work, 0, 1, right_until=bench.at + lease)
    bench.at += lease - 1
    led_anew_at = told_at + lease - 1 + DEFAULTS.session_lease  # in real time; the region's has not moved
    bench.accept("ledger", StartTerm(2, "server-2"))
    ended_at = led_anew_at + stops_at(bench, work) - bench.at + DEFAULTS.fence_time
    assert ended_at <= given_at
    # However long the gap was: what the guards have ended does not begin again, though by this time its lease lasts.
    assert bench.at < work.right_until
    assert bench.refuse_place(work, SlotPlacement(1, node)).code is Code.NOT_ASSIGNED


def test_a_right_taken_away_while_it_runs_is_an_open_breach() -> None:
    bench, _, work = running()
    granted(bench, work, 1)
    assert bench.state.breaches[REGION_RIGHT, f"assignment/{work.uid}"].overshoot == 1


def test_repair_waits_for_the_fence_before_anything_is_released() -> None:
    bench, _, _ = running()
    bench.accept(HEALTH, EndSession(bench.sessions["agent/n1"], "silent"))
    bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    bench.at += FENCE - 1
    early = bench.move(REPAIR, Phase.FAILED, "fenced")
    assert isinstance(early, Refused)
    assert early.code is Code.FENCE
    bench.at += 1
    assert isinstance(bench.move(REPAIR, Phase.FAILED, "fenced"), Committed)
    assert isinstance(bench.move(REPAIR, Phase.RELEASED, "fenced"), Committed)
    assert bench.slot().phase is Phase.PENDING


def test_what_was_fenced_is_known_to_be_dead_and_never_unknown_again() -> None:
    bench, _, _ = running()
    bench.accept(HEALTH, EndSession(bench.sessions["agent/n1"], "silent"))
    bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    bench.at += FENCE
    assert isinstance(bench.move(REPAIR, Phase.FAILED, "fenced"), Committed)
    refused = bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
    assert isinstance(refused, Refused)
    assert refused.code is Code.WRONG_PHASE
    assert isinstance(bench.move(REPAIR, Phase.RELEASED, "fenced"), Committed)


def test_an_exclusive_replica_is_found_again_only_before_its_fence() -> None:
    for wait, kept in ((FENCE - 1, True), (FENCE, False)):
        bench, _, _ = running()
        bench.accept(HEALTH, EndSession(bench.sessions["agent/n1"], "silent"))
        bench.move(HEALTH, Phase.UNKNOWN, "session-ended")
        bench.open_session("agent/n1")
        bench.a_node()
        bench.at += wait
        answer = bench.move("agent/n1", Phase.RUNNING, "found-again")
        assert isinstance(answer, Committed) == kept


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
