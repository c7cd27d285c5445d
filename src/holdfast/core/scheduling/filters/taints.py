"""Filter: the template tolerates every taint of the node."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.workloads import tolerates
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class TaintsFilter:
    """Accepts nodes whose taints are tolerated."""

    name, version, code = "taints", "1", Code.TAINT
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement, evaluated once per distinct set of taints."""
        template, column = window.ask.template, window.table.attributes.taints
        accepted = column.matching(lambda taints: all(tolerates(template, taint) for taint in taints))
        if accepted is not None:
            yield "taints", accepted[window.pick(column.codes)]
