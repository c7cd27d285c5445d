"""Snapshots: they restore to the same state, in steps, and whatever is wrong with one is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded, encode
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.state import chunks as chunking
from holdfast.core.ledger.state.chunks import (
    CHUNK_BYTES,
    STEP_BYTES,
    STEP_ROWS,
    Chunk,
    chunk_name,
    chunk_steps,
    digest_of_chunks,
    state_digest,
)
from holdfast.core.ledger.state.columns import PAGE_ROWS
from holdfast.core.ledger.state.invariants import check
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.ledger.state.snapshot import (
    Manifest,
    ManifestEntry,
    SnapshotLoader,
    decode_manifest,
    encode_manifest,
    restore,
    verify,
)
from holdfast.core.ledger.state.table import Table, TableSpec
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.core.ledger.state.test_chunks import a_busy_region
from tests.support.ledgers.platform import a_full_platform
from tests.support.ledgers.snapshots import a_snapshot, restored


class FewShards(RegionState):
    """A region's state as a version with other shards has it."""

    TABLES: ClassVar[tuple[TableSpec, ...]] = tuple(
        replace(spec, shards=min(spec.shards, 7)) for spec in RegionState.TABLES
    )


def many_slots(count: int) -> RegionState:
    """Rows alone: enough of them for many chunks."""
    state = RegionState()
    state.info = replace(state.info, log_id="log", ledger="region/eu", seq=9, digest=b"\7" * 32)
    for number in range(count):
        workload, ordinal = number % 97 + 1, number // 97
        slot = Slot(
            workload, ordinal, workload, f"{number:032x}", "t", Phase.SERVING, number << 30, number, "agent/n1",
            "serving", number << 31, number << 32, number << 33, account=f"quota/{number % 5}", reported=number << 34,
        )  # fmt: skip
        state.slots.put((workload, ordinal), slot)
    return state


def same_rows(left: LedgerState, right: LedgerState) -> None:
    for spec in left.TABLES:
        assert left.table(spec.name).items() == right.table(spec.name).items(), spec.name
    for name in (*left.SCALARS, *left.DERIVED_SCALARS, *left.ORDERS):
        assert getattr(left, name) == getattr(right, name), name


def test_a_region_restores_to_the_same_rows_stored_and_derived() -> None:
    state = a_busy_region().state
    back = restored(state.fork(), RegionState())
    same_rows(back, state)
    assert state_digest(back) == state_digest(state)
    assert check(back, REGION.invariants) == []


def test_a_platform_restores_to_the_same_rows_stored_and_derived() -> None:
    state = a_full_platform().state
    same_rows(restored(state.fork(), PlatformState()), state)


def test_a_restored_state_goes_on_and_leaves_its_forks_alone() -> None:
    bench = a_busy_region()
    bench.state = restored(bench.state.fork(), RegionState())
    fork, before = bench.state.fork(), state_digest(bench.state)
    bench.a_node("late")
    assert state_digest(fork) == before != state_digest(bench.state)
    assert check(bench.state, REGION.invariants) == []


def test_a_state_with_other_shards_reads_the_same_rows_both_ways() -> None:
    state = a_busy_region().state
    few = restored(state, FewShards())
    same_rows(few, state)
    same_rows(restored(few, RegionState()), state)


def test_rows_that_lie_in_other_shards_here_are_still_found() -> None:
    """As after a change of how Python hashes: the same number of shards, other rows in them."""
    table: Table[int, str] = Table(5)
    table.fill(0, 5, {5: "a", 6: "b"})
    table.fill(1, 5, {11: "c"})
    assert table.items() == [(5, "a"), (6, "b"), (11, "c")]
    assert [table.get(key) for key in (5, 6, 11)] == ["a", "b", "c"]


def test_equal_rows_have_equal_chunks_whatever_their_history() -> None:
    state, other = many_slots(2_000), many_slots(0)
    for key, slot in reversed(state.slots.items()):
        other.slots.put(key, slot)
    other.slots.put((1, 999), state.slots[(1, 0)])
    other.slots.drop((1, 999))
    assert a_snapshot(other) == a_snapshot(state)


