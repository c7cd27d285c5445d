"""Two ledger times, and what ends when in ours (RULES 19)."""

from __future__ import annotations

import pytest

from holdfast.core.model.objects.override_effects import is_permissive
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.host.protocol.time_offset import TimeOffset
from tests.support.ledgers.region import an_assignment

#: A leader: its log and its term.
FIRST, NEXT = ("log-platform", 1), ("log-platform", 2)


def an_offset(least: int = 3_000, most: int = 3_040) -> TimeOffset:
    """Ours is about three seconds ahead of the time of their first leader."""
    offset = TimeOffset()
    offset.observe(at=1_000_000, now=1_000_000 + least, led=FIRST)
    offset.measure(1_000_000 + least, 1_000_000, 1_000_000 + most)
    return offset


def an_override(action: OverrideAction) -> c.ShippedOverride:
    override = Override(9, action, "eu", "", "incident", "person/root", 0, 5_000_000)
    return c.ShippedOverride(override)


def ends(put: c.ShippedItem) -> int:
    assert isinstance(put, c.ShippedOverride)
    return put.override.ends


def test_the_offset_lies_between_what_asking_and_hearing_allow() -> None:
    offset = an_offset()
    assert (offset.low, offset.high) == (3_000, 3_040)
    assert abs(offset.to_remote(1_003_020) - 1_000_000) <= 20


def test_a_lease_ends_here_no_later_than_there() -> None:
    put = an_offset().in_our_time(c.ShippedAssignment(an_assignment(right_until=5_000_000)))
    assert isinstance(put, c.ShippedAssignment)
    assert put.assignment.right_until == 5_003_000


def test_a_deadline_is_put_into_our_time_by_the_best_guess() -> None:
    put = an_offset().in_our_time(c.ShippedAssignment(an_assignment(batch=True, deadline=5_000_000)))
    assert isinstance(put, c.ShippedAssignment)
    assert put.assignment.deadline == 5_003_020


def test_an_assignment_without_a_lease_is_kept_as_it_is() -> None:
    put = c.ShippedAssignment(an_assignment())
    assert an_offset().in_our_time(put) is put


@pytest.mark.parametrize("action", OverrideAction)
def test_in_doubt_what_restricts_ends_late_and_what_permits_ends_early(action: OverrideAction) -> None:
    put = an_offset().in_our_time(an_override(action))
    assert ends(put) == (5_003_000 if is_permissive(action) else 5_003_040)


def test_what_is_heard_shows_that_their_time_has_jumped_ahead() -> None:
    offset = an_offset()
    offset.observe(at=2_000_000, now=2_000_500, led=FIRST)
    assert (offset.low, offset.high) == (500, 500)


def test_what_is_heard_late_says_nothing() -> None:
    offset = an_offset()
    offset.observe(at=2_000_000, now=2_060_000, led=FIRST)
    assert (offset.low, offset.high) == (3_000, 3_040)


def test_a_new_leader_s_time_is_followed_backwards_and_in_doubt_what_restricts_ends_late() -> None:
    offset = an_offset()
    offset.observe(at=1_000_000, now=1_060_000, led=NEXT)
    assert ends(offset.in_our_time(an_override(OverrideAction.PAUSE_SCHEDULING))) == 5_060_000
    assert offset.to_remote(1_061_000) == 1_001_000


def test_a_lease_of_a_leader_of_whom_nothing_was_asked_yet_ends_as_if_its_time_were_the_last_one_s() -> None:
    """How long the word of the new one was on its way nobody knows: its lease may have begun long ago."""
    offset = an_offset()
    offset.observe(at=1_000_000, now=1_060_000, led=NEXT)
    put = offset.in_our_time(c.ShippedAssignment(an_assignment(right_until=5_000_000)))
    assert isinstance(put, c.ShippedAssignment)
    assert put.assignment.right_until == 5_003_000


def test_an_answer_of_the_new_leader_leaves_nothing_of_the_last_one_s_time() -> None:
    offset = an_offset()
    offset.observe(at=1_000_000, now=1_060_000, led=NEXT)
    offset.measure(1_060_000, 1_000_010, 1_060_020)
    assert (offset.low, offset.high) == (59_990, 60_010)
    assert offset.to_remote(1_060_000) == 1_000_000


def test_an_answer_to_a_question_from_before_the_new_leader_was_heard_says_nothing() -> None:
    """It may be the last one's, who did not know that it was deposed."""
    offset = an_offset()
    offset.observe(at=1_000_000, now=1_060_000, led=NEXT)
    offset.measure(1_059_999, 1_057_000, 1_060_500)
    assert offset.to_remote(1_060_000) == 1_000_000


def test_a_leader_of_a_lower_term_says_nothing_of_the_time() -> None:
    offset = an_offset()
    offset.observe(at=1_000_000, now=1_060_000, led=NEXT)
    offset.measure(1_060_000, 1_057_000, 1_060_000, led=FIRST)
    offset.observe(at=1_058_000, now=1_061_000, led=FIRST)
    assert offset.to_remote(1_060_000) == 1_000_000


def test_a_leader_of_another_log_is_another_leader_whatever_its_term() -> None:
    offset = an_offset()
    offset.observe(at=1_000_000, now=1_060_000, led=("log-restored", 1))
    assert offset.to_remote(1_060_000) == 1_000_000


def test_an_emergency_ends_here_no_later_than_there_and_other_grants_are_kept_as_they_are() -> None:
    emergency = an_offset().in_our_time(c.ShippedGrant("emergency/7", 1, Resources(1), 5_000_000))
    assert isinstance(emergency, c.ShippedGrant)
    assert emergency.ends == 5_003_000
    quota = c.ShippedGrant("quota/acme", 1, Resources(1), 5_000_000)
    assert an_offset().in_our_time(quota) is quota
