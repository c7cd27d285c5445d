"""A command line for every test of commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api.command_line import CommandLine, a_command_line


@pytest.fixture
def holdfast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """A command line against an empty platform, in an empty folder."""
    return a_command_line(tmp_path, monkeypatch)


@pytest.fixture
def shop(holdfast: CommandLine) -> CommandLine:
    """One with two tenants and three workloads."""
    platform = holdfast.platform
    template = {"command": ["/usr/bin/web"], "need": {"cpu": "500m", "memory": "1Gi"}}
    for tenant, name, replicas, ready in (("shop", "web", 3, 3), ("shop", "mail", 12, 2), ("bank", "ledger", 1, 1)):
        spec = {"template": template, "replicas": replicas, "priorityClass": "ordinary"}
        status = {"observedGeneration": 1, "bound": ready, "ready": ready, "serving": ready}
        meta = {"labels": {"app": name}, "createdBy": "person/oncall"}
        platform.hold("Workload", name, spec, tenant, status=status, meta=meta)
    return holdfast
