"""A node's agent, from what it is told to its exit code.

| exit code | |
|---|---|
| 0 | it was asked to stop, by SIGTERM or SIGINT; what runs goes on, or ends with it if that was said |
| 1 | it could not start: the message names what, and what to do next |
| 4 | another agent speaks for its node; what this one ran has ended. Not to be started again while that one runs |
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

import holdfast
from holdfast.agent.agent import Agent, AgentSuperseded
from holdfast.agent.drivers.driver import RunState
from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.settings import TENANT_MAP, TENANT_USERS, ProcessSettings
from holdfast.agent.drivers.process.tenant_users import missing_here
from holdfast.agent.lease_times import lease_times_on_disk
from holdfast.agent.machine_identity import machine_of
from holdfast.agent.node_load import MachineLoad, detect_capacity
from holdfast.agent.prober import NodeProber
from holdfast.agent.term_fence import TermFence
from holdfast.agent.term_fence import term_fence_on_disk as terms_on_disk
from holdfast.core.model.records.nodes import Device, Machine
from holdfast.core.model.values.limits import NODE_PORTS_MAX
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import Clock, SystemClock
from holdfast.host.ports.store import StoreError, StoreInUse
from holdfast.host.protocol.session_client import SessionConfig
from holdfast.host.runtime.blocking_calls import BlockingCalls
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.observe import log_output
from holdfast.stores.files.folder import FolderLock
from holdfast.wiring.agent_parts import AgentPorts, build_agent
from holdfast.wiring.config.private_files import write_private
from holdfast.wiring.machine import MachineOptions, connected, credentials
from holdfast.wiring.process import ExitCode, StartupError, print_machine_status, until_signalled

AGENT = "agent"
PORTS = (30_000, 30_999)
#: Below are the machine's own users and its people's; and what there is where a container has 65,536 users in all.
USER_MIN = 10_000
TENANT_USERS_DEFAULT = (40_000, 59_999)
READY = "ready.json"
#: So long all that runs has to end, when it ends with its agent.
STOP_MS = 3_000


class NodeOptions(Struct, frozen=True, kw_only=True):
    """What is said of a node: where it keeps things, what it is, and who may run on it."""

    data: Path
    pool: str = "general"
    zone: str = "default"
    address: str = "127.0.0.1"
    labels: tuple[tuple[str, str], ...] = ()
    #: What it has; 0 of something: what its machine says.
    capacity: Resources = ZERO
    devices: tuple[Device, ...] = ()
    ports: tuple[int, int] = PORTS
    #: What lies in this folder lies ready for those who use it.
    present: Path | None = None
    #: What every process here is given, unless its template says otherwise.
    environment: tuple[tuple[str, str], ...] = ()
    #: The numbers of tenants' users, where all agents of the machine remember whose they are, and pairs of a tenant
    #: and a user that it may name, too.
    tenant_users: tuple[int, int] = TENANT_USERS
    tenant_map: Path = Path(TENANT_MAP)
    users: tuple[tuple[str, str], ...] = ()
    #: DIR/TENANT are the secrets of a tenant; and pairs of a tenant and a variable of the agent's.
    secret_folder: Path | None = None
    secret_variables: tuple[tuple[str, str], ...] = ()
    cgroups: bool = True
    namespaces: bool = True
    #: Files of the agent's own that nothing it runs may see, beside its folder.
    hidden: tuple[str, ...] = ()
    #: Whose work alone it takes; empty: anybody's, and where all of it runs as one user, one tenant's at a time.
    tenant: str = ""
    #: Whether tenants may share a user where they have none of their own.
    share_user: bool = False
    #: Whether all that it runs is stopped with it, when it is asked to stop.
    stop_work: bool = False


def invalid_node_options(node: NodeOptions) -> Iterator[str]:
    """Why it cannot be meant so, each with the way out."""
    first, last = node.ports
    if not 0 < first <= last <= 65_535:
        yield f"ports {first}-{last} are no range within 1 to 65535; say --ports {PORTS[0]}-{PORTS[1]}"
    if last - first >= NODE_PORTS_MAX:
        yield f"ports {first}-{last} are more than the {NODE_PORTS_MAX} that a node hands out; say --ports with fewer"
    if not node.pool or not node.zone:
        yield "a node is in a pool and in a zone; say --pool and --zone"
    if node.tenant and node.share_user:
        yield "what is one tenant's shares its user with nobody; say --tenant or --share-user"
    if {"0", "root"} & {user for _, user in node.users}:
        yield "nothing of a tenant's runs as root; name another --allow-user"
    low, high = node.tenant_users
    if not USER_MIN <= low <= high < 2**32 - 1:
        yield f"--tenant-users {low}-{high} is no range of users from {USER_MIN} on; say {_said(TENANT_USERS)}"
    elif os.geteuid() == 0 and missing_here(node.tenant_users):
        users = f"--tenant-users {low}-{high}"
        yield f"{users}: there are no such users in this container; say {_said(TENANT_USERS_DEFAULT)}"


def _said(users: tuple[int, int]) -> str:
    return f"--tenant-users {users[0]}-{users[1]}"


def run(options: MachineOptions, node: NodeOptions) -> int:
    """Run an agent until it is asked to stop or has to; its exit code. Of wishes with nothing wrong."""
    log_output.configure_logging(options.log_level, options.log_form)
    return int(asyncio.run(until_signalled(lambda asked: run_agent(options, node, SystemClock(), asked))))


async def run_agent(options: MachineOptions, node: NodeOptions, clock: Clock, asked: asyncio.Event) -> ExitCode:
    """Be a node's agent within this loop until `asked` to stop."""
    metrics = Metrics()
    try:
        proof = credentials(options)
        async with connected(options, clock, metrics) as transport, lock_node_folder(node.data):
            sender, registered = SessionConfig(options.actor, options.servers, proof), _registered(options.name, node)
            driver, times = _driver(node, clock, registered.capacity), lease_times_on_disk(node.data)
            asking = NodeProber(driver, clock, node.address)
            ports = AgentPorts(driver, asking, _terms(node.data), times, MachineLoad(clock, node.present))
            agent = build_agent(registered, sender, transport, clock, ports, metrics)
            await driver.sweep()
            try:
                await run_until_first(agent.run(), write_ready_file([agent], node.data / READY), asked.wait())
            except AgentSuperseded:  # from now on nobody speaks for what runs here, nor would anybody ever end it
                Logger(AGENT, node=options.name).warning("superseded", then="all that it runs is ended")
                await stop_all(_driver(node, clock), times.now.grace)
                raise
            finally:
                (node.data / READY).unlink(missing_ok=True)
                await asking.close()
            if node.stop_work:
                await stop_all(_driver(node, clock))
    except StartupError as error:
        print_machine_status(AGENT, f"cannot start: {error}")
        return ExitCode.CANNOT_START
    except AgentSuperseded as error:
        hint = "hint: a node has one agent; stop the other one, or give this node another name"
        print_machine_status(AGENT, f"stopped: {error}\n{hint}")
        return ExitCode.SUPERSEDED
    Logger(AGENT, node=options.name).info("stopping", why="asked to")
    return ExitCode.ASKED


