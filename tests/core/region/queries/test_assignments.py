"""What is late, and what is given up for it."""

from __future__ import annotations

import pytest

from holdfast.core.region.queries.assignments import is_abandoned, is_late
from tests.support.ledgers.region import T0, an_assignment


@pytest.mark.parametrize(("deadline", "late"), [(0, False), (T0 - 1, True), (T0, True), (T0 + 1, False)])
def test_work_is_late_from_its_deadline_on_and_never_without_one(deadline: int, late: bool) -> None:
    assert is_late(an_assignment(deadline=deadline), T0) is late


@pytest.mark.parametrize("deadline", [0, T0, T0 + 1])
def test_what_is_late_is_given_up_only_if_it_was_to_fail_then(deadline: int) -> None:
    assert not is_abandoned(an_assignment(deadline=deadline), T0)
    assert is_abandoned(an_assignment(deadline=deadline, fails_late=True), T0) is (deadline == T0)
