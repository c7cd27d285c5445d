"""A platform and three regions on this machine with their nodes, one process for each, in one command.

folder, lock, ports ──▶ tokens ──▶ all servers at once ──▶ platform ready: regions, example ──▶ agents ──▶ announcement
A part that ends is restarted. Ctrl-C stops all parts and their runs; the next start continues with the same data.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.agent.guard.files import RESULT
from holdfast.observe import log_output
from holdfast.wiring.config.private_files import NotPrivate, read_or_create_token
from holdfast.wiring.config.server_settings import PREFIX
from holdfast.wiring.dev import data_folder
from holdfast.wiring.dev.children import ChildProcess, ChildSupervisor
from holdfast.wiring.dev.setup import PlatformSetup, region_token
from holdfast.wiring.process import stop_request

#: Commands that the announcement suggests, and those that need the example.
TRY = ("status", "get regions", "get workloads -A", "get replicas -A --region us-east", "audit")
TRY_WITH_EXAMPLE = ("describe workload/risk/risk-api", "endpoints risk/risk-api")
LOOK_SECONDS = 0.05
#: After this time without readiness the log file of a part is shown.
LONG_SECONDS = 15.0

#: Stores address and token file for the command line; returns the beginning of commands that use them.
KeepContext = Callable[[str, Path], str]


def run(options: data_folder.DevOptions, keep_context: KeepContext, environment: Mapping[str, str]) -> int:
    """Run until a signal requests a stop; return the exit code."""
    try:
        return asyncio.run(_run(options, keep_context, environment))
    except (data_folder.DevStartupError, NotPrivate) as error:
        _say(f"cannot start: {error}")
        return 1


async def _run(options: data_folder.DevOptions, keep_context: KeepContext, environment: Mapping[str, str]) -> int:
    began = time.monotonic()
    asked = stop_request(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    lock = data_folder.lock_data_folder(options)
    if options.fresh:
        await _forget(options.data)
    stop: asyncio.Task[Any] = asyncio.create_task(asked.wait())
    dev = DevCluster(options, keep_context, environment)
    story: asyncio.Task[Any] = asyncio.create_task(dev.start(began))
    try:
        await asyncio.wait((story, stop), return_when=asyncio.FIRST_COMPLETED)
        if story.done():
            story.result()
        await stop
        _say("stopping; the next `holdfast dev` continues with this data")
        return 0
    finally:
        for task in (story, stop):
            task.cancel()
        await asyncio.gather(story, stop, return_exceptions=True)
        await dev.parts.stop()
        await _end_left_behind(options.data)
        lock.release()


async def _forget(data: Path) -> None:
    """Empty the data folder. Runs of earlier agents end first, since no later agent would find them."""
    await _end_left_behind(data)
    data_folder.clear_data_folder(data)


async def _end_left_behind(data: Path) -> None:
    """End runs of agents that were killed before they could end them."""
    if any(not (slot / RESULT).exists() for slot in (data / data_folder.NODES).glob("*/slots/*")):
        from holdfast.wiring.dev.agents import end_left_behind

        await end_left_behind(data)


class DevCluster:
    """The parts of one platform, and its setup."""

    def __init__(
        self, options: data_folder.DevOptions, keep_context: KeepContext, environment: Mapping[str, str]
    ) -> None:
        self.options = options
        self._keep_context = keep_context
        # settings for the user's own servers do not apply to these
        own = {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
        self.parts = ChildSupervisor(_say, own)
        #: Number of nodes in each region: with agents, or else declared.
        self.nodes, self.declared = _nodes(options)
        self._last_error = ""

    async def start(self, began: float) -> None:
        """Start everything, set up the platform, and print the announcement."""
        if self.options.file is not None:
            data_folder.documents_in(self.options.file)  # an unreadable file is reported before anything is started
        data_folder.check_ports_free(
            [data_folder.port(name, self.options.port) for name in ("platform", *data_folder.REGIONS)]
        )
        for region in data_folder.REGIONS:
            read_or_create_token(f"region-{region}", region_token(self.options.data, region))
        self.parts.start([self._part(name) for name in ("platform", *data_folder.REGIONS)])
        platform = await self._ready("platform")
        telling = PlatformSetup(self.options, platform)
        await telling.introduce(agents=self.nodes, declared=self.declared)
        command = self._keep_context(platform.address, self._folder("platform") / "operator.token")
        for region in data_folder.REGIONS:
            await self._ready(region)
        await self._start_nodes()
        self._announce(time.monotonic() - began, await telling.apply_work(), command)

    async def _start_nodes(self) -> None:
        if self.declared:
            self.parts.start([self._declaring()])
            await self._ready(data_folder.NODES)
        elif self.nodes:
            # Importing the agents' modules takes a while, and the servers are starting meanwhile.
            from holdfast.wiring.dev.agents import agents, choose_run_as

            whose = await asyncio.to_thread(choose_run_as)
            self._last_error = whose.last_error
            parts = agents(self.options.data, self.options.port, self.nodes, whose)
            self.parts.start(parts)
            for part in parts:
                await self._ready(f"{data_folder.NODES}/{part.name}", part.name)

    def _folder(self, name: str) -> Path:
        return self.options.data / name

    def _part(self, name: str) -> ChildProcess:
        command = [sys.executable, "-m", "holdfast.cli.main", "server"]
        command += [
            "--data",
            str(self._folder(name)),
            "--listen",
            f"{data_folder.HOST}:{data_folder.port(name, self.options.port)}",
        ]
        if name == "platform":
            command += ["--role", "platform"]
        else:
            command += [
                "--role",
                "region",
                "--region",
                name,
                "--token-file",
                str(region_token(self.options.data, name)),
            ]
            command += ["--platform", data_folder.address("platform", self.options.port)]
        return ChildProcess(name, command, self.options.data / "logs" / f"{name}.log")

    def _declaring(self) -> ChildProcess:
        """Return the process of all declared nodes: their agents run nothing, so one process is enough."""
        command = [sys.executable, "-m", "holdfast.wiring.dev.simulated_nodes", str(self.options.data)]
        command += [str(self.options.port), str(self.declared)]
        return ChildProcess(data_folder.NODES, command, self.options.data / "logs" / f"{data_folder.NODES}.log")

    async def _ready(self, folder: str, part: str = "") -> data_folder.ReadyFile:
        """Wait until this process of the part is ready; return its ready file."""
        name = part or folder
        late = asyncio.get_running_loop().time() + LONG_SECONDS
        while True:
            ready = data_folder.read_ready_file(self._folder(folder))
            if ready is not None and ready.pid == self.parts.pid(name):
                return ready
            if asyncio.get_running_loop().time() > late:
                _say(f"{name} is not ready yet; see its log {self.options.data / 'logs' / name}.log")
                late += LONG_SECONDS
            await asyncio.sleep(LOOK_SECONDS)

    def _announce(self, seconds: float, applied: str, command: str) -> None:
        lines = [f"ready after {seconds:.1f} s"]
        lines += [
            f"{name:<11} {data_folder.address(name, self.options.port)}" for name in ("platform", *data_folder.REGIONS)
        ]
        if self.declared:
            lines.append(f"nodes       {self.declared} in each region, declared: their replicas are simulated")
        elif self.nodes:
            lines.append(f"nodes       {self.nodes} in each region, each with an agent")
        if self._last_error:
            lines += ["replicas will fail to start:", *(f"  {line}" for line in self._last_error.splitlines())]
        lines += [f"data        {self.options.data}", f"logs        {self.options.data / 'logs'}"]
        lines += [applied] if applied else []
        tries = (*TRY, *(TRY_WITH_EXAMPLE if data_folder.read_note(self.options.data).applied_to else ()))
        lines += ["try:", *(f"  {command} {words}" for words in tries), "Ctrl-C stops all of it."]
        _say("\n".join(lines))


def _nodes(options: data_folder.DevOptions) -> tuple[int, int]:
    """Return how many nodes each region has, with agents and declared: from the options, or else of the last start."""
    note = data_folder.read_note(options.data)
    agents = note.agents if options.agents is None else options.agents
    declared = note.declared_nodes if options.declared_nodes is None else options.declared_nodes
    if options.agents:
        declared = 0
    if (agents, declared) != (note.agents, note.declared_nodes):
        data_folder.write_note(options.data, replace(note, agents=agents, declared_nodes=declared))
    return (0, declared) if declared else (agents, 0)


def _say(text: str) -> None:
    first, *rest = text.splitlines()
    log_output.print_status(f"holdfast dev: {first}", *(f"  {line}" for line in rest))
