"""Runs, held against plain sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model.values import ranges as r

NUMBERS = st.frozensets(st.integers(0, 60), max_size=40)


@given(NUMBERS, NUMBERS)
def test_runs_join_and_part_as_sets_do(one: frozenset[int], other: frozenset[int]) -> None:
    mine, theirs = r.ranges_of(one), r.ranges_of(other)
    for found, expected in (
        (mine, one),
        (r.with_numbers(mine, other), one | other),
        (r.with_numbers(mine, theirs), one | other),
        (r.without(mine, theirs), one - other),
        (r.common(mine, theirs), one & other),
    ):
        assert r.expanded(found) == tuple(sorted(expected))
        assert r.is_well_formed(found)
    assert r.is_within(mine, theirs) == (one <= other)
    assert r.count_numbers(mine) == len(one)
    assert [n for n in range(62) if r.contains(mine, n)] == sorted(one)


@given(NUMBERS, st.integers(0, 50), st.integers(1, 20))
def test_the_first_the_last_and_all_parts_of_runs(one: frozenset[int], count: int, most: int) -> None:
    mine, ordered = r.ranges_of(one), sorted(one)
    assert list(r.numbers(r.first_of(mine, count))) == ordered[:count]
    assert list(r.numbers(r.last_of(mine, count))) == ordered[len(ordered) - min(count, len(ordered)) :]
    parts = list(r.split_ranges(mine, most))
    assert [n for part in parts for n in r.numbers(part)] == ordered
    assert all(r.count_numbers(part) == most for part in parts[:-1])
    assert all(map(r.is_well_formed, parts))


def test_numbers_and_runs_are_read_alike() -> None:
    assert r.ranges_of((5, (0, 3), 3, 9)) == ((0, 4), (5, 6), (9, 10))
    assert r.ranges_of(((0, 10), (2, 4), (4, 4), (9, 3))) == ((0, 10),)
    assert r.is_named_once((5, (0, 3), 3))
    assert not r.is_named_once((5, (0, 6)))
    assert not r.is_named_once(((3, 3),))
    assert r.format_ranges(((0, 4), (5, 6))) == ["0-3", "5"]
