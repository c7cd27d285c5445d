"""Stores and indexes by URL. The only module that names every engine; it imports an engine when it is opened."""

from __future__ import annotations

from pathlib import Path

from holdfast.host.ports.index_store import AuditStore, DecisionStore
from holdfast.host.ports.store import Store

SCHEMES = ("sqlite", "memory")


class UnknownStore(Exception):
    """A store URL without an engine."""


async def open_store(url: str, data: Path) -> Store:
    """Open the store of this URL; relative paths are in the data folder. `StoreError` if it cannot be opened."""
    scheme, _, path = url.partition(":")
    if scheme == "sqlite" and path:
        from holdfast.stores.sqlite.store import SqliteStore

        return await SqliteStore.open(data / Path(path).expanduser())
    if url == "memory:":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore()
    raise UnknownStore(f"{url!r} names no store; use sqlite:PATH or memory:")


def open_decisions(url: str, data: Path) -> DecisionStore:
    """Return the decision store next to the log of this store."""
    from holdfast.stores.indexes.decision_rows import DecisionDatabase

    folder = _store_folder(url, data)
    return DecisionDatabase(folder and folder / "decisions.db")


def open_audit(url: str, data: Path) -> AuditStore:
    """Return the audit store next to the log of this store."""
    from holdfast.stores.indexes.audit_store import AuditDatabase

    folder = _store_folder(url, data)
    return AuditDatabase(folder and folder / "audit.db")


def _store_folder(url: str, data: Path) -> Path | None:
    """Return the folder of a store; None for a store in memory."""
    scheme, _, path = url.partition(":")
    return data / Path(path).expanduser() if scheme == "sqlite" else None
