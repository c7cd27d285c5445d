"""The implementations of the store port."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stores import Opening, memory_opening, sqlite_opening


@pytest.fixture(params=["memory", "sqlite"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    return memory_opening() if request.param == "memory" else sqlite_opening(tmp_path / "store")
