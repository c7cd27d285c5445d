"""Many sessions that are ended at once were doubted first: their silence is longer than a lease, and not two."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from holdfast.core.ledger.builtin.log import TermStarted
from holdfast.core.ledger.builtin.sessions import SessionEnded
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.session_leases import SILENT, SessionLeaseCheck

LEASE = RegionState().info.settings.session_lease


def ended_after(*silences: int) -> list[str]:
    """What is found when sessions are ended in one batch after silences of so many milliseconds."""
    found: list[Finding] = []
    judge = SessionLeaseCheck("eu", RegionState(), found.append, lambda: 100_000)
    judge.take(a_batch(TermStarted(1, "eu-1", 1)))
    for session, silence in enumerate(silences, 1):
        judge.renewed("eu-1", session, 100_000 - silence)
    judge.take(a_batch(*(SessionEnded(one, f"agent/n{one}", SILENT) for one, _ in enumerate(silences, 1))))
    return [one.promise for one in found]


def a_batch(*events: Any) -> Any:
    return SimpleNamespace(header=SimpleNamespace(seq=7), records=[SimpleNamespace(events=events)])


def test_many_that_are_ended_at_once_after_a_lease_are_found() -> None:
    assert ended_after(*[LEASE + 600] * 3) == ["doubted"]
    assert ended_after(*[LEASE + 600] * 2) == [], "two are never many"


def test_many_that_were_doubted_are_ended_though_the_one_who_was_silent_longest_has_come_back() -> None:
    """Found by repair-in-incident 52018: four were silent for 17 to 20 s, and who made the leader doubt was none."""
    assert ended_after(LEASE * 17 // 10, LEASE * 19 // 10, LEASE * 197 // 100, LEASE * 199 // 100) == []


def test_one_who_was_answered_less_than_a_lease_ago_is_found() -> None:
    assert ended_after(LEASE - 100) == ["lease"]
