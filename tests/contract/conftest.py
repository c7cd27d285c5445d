"""The implementations of the store port."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hosts.stores import Opening, memory_opening, simulated_opening, sqlite_opening


@pytest.fixture(params=["memory", "simulated", "sqlite"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    if request.param == "memory":
        return memory_opening()
    if request.param == "simulated":
        return simulated_opening()
    return sqlite_opening(tmp_path / "store")
