"""What a tenant used within the last hour: exact sums, that older use leaves."""

from __future__ import annotations

from random import Random

import pytest

from holdfast.core.model.records.usage_windows import SPAN_MS, SPANS, UsageWindow, recent_share, with_share

START = 1_000 * SPAN_MS


def test_a_share_counts_for_the_time_that_it_lasts() -> None:
    window = with_share(UsageWindow(), 600_000, START)
    assert recent_share(window, START) == 0
    assert recent_share(window, START + SPAN_MS) == 600_000 // (SPANS - 1)
    window = with_share(window, 0, START + SPAN_MS)
    assert recent_share(window, START + SPAN_MS) == 600_000 // (SPANS - 1)
    assert recent_share(window, START + (SPANS - 1) * SPAN_MS) == 600_000 // (SPANS - 1)
    assert recent_share(window, START + SPANS * SPAN_MS) == 0


def test_a_share_that_lasts_is_the_mean_after_an_hour() -> None:
    window = with_share(UsageWindow(), 250_000, START)
    assert recent_share(window, START + 10 * SPANS * SPAN_MS + 7) == 250_000


def test_ledger_time_that_goes_back_counts_nothing_twice() -> None:
    window = with_share(with_share(UsageWindow(), 100, START), 200, START + 1_000)
    again = with_share(window, 300, START)
    assert again.spans == window.spans
    assert again.since == window.since


@pytest.mark.parametrize("seed", range(20))
def test_the_mean_is_that_of_a_simple_sum(seed: int) -> None:
    chance = Random(seed)
    window, at, history = UsageWindow(), START, list[tuple[int, int]]()
    for _ in range(60):
        share = chance.choice((0, 0, 10**6, chance.randrange(10**6)))
        window = with_share(window, share, at)
        history.append((at, share))
        at += chance.choice((1_000, 60_000, 700_000))
        first = (at // SPAN_MS - SPANS + 1) * SPAN_MS
        ends = [*(when for when, _ in history[1:]), at]
        whole = sum(max(0, end - max(began, first)) * mine for (began, mine), end in zip(history, ends, strict=True))
        assert recent_share(window, at) == whole // (at - first)
        assert len(window.spans) <= SPANS
