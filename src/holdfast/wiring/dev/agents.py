"""The agents of a platform on this machine: a process for each node, and the user and interpreter of their runs.

    DATA/nodes/eu-central-1.token    the bearer token of this node's agent
    DATA/nodes/eu-central-1/         the agent's data folder

An agent of root runs nothing as root: each tenant has its own user, which must be able to read the checkout and an
interpreter. A trial checks that, and names the folder that prevents it. Agents of another user let all tenants share
it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

import holdfast
from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.environment import PATH
from holdfast.agent.drivers.process.settings import TENANT_USERS, ProcessSettings
from holdfast.agent.drivers.process.tenant_users import missing_here
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import SystemClock
from holdfast.wiring.agent import TENANT_USERS_DEFAULT, stop_all
from holdfast.wiring.dev.children import ChildProcess
from holdfast.wiring.dev.data_folder import NODES, REGIONS, address, token_file
from holdfast.wiring.dev.simulated_nodes import nodes_of

#: The trial: the example's service, with its imports.
TRIAL = "import holdfast.examples.service"
#: Ports of all nodes of one platform; another platform on this machine uses others.
FIRST_PORT, PORTS, PLATFORMS = 10_000, 300, 36


class RunAs(Struct, frozen=True):
    """The variables of runs, and the range of tenants' users if agents are root; and why runs will fail, if so."""

    environment: tuple[tuple[str, str], ...]
    tenant_users: tuple[int, int] | None = None
    last_error: str = ""


def choose_run_as(source: Path | None = None) -> RunAs:
    """Return the first interpreter that tenants' users can use, or else the first one, with the reason why not."""
    source = source or Path(holdfast.__file__).parents[1]
    found = list(_runners(source))
    return next((one for one in found if not one.last_error), found[0])


def _runners(source: Path) -> Iterator[RunAs]:
    """Yield the own interpreter; and as root the machine's, which tenants' users may be able to read."""
    is_root = os.geteuid() == 0
    users = (TENANT_USERS_DEFAULT if missing_here(TENANT_USERS) else TENANT_USERS) if is_root else None
    others = [shutil.which("python3", path=PATH)] if is_root else []
    for python in [sys.executable, *filter(None, others)]:
        path = ":".join(dict.fromkeys([str(Path(python).parent), *PATH.split(":")]))
        environment = (("PATH", path), ("PYTHONPATH", str(source)))
        user = users[-1] if users is not None else None
        yield RunAs(environment, users, _trouble(user, python, dict(environment), source))


def _trouble(user: int | None, python: str, environment: dict[str, str], source: Path) -> str:
    """Return why this user cannot run the examples; empty: it can."""
    try:
        tried = subprocess.run(
            [python, "-c", TRIAL], cwd="/", env=environment, capture_output=True, timeout=20,
            user=user, group=user, extra_groups=None if user is None else (),
        )  # fmt: skip
        if tried.returncode == 0:
            return ""
        why = tried.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    except (OSError, subprocess.SubprocessError) as error:
        why = str(error)
    closed = next((folder for path in (source, Path(python).resolve()) for folder in _closed(path)), None)
    who = "this user" if user is None else f"a tenant's user, such as {user},"
    if closed is None:
        return f"{who} cannot run {python}: {why}"
    return f"{who} cannot read {source}: {closed} is closed to others\nhint: `chmod o+x {closed}`, or another folder"


def _closed(path: Path) -> Iterator[Path]:
    """Return the folders above this path that other users cannot enter, the outermost first."""
    return (folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001)


def names(count: int) -> list[str]:
    """Return the names of the nodes of all regions."""
    return [node.name for region in REGIONS for node in nodes_of(region, count)]


def agents(data: Path, first: int, count: int, whose: RunAs) -> list[ChildProcess]:
    """Return `count` agents for each region of the platform at this port."""
    nodes = [(region, node) for region in REGIONS for node in nodes_of(region, count)]
    each = PORTS // len(nodes)
    base = FIRST_PORT + first % PLATFORMS * PORTS
    return [
        _agent(data, address(region, first), node, (base + number * each, base + (number + 1) * each - 1), whose)
        for number, (region, node) in enumerate(nodes)
    ]


def _agent(data: Path, server: str, node: RegisterNode, ports: tuple[int, int], whose: RunAs) -> ChildProcess:
    has = node.capacity
    words = {
        "server": server,
        "node": node.name,
        "data": str(data / NODES / node.name),
        "pool": node.pool,
        "zone": node.zone,
        "cpu": f"{has.cpu}m",
        "memory": f"{has.memory}Mi",
        "disk": f"{has.disk}Mi",
        "ports": f"{ports[0]}-{ports[1]}",
        "tenant-users": "-".join(map(str, whose.tenant_users or ())),
        "token-file": str(token_file(data, node.name)),
    }
    command = [sys.executable, "-m", "holdfast.cli.main", "agent", "--stop-work"]
    command += [f"--{name}={value}" for name, value in words.items() if value]
    command += [] if os.geteuid() == 0 else ["--share-user"]
    command += [f"--label={key}={value}" for key, value in node.labels]
    command += [f"--environment={key}={value}" for key, value in whose.environment]
    return ChildProcess(node.name, command, data / "logs" / f"{node.name}.log")


async def end_left_behind(data: Path) -> None:
    """End all runs that killed agents have left in a folder, before it is emptied."""
    for slots in sorted((data / NODES).glob("*/slots")):
        await stop_all(ProcessDriver(ProcessSettings(folder=str(slots.parent)), SystemClock()))
