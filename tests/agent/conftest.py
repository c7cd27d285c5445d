"""Folders for drivers of processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import Yard, a_yard


@pytest.fixture
def yard() -> Iterator[Yard]:
    """Without cgroups: the same on every machine."""
    with a_yard(cgroups=False) as made:
        yield made


@pytest.fixture(params=["cgroups", "sampled"])
def each_yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    """Once with cgroups, where there are any, and once without."""
    with a_yard(cgroups=request.param == "cgroups") as made:
        yield made


@pytest.fixture
def cgroup_yard() -> Iterator[Yard]:
    """With cgroups, or not at all."""
    with a_yard(cgroups=True) as made:
        yield made
