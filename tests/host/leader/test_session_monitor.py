"""When a session is silent, and when the leader itself was away: to the millisecond, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.model.values.settings import DEFAULTS, with_drift
from holdfast.host.leader.session_monitor import MARGIN_MS, SessionMonitor
from tests.support.ledgers.region import RegionBench

PATIENCE = with_drift(DEFAULTS.session_lease, DEFAULTS) + MARGIN_MS
#: A look that comes later than this after the last one was late.
GAP = DEFAULTS.proof_interval + DEFAULTS.session_lease // 4


class Quiet:
    """Meters and a journal that nobody reads."""

    def count(self, *_: Any, **__: Any) -> None: ...

    def info(self, *_: Any, **__: Any) -> None: ...


class Watch:
    """Ten agents, of which the first says nothing after the beginning; or more, and some that fall silent later."""

    def __init__(self, count: int = 10, *quiet_from: int) -> None:
        self.now = 0
        self.quiet_from = quiet_from or (0,)
        bench = RegionBench(checked=False)
        self.uids = [bench.open_session(f"agent/n{number}") for number in range(count)]
        self.bench, self.state = bench, bench.state
        self.sessions = SessionMonitor(self, Quiet(), Quiet())  # type: ignore[arg-type]
        self.look()

    def boot(self) -> int:
        return self.now

    def look(self) -> list[int]:
        for number, uid in enumerate(self.uids):
            if number >= len(self.quiet_from) or self.now <= self.quiet_from[number]:
                self.sessions.renewed(uid)
        return self.sessions.expired(self.state)

    def look_until(self, at: int) -> None:
        """Look every second, and then at that time; nobody is silent yet."""
        while self.now < at:
            self.now = min(self.now + 1_000, at)
            assert self.look() == []


def test_a_session_is_silent_once_it_was_not_heard_for_all_of_the_patience() -> None:
    watch = Watch()
    watch.look_until(PATIENCE - 1)
    watch.now = PATIENCE
    assert watch.look() == watch.uids[:1]
    assert not watch.sessions.renewed(watch.uids[0]), "from here on it is never renewed"
    assert watch.look() == [], "it is ended once"


@pytest.mark.parametrize(("gap", "is_judged"), [(GAP, True), (GAP + 1, False)])
def test_who_looks_later_than_a_quarter_of_the_lease_was_itself_away_and_judges_nobody(
    gap: int, is_judged: bool
) -> None:
    watch = Watch()
    watch.look_until(PATIENCE - gap)
    watch.now = PATIENCE
    assert bool(watch.look()) is is_judged


def test_a_session_whose_end_was_not_logged_is_judged_again() -> None:
    watch = Watch()
    watch.look_until(PATIENCE - 1)
    watch.now = PATIENCE
    (silent,) = watch.look()
    watch.sessions.end_failed(silent)
    assert watch.look() == [silent]


def test_of_a_session_that_has_ended_nothing_is_kept() -> None:
    watch = Watch()
    watch.bench.accept("controller/node-health", EndSession(watch.uids[0], "silent"))
    watch.look_until(PATIENCE)
    assert watch.sessions.quiet_ms(watch.uids[0]) is None


@pytest.mark.parametrize(
    ("agents", "silent", "is_mass"), [(10, 2, False), (14, 3, True), (15, 3, False), (15, 4, True), (9, 2, False)]
)
def test_more_than_a_fifth_and_three_at_least_are_a_mass_that_is_doubted_once(
    agents: int, silent: int, is_mass: bool
) -> None:
    watch = Watch(agents, *[0] * silent)
    watch.look_until(PATIENCE - 1)
    watch.now = PATIENCE
    assert watch.look() == ([] if is_mass else watch.uids[:silent])


@pytest.mark.parametrize(("after", "is_mass"), [(6_000, True), (PATIENCE - 1, True), (PATIENCE, False)])
def test_whoever_was_judged_in_the_last_period_is_counted_with_those_who_are_due(after: int, is_mass: bool) -> None:
    watch = Watch(15, 0, 0, after, after)
    watch.look_until(PATIENCE - 1)
    watch.now = PATIENCE
    assert watch.look() == watch.uids[:2]
    watch.look_until(after + PATIENCE - 1)
    watch.now = after + PATIENCE
    assert watch.look() == ([] if is_mass else watch.uids[2:4])


def test_how_long_a_session_was_not_heard_is_told_of_those_that_are_watched() -> None:
    watch = Watch()
    watch.now = 700
    watch.sessions.renewed(watch.uids[1])
    watch.now = 1_000
    assert [watch.sessions.quiet_ms(uid) for uid in (*watch.uids[:2], 999)] == [1_000, 300, None]
