"""Where decisions are kept: an index database beside the store, or one in memory."""

from __future__ import annotations

from pathlib import Path

from holdfast.host.ports.decision_store import Asked, Page, Reading
from holdfast.host.ports.index_store import Place
from holdfast.stores.indexes.decision_rows import APPLICATION_ID, FORMAT, TABLES, DecisionRows
from holdfast.stores.indexes.decision_search import Search
from holdfast.stores.indexes.index_database import IndexInFile, IndexInMemory, Schema

SCHEMA = Schema("decisions", APPLICATION_ID, FORMAT, TABLES, DecisionRows)


class DecisionsInMemory(IndexInMemory):
    """For stores in memory, tests and simulations."""

    def __init__(self) -> None:
        super().__init__(SCHEMA)

    async def add(self, reading: Reading, place: Place) -> None:
        await self._do(lambda one: DecisionRows(one).add(reading, place), "writing")

    async def find(self, asked: Asked) -> Page:
        return await self._do(lambda one: Search(one, asked, DecisionRows(one).place()).page(), "searching")


class DecisionsInFile(IndexInFile, DecisionsInMemory):
    """For a store in a folder."""

    def __init__(self, path: Path) -> None:
        IndexInFile.__init__(self, SCHEMA, path)
