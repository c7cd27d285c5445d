"""Sets as bits in blocks: what they do is what sets do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model.values.bitsets import (
    BLOCK,
    as_ranges,
    bitset_of,
    count,
    each,
    lowest,
    lowest_free,
    masks,
    minus,
    shared,
    union,
)
from holdfast.core.model.values.ranges import ranges_of

#: Near the edges of blocks, and far away.
_numbers = st.frozensets(
    st.integers(0, 12) | st.integers(BLOCK - 4, BLOCK + 4) | st.integers(2 * BLOCK - 2, 2 * BLOCK + 2)
    | st.just((1 << 31) - 1)
)  # fmt: skip


@given(_numbers, _numbers)
def test_blocks_join_and_part_as_sets_do(one: frozenset[int], other: frozenset[int]) -> None:
    mine, theirs = masks(one), masks(other)
    assert [*each(mine)] == sorted(one)
    assert count(mine) == len(one)
    assert as_ranges(mine) == ranges_of(one)
    assert bitset_of(ranges_of(one)) == mine
    assert union((mine, theirs)) == masks(one | other)
    assert shared(mine, theirs) == masks(one & other)
    assert minus(mine, theirs) == masks(one - other)


@given(_numbers, st.integers(0, 30), st.sampled_from((0, 5, BLOCK - 1, BLOCK)))
def test_the_lowest_are_taken_first_of_what_is_there_and_of_what_is_free(
    one: frozenset[int], most: int, first: int
) -> None:
    assert [*each(lowest(masks(one), most))] == sorted(one)[:most]
    free = [number for number in range(first, first + 30 + len(one) + most) if number not in one][:most]
    assert [*each(lowest_free(masks(one), first, most))] == free


def test_a_long_run_is_one_run_over_all_its_blocks() -> None:
    runs = ((3, 5 * BLOCK), (5 * BLOCK + 1, 6 * BLOCK), (8 * BLOCK, 9 * BLOCK))
    assert as_ranges(bitset_of(runs)) == runs
