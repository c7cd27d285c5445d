"""Groups that left the queue with something in vain behind them, and come back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.region import commands as c
from holdfast.core.scheduling.queue import backoff
from holdfast.core.scheduling.queue.backoff import GroupBackoff
from holdfast.core.scheduling.queue.request_groups import GroupKey
from holdfast.core.scheduling.scheduler import BACKOFF_MS
from tests.support.ledgers.region import RegionBench, a_class, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region


def a_key(number: int, account: str = "quota/acme") -> GroupKey:
    kind: Any = (str(number),)
    return (-50, 0, "acme", kind, (account,), "normal")


def reserved_and_declined(
    meanwhile: Callable[[RegionBench], None] = lambda _: None, *, count: int = 1
) -> tuple[RegionBench, Follower]:
    """Slots were reserved, which the view shows; somebody said no to one, something else happened, and it was given
    back."""
    bench, follower = a_region(nodes=1)
    bench.a_workload(a_template(cpu=100), count=count)
    follower.catch_up()
    attempt = follower.look()
    assert attempt is not None
    bench.accept(follower.name, c.Propose(attempt.command.groups, attempt.command.valid_until, bind=False))
    follower.scheduler.on_accepted(attempt, bench.state.slots[1, 0].revision, [])
    follower.catch_up()
    assert not follower.scheduler.queue.groups
    follower.scheduler.on_declined(attempt, [(1, 0)])
    meanwhile(bench)
    follower.catch_up()
    bench.accept(follower.name, c.Unreserve(((1, 0),)))
    return bench, follower


@pytest.mark.parametrize("count", [1, 2])
def test_what_was_declined_is_not_tried_before_its_pause_is_over_when_it_comes_back(count: int) -> None:
    bench, follower = reserved_and_declined(count=count)
    follower.catch_up()
    assert follower.look() is None
    bench.at += BACKOFF_MS
    assert follower.look() is not None


def test_an_equal_request_that_comes_while_others_of_its_kind_pause_is_not_tried_either() -> None:
    bench, follower = reserved_and_declined()
    follower.catch_up()
    bench.a_workload(a_template(cpu=100), count=1, uid=101, workload=2)
    follower.catch_up()
    assert follower.look() is None


@pytest.mark.parametrize("cure", [c.ShippedGrant, c.ShippedPriorityClass])
def test_a_pause_ends_with_what_its_account_was_granted_or_what_may_cure_anything(cure: type) -> None:
    def meanwhile(bench: RegionBench) -> None:
        if cure is c.ShippedGrant:
            bench.a_grant(version=2)
        else:
            bench.ship(c.ShippedPriorityClass(a_class("urgent", 200)))

    _, follower = reserved_and_declined(meanwhile)
    follower.catch_up()
    assert follower.look() is not None


def test_of_another_account_than_was_granted_nobody_s_pause_ends() -> None:
    _, follower = reserved_and_declined(lambda bench: bench.a_grant("quota/beta"))
    follower.catch_up()
    assert follower.look() is None


def test_who_came_through_in_the_end_has_nothing_in_vain_behind_it() -> None:
    known = GroupBackoff()
    known.leave(a_key(1), 3, 9_000)
    assert known.attempts(a_key(1)) == 3
    known.come_back(a_key(1))
    assert known.attempts(a_key(1)) == len(known) == 0


def test_only_so_many_are_known_and_the_first_that_left_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "LEFT_MAX", 3)
    known = GroupBackoff()
    for number in (1, 2, 3, 1, 4):
        known.leave(a_key(number), 1, 0)
    assert [known.attempts(a_key(number)) for number in (1, 2, 3, 4)] == [1, 0, 1, 1]
