"""Rows written column by column read back as they were."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.state.columns import PAGE_ROWS, BadPage, PageCodec
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.structs import Row


class Thing(Row, frozen=True):
    """One field of each kind of type."""

    number: int
    other: int
    flag: bool
    name: str
    second_name: str
    phase: Phase
    pairs: tuple[tuple[int, int], ...] = ()
    maybe: tuple[int, int] | None = None


class Thinner(Row, frozen=True):
    """A thing as an older version had it."""

    number: int
    other: int
    flag: bool
    name: str
    second_name: str
    phase: Phase


NUMBERS = st.integers(0, 3) | st.integers(0, 2**63 - 1)
NAMES = st.sampled_from(("", "a", "b", "agent/n1"))
PAIRS = st.tuples(NUMBERS, NUMBERS)
THINGS = st.builds(
    Thing, NUMBERS, NUMBERS, st.booleans(), NAMES, NAMES, st.sampled_from(Phase), st.tuples() | st.tuples(PAIRS),
    st.none() | PAIRS,
)  # fmt: skip


def read(pages: PageCodec, raw: bytes, pool: dict[Any, Any] | None = None) -> tuple[int, dict[Any, Any]]:
    return pages.read(msgspec.msgpack.decode(raw, type=pages.type), {} if pool is None else pool)


@given(st.dictionaries(PAIRS, THINGS, min_size=1, max_size=20))
def test_a_page_reads_back_as_its_rows(rows: dict[Any, Thing]) -> None:
    pages = PageCodec(tuple[int, int], Thing)
    assert read(pages, pages.write(7, sorted(rows), rows)) == (7, rows)


@pytest.mark.parametrize(
    ("key", "value", "rows"),
    [
        (str, bool, {"a": True, "b": False}),
        (int, str, {1: "a", 5: "b"}),
        (tuple[str, str], int, {("a", "b"): 1, ("a", "c"): 1}),
        (int, tuple[Thinner, ...], {1: (), 2: (Thinner(1, 1, True, "n", "n", Phase.BOUND),)}),
    ],
)
def test_rows_that_are_no_structs_are_one_column(key: Any, value: Any, rows: dict[Any, Any]) -> None:
    pages = PageCodec(key, value)
    assert read(pages, pages.write(0, sorted(rows), rows)) == (0, rows)


def test_a_flag_is_not_taken_for_the_number_it_equals() -> None:
    rows = {number: Thing(number, number, bool(number), "a", "a", Phase.BOUND) for number in (0, 1)}
    pages = PageCodec(int, Thing)
    _, back = read(pages, pages.write(0, [0, 1], rows))
    assert [type(row.flag) for row in back.values()] == [bool, bool]


def test_equal_names_are_one_object_in_all_pages() -> None:
    pages, pool = PageCodec(int, Thing), dict[Any, Any]()
    found: list[str] = []
    for first in (0, 10):
        rows = {first + n: Thing(n, n, True, f"agent/{n % 2}", f"agent/{n % 2}", Phase.BOUND) for n in range(4)}
        _, back = read(pages, pages.write(0, sorted(rows), rows), pool)
        found += [name for row in back.values() for name in (row.name, row.second_name)]
    assert len({id(name) for name in found}) == 2


def test_a_page_of_the_most_distinct_names_reads_back() -> None:
    rows = {number: f"node-{number}" for number in range(PAGE_ROWS)}
    pages = PageCodec(int, str)
    assert read(pages, pages.write(0, sorted(rows), rows))[1] == rows


def test_rows_of_an_older_version_get_the_defaults() -> None:
    rows = {n: Thinner(n, n + 1, True, "a", "b", Phase.BOUND) for n in (1, 2)}
    raw = PageCodec(int, Thinner).write(0, [1, 2], rows)
    assert read(PageCodec(int, Thing), raw)[1][2] == Thing(2, 3, True, "a", "b", Phase.BOUND, (), None)


def test_rows_of_a_newer_version_are_refused() -> None:
    raw = PageCodec(int, Thing).write(0, [1], {1: Thing(1, 1, True, "a", "b", Phase.BOUND)})
    with pytest.raises(msgspec.ValidationError):
        read(PageCodec(int, Thinner), raw)


@pytest.mark.parametrize(
    "columns",
    [
        ((2, [1, 2, 3]), (2, ["a", "b"])),
        ((2, [1, 2, 3]), (3, ["a"], b"\0\0")),
        ((0, 1), (0, "a")),
        ((2, [1, 2, 3]), (1, 0)),
    ],
)
def test_columns_that_contradict_one_another_are_not_read(columns: tuple[Any, ...]) -> None:
    with pytest.raises(BadPage):
        read(PageCodec(int, str), encode((0, 3, *columns)))


@pytest.mark.parametrize(("key", "rows", "columns"), [(int, {1: "a"}, 2), (tuple[int, int], {(1, 2): "a"}, 3)])
def test_each_part_of_a_key_is_a_column_of_its_own(key: Any, rows: dict[Any, Any], columns: int) -> None:
    _shard, count, *written = msgspec.msgpack.decode(PageCodec(key, str).write(0, sorted(rows), rows))
    assert (count, len(written)) == (1, columns)