def _registered(name: str, node: NodeOptions) -> RegisterNode:
    gpu = sum(device.milli for device in node.devices)
    said, found = node.capacity, detect_capacity(node.data)
    capacity = Resources(said.cpu or found.cpu, said.memory or found.memory, said.disk or found.disk, gpu)
    return RegisterNode(
        name, node.pool, node.zone, capacity, node.devices, node.ports, node.labels, node.address, _machine(node.data),
        tenant=node.tenant, shares_user=node.share_user,
    )  # fmt: skip


def _machine(data: Path) -> Machine:
    try:
        return machine_of(data)
    except (OSError, ValueError) as error:
        raise StartupError(f"{data}: {error}") from error


def _driver(node: NodeOptions, clock: Clock, whole: Resources = ZERO) -> ProcessDriver:
    settings = ProcessSettings(
        folder=str(node.data),
        environment=node.environment,
        tenant_users=node.tenant_users,
        tenant_map=str(node.tenant_map),
        users=node.users,
        secret_folder=str(node.secret_folder or ""),
        secret_variables=node.secret_variables,
        cgroups=node.cgroups,
        whole=whole,
        namespaces=node.namespaces,
        hidden=node.hidden,
        shown=_shown(node),
    )
    return ProcessDriver(settings, clock)


def _shown(node: NodeOptions) -> tuple[str, ...]:
    """What processes may have to read, wherever it is: this installation, its interpreter, and what lies ready."""
    installed = (sys.prefix, sys.base_prefix, str(Path(holdfast.__file__).parents[1]))
    return installed if node.present is None else (*installed, str(node.present))


@asynccontextmanager
async def lock_node_folder(data: Path) -> AsyncIterator[None]:
    """The folder of a node, this agent's alone: two would start, adopt and clear away each other's."""
    try:
        data.mkdir(mode=0o711, parents=True, exist_ok=True)
        lock = FolderLock(data)
    except StoreInUse as error:
        hint = "hint: a node has one agent; stop that one, or give this one --data of its own and another name"
        raise StartupError(f"{str(error).partition(chr(10))[0]}\n{hint}") from error
    except (OSError, StoreError) as error:
        raise StartupError(f"{data}: {error}") from error
    try:
        yield
    finally:
        lock.release()


def _terms(data: Path) -> TermFence:
    try:
        return terms_on_disk(data)
    except (OSError, ValueError) as error:
        raise StartupError(f"{data}: {error}") from error


async def write_ready_file(agents: Sequence[Agent], file: Path) -> None:
    """Say that all are registered, once they are, for whoever waits for that; and stay."""
    for agent in agents:
        await agent.is_registered.wait()
    said = json.dumps({"pid": os.getpid(), "address": "", "logId": ""}) + "\n"
    try:
        await BlockingCalls(SystemClock()).wait(READY, lambda: write_private(file, said, mode=0o644))
    except OSError as error:  # such as a full disk: what runs there needs its agent all the more
        Logger(AGENT).warning("not-told-ready", file=file, why=error)
    await asyncio.Event().wait()


async def stop_all(driver: ProcessDriver, grace_ms: int = STOP_MS) -> None:
    """End everything that was started on a node, and return when nothing of it is left."""
    await driver.open()
    try:
        for live in driver.runs():
            await driver.stop(live.slot, live.epoch, grace_ms)
        while any(live.state is not RunState.ENDED for live in driver.runs()):
            await driver.changed()
    finally:
        await driver.close()
