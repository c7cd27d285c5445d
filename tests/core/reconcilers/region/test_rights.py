"""What runs by a leased right ends with it."""

from __future__ import annotations

from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.reconcilers.region.expiry import RightsReconciler
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from tests.support.ledgers.assignment_world import AssignmentWorld, stopped

RIGHTS = RightsReconciler()


def leased(for_ms: int) -> AssignmentWorld:
    """Two identities, one of which serves and one of which waits, by a right that ends then; 0: never."""
    found = AssignmentWorld()
    until = found.bench.at + for_ms if for_ms else 0
    found.ask({"one": 2}, exclusive=True, ordinals=(0, 1), right_until=until)
    found.settle(ReplicaReconciler())
    found.work([0])
    return found


def test_until_its_end_nothing_is_stopped_and_then_it_is_looked_at_again() -> None:
    store = leased(1_000)
    assert store.look(RIGHTS) == ReconcileResult((), store.bench.at + 1_000)


def test_at_its_end_what_stands_is_stopped_and_does_not_come_back() -> None:
    store = leased(1_000)
    store.bench.at += 1_000
    assert store.send(RIGHTS) == [stopped(0, cause="right-lapsed")]
    assert store.slot(0).next_template == ""
    assert store.look(RIGHTS) == NO_CHANGES


def test_what_nobody_has_heard_of_is_stopped_too() -> None:
    store = leased(1_000)
    store.cut(0)
    assert store.slot(0).phase is Phase.UNKNOWN
    store.bench.at += 1_000
    assert store.send(RIGHTS) == [stopped(0, cause="right-lapsed")]


def test_a_right_that_is_not_leased_does_not_end() -> None:
    assert leased(0).look(RIGHTS) == NO_CHANGES


def test_one_that_is_gone_needs_nothing() -> None:
    assert AssignmentWorld().look(RIGHTS) == NO_CHANGES
