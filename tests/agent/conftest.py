"""Folders for drivers of processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes.process_world import ProcessFolder, a_process_folder, no_namespaces


@pytest.fixture
def yard() -> Iterator[ProcessFolder]:
    """Without cgroups and namespaces: the same on every machine."""
    with a_process_folder(cgroups=False) as made:
        yield made


@pytest.fixture(params=["cgroups", "namespaces", "sampled"])
def each_yard(request: pytest.FixtureRequest) -> Iterator[ProcessFolder]:
    """Once with cgroups, once with namespaces, where there are any, and once without either."""
    with a_process_folder(cgroups=request.param == "cgroups", namespaces=request.param == "namespaces") as made:
        yield made


@pytest.fixture
def cgroup_yard() -> Iterator[ProcessFolder]:
    """With cgroups, or not at all; and with namespaces, where there are any."""
    with a_process_folder(cgroups=True, namespaces=not no_namespaces()) as made:
        yield made
