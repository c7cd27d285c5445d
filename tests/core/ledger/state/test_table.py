"""Tables fork by reference and layers keep their writes apart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.ledger.state.table import MANY, SOME, OverlayTable, Table

KEYS = st.integers(0, 40).map(lambda number: number << 20)
STEPS = st.lists(st.tuples(st.sampled_from(["put", "drop"]), KEYS, st.integers(1, 9)), max_size=40)


def apply(target: Table[int, int], plain: dict[int, int], steps: list[tuple[str, int, int]]) -> None:
    for verb, key, value in steps:
        if verb == "put":
            target.put(key, value)
            plain[key] = value
        else:
            target.drop(key)
            plain.pop(key, None)


def agree(table: Table[int, Any], plain: dict[int, Any]) -> bool:
    reads = {key: table.get(key) for key in plain} == plain
    return reads and table.items() == sorted(plain.items()) and len(table) == len(plain) == len(table.values())


@given(STEPS, STEPS, STEPS, st.sampled_from([1, 7, MANY]))
def test_a_fork_and_its_origin_never_see_each_others_writes(
    before: list[Any], mine: list[Any], theirs: list[Any], shards: int
) -> None:
    table: Table[int, int] = Table(shards)
    plain: dict[int, int] = {}
    apply(table, plain, before)
    fork, forked = table.fork(), dict(plain)
    apply(table, plain, mine)
    apply(fork, forked, theirs)
    assert agree(table, plain)
    assert agree(fork, forked)


@given(STEPS, STEPS, STEPS)
def test_a_layer_reads_through_and_writes_apart_until_it_is_merged(
    before: list[Any], first: list[Any], second: list[Any]
) -> None:
    table: Table[int, int] = Table(7)
    plain: dict[int, int] = {}
    apply(table, plain, before)
    durable = dict(plain)
    layer = table.layer()
    apply(layer, plain, first)
    assert agree(layer, plain)
    assert layer.is_empty() == (not plain)
    apply(layer, plain, second)
    assert agree(layer, plain)
    assert agree(table, durable)
    fork = table.fork()
    layer.merge_into(table)
    assert agree(table, plain)
    assert agree(fork, durable)


def test_a_layer_refuses_to_be_snapshotted() -> None:
    layer: OverlayTable[int, int] = Table[int, int](1).layer()
    with pytest.raises(AssertionError, match="durable"):
        list(layer.shard_rows())


def test_a_missing_row_is_a_key_error() -> None:
    table: Table[str, int] = Table()
    assert table.get("x") is None
    assert "x" not in table
    with pytest.raises(KeyError, match="x"):
        table["x"]


def test_revisions_spread_over_the_shards() -> None:
    table: Table[int, int] = Table(MANY)
    for seq in range(1, 20_001):
        table.put(seq << 20, seq)
    largest = max(len(shard) for shard in table.shard_rows())
    assert largest < 20


def test_a_fork_lets_go_of_its_rows_in_bits_and_takes_nothing_from_the_table() -> None:
    table: Table[int, str] = Table(1_000)
    for number in range(5_000):
        table.put(number, "x")
    fork = table.fork()
    bits = list(fork.release())
    assert sum(bits) == 5_000
    assert max(bits) < 1_000
    assert len(table) == 5_000


def test_what_is_written_to_a_new_table_is_in_no_other() -> None:
    first: Table[int, str] = Table(SOME)
    second: Table[int, str] = Table(SOME)
    first.put(1, "one")
    second.fill(2, SOME, {2: "two"})
    third = second.fork()
    third.put(3, "three")
    assert [table.items() for table in (first, second, third)] == [
        [(1, "one")],
        [(2, "two")],
        [(2, "two"), (3, "three")],
    ]
    assert Table(SOME).is_empty()


def test_only_shards_that_have_had_a_row_are_walked_over() -> None:
    class Counted(list[dict[int, int]]):
        looked_at = 0

        def __getitem__(self, index: Any) -> Any:
            self.looked_at += 1
            return super().__getitem__(index)

    table: Table[int, int] = Table(MANY)
    for key in (1, 2, 3, MANY + 1):
        table.put(key, key)
    layer = table.layer()
    assert layer.get(7) is None
    layer.merge_into(table)
    table._shards = shards = Counted(table._shards)

    assert list(table.unordered()) == [(1, 1), (MANY + 1, MANY + 1), (2, 2), (3, 3)]
    assert shards.looked_at == 3
