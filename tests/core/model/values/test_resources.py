"""Resource vectors add up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model.values.resources import (
    AMOUNT_MAX,
    ZERO,
    Resources,
    add,
    amount_of,
    amount_problem,
    clamp_zero,
    elementwise_max,
    elementwise_min,
    first_exceeded,
    from_amounts,
    names_in,
    subtract,
    times,
    total,
)

AMOUNTS = st.integers(0, 100)
EXTENDED = st.dictionaries(st.sampled_from(["fpga", "tpu", "nic"]), st.integers(1, 50)).map(
    lambda d: tuple(sorted(d.items()))
)
VECTORS = st.builds(Resources, AMOUNTS, AMOUNTS, AMOUNTS, AMOUNTS, EXTENDED)


@given(VECTORS, VECTORS, VECTORS)
def test_sums_do_not_depend_on_order(a: Resources, b: Resources, c: Resources) -> None:
    assert add(a, b) == add(b, a)
    assert add(add(a, b), c) == add(a, add(b, c)) == total([c, a, b])


@given(VECTORS, VECTORS)
def test_what_is_added_and_taken_away_leaves_nothing_behind(a: Resources, b: Resources) -> None:
    assert subtract(add(a, b), b) == a
    assert subtract(a, a) == ZERO


@given(VECTORS, st.integers(0, 9))
def test_times_is_repeated_addition(a: Resources, count: int) -> None:
    assert times(a, count) == total([a] * count)


@given(VECTORS, VECTORS)
def test_exceeded_names_a_resource_of_which_there_is_too_much(use: Resources, limit: Resources) -> None:
    name = first_exceeded(use, limit)
    names = ["cpu", "memory", "disk", "gpu", *dict(use.extended)]
    over = [n for n in names if amount_of(use, n) > amount_of(limit, n)]
    assert (name == "") == (not over)
    assert not name or name in over


@given(VECTORS, VECTORS)
def test_the_greatest_covers_both_and_nothing_more(a: Resources, b: Resources) -> None:
    both = elementwise_max(a, b)
    assert first_exceeded(a, both) == first_exceeded(b, both) == ""
    for name in ("cpu", "memory", "disk", "gpu", "fpga", "tpu", "nic"):
        assert amount_of(both, name) == max(amount_of(a, name), amount_of(b, name))


@given(VECTORS, VECTORS)
def test_the_least_is_covered_by_both_and_by_nothing_less(a: Resources, b: Resources) -> None:
    both = elementwise_min(a, b)
    assert first_exceeded(both, a) == first_exceeded(both, b) == ""
    assert add(both, elementwise_max(a, b)) == add(a, b)


@given(VECTORS)
def test_amounts_by_name_are_the_same_amounts(a: Resources) -> None:
    assert from_amounts({name: amount_of(a, name) for name in names_in(a)}) == a


@given(VECTORS, VECTORS)
def test_above_zero_is_what_one_has_more(a: Resources, b: Resources) -> None:
    more = clamp_zero(subtract(a, b))
    assert amount_problem(more) == ""
    assert first_exceeded(a, add(b, more)) == ""


@pytest.mark.parametrize(
    "bad",
    [
        Resources(-1),
        Resources(0, AMOUNT_MAX + 1),
        Resources(extended=(("b", 1), ("a", 1))),
        Resources(extended=(("a", 1), ("a", 1))),
        Resources(extended=(("", 1),)),
        Resources(extended=(("a", -1),)),
        *(Resources(extended=((name, 1),)) for name in ("cpu", "memory", "disk", "gpu", "device/0")),
    ],
)
def test_ill_formed_amounts_are_told(bad: Resources) -> None:
    assert amount_problem(bad)
