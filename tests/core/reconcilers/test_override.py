"""An override ends at its end."""

from __future__ import annotations

from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.override import OverrideReconciler

ENDS = 1_000


def a_state() -> PlatformState:
    state = PlatformState()
    override = Override(7, OverrideAction.PAUSE_REPAIR, "eu", "", "a drill", "person/ops", 0, ENDS)
    state.overrides.put(7, override)
    return state


def test_before_its_end_it_is_looked_at_again_then() -> None:
    assert OverrideReconciler().reconcile(a_state(), 7, ENDS - 1) == ReconcileResult((), ENDS)


def test_at_its_end_it_is_ended_because_of_itself() -> None:
    (wanted,) = OverrideReconciler().reconcile(a_state(), 7, ENDS).commands
    assert wanted.command == EndOverride(7, "its end has passed")
    assert wanted.cause == 7


def test_one_that_is_gone_needs_nothing() -> None:
    assert OverrideReconciler().reconcile(PlatformState(), 7, ENDS) == NO_CHANGES


def test_every_override_is_looked_at_and_a_change_wakes_its_own() -> None:
    assert list(OverrideReconciler().keys(a_state())) == [7]
    assert list(OverrideReconciler().wake(a_state(), ("override", 7))) == [7]
