"""A platform and three regions on this machine, one process for each, in one command.

folder, lock, ports ──▶ tokens ──▶ all servers at once ──▶ platform ready: regions, example ──▶ nodes ──▶ say so
a part ends: it comes back.    Ctrl-C: all parts stop, and the next start goes on where they were.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.wiring.dev_folder import (
    HOST,
    NODES,
    REGIONS,
    CannotStart,
    Ready,
    Wish,
    address,
    documents_in,
    example,
    must_be_free,
    noted,
    port,
    ready_in,
    taken,
    token_file,
    write_note,
)
from holdfast.wiring.parts import Part, Parts
from holdfast.wiring.private import NotPrivate, read_private
from holdfast.wiring.settings import PREFIX
from holdfast.wiring.tokens import token_in

#: What people are shown to try first; of the example where there is one.
TRY = (
    "status",
    "get regions",
    "get workloads -A",
    "describe workload/risk/risk-api",
    "get replicas -A --region us-east",
    "audit",
)
LOOK_SECONDS = 0.05
#: After so long without an answer people are told where to look.
LONG_SECONDS = 15.0

#: Keeps the address and the token file for the command line; what a command that uses them begins with.
KeepContext = Callable[[str, Path], str]


def run(wish: Wish, keep_context: KeepContext, environment: Mapping[str, str]) -> int:
    """Run until asked to stop; the exit code."""
    try:
        return asyncio.run(_run(wish, keep_context, environment))
    except (CannotStart, NotPrivate) as error:
        _say(f"cannot start: {error}")
        return 1


async def _run(wish: Wish, keep_context: KeepContext, environment: Mapping[str, str]) -> int:
    began = time.monotonic()
    asked = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, asked.set)
    lock = taken(wish)
    stop: asyncio.Task[Any] = asyncio.create_task(asked.wait())
    dev = Dev(wish, keep_context, environment)
    story: asyncio.Task[Any] = asyncio.create_task(dev.start(began))
    try:
        await asyncio.wait((story, stop), return_when=asyncio.FIRST_COMPLETED)
        if story.done():
            story.result()
        await stop
        _say("stopping; `holdfast dev` goes on from here")
        return 0
    finally:
        for task in (story, stop):
            task.cancel()
        await asyncio.gather(story, stop, return_exceptions=True)
        await dev.parts.stop()
        lock.release()


class Dev:
    """The parts of one platform, and what they are told first."""

    def __init__(self, wish: Wish, keep_context: KeepContext, environment: Mapping[str, str]) -> None:
        self.wish = wish
        self._keep_context = keep_context
        # What the user set for a server of their own is not for these.
        own = {name: value for name, value in environment.items() if not name.startswith(PREFIX)}
        self.parts = Parts(_say, own)
        note = noted(wish.data)
        #: How many nodes each region has.
        self.nodes = note.declared_nodes if wish.declared_nodes is None else wish.declared_nodes
        if self.nodes != note.declared_nodes:
            write_note(wish.data, replace(note, declared_nodes=self.nodes))

    async def start(self, began: float) -> None:
        """Start everything, tell the platform what it must know, and say what there is."""
        if self.wish.file is not None:
            documents_in(self.wish.file)  # what cannot be read is told before anything is started
        must_be_free([port(name, self.wish.port) for name in ("platform", *REGIONS)])
        for region in REGIONS:
            token_in(f"region-{region}", self._token_file(region))
        self.parts.start([self._part(name) for name in ("platform", *REGIONS)])
        platform = await self._ready("platform")
        applied = await self._tell(platform)
        command = self._keep_context(platform.address, self._folder("platform") / "operator.token")
        for region in REGIONS:
            await self._ready(region)
        if self.nodes:
            self.parts.start([self._declaring()])
            await self._ready(NODES)
        self._announce(time.monotonic() - began, applied, command)

    def _folder(self, name: str) -> Path:
        return self.wish.data / name

    def _token_file(self, region: str) -> Path:
        return self._folder(region) / "platform.token"

    def _part(self, name: str) -> Part:
        command = [sys.executable, "-m", "holdfast.cli.main", "server"]
        command += ["--data", str(self._folder(name)), "--listen", f"{HOST}:{port(name, self.wish.port)}"]
        if name == "platform":
            command += ["--role", "platform"]
        else:
            command += ["--role", "region", "--region", name, "--token-file", str(self._token_file(name))]
            command += ["--platform", address("platform", self.wish.port)]
        return Part(name, command, self.wish.data / "logs" / f"{name}.log")

    def _declaring(self) -> Part:
        """The agents of all declared nodes: they run nothing, so one process is enough for them."""
        command = [sys.executable, "-m", "holdfast.wiring.declared", str(self.wish.data)]
        command += [str(self.wish.port), str(self.nodes)]
        return Part(NODES, command, self.wish.data / "logs" / f"{NODES}.log")

    async def _ready(self, name: str) -> Ready:
        """What the part says of itself, once this life of it is ready."""
        late = asyncio.get_running_loop().time() + LONG_SECONDS
        while True:
            ready = ready_in(self._folder(name))
            if ready is not None and ready.pid == self.parts.pid(name):
                return ready
            if asyncio.get_running_loop().time() > late:
                _say(f"{name} is not ready yet; what it says is in {self.wish.data / 'logs' / name}.log")
                late += LONG_SECONDS
            await asyncio.sleep(LOOK_SECONDS)

    async def _tell(self, platform: Ready) -> str:
        # A client takes a while to import: the parts are being started meanwhile, and need not wait for it.
        from holdfast.api.client.problems import HoldfastError
        from holdfast.wiring.first import Refused

        try:
            return await asyncio.to_thread(self._told, platform)
        except (HoldfastError, Refused) as error:
            log = self.wish.data / "logs" / "platform.log"
            raise CannotStart(f"the platform does not answer as it should: {error}\nhint: look at {log}") from error

    def _told(self, platform: Ready) -> str:
        """Introduce the regions and apply what is wanted; what to say about it. Blocks, so in a thread."""
        from holdfast.wiring import first

        token = read_private(self._folder("platform") / "operator.token") or ""
        files = {region: self._token_file(region) for region in REGIONS}
        with first.operator(platform.address, token) as client:
            said = self._apply(client, platform)
            # After it: regions that the file describes are then not made bare first, and changed at once.
            first.introduce(client, files, datetime.now(UTC))
            if self.nodes:
                first.admit(client, "agent/*", "agents", token_file(self.wish.data), datetime.now(UTC))
        return said

    def _apply(self, client: Any, platform: Ready) -> str:
        from holdfast.wiring import first

        note = noted(self.wish.data)
        file = self.wish.file
        if file is None and self.wish.apply and note.applied_to != platform.log_id:
            file = example()
        if file is None:
            return ""
        try:
            told = first.tell(client, documents_in(file))
        except first.Refused as error:
            return f"{file} was not applied in full:\n{error}"
        if self.wish.file is None:
            write_note(self.wish.data, replace(noted(self.wish.data), applied_to=platform.log_id))
        return f"applied {file}: {told.created} created, {told.configured} changed, {told.unchanged} as they were"

    def _announce(self, seconds: float, applied: str, command: str) -> None:
        lines = [f"ready after {seconds:.1f} s"]
        lines += [f"{name:<11} {address(name, self.wish.port)}" for name in ("platform", *REGIONS)]
        if self.nodes:
            lines.append(f"nodes       {self.nodes} in each region, declared: nothing runs there, replicas stay bound")
        lines += [f"data        {self.wish.data}", f"logs        {self.wish.data / 'logs'}"]
        lines += [applied] if applied else []
        lines += ["try:", *(f"  {command} {words}" for words in TRY), "Ctrl-C stops all of it."]
        _say("\n".join(lines))


def _say(text: str) -> None:
    first, *rest = text.splitlines()
    print(f"holdfast dev: {first}", *(f"  {line}" for line in rest), sep="\n", file=sys.stderr, flush=True)
