"""What every store promises of snapshots: chunks first, the manifest last."""

from __future__ import annotations

import pytest

from holdfast.host.ports.store import StoreCorrupt, StoreError
from tests.support.event_loop import in_a_loop
from tests.support.hosts.stores import MIB, Opening


@in_a_loop
async def test_a_chunk_comes_back_as_it_was_put(opening: Opening) -> None:
    async with opening() as store:
        chunks = {f"chunk-{number}": bytes([number]) * (number * 200_000) for number in range(4)}
        for name, raw in chunks.items():
            await store.put_chunk(7, name, raw)
        await store.put_manifest(7, b"manifest of 7")
    async with opening() as store:
        assert {name: await store.get_chunk(7, name) for name in chunks} == chunks
        assert await store.manifests() == [(7, b"manifest of 7")]


@in_a_loop
async def test_chunks_of_one_name_in_two_snapshots_are_two_chunks(opening: Opening) -> None:
    async with opening() as store:
        await store.put_chunk(7, "chunk", b"of 7")
        await store.put_chunk(9, "chunk", b"of 9")
        assert await store.get_chunk(7, "chunk") == b"of 7"


@in_a_loop
async def test_a_chunk_can_be_put_again(opening: Opening) -> None:
    async with opening() as store:
        await store.put_chunk(7, "chunk", b"half of what was m")
        await store.put_chunk(7, "chunk", b"meant")
        assert await store.get_chunk(7, "chunk") == b"meant"


@in_a_loop
async def test_a_chunk_that_is_not_there_is_named(opening: Opening) -> None:
    async with opening() as store:
        await store.put_manifest(7, b"")
        with pytest.raises(StoreCorrupt, match="chunk gone of snapshot 7 is missing\nhint: load the snapshot before"):
            await store.get_chunk(7, "gone")


@in_a_loop
async def test_a_snapshot_without_a_manifest_is_a_leftover(opening: Opening) -> None:
    async with opening() as store:
        await store.put_chunk(9, "chunk", b"")
        await store.put_chunk(7, "chunk", b"")
        assert await store.manifests() == []
        assert await store.unfinished() == [7, 9]
        await store.put_manifest(7, b"")
        assert await store.unfinished() == [9]


@in_a_loop
async def test_manifests_come_newest_first(opening: Opening) -> None:
    async with opening() as store:
        for seq in (9, 100, 20):
            await store.put_manifest(seq, str(seq).encode())
        assert await store.manifests() == [(100, b"100"), (20, b"20"), (9, b"9")]


@in_a_loop
async def test_a_dropped_snapshot_is_gone_and_the_others_stay(opening: Opening) -> None:
    async with opening() as store:
        for seq in (7, 9):
            await store.put_chunk(seq, "chunk", b"raw")
            await store.put_manifest(seq, b"m")
        await store.put_chunk(11, "chunk", b"raw")
        await store.drop_snapshot(7)
        await store.drop_snapshot(11)
        await store.drop_snapshot(12)
        assert await store.manifests() == [(9, b"m")]
        assert await store.unfinished() == []
        assert await store.get_chunk(9, "chunk") == b"raw"
        with pytest.raises(StoreCorrupt):
            await store.get_chunk(7, "chunk")


@in_a_loop
async def test_snapshots_count_as_used_until_they_are_dropped(opening: Opening) -> None:
    async with opening() as store:
        before = (await store.usage()).used
        await store.put_chunk(7, "chunk", bytes(MIB))
        await store.put_manifest(7, bytes(100))
        await store.put_manifest(7, bytes(200))
        assert (await store.usage()).used == before + MIB + 200
    async with opening() as store:
        assert (await store.usage()).used == before + MIB + 200
        await store.drop_snapshot(7)
        assert (await store.usage()).used == before


@in_a_loop
async def test_a_chunk_for_which_there_is_no_room_is_refused_and_leaves_nothing(opening: Opening) -> None:
    async with opening(limit_bytes=2 * MIB) as store:
        with pytest.raises(StoreError, match=r"no room for 3,145,728 bytes of chunk big of snapshot 7(.|\n)*hint:"):
            await store.put_chunk(7, "big", bytes(3 * MIB))
        assert await store.unfinished() == []
