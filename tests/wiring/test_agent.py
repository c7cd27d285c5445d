"""An agent's process: what it tells whoever started it."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.host.ports.clock import SystemClock
from holdfast.host.runtime.telemetry import Metrics
from holdfast.wiring import agent
from holdfast.wiring.dev import agents
from holdfast.wiring.machine import MachineOptions, connected
from holdfast.wiring.process import StartupError
from tests.support.event_loop import in_a_loop
from tests.support.processes.process_world import until_true


@in_a_loop
async def test_a_disk_that_takes_no_ready_file_stops_no_agent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "full").touch()
    registered = asyncio.Event()
    registered.set()
    node: Any = SimpleNamespace(is_registered=registered)
    with caplog.at_level(logging.WARNING):
        telling = asyncio.create_task(agent.write_ready_file([node], tmp_path / "full" / "ready.json"))
        await until_true(lambda: "not-told-ready" in caplog.text)
    assert not telling.done(), "it goes on"
    telling.cancel()


@in_a_loop
async def test_a_disk_that_hangs_over_the_ready_file_stops_no_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, over = threading.Event(), threading.Event()

    def hung(*_args: Any, **_given: Any) -> None:
        begun.set()
        assert over.wait(60), "the loop waits for the disk"

    monkeypatch.setattr(agent, "write_private", hung)
    registered = asyncio.Event()
    registered.set()
    node: Any = SimpleNamespace(is_registered=registered)
    telling = asyncio.create_task(agent.write_ready_file([node], tmp_path / "ready.json"))
    await until_true(begun.is_set)
    assert not over.is_set(), "it hangs, and the loop does not"
    over.set()
    telling.cancel()


@in_a_loop
async def test_a_nodes_folder_is_one_agents_and_is_free_again_when_that_has_ended(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir(mode=0o711)
    (tmp_path / "n1" / "lock").touch(mode=0o644)
    async with agent.lock_node_folder(tmp_path / "n1"):
        # Tenants pass through the folder, and whoever can open a file can lock it.
        assert (tmp_path / "n1" / "lock").stat().st_mode & 0o777 == 0o600
        with pytest.raises(StartupError, match=rf"in use by process {os.getpid()}\nhint: a node has one agent"):
            async with agent.lock_node_folder(tmp_path / "n1"):
                pass
        async with agent.lock_node_folder(tmp_path / "n2"):
            pass
    async with agent.lock_node_folder(tmp_path / "n1"):
        pass


@in_a_loop
async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StartupError, match="file/n1"):
        async with agent.lock_node_folder(tmp_path / "file" / "n1"):
            pass


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tenant_users": (0, 100_000)}, "no range of users from 10000 on"),
        ({"tenant_users": (300_000, 200_000)}, "no range of users"),
        ({"tenant_users": (200_000, 2**32 - 1)}, "no range of users"),
        ({"users": (("shop", "root"),)}, "run as root"),
        ({"users": (("shop", "www"), ("shop", "0"))}, "run as root"),
    ],
    ids=str,
)
def test_a_node_that_cannot_keep_tenants_apart_as_it_is_told_does_not_start(
    tmp_path: Path, fields: dict[str, Any], why: str
) -> None:
    [said] = agent.invalid_node_options(agent.NodeOptions(data=tmp_path, **fields))
    assert why in said


def test_a_root_agent_in_a_container_with_too_few_users_is_told_which_to_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(agent, "missing_here", lambda numbers: numbers[1] >= 65_536)
    [said] = agent.invalid_node_options(agent.NodeOptions(data=tmp_path))
    assert said.endswith("there are no such users in this container; use --tenant-users 40000-59999")
    assert list(agent.invalid_node_options(agent.NodeOptions(data=tmp_path, tenant_users=(40_000, 59_999)))) == []


def test_what_is_one_tenants_shares_its_user_with_nobody(tmp_path: Path) -> None:
    assert list(agent.invalid_node_options(agent.NodeOptions(data=tmp_path, tenant="shop"))) == []
    assert list(agent.invalid_node_options(agent.NodeOptions(data=tmp_path, share_user=True))) == []
    (why,) = agent.invalid_node_options(agent.NodeOptions(data=tmp_path, tenant="shop", share_user=True))
    assert "--tenant or --share-user" in why


@pytest.mark.parametrize(
    ("said", "tenant", "shares"),
    [({}, "", False), ({"share_user": True}, "", True), ({"tenant": "shop"}, "shop", False)],
)
def test_a_node_is_registered_with_whom_it_is_for(
    tmp_path: Path, said: dict[str, Any], tenant: str, shares: bool
) -> None:
    found = agent._registered("n1", agent.NodeOptions(data=tmp_path, **said))
    assert (found.tenant, found.shares_user) == (tenant, shares)


@pytest.mark.parametrize(("user", "shares"), [(0, False), (1_000, True)])
def test_agents_of_a_platform_on_this_machine_share_a_user_only_where_they_are_not_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, shares: bool
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)
    parts = agents.agents(tmp_path, 7400, 1, agents.RunAs(()))
    assert [("--share-user" in part.command) for part in parts] == [shares] * len(parts)


@pytest.mark.parametrize("insecure", [False, True])
@pytest.mark.parametrize("kind", ["agent", "scheduler"])
@in_a_loop
async def test_a_machine_that_is_told_to_be_insecure_says_so_at_the_start(
    kind: str, insecure: bool, caplog: pytest.LogCaptureFixture
) -> None:
    wish = MachineOptions(kind, ("https://eu.example:7401",), "n1", "token", insecure=insecure)
    with caplog.at_level(logging.WARNING):
        async with connected(wish, SystemClock(), Metrics()):
            pass
    assert ("insecure" in caplog.text) == insecure
