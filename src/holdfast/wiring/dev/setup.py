"""What a platform on this machine is told when it starts, as its operator: its regions, its agents, and a file.

    before there are nodes   everything but workloads; that regions and agents can speak
    once there are           workloads: so they are spread over all nodes at once, not put on the first ones

All of it may be repeated, and is at every start; the example is told once for each log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from holdfast.wiring.config.private_files import read_private
from holdfast.wiring.dev.data_folder import (
    REGIONS,
    DevOptions,
    DevStartupError,
    ReadyFile,
    address,
    documents_in,
    example,
    node_name,
    read_note,
    token_file,
    write_note,
)

Document = dict[str, Any]


class PlatformSetup:
    """One platform that is told things. What it says blocks, so it is said in a thread."""

    def __init__(self, options: DevOptions, platform: ReadyFile) -> None:
        self._options = options
        self._platform = platform
        self._file = self._chosen()
        self._counts = [0, 0, 0]
        self._refused: list[str] = []

    def _chosen(self) -> Path | None:
        """What is to be applied; None: nothing."""
        if self._options.file is not None or not self._options.apply:
            return self._options.file
        return example() if read_note(self._options.data).applied_to != self._platform.log_id else None

    async def introduce(self, *, agents: int, declared: int) -> None:
        """Everything but workloads; and that regions can speak, and so many agents of each, or that of all declared
        nodes."""
        await self._tell(lambda client: self._introduce(client, agents, declared))

    async def apply_work(self) -> str:
        """Workloads; and what has become of all that was to be applied."""
        await self._tell(lambda client: self._apply(client, is_work=True))
        if self._refused:
            return f"{self._file} was not applied in full:\n" + "\n".join(self._refused)
        if self._file is None:
            return ""
        if self._options.file is None:
            write_note(self._options.data, replace(read_note(self._options.data), applied_to=self._platform.log_id))
        created, configured, unchanged = self._counts
        return f"applied {self._file}: {created} created, {configured} changed, {unchanged} as they were"

    async def _tell(self, say: Callable[[Any], None]) -> None:
        # A client takes a while to import: the parts are being started meanwhile, and need not wait for it.
        from holdfast.client.errors import HoldfastError
        from holdfast.wiring.dev.documents import ApplyRefused

        try:
            await asyncio.to_thread(self._as_operator, say)
        except (HoldfastError, ApplyRefused) as error:
            log = self._options.data / "logs" / "platform.log"
            raise DevStartupError(f"the platform does not answer as it should: {error}\nhint: look at {log}") from error

    def _as_operator(self, say: Callable[[Any], None]) -> None:
        from holdfast.wiring.dev import documents

        token = read_private(self._options.data / "platform" / "operator.token") or ""
        with documents.operator(self._platform.address, token) as client:
            say(client)

    def _introduce(self, client: Any, agents: int, declared: int) -> None:
        from holdfast.wiring.dev import documents

        now, data = datetime.now(UTC), self._options.data
        self._apply(client, is_work=False)
        # After it: regions that the file describes are then not made bare first, and changed at once.
        places = {
            region: documents.RegionEntry(address(region, self._options.port), region_token(data, region))
            for region in REGIONS
        }
        documents.apply_regions(client, places, now)
        nodes = [(region, node_name(region, number)) for region in REGIONS for number in range(agents)]
        machines = [
            documents.MachineEntry(f"agent/{node}", region, f"agent-{node}", token_file(data, node))
            for region, node in nodes
        ]
        if declared:
            machines = [documents.MachineEntry("agent/*", "", "agents", token_file(data))]
        if machines:
            documents.apply_machines(client, machines, now)

    def _placed(self, document: Any) -> Any:
        """A region of this machine with the address at which it runs, whichever the file names."""
        name, spec = (document.get("metadata") or {}).get("name"), document.get("spec")
        if document["kind"] != "Region" or name not in REGIONS or not isinstance(spec, dict):
            return document
        return {**document, "spec": {**spec, "address": address(name, self._options.port)}}

    def _apply(self, client: Any, *, is_work: bool) -> None:
        from holdfast.wiring.dev import documents

        found = documents_in(self._file) if self._file is not None else []
        part = [self._placed(one) for one in found if (one["kind"] == "Workload") is is_work]
        if not part:
            return
        try:
            told = documents.apply_documents(client, part)
        except documents.ApplyRefused as error:
            self._refused.append(str(error))
            return
        counts = (told.created, told.configured, told.unchanged)
        self._counts = [sum(pair) for pair in zip(self._counts, counts, strict=True)]


def region_token(data: Path, region: str) -> Path:
    """Where the token lies with which a region speaks at the platform."""
    return data / region / "platform.token"
