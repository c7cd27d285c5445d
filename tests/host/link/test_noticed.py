"""What a region has noticed and not told: what waits, until when, and what is looked at first."""

from __future__ import annotations

from holdfast.host.link.noticed import CALM_MS, Noticed


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
