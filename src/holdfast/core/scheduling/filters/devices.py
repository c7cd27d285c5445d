"""Whether a node has as many devices as are needed, each with enough left: whole ones, or a share of one."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.table import Truths
from holdfast.core.scheduling.window import Window


class Devices:
    """Only nodes with the devices, of any model."""

    name, version, code = "devices", "1", Code.DEVICE

    def passes(self, window: Window) -> Iterator[tuple[str, Truths]]:
        """Nothing is asked where no device is needed."""
        template = window.ask.template
        if template.gpus:
            free = window.table.devices.accepted(template, window.at, firm=window.ask.firm, models=False)
            yield "devices", free.sum(axis=0) >= template.gpus
