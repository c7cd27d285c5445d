"""Silent is suspect, silent for long is lost, heard again is healthy."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.reconciler import NO_CHANGES, ReconcileResult, keys_to_wake
from holdfast.core.ledger.state.ledger_state import Session
from holdfast.core.model.objects.topology import Region, RegionHealth, RegionSpec, RegionStatus
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform.commands import JudgeRegion
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.reconcilers.platform.region_health import RegionHealthReconciler

NOW = 1_000_000


def judged(*, speaks: bool, **status: Any) -> ReconcileResult:
    """What is done about a region that has joined and speaks or not."""
    state = PlatformState()
    said = RegionStatus(**{"log_id": "log", "session": 5, "since": NOW, **status})
    state.regions.put("eu", Region(meta=Meta(name="eu", revision=9), spec=RegionSpec(), status=said))
    if speaks:
        state.sessions.put(5, Session(5, "region/eu", NOW))
    return RegionHealthReconciler().reconcile(state, "eu", NOW)


def health_in(outcome: ReconcileResult) -> RegionHealth:
    (wanted,) = outcome.commands
    assert isinstance(wanted.command, JudgeRegion)
    assert wanted.cause == 9
    return wanted.command.health


def test_one_that_speaks_is_left_as_it_is() -> None:
    assert judged(speaks=True, health=RegionHealth.HEALTHY) == NO_CHANGES


def test_one_without_a_session_is_suspect() -> None:
    assert health_in(judged(speaks=False, health=RegionHealth.HEALTHY)) is RegionHealth.SUSPECT


def test_a_suspect_is_lost_after_its_time_and_not_before() -> None:
    assert judged(speaks=False, health=RegionHealth.SUSPECT) == ReconcileResult((), NOW + DEFAULTS.lost_after)
    long_ago = NOW - DEFAULTS.lost_after
    assert health_in(judged(speaks=False, health=RegionHealth.SUSPECT, since=long_ago)) is RegionHealth.LOST


def test_a_suspect_that_speaks_is_healthy() -> None:
    assert health_in(judged(speaks=True, health=RegionHealth.SUSPECT)) is RegionHealth.HEALTHY


def test_one_that_was_lost_is_healthy_once_it_was_heard_since() -> None:
    assert judged(speaks=True, health=RegionHealth.LOST, heard_at=NOW) == NO_CHANGES
    assert health_in(judged(speaks=True, health=RegionHealth.LOST, heard_at=NOW + 1)) is RegionHealth.HEALTHY


@pytest.mark.parametrize("speaks", [True, False])
def test_a_retired_one_and_one_that_never_joined_are_not_judged(speaks: bool) -> None:
    assert judged(speaks=speaks, health=RegionHealth.RETIRED) == NO_CHANGES
    assert judged(speaks=speaks, health=RegionHealth.HEALTHY, log_id="") == NO_CHANGES


def test_the_end_of_any_session_wakes_all_regions() -> None:
    state = PlatformState()
    state.regions.put("eu", Region(meta=Meta(name="eu"), spec=RegionSpec()))
    assert list(keys_to_wake(RegionHealthReconciler(), state, [("session", 5)])) == ["eu"]
    assert list(RegionHealthReconciler().wake(state, ("region", "eu"))) == ["eu"]
