"""Filter: the node has as many free ports as the template requires."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class PortsFilter:
    """Accepts nodes with enough free ports."""

    name, version, code = "ports", "1", Code.PORT
    is_plain = is_cured_by_victims = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement, if ports are required."""
        wanted = window.ask.template.ports
        if wanted:
            yield f"{wanted} ports", window.pick(window.table.devices.ports) >= wanted
