"""Identities go where most are lacking, so that those that lack most lack as little as can be."""

from __future__ import annotations

import pytest

from holdfast.core.reconcilers.platform.assignment_identities import levelled


def one_by_one(lacking: dict[str, int], count: int) -> dict[str, int]:
    """The same, slowly: the next one goes to who lacks most then, the first of several."""
    left, given = dict(lacking), dict.fromkeys(lacking, 0)
    for _ in range(count):
        name = max(left, key=lambda one: left[one])
        if left[name] <= 0:
            break
        left[name] -= 1
        given[name] += 1
    return given


@pytest.mark.parametrize("lacking", [{"a": 5, "b": 3, "c": 0}, {"a": 1, "b": 4, "c": 4, "d": -2}, {"a": 2, "b": 2}])
def test_each_gets_what_it_would_if_they_were_given_out_one_by_one(lacking: dict[str, int]) -> None:
    for count in range(15):
        assert levelled(lacking, count) == one_by_one(lacking, count), count
