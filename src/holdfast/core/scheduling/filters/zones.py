"""Filter: the node is in no zone that an override avoids."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class ZonesFilter:
    """Accepts nodes outside of avoided zones."""

    name, version, code = "zones", "1", Code.NODE_UNAVAILABLE
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement per avoided zone."""
        column = window.table.attributes.zones
        for zone in window.avoided:
            yield f"zone {zone} is avoided", window.pick(column.codes) != column.code(zone)