def test_a_manifest_says_what_was_written_and_the_digest_of_the_state() -> None:
    bench = a_busy_region()
    manifest, chunks = a_snapshot(bench.state)
    facts = bench.state.info
    assert (manifest.log_id, manifest.ledger, manifest.seq) == (facts.log_id, facts.ledger, facts.seq)
    assert (manifest.digest, manifest.term, manifest.level) == (facts.digest, facts.term, facts.level)
    assert [part.name for part in manifest.parts] == [chunk_name(raw) for raw in chunks]
    assert manifest.size_bytes == sum(map(len, chunks))
    stored = sum(len(bench.state.table(spec.name)) for spec in RegionState.TABLES if not spec.derived)
    assert manifest.rows == stored + len(RegionState.SCALARS)
    assert manifest.state == state_digest(bench.state)


def rows_read(state: RegionState) -> tuple[list[int], list[Chunk]]:
    """How many slots each step has asked the table for, and the chunks that came."""
    read = 0

    class Counting(dict[tuple[int, int], Slot]):
        def __getitem__(self, key: tuple[int, int]) -> Slot:
            nonlocal read
            read += 1
            return super().__getitem__(key)

    state.slots._shards = [Counting(shard) for shard in state.slots._shards]
    seen, chunks = [], []
    for chunk in chunk_steps(state):
        seen.append(read)
        read = 0
        if chunk is not None:
            chunks.append(chunk)
    return seen, chunks


def test_steps_are_bounded_in_rows_and_bytes() -> None:
    seen, chunks = rows_read(many_slots(30_000))
    assert sum(seen) == 30_000
    assert max(seen) < STEP_ROWS + PAGE_ROWS
    assert len(chunks) > 5
    assert max(len(chunk.raw) for chunk in chunks) < CHUNK_BYTES + STEP_BYTES
    assert sum(chunk.rows for chunk in chunks) == 30_000 + len(RegionState.SCALARS)
    assert len(seen) <= 30_000 // STEP_ROWS + 3 * len(chunks), "a step does as much as it may"


def test_a_step_ends_by_its_bytes_where_rows_are_large() -> None:
    state, size_bytes = many_slots(200), 8 << 10
    for key, slot in state.slots.items():
        state.slots.put(key, replace(slot, detail=f"{key}".ljust(size_bytes)))
    seen, chunks = rows_read(state)
    assert sum(seen) == 200
    assert max(seen) <= STEP_BYTES // size_bytes + 1
    assert max(chunk.rows for chunk in chunks) <= CHUNK_BYTES // size_bytes + 1


