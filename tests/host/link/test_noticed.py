"""What a region has noticed and not told: what waits, until when, and what is looked at first."""

from __future__ import annotations

from holdfast.core.region.keys import GRANT, WORKLOAD
from holdfast.core.region.state import RegionState
from holdfast.host.link.noticed import CALM_MS, HEARD_MS, SUMMARY, Noticed
from tests.support.region import RegionBench


def test_the_first_that_has_waited_long_enough_says_when_to_look() -> None:
    noticed = Noticed()
    assert noticed.rested_at() is None
    noticed.let_rest(1, since=300)
    noticed.let_rest(2, since=50)
    noticed.look_again(3, at=10_000)
    assert noticed.rested_at() == 50 + CALM_MS
    noticed.look_again(3, at=20)
    noticed.look_again(3, at=5_000)
    assert noticed.rested_at() == 20


def test_what_has_waited_is_looked_at_and_what_has_not_goes_on_waiting() -> None:
    noticed = Noticed()
    noticed.let_rest(1, since=300)
    noticed.let_rest(2, since=50)
    noticed.wake(50 + CALM_MS - 1)
    assert not noticed
    noticed.wake(50 + CALM_MS)
    assert noticed.take(10) == [(2, 50)]
    assert noticed.rested_at() == 300 + CALM_MS


def a_region() -> RegionState:
    bench = RegionBench()
    bench.a_grant()
    bench.a_workload(count=1)
    return bench.state


def test_what_a_resync_finds_is_caught_unless_it_is_heard_of_before_long() -> None:
    state, noticed = a_region(), Noticed()
    for heard in ((), ((WORKLOAD, 1),)):
        noticed.is_summary_old = False
        noticed.resync(state, ())
        for kind, key in ((WORKLOAD, 1), (GRANT, "quota/acme"), SUMMARY):
            noticed.looked_at(kind, key, 0, is_news=kind == WORKLOAD)
        noticed.hear(state, heard, 500)
        assert noticed.take_caught(HEARD_MS - 1) == 0
        assert noticed.take_caught(HEARD_MS) == (0 if heard else 1)
        noticed.take(10)


def test_what_was_noticed_before_or_waits_for_a_time_is_not_caught_by_a_resync_that_comes_first() -> None:
    state, noticed = a_region(), Noticed()
    noticed.look_again(1, at=90_000)
    noticed.hear(state, ((GRANT, "quota/acme"),), 0)
    noticed.resync(state, ())
    for kind, key in ((WORKLOAD, 1), (GRANT, "quota/acme"), SUMMARY):
        noticed.looked_at(kind, key, 0, is_news=True)
    assert noticed.take_caught(HEARD_MS) == 0
