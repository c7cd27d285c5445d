"""Stores and indexes by URL. The only module that names every engine; it imports an engine when it is opened."""

from __future__ import annotations

from pathlib import Path

from holdfast.host.ports.audit_store import AuditStore
from holdfast.host.ports.decision_store import DecisionStore
from holdfast.host.ports.store import Store

SCHEMES = ("sqlite", "memory")


class UnknownStore(Exception):
    """A store URL that names no store."""


async def open_store(url: str, data: Path) -> Store:
    """The store of this URL. Relative paths lie in the data folder. `StoreError` when it cannot be opened."""
    scheme, _, path = url.partition(":")
    if scheme == "sqlite" and path:
        from holdfast.stores.sqlite.store import SqliteStore

        return await SqliteStore.open(data / Path(path).expanduser())
    if url == "memory:":
        from holdfast.stores.memory import MemoryStore

        return MemoryStore()
    raise UnknownStore(f"{url!r} names no store; use sqlite:PATH or memory:")


def open_decisions(url: str, data: Path) -> DecisionStore:
    """Where the server of a store keeps decisions: beside its log."""
    from holdfast.stores.indexes.decision_store import MemoryDecisionStore, SqliteDecisionStore

    folder = _store_folder(url, data)
    return MemoryDecisionStore() if folder is None else SqliteDecisionStore(folder / "decisions.db")


def open_audit(url: str, data: Path) -> AuditStore:
    """Where the server of a store keeps its audit: beside its log."""
    from holdfast.stores.indexes.audit_store import MemoryAuditStore, SqliteAuditStore

    folder = _store_folder(url, data)
    return MemoryAuditStore() if folder is None else SqliteAuditStore(folder / "audit.db")


def _store_folder(url: str, data: Path) -> Path | None:
    """The folder of a store; None: it has none."""
    scheme, _, path = url.partition(":")
    return data / Path(path).expanduser() if scheme == "sqlite" else None
