"""Two ledger times, and what ends when in ours (RULES 19)."""

from __future__ import annotations

import pytest

from holdfast.core.model.control import Action, Override
from holdfast.core.model.effects import is_permissive
from holdfast.core.model.resources import Resources
from holdfast.core.region import commands as c
from holdfast.host.link.offset import Offset
from tests.support.region import an_assignment


def an_offset(least: int = 3_000, most: int = 3_040) -> Offset:
    """Ours is about three seconds ahead."""
    offset = Offset()
    offset.asked(1_000_000 + least, 1_000_000, 1_000_000 + most)
    return offset


def an_override(action: Action) -> c.OverrideShipped:
    override = Override(9, action, "eu", "", "incident", "person/root", 0, 5_000_000)
    return c.OverrideShipped(override)


def ends(put: c.Shipped) -> int:
    assert isinstance(put, c.OverrideShipped)
    return put.override.ends


def test_the_offset_lies_between_what_asking_and_hearing_allow() -> None:
    offset = an_offset()
    assert (offset.least, offset.most) == (3_000, 3_040)
    assert abs(offset.theirs(1_003_020) - 1_000_000) <= 20


def test_a_lease_ends_here_no_later_than_there() -> None:
    put = an_offset().in_our_time(c.AssignmentShipped(an_assignment(right_until=5_000_000)))
    assert isinstance(put, c.AssignmentShipped)
    assert put.assignment.right_until == 5_003_000


def test_a_deadline_is_put_into_our_time_by_the_best_guess() -> None:
    put = an_offset().in_our_time(c.AssignmentShipped(an_assignment(batch=True, deadline=5_000_000)))
    assert isinstance(put, c.AssignmentShipped)
    assert put.assignment.deadline == 5_003_020


def test_an_assignment_without_a_lease_is_kept_as_it_is() -> None:
    put = c.AssignmentShipped(an_assignment())
    assert an_offset().in_our_time(put) is put


@pytest.mark.parametrize("action", Action)
def test_in_doubt_what_restricts_ends_late_and_what_permits_ends_early(action: Action) -> None:
    put = an_offset().in_our_time(an_override(action))
    assert ends(put) == (5_003_000 if is_permissive(action) else 5_003_040)


def test_what_is_heard_shows_that_their_time_has_jumped_ahead() -> None:
    offset = an_offset()
    offset.heard(at=2_000_000, now=2_000_500)
    assert (offset.least, offset.most) == (500, 500)


def test_what_is_heard_late_says_nothing() -> None:
    offset = an_offset()
    offset.heard(at=2_000_000, now=2_060_000)
    assert (offset.least, offset.most) == (3_000, 3_040)


def test_an_emergency_ends_here_no_later_than_there_and_other_grants_are_kept_as_they_are() -> None:
    emergency = an_offset().in_our_time(c.GrantShipped("emergency/7", 1, Resources(1), 5_000_000))
    assert isinstance(emergency, c.GrantShipped)
    assert emergency.ends == 5_003_000
    quota = c.GrantShipped("quota/acme", 1, Resources(1), 5_000_000)
    assert an_offset().in_our_time(quota) is quota
