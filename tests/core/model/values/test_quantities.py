"""Quantities as people write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.model.values import quantities as q


@pytest.mark.parametrize(
    ("text", "milli"),
    [("500m", 500), ("2", 2000), ("0.5", 500), ("1.250", 1250), ("0", 0), ("0m", 0), ("1.5000", 1500)],
)
def test_cpu_is_read_in_milli(text: str, milli: int) -> None:
    assert q.parse_cpu(text) == milli


@pytest.mark.parametrize(
    ("text", "mib"),
    [("512Mi", 512), ("4Gi", 4096), ("1.5Gi", 1536), ("1Ti", 1048576), ("1Ki", 1), ("2G", 1908), ("0Mi", 0), ("1M", 1)],
)
def test_memory_is_read_in_mib_and_rounded_up(text: str, mib: int) -> None:
    assert q.parse_memory(text) == mib


@pytest.mark.parametrize(
    ("text", "ms"),
    [("30s", 30_000), ("5m", 300_000), ("1h30m", 5_400_000), ("500ms", 500), ("1d", 86_400_000), ("0s", 0)],
)
def test_durations_are_read_in_milliseconds(text: str, ms: int) -> None:
    assert q.parse_duration(text) == ms


@pytest.mark.parametrize(
    "text", ["", "m", "-1", "1.0005", "1e3", " 2", "2 ", "0x2", "½", "٣", "2cpu", "1,5", "99999999999999999999"]
)
def test_what_is_no_cpu_is_refused_by_name(text: str) -> None:
    with pytest.raises(q.BadQuantity, match="amount of cpu"):
        q.parse_cpu(text)


@pytest.mark.parametrize("text", ["", "4", "4gi", "Gi", "-1Gi", "4 Gi", "4GiB", "1.0005Gi"])
def test_what_is_no_memory_is_refused_by_name(text: str) -> None:
    with pytest.raises(q.BadQuantity, match="memory"):
        q.parse_memory(text)


@pytest.mark.parametrize("text", ["", "30", "s", "1h 30m", "-5s", "1.5h", "5min", "s30"])
def test_what_is_no_duration_is_refused_by_name(text: str) -> None:
    with pytest.raises(q.BadQuantity, match="duration"):
        q.parse_duration(text)


@given(st.integers(0, 10**12))
def test_what_is_written_reads_back(amount: int) -> None:
    assert q.parse_cpu(q.format_cpu(amount)) == amount
    assert q.parse_memory(q.format_memory(amount)) == amount
    assert q.parse_duration(q.format_duration(amount)) == amount


@given(st.text(max_size=12))
def test_no_text_breaks_a_reader(text: str) -> None:
    for parse in (q.parse_cpu, q.parse_memory, q.parse_duration):
        with contextlib.suppress(q.BadQuantity):
            assert parse(text) >= 0
