"""RULES 17: ties are broken by a mixing of row numbers that follows from a seed, and is the same on every machine."""

from __future__ import annotations

import numpy as np
import pytest

from holdfast.core.scheduling.nodes.tie_break import BITS_MAX, bits_for, seed_of, tie_ranks

SEEDS = [0, 1, 0x1234_5678_9ABC, (1 << 48) - 1]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bits", [2, 3, 8, 11])
def test_no_two_rows_have_one_rank(seed: int, bits: int) -> None:
    assert sorted(tie_ranks(np.arange(1 << bits), seed, bits).tolist()) == list(range(1 << bits))


@pytest.mark.parametrize(
    ("seed", "few", "many"),
    [
        (SEEDS[0], [0, 2, 1, 5, 3, 7, 4, 6], [0, 10872340, 4971561, 7397095, 7868730]),
        (SEEDS[1], [2, 0, 5, 1, 7, 3, 6, 4], [10872340, 0, 7397095, 4971561, 16176198]),
        (SEEDS[2], [3, 2, 4, 5, 0, 7, 1, 6], [16107506, 6144025, 5223960, 8268982, 15789065]),
        (SEEDS[3], [7, 4, 3, 5, 2, 1, 6, 0], [5903895, 11807790, 9383652, 8905019, 599111]),
    ],
)
def test_ranks_stay_what_they_were_when_decisions_were_recorded(seed: int, few: list[int], many: list[int]) -> None:
    """A recorded decision is repeated by later versions, on other machines: these numbers may not change."""
    assert tie_ranks(np.arange(8), seed, 3).tolist() == few
    assert tie_ranks(np.arange(5), seed, BITS_MAX).tolist() == many


def test_a_seed_follows_from_what_is_decided_about() -> None:
    assert seed_of("web", 7) == 94868515720553
    assert seed_of("web", 8) != seed_of("web", 7) != seed_of("mail", 7)


def test_ranks_have_the_bits_that_their_rows_need_and_two_at_least() -> None:
    assert [bits_for(count) for count in (0, 1, 2, 4, 5, 1_000, 1 << BITS_MAX)] == [2, 2, 2, 2, 3, 10, BITS_MAX]
    with pytest.raises(AssertionError):
        bits_for((1 << BITS_MAX) + 1)
