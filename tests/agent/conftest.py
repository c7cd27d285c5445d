"""Folders for drivers of processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes.process_world import Yard, a_yard, no_namespaces


@pytest.fixture
def yard() -> Iterator[Yard]:
    """Without cgroups and namespaces: the same on every machine."""
    with a_yard(cgroups=False) as made:
        yield made


@pytest.fixture(params=["cgroups", "namespaces", "sampled"])
def each_yard(request: pytest.FixtureRequest) -> Iterator[Yard]:
    """Once with cgroups, once with namespaces, where there are any, and once without either."""
    with a_yard(cgroups=request.param == "cgroups", namespaces=request.param == "namespaces") as made:
        yield made


@pytest.fixture
def cgroup_yard() -> Iterator[Yard]:
    """With cgroups, or not at all; and with namespaces, where there are any."""
    with a_yard(cgroups=True, namespaces=not no_namespaces()) as made:
        yield made
