"""Filter: the node has as many devices as required, each with enough free: whole devices, or a share of one."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class DevicesFilter:
    """Accepts nodes with enough free devices, of any model."""

    name, version, code = "devices", "1", Code.DEVICE
    is_plain = is_cured_by_victims = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement, if devices are required."""
        template = window.ask.template
        if template.gpus:
            yield "devices", window.table.devices.enough(template, window.at, firm=window.ask.firm)
