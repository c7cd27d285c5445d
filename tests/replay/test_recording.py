"""A recording is the log of a store in one file: whole, the same each time, and never read wrongly."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.core.ledger.builtin.log import RecordDigest
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.ledger.state.snapshot import encode_manifest
from holdfast.core.platform.commands import Put
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ports.store import Store, StoredBatch
from holdfast.host.storage.load import Damaged
from holdfast.replay import recording as r
from holdfast.replay.effects import EFFECT_BYTES
from holdfast.replay.recorder import record
from holdfast.replay.refold import LEDGER_DEFINITIONS, refold
from holdfast.stores.memory import MemoryStore
from tests.support.event_loop import in_a_loop, run
from tests.support.generated.golden_logs import region_story
from tests.support.hosts.stores import sqlite_opening, written
from tests.support.ledgers.platform import PlatformBench, a_tenant
from tests.support.ledgers.region import ROOT, RegionBench
from tests.support.ledgers.snapshots import a_snapshot

Log = list[tuple[bytes, bytes]]
RUN = r.RecordedRun(7, "quiet", "one server and nothing happens\n")


async def kept(log: Log, store: Store) -> Store:
    """The store, with this log in it."""
    head = await store.head()
    log_id = REGION.batches.header(log[0][0]).log_id if log else ""
    for raw, digest in log:
        head = written(await store.append(head, StoredBatch(log_id, head.seq + 1, digest, raw)))
    return store


async def keep_snapshot(state: RegionState, store: Store) -> None:
    manifest, chunks = a_snapshot(state)
    for part, raw in zip(manifest.parts, chunks, strict=True):
        await store.put_chunk(manifest.seq, part.name, raw)
    await store.put_manifest(manifest.seq, encode_manifest(manifest))


def recorded(log: Log, which: r.LedgerKind = "region", name: str = "region/eu") -> r.LedgerRecording:
    async def story() -> r.LedgerRecording:
        return await record(await kept(log, MemoryStore()), which, name)

    return run(story())


def a_small_recording() -> r.Recording:
    """A region and a platform, each with a few batches."""
    region, platform = RegionBench(), PlatformBench()
    region.a_node()
    platform.accept(ROOT, Put(a_tenant()))
    return r.Recording(RUN, (recorded(region.log), recorded(platform.log, "platform", "platform")))


# The file


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "one.hfr"
    r.write(a_small_recording(), path)
    assert r.read(path) == a_small_recording()
    assert [file.name for file in tmp_path.iterdir()] == ["one.hfr"]


def test_every_changed_byte_is_found() -> None:
    whole = r.to_bytes(a_small_recording())
    places = {*range(16), *range(16, len(whole), 13), *range(len(whole) - 32, len(whole))}
    for place in sorted(places):
        for bits in (1, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[place] ^= bits
            with pytest.raises(r.RecordingDamaged if place >= len(r.MAGIC) else r.NotARecording):
                r.from_bytes(bytes(changed))


def test_every_missing_or_added_end_is_found() -> None:
    whole = r.to_bytes(a_small_recording())
    for length in {*range(64), *range(64, len(whole), 17), len(whole) - 1}:
        with pytest.raises((r.RecordingDamaged, r.NotARecording)):
            r.from_bytes(whole[:length])
    with pytest.raises(r.RecordingDamaged):
        r.from_bytes(whole + b"\0")


def test_another_file_is_not_a_recording(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    with pytest.raises(r.NotARecording, match=r"notes\.txt: not a recording: it has 10 bytes.*hint: "):
        r.read(path)


def a_file_of(version: int, body: bytes) -> bytes:
    head = r.MAGIC + version.to_bytes(2, "big") + body
    return head + hashlib.blake2b(head, digest_size=32).digest()


def test_a_newer_version_is_refused_by_its_number_and_a_damaged_one_is_called_damaged() -> None:
    newer = a_file_of(r.VERSION + 1, b"what nobody knows yet")
    with pytest.raises(r.RecordingTooNew, match=f"version {r.VERSION + 1}, .* version {r.VERSION}"):
        r.from_bytes(newer)
    with pytest.raises(r.RecordingDamaged, match="copy the file again"):
        r.from_bytes(newer[:20] + b"?" + newer[21:])


def test_an_intact_file_with_something_else_inside_is_refused() -> None:
    with pytest.raises(r.RecordingTooNew, match="this version cannot read it"):
        r.from_bytes(a_file_of(r.VERSION, b"no zlib"))


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "one.hfr"
    r.write(r.Recording(RUN, ()), path)

    def no_room(_file: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(OSError, match="no space left"):
        r.write(a_small_recording(), path)
    assert r.read(path) == r.Recording(RUN, ())
    assert [file.name for file in tmp_path.iterdir()] == ["one.hfr"]


def digest_of_a_file() -> str:
    bench = region_story()
    ledgers = recorded(bench.log), run(a_trimmed_recording(bench))
    return hashlib.sha256(r.to_bytes(r.Recording(RUN, ledgers))).hexdigest()


def test_a_recording_is_the_same_file_under_every_hash_seed() -> None:
    code = "from tests.replay.test_recording import digest_of_a_file; print(digest_of_a_file())"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "4242")
    }
    assert found == {digest_of_a_file() + "\n"}


# From a store


def test_a_log_is_recorded_with_one_digest_for_each_event_and_that_of_its_state() -> None:
    bench = region_story()
    ledger = recorded(bench.log)
    assert (ledger.name, ledger.definition, ledger.start) == ("region/eu", "region", None)
    assert [(entry.raw, entry.digest) for entry in ledger.entries] == bench.log
    assert ledger.state == state_digest(bench.state)
    previous = b""
    for entry in ledger.entries:
        batch = REGION.batches.read(entry.raw, previous, entry.digest)
        assert len(entry.effects) == EFFECT_BYTES * sum(len(record.events) for record in batch.records)
        previous = entry.digest


def test_a_digest_covers_every_event_before_it() -> None:
    bench = RegionBench()
    for _ in range(2):
        bench.accept("ledger", RecordDigest(1, b""))  # changes nothing
    one, other = recorded(bench.log).entries[-2:]
    assert one.effects != other.effects


def test_the_books_are_known_by_their_own_names() -> None:
    assert {name: definition.name for name, definition in LEDGER_DEFINITIONS.items()} == {
        "region": "region",
        "platform": "platform",
    }
    assert (LEDGER_DEFINITIONS["region"], LEDGER_DEFINITIONS["platform"]) == (REGION, PLATFORM)


def test_an_empty_store_is_recorded_as_an_empty_log() -> None:
    ledger = recorded([])
    assert ledger.entries == ()
    assert refold(r.Recording(None, (ledger,))) is None


@in_a_loop
async def test_a_log_in_sqlite_is_the_recording_of_the_same_log_in_memory(tmp_path: Path) -> None:
    bench = region_story()
    in_memory = await record(await kept(bench.log, MemoryStore()), "region", "region/eu")
    async with sqlite_opening(tmp_path)() as store:
        await kept(bench.log, store)
        assert await record(store, "region", "region/eu") == in_memory


# From a log that was trimmed


async def a_trimmed_store(bench: RegionBench, store: Store) -> tuple[int, int, int]:
    """A log trimmed up to batch 15, and three snapshots, the first too old for it; the batches they are of."""
    await kept(bench.log, store)
    state = RegionState()
    for raw, digest in bench.log:
        fold(REGION, state, REGION.batches.read(raw, state.info.digest, digest))
        if state.info.seq in (10, 20, 30):
            await keep_snapshot(state, store)
    written(await store.trim(state.info.log_id, 15))
    return 10, 20, 30


async def a_trimmed_recording(bench: RegionBench) -> r.LedgerRecording:
    store = MemoryStore()
    await a_trimmed_store(bench, store)
    return await record(store, "region", "region/trimmed")


def first_seq(ledger: r.LedgerRecording) -> int:
    return REGION.batches.header(ledger.entries[0].raw).seq


@in_a_loop
async def test_a_trimmed_log_is_recorded_from_the_oldest_snapshot_that_reaches_its_floor(tmp_path: Path) -> None:
    bench = region_story()
    async with sqlite_opening(tmp_path)() as store:
        _, second, _ = await a_trimmed_store(bench, store)
        ledger = await record(store, "region", "region/trimmed")
    assert first_seq(ledger) == second + 1
    assert ledger.state == state_digest(bench.state)
    assert refold(r.Recording(None, (ledger,))) is None
    assert r.from_bytes(r.to_bytes(r.Recording(None, (ledger,)))).ledgers == (ledger,)


@in_a_loop
async def test_a_damaged_snapshot_is_passed_over_for_the_next() -> None:
    bench, store = region_story(), MemoryStore()
    _, second, third = await a_trimmed_store(bench, store)
    manifest = dict(await store.manifests())[second]
    await store.drop_snapshot(second)
    await store.put_manifest(second, manifest)  # without its chunks
    ledger = await record(store, "region", "region/trimmed")
    assert first_seq(ledger) == third + 1
    assert refold(r.Recording(None, (ledger,))) is None


@in_a_loop
async def test_a_trimmed_log_without_a_snapshot_cannot_be_recorded() -> None:
    store = MemoryStore()
    for seq in (await a_trimmed_store(region_story(), store))[1:]:
        await store.drop_snapshot(seq)
    with pytest.raises(Damaged, match="no intact snapshot reaches back to batch 15"):
        await record(store, "region", "region/trimmed")


def test_a_log_is_recorded_even_where_it_cannot_be_folded() -> None:
    log = region_story().log
    ledger = recorded([*log[:5], (log[5][0], b"\0" * 32), *log[6:]])
    assert len(ledger.entries) == len(log)
    assert ledger.entries[4].effects
    assert not any(entry.effects for entry in ledger.entries[5:])
    assert ledger.state == b""
    assert r.from_bytes(r.to_bytes(r.Recording(None, (ledger,)))) == r.Recording(None, (ledger,))