@pytest.mark.parametrize(("name", "is_bytes"), [("STEP_ROWS", False), ("STEP_BYTES", True), ("CHUNK_BYTES", True)])
def test_a_step_ends_and_a_chunk_is_closed_with_exactly_as_much_as_they_may_have(
    name: str, is_bytes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = many_slots(1)
    spec = next(one for one in RegionState.TABLES if one.name == "slots")
    ((rows, page),) = chunking._pages(state, spec)
    size = len(page) if is_bytes else rows
    taken = []
    for most in (size, size + 1):
        monkeypatch.setattr(chunking, name, most)
        taken.append([chunk is None for chunk in chunking._table_steps(state, spec)])
    assert taken == [[True, False], [False]]


def test_a_page_that_fills_a_chunk_exactly_is_the_last_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    state = many_slots(2)
    spec = next(one for one in RegionState.TABLES if one.name == "slots")
    size = len(next(chunking._pages(state, spec))[1])
    rows = []
    for most in (size, size + 1):
        monkeypatch.setattr(chunking, "CHUNK_BYTES", most)
        rows.append([chunk.rows for chunk in chunking._table_steps(state, spec) if chunk is not None])
    assert rows == [[1, 1], [2]]


def test_equal_names_are_one_object_after_a_restore() -> None:
    state = many_slots(5_000)
    manifest, chunks = a_snapshot(state)
    back = RegionState()
    reading = SnapshotLoader(back, manifest)
    for raw in chunks:
        reading.take(raw)
    slots = back.slots.values()
    assert len({id(slot.account) for slot in slots}) == 5
    assert len({id(name) for slot in slots for name in (slot.by, slot.cause, slot.next_template)}) == 3


# What is wrong with a snapshot is named.

Damage = Callable[[list[bytes]], list[bytes]]


def flipped(place: int) -> Damage:
    def damage(chunks: list[bytes]) -> list[bytes]:
        raw = bytearray(chunks[place])
        raw[len(raw) // 2] ^= 1
        return [*chunks[:place], bytes(raw), *chunks[place + 1 :]]

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "flipped first": (flipped(0), r"chunk 1 of \d+"),
    "flipped third": (flipped(2), r"chunk 3 of \d+"),
    "truncated": (lambda chunks: [*chunks[:3], chunks[3][:-2], *chunks[4:]], r"chunk 4 of \d+"),
    "reordered": (lambda chunks: [chunks[0], chunks[2], chunks[1], *chunks[3:]], r"chunk 2 of \d+"),
    "twice": (lambda chunks: [chunks[0], *chunks], r"chunk 2 of \d+"),
    "last missing": (lambda chunks: chunks[:-1], r"chunk (\d+) of \1 .* is missing"),
    "first missing": (lambda chunks: chunks[1:], r"chunk 1 of \d+"),
    "one too many": (lambda chunks: [*chunks, chunks[0]], "one too many"),
    "none": (lambda chunks: [], r"chunk 1 of \d+ .* is missing"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_snapshot_is_corrupt_and_the_chunk_is_named(name: str) -> None:
    manifest, chunks = a_snapshot(a_busy_region().state)
    damage, message = DAMAGES[name]
    with pytest.raises(Corrupt, match=message) as caught:
        restore(RegionState(), manifest, damage(chunks))
    assert f"the snapshot of {manifest.ledger} after batch {manifest.seq}" in str(caught.value)


def test_a_chunk_that_is_not_the_one_written_is_named_with_both_digests() -> None:
    manifest, chunks = a_snapshot(a_busy_region().state)
    verify(manifest, 1, chunks[1])
    with pytest.raises(Corrupt) as caught:
        verify(manifest, 1, chunks[2])
    told = str(caught.value)
    assert chunk_name(chunks[2]) in told
    assert chunk_name(chunks[1]) in told
    assert f"after batch {manifest.seq}" in told


def test_every_flipped_bit_of_a_manifest_is_noticed() -> None:
    manifest, _ = a_snapshot(a_busy_region().state)
    raw = encode_manifest(manifest)
    for place in range(len(raw)):
        damaged = bytearray(raw)
        damaged[place] ^= 1 << place % 8
        with pytest.raises(Corrupt):
            decode_manifest(bytes(damaged))
        with pytest.raises(Corrupt):
            decode_manifest(raw[:place])


def test_a_manifest_of_a_higher_level_needs_an_upgrade() -> None:
    manifest, _ = a_snapshot(a_busy_region().state)
    with pytest.raises(UpgradeNeeded, match=f"level {LEVEL + 1}"):
        decode_manifest(encode_manifest(replace(manifest, level=LEVEL + 1)))


def test_a_manifest_whose_chunks_are_not_those_of_its_state_is_corrupt() -> None:
    manifest, _ = a_snapshot(a_busy_region().state)
    with pytest.raises(Corrupt, match=manifest.state.hex()):
        decode_manifest(encode_manifest(replace(manifest, parts=manifest.parts[1:])))


def with_chunk(manifest: Manifest, raw: bytes) -> Manifest:
    parts = (*manifest.parts, ManifestEntry(chunk_name(raw), 1, len(raw)))
    return replace(manifest, parts=parts, state=digest_of_chunks(part.name for part in parts))


@pytest.mark.parametrize(
    "content",
    [
        ("tables-of-tomorrow", 1, [[0, 1, [0, "a"], [0, "b"]]]),
        ("leaving", 1, [[0, 1, [0, "a"], [0, True], [0, "more"]]]),
        ("leaving", 1, [[0, 1, [0, "a"], [4, True]]]),
        ("leaving", 1, [[0, 1, [0, 5], [0, True]]]),
        ("leaving", 1, [[0, 2, [2, ["a", "b"]], [1, 9]]]),
        ("leaving", 1, [[0, 2, [2, ["a", "b"]], [0, True]]]),
        ("", 0, [["mood", "good"]]),
    ],
    ids=["a table", "a field", "a kind of column", "a type", "no such column", "another count", "a scalar"],
)
def test_an_intact_chunk_that_this_version_cannot_read_needs_an_upgrade(content: object) -> None:
    manifest, chunks = a_snapshot(a_busy_region().state)
    raw = encode(content)
    with pytest.raises(UpgradeNeeded, match="is intact and cannot be read"):
        restore(RegionState(), with_chunk(manifest, raw), [*chunks, raw])


def test_chunks_of_another_batch_than_the_manifest_says_are_corrupt() -> None:
    manifest, chunks = a_snapshot(a_busy_region().state)
    with pytest.raises(Corrupt, match=f"after batch {manifest.seq + 1} holds the state of"):
        restore(RegionState(), replace(manifest, seq=manifest.seq + 1), chunks)
