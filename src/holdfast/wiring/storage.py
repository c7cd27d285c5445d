"""Opens a server's store in its data folder, and checks whose log it holds.

A server does not use the log of another ledger: a server set up as `us-east` on a copy of `eu-central`'s folder would
act for the wrong region.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.core.ledger.builtin.log import LogStarted
from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.core.ledger.state.snapshot import decode_manifest
from holdfast.core.region.definition import REGION
from holdfast.host.ports.store import Store, StoreCorrupt, StoreError
from holdfast.replay.recorder import ledger_kind, ledger_name_in, record
from holdfast.replay.recording import Recording
from holdfast.stores.registry import open_store
from holdfast.stores.sqlite.store import SqliteStore
from holdfast.wiring.config.private_files import make_folder
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.process import StartupError


async def log_owner(store: Store) -> str:
    """Return whose log is in the store: `platform`, `region/NAME`; empty if it is empty or unreadable.

    A snapshot states it in its manifest, the log in its first batch. Loading the ledger reports unreadable parts.
    """
    for _, raw in await store.manifests():
        try:
            return decode_manifest(raw).ledger
        except (Corrupt, UpgradeNeeded):
            continue
    head = await store.head()
    if head.seq == 0 or head.floor:
        return ""
    first = (await store.read(1, 1))[0]
    try:
        # The readers of both ledgers decode the events that begin a log.
        events: list[Any] = [
            event for record in REGION.batches.read(first.raw, b"", first.digest).records for event in record.events
        ]
    except (Corrupt, UpgradeNeeded):
        return ""
    return next((event.ledger for event in events if isinstance(event, LogStarted)), "")


async def record_folder(folder: Path) -> Recording:
    """Record the ledger in a folder; its log states whose it is. Raises `StoreError` and the errors of `record`."""
    store = await SqliteStore.open(folder, ballast_bytes=0)
    try:
        name = await ledger_name_in(store)
        return Recording(None, (await record(store, ledger_kind(name), name),))
    finally:
        await store.close()


def ledger_name(settings: ServerSettings) -> str:
    """Return whose ledger it is, as the log states it."""
    return "platform" if settings.role == "platform" else f"region/{settings.region}"


def data_folder(settings: ServerSettings) -> Path:
    """Return the server's folder, created if it is missing."""
    data = Path(settings.data)
    try:
        make_folder(data)
    except OSError as error:
        raise StartupError(f"the data folder {data}: {error.strerror}\nhint: use another --data FOLDER") from error
    return data


async def open_server_store(settings: ServerSettings) -> Store:
    """Open the server's store, and remove the ready file of an earlier process."""
    data = data_folder(settings)
    try:
        store = await open_store(settings.store, data)
        (data / "ready.json").unlink(missing_ok=True)
        return store
    except StoreCorrupt:
        raise
    except StoreError as error:
        raise StartupError(str(error)) from error


async def check_log_owner(settings: ServerSettings, store: Store) -> None:
    """Raise `StartupError` if the store holds the log of another ledger."""
    try:
        found, ours = await log_owner(store), ledger_name(settings)
    except StoreCorrupt:
        raise
    except StoreError as error:
        raise StartupError(str(error)) from error
    if found and found != ours:
        hint = "hint: name the store of this ledger with --data or --store, or start this server as that one"
        raise StartupError(f"{store.name} holds the log of {found}, and this server is set up for {ours}\n{hint}")
