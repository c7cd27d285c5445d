"""What a region has noticed and not told: what waits, until when, and what is looked at first."""

from __future__ import annotations

from holdfast.core.model.values.resources import ZERO
from holdfast.core.region import commands as c
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import ASSIGNMENT, GRANT, NODE, WORKLOAD
from holdfast.host.link.region.dirty_set import CALM_MS, CHANGES_MS, SUMMARY, DirtyObjects
from tests.support.ledgers.region import RegionBench


def test_the_first_that_has_waited_long_enough_says_when_to_look() -> None:
    noticed = DirtyObjects()
    assert noticed.rested_at() is None
    noticed.let_rest(1, since=300)
    noticed.let_rest(2, since=50)
    noticed.look_again(3, at=10_000)
    assert noticed.rested_at() == 50 + CALM_MS
    noticed.look_again(3, at=20)
    noticed.look_again(3, at=5_000)
    assert noticed.rested_at() == 20


def test_what_has_waited_is_looked_at_and_what_has_not_goes_on_waiting() -> None:
    noticed = DirtyObjects()
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
    state, noticed = a_region(), DirtyObjects()
    for heard in ((), ((WORKLOAD, 1),)):
        noticed.is_summary_old = False
        noticed.resync(state, ())
        for kind, key in ((WORKLOAD, 1), (GRANT, "quota/acme"), SUMMARY):
            noticed.looked_at(kind, key, 0, is_news=kind == WORKLOAD)
        noticed.on_change(state, heard, 500)
        assert noticed.take_caught(CHANGES_MS - 1) == 0
        assert noticed.take_caught(CHANGES_MS) == (0 if heard else 1)
        noticed.take(10)


def test_what_was_noticed_before_or_waits_for_a_time_is_not_caught_by_a_resync_that_comes_first() -> None:
    state, noticed = a_region(), DirtyObjects()
    noticed.look_again(1, at=90_000)
    noticed.on_change(state, ((GRANT, "quota/acme"),), 0)
    noticed.resync(state, ())
    for kind, key in ((WORKLOAD, 1), (GRANT, "quota/acme"), SUMMARY):
        noticed.looked_at(kind, key, 0, is_news=True)
    assert noticed.take_caught(CHANGES_MS) == 0


def test_what_is_to_be_looked_at_again_is_when_its_time_has_come_to_the_millisecond() -> None:
    noticed = DirtyObjects()
    noticed.look_again(3, at=5_000)
    noticed.wake(4_999)
    assert not noticed
    noticed.wake(5_000)
    assert noticed.take(10) == [(3, 5_000)]
    assert noticed.rested_at() is None


def test_an_assignment_that_changed_is_a_workload_to_look_at_while_it_is_there() -> None:
    bench, noticed = RegionBench(), DirtyObjects()
    work = bench.a_workload(count=1)
    noticed.on_change(bench.state, ((ASSIGNMENT, work.uid + 1), (NODE, work.uid)), 70)
    assert not noticed
    noticed.on_change(bench.state, ((ASSIGNMENT, work.uid),), 80)
    assert noticed.take(10) == [(work.workload, 80)]


def test_an_account_above_its_target_or_noticed_before_is_not_caught_by_a_resync_and_any_other_is() -> None:
    bench = RegionBench()
    for number, account in enumerate(("quota/acme", "quota/fourth", "quota/other", "quota/third")):
        bench.ship(c.ShippedGrant(account, number + 1, ZERO, 10**14))
    noticed = DirtyObjects()
    noticed.on_change(bench.state, ((GRANT, "quota/acme"),), 0)
    noticed.resync(bench.state, ("quota/other",))
    for account in ("quota/acme", "quota/fourth", "quota/other", "quota/third"):
        noticed.looked_at(GRANT, account, 0, is_news=True)
    assert noticed.take_caught(CHANGES_MS) == 2
