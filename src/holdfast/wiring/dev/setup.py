"""Sets up a platform on this machine when it starts, as its operator: its regions, its agents, and a file.

    before nodes exist    everything but workloads; principals and tokens of regions and agents
    once they exist       workloads: so they are spread over all nodes, not put on the first ones

All of it can be repeated, and is at every start; the example is applied once for each log.
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
    """The setup of one platform. Its calls block, so they run in a thread."""

    def __init__(self, options: DevOptions, platform: ReadyFile) -> None:
        self._options = options
        self._platform = platform
        self._file = self._chosen()
        self._counts = [0, 0, 0]
        self._refused: list[str] = []

    def _chosen(self) -> Path | None:
        """Return the file to apply; None: none."""
        if self._options.file is not None or not self._options.apply:
            return self._options.file
        return example() if read_note(self._options.data).applied_to != self._platform.log_id else None

    async def introduce(self, *, agents: int, declared: int) -> None:
        """Apply everything but workloads. Give regions and agents their principals and tokens: `agents` for each
        region, or the one of all declared nodes."""
        await self._tell(lambda client: self._introduce(client, agents, declared))

    async def apply_work(self) -> str:
        """Apply workloads; return the result of the whole file."""
        await self._tell(lambda client: self._apply(client, is_work=True))
        if self._refused:
            return f"{self._file} was not applied in full:\n" + "\n".join(self._refused)
        if self._file is None:
            return ""
        if self._options.file is None:
            write_note(self._options.data, replace(read_note(self._options.data), applied_to=self._platform.log_id))
        created, configured, unchanged = self._counts
        return f"applied {self._file}: {created} created, {configured} changed, {unchanged} unchanged"

    async def _tell(self, say: Callable[[Any], None]) -> None:
        # Importing the client takes a while, and the parts are starting meanwhile.
        from holdfast.client.errors import HoldfastError
        from holdfast.wiring.dev.documents import ApplyRefused

        try:
            await asyncio.to_thread(self._as_operator, say)
        except (HoldfastError, ApplyRefused) as error:
            log = self._options.data / "logs" / "platform.log"
            raise DevStartupError(f"the setup of the platform failed: {error}\nhint: see its log, {log}") from error

    def _as_operator(self, say: Callable[[Any], None]) -> None:
        from holdfast.wiring.dev import documents

        token = read_private(self._options.data / "platform" / "operator.token") or ""
        with documents.operator(self._platform.address, token) as client:
            say(client)

    def _introduce(self, client: Any, agents: int, declared: int) -> None:
        from holdfast.wiring.dev import documents

        now, data = datetime.now(UTC), self._options.data
        self._apply(client, is_work=False)
        # The file first, so that its regions are created complete and not changed at once.
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
        """Return a region of this machine with its actual address, whatever the file names."""
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
    """Return the file of a region's token for the platform."""
    return data / region / "platform.token"
