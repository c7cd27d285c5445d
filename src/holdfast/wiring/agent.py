"""A node's agent, from its options to its exit code.

| exit code | |
|---|---|
| 0 | stopped by SIGTERM or SIGINT; its runs go on, or have ended with it if `stop_work` is set |
| 1 | it could not start: the message names the cause and the next step |
| 4 | another agent has a session for its node, and this one's runs have ended. Do not restart it while that one runs |
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
from holdfast.agent.agent import Agent
from holdfast.agent.drivers.process.driver import ProcessDriver
from holdfast.agent.drivers.process.settings import TENANT_MAP, TENANT_USERS, ProcessSettings
from holdfast.agent.drivers.process.tenant_users import missing_here
from holdfast.agent.lease_times import lease_times_on_disk
from holdfast.agent.node_load import MachineLoad, detect_capacity, machine_of
from holdfast.agent.prober import NodeProber
from holdfast.agent.term_fence import TermFence
from holdfast.agent.term_fence import term_fence_on_disk as terms_on_disk
from holdfast.core.agent.processes import ProcessState
from holdfast.core.model.records.nodes import Device, Machine
from holdfast.core.model.values.limits import NODE_PORTS_MAX
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import Clock, SystemClock
from holdfast.host.ports.store import StoreError, StoreInUse
from holdfast.host.protocol.session_client import SessionConfig, Superseded
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
#: Lower numbers belong to the machine. The default fits a container with 65,536 users.
USER_MIN = 10_000
TENANT_USERS_DEFAULT = (40_000, 59_999)
READY = "ready.json"
#: Longest time for all runs to end with their agent.
STOP_MS = 3_000


class NodeOptions(Struct, frozen=True, kw_only=True):
    data: Path
    pool: str = "general"
    zone: str = "default"
    address: str = "127.0.0.1"
    labels: tuple[tuple[str, str], ...] = ()
    #: Its capacity; 0 of a resource: what the machine has.
    capacity: Resources = ZERO
    devices: tuple[Device, ...] = ()
    ports: tuple[int, int] = PORTS
    #: Runs can use the files in this folder, whose names are reported as present.
    present: Path | None = None
    #: Variables of every process here; its template may override them.
    environment: tuple[tuple[str, str], ...] = ()
    #: The range of tenants' user numbers, the file that records them for all agents of the machine, and pairs of a
    #: tenant and a further user that it may name.
    tenant_users: tuple[int, int] = TENANT_USERS
    tenant_map: Path = Path(TENANT_MAP)
    users: tuple[tuple[str, str], ...] = ()
    #: DIR/TENANT contains a tenant's secrets; and pairs of a tenant and a variable of the agent.
    secret_folder: Path | None = None
    secret_variables: tuple[tuple[str, str], ...] = ()
    cgroups: bool = True
    namespaces: bool = True
    #: Files of the agent that no run may see, beside its folder.
    hidden: tuple[str, ...] = ()
    #: The only tenant that it accepts; empty: every tenant, one at a time if they share a user.
    tenant: str = ""
    #: Whether tenants may share a user if they have none of their own.
    share_user: bool = False
    #: Whether all its runs are stopped when it is asked to stop.
    stop_work: bool = False


def invalid_node_options(node: NodeOptions) -> Iterator[str]:
    """Yield why these options are rejected, each with a remedy."""
    first, last = node.ports
    if not 0 < first <= last <= 65_535:
        yield f"ports {first}-{last} are not a range within 1 to 65535; use --ports {PORTS[0]}-{PORTS[1]}"
    if last - first >= NODE_PORTS_MAX:
        yield f"ports {first}-{last} are more than the {NODE_PORTS_MAX} of a node; use fewer --ports"
    if not node.pool or not node.zone:
        yield "a node needs a pool and a zone; use --pool and --zone"
    if node.tenant and node.share_user:
        yield "--tenant and --share-user exclude each other; use --tenant or --share-user"
    if {"0", "root"} & {user for _, user in node.users}:
        yield "a tenant's work cannot run as root; use another --allow-user"
    low, high = node.tenant_users
    if not USER_MIN <= low <= high < 2**32 - 1:
        yield f"--tenant-users {low}-{high} is no range of users from {USER_MIN} on; use {_said(TENANT_USERS)}"
    elif os.geteuid() == 0 and missing_here(node.tenant_users):
        users = f"--tenant-users {low}-{high}"
        yield f"{users}: there are no such users in this container; use {_said(TENANT_USERS_DEFAULT)}"


def _said(users: tuple[int, int]) -> str:
    return f"--tenant-users {users[0]}-{users[1]}"


def run(options: MachineOptions, node: NodeOptions) -> int:
    """Run an agent until it is stopped or superseded; return its exit code. The options are valid."""
    log_output.configure_logging(options.log_level, options.log_form)
    return int(asyncio.run(until_signalled(lambda asked: run_agent(options, node, SystemClock(), asked))))


async def run_agent(options: MachineOptions, node: NodeOptions, clock: Clock, asked: asyncio.Event) -> ExitCode:
    """Run a node's agent within this loop until `asked` to stop."""
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
            except Superseded:  # from now on no agent supervises these runs, so they are ended here
                Logger(AGENT, node=options.name).warning("superseded", then="its runs are ended")
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
    except Superseded as error:
        hint = "hint: a node has one agent; stop the other one, or use another --node name here"
        print_machine_status(AGENT, f"stopped: {error}\n{hint}")
        return ExitCode.SUPERSEDED
    Logger(AGENT, node=options.name).info("stopping", why="requested")
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
    """Return the folders that processes may have to read: this installation, its interpreter, and the present files."""
    installed = (sys.prefix, sys.base_prefix, str(Path(holdfast.__file__).parents[1]))
    return installed if node.present is None else (*installed, str(node.present))


@asynccontextmanager
async def lock_node_folder(data: Path) -> AsyncIterator[None]:
    """Lock a node's folder for this agent: two agents would start, adopt and remove each other's runs."""
    try:
        data.mkdir(mode=0o711, parents=True, exist_ok=True)
        lock = FolderLock(data)
    except StoreInUse as error:
        hint = "hint: a node has one agent; stop that one, or use another --data and --node here"
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
    """Write the ready file once all agents are registered, and wait until cancelled."""
    for agent in agents:
        await agent.is_registered.wait()
    said = json.dumps({"pid": os.getpid(), "address": "", "logId": ""}) + "\n"
    try:
        await BlockingCalls(SystemClock()).wait(READY, lambda: write_private(file, said, mode=0o644))
    except OSError as error:  # such as a full disk: the agent keeps running
        Logger(AGENT).warning("not-told-ready", file=file, why=error)
    await asyncio.Event().wait()


async def stop_all(driver: ProcessDriver, grace_ms: int = STOP_MS) -> None:
    """End all runs of a node; return when nothing of them is left."""
    await driver.open()
    try:
        for live in driver.runs():
            await driver.stop(live.slot, live.epoch, grace_ms)
        while any(live.state is not ProcessState.ENDED for live in driver.runs()):
            await driver.changed()
    finally:
        await driver.close()
