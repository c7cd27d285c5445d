"""Stores by their URL, and whose log is in one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.host.ledger.ledger import Role
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.stores.memory import MemoryStore
from holdfast.stores.registry import UnknownStore, open_store
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.wiring.storage import log_owner
from tests.support.event_loop import in_a_loop
from tests.support.hosts.ledger_world import World, in_world, until


@in_a_loop
async def test_a_relative_path_lies_in_the_data_folder_and_an_absolute_one_where_it_says(tmp_path: Path) -> None:
    for url, there in (("sqlite:a/b", tmp_path / "data" / "a" / "b"), (f"sqlite:{tmp_path}/c", tmp_path / "c")):
        store = await open_store(url, tmp_path / "data")
        assert isinstance(store, SqliteStore)
        await store.close()
        assert (there / "log.db").exists()


@in_a_loop
async def test_a_store_in_memory_has_no_path(tmp_path: Path) -> None:
    assert isinstance(await open_store("memory:", tmp_path), MemoryStore)


@pytest.mark.parametrize("url", ["postgres:x", "sqlite:", "memory:x", ""])
def test_an_unknown_store_is_refused_with_those_that_are_known(tmp_path: Path, url: str) -> None:
    with pytest.raises(UnknownStore, match="sqlite:PATH or memory:"):
        asyncio.run(open_store(url, tmp_path))


def test_an_empty_store_is_nobodys() -> None:
    assert asyncio.run(log_owner(MemoryStore())) == ""


def test_a_log_says_whose_it_is_by_its_first_batch_and_once_trimmed_by_a_snapshot() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = world.server(store, policy=SnapshotPolicy(log_batches=5, retention_ms=1)).start()
        await server.leads()
        assert await log_owner(store) == "region/eu"
        for number in range(40):
            await server.override(f"k{number}")
            await world.clock().sleep(500)
        await until(lambda: store._head.floor > 0, world.clock())
        assert server.ledger.role is Role.LEADING
        assert await log_owner(store) == "region/eu"

    in_world(story)
