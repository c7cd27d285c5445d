"""Where decisions are kept: an index database beside the store, or one in memory."""

from __future__ import annotations

from pathlib import Path

from holdfast.host.kept import Asked, Page, Place, Reading
from holdfast.stores.decisions_find import Search
from holdfast.stores.decisions_sql import APPLICATION_ID, FORMAT, TABLES, DecisionRows
from holdfast.stores.index_database import IndexInFile, IndexInMemory, Schema

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
