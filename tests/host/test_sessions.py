"""When a session is silent, and when the leader itself was away: to the millisecond, without a server."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.house import EndSession
from holdfast.core.model.settings import DEFAULTS, drifted
from holdfast.host.sessions import MARGIN_MS, Sessions
from tests.support.region import RegionBench

PATIENCE = drifted(DEFAULTS.session_lease, DEFAULTS) + MARGIN_MS
#: A look that comes later than this after the last one was late.
GAP = DEFAULTS.proof_interval + DEFAULTS.session_lease // 4


class Quiet:
    """Meters and a journal that nobody reads."""

    def count(self, *_: Any, **__: Any) -> None: ...

    def info(self, *_: Any, **__: Any) -> None: ...


class Watch:
    """Ten agents, of which the first says nothing after the beginning."""

    def __init__(self) -> None:
        self.now = 0
        bench = RegionBench(checked=False)
        self.uids = [bench.open_session(f"agent/n{number}") for number in range(10)]
        self.bench, self.state = bench, bench.state
        self.sessions = Sessions(self, Quiet(), Quiet())  # type: ignore[arg-type]
        self.look()

    def boot(self) -> int:
        return self.now

    def look(self) -> list[int]:
        for uid in self.uids[1:]:
            self.sessions.heard(uid)
        return self.sessions.silent(self.state)

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
    assert not watch.sessions.heard(watch.uids[0]), "from here on it is never renewed"
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
    watch.sessions.not_ended(silent)
    assert watch.look() == [silent]


def test_of_a_session_that_has_ended_nothing_is_kept() -> None:
    watch = Watch()
    watch.bench.accept("controller/node-health", EndSession(watch.uids[0], "silent"))
    watch.look_until(PATIENCE)
    assert watch.sessions.quiet_ms(watch.uids[0]) is None
