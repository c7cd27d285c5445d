"""The decision store: an index database next to the log, or one in memory."""

from __future__ import annotations

from pathlib import Path

from holdfast.host.ports.decision_store import DecisionBatch, DecisionPage, DecisionQuery
from holdfast.host.ports.index_store import IndexPosition
from holdfast.stores.indexes.decision_rows import APPLICATION_ID, FORMAT, TABLES, DecisionRows
from holdfast.stores.indexes.decision_search import DecisionSearch
from holdfast.stores.indexes.index_database import IndexDatabase, IndexSchema

SCHEMA = IndexSchema("decisions", APPLICATION_ID, FORMAT, TABLES, DecisionRows)


class DecisionDatabase(IndexDatabase):
    """Decisions of a store in a folder, or in memory."""

    def __init__(self, path: Path | None = None) -> None:
        super().__init__(SCHEMA, path)

    async def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
        await self._do(lambda one: DecisionRows(one).add(reading, position), "writing")

    async def find(self, query: DecisionQuery) -> DecisionPage:
        return await self._do(lambda one: DecisionSearch(one, query, DecisionRows(one).position()).page(), "searching")
