"""Stores by their URL, what lies beside them, and whose log is in one.

A store that holds the log of another ledger is not led and not even followed: a server set up as `us-east` on a copy of
`eu-central`'s folder would speak for the wrong region.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.core.ledger.house import LogStarted
from holdfast.core.ledger.snapshot import decode_manifest
from holdfast.core.region.book import REGION
from holdfast.host.audit import KeptAudit
from holdfast.host.kept import Kept
from holdfast.host.store import Store


class UnknownStore(Exception):
    """A store URL that names no store."""


async def open_store(url: str, data: Path) -> Store:
    """The store of this URL. Relative paths lie in the data folder. `StoreError` when it cannot be opened."""
    scheme, _, path = url.partition(":")
    if scheme == "sqlite" and path:
        from holdfast.stores.sqlite import SqliteStore

        return await SqliteStore.open(data / Path(path).expanduser())
    if url == "memory:":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore()
    raise UnknownStore(f"{url!r} names no store; use sqlite:PATH or memory:")


def open_decisions(url: str, data: Path) -> Kept:
    """Where the server of a store keeps decisions: beside its log."""
    from holdfast.stores.decisions import DecisionsInFile, DecisionsInMemory

    folder = _beside(url, data)
    return DecisionsInMemory() if folder is None else DecisionsInFile(folder / "decisions.db")


def open_audit(url: str, data: Path) -> KeptAudit:
    """Where the server of a store keeps its audit: beside its log."""
    from holdfast.stores.audit import AuditInFile, AuditInMemory

    folder = _beside(url, data)
    return AuditInMemory() if folder is None else AuditInFile(folder / "audit.db")


def _beside(url: str, data: Path) -> Path | None:
    """The folder of a store; None: it has none."""
    scheme, _, path = url.partition(":")
    return data / Path(path).expanduser() if scheme == "sqlite" else None


async def ledger_in(store: Store) -> str:
    """Whose log is in the store: `platform`, `region/NAME`; empty when there is none yet, or nothing readable says it.

    A snapshot says it in its manifest, and before there is one the log's first batch does. Loading says what is wrong
    with what cannot be read here.
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
        # Every ledger's reader knows the events that begin a log.
        events: list[Any] = [
            event for record in REGION.batches.read(first.raw, b"", first.digest).records for event in record.events
        ]
    except (Corrupt, UpgradeNeeded):
        return ""
    return next((event.ledger for event in events if isinstance(event, LogStarted)), "")
