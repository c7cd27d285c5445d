"""Filter: the node has every label that the template requires."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class LabelsFilter:
    """Accepts nodes with the required labels."""

    name, version, code = "labels", "1", Code.LABELS
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement per label."""
        for key, value in window.ask.template.require:
            column = window.table.attributes.labels(key, window.table.nodes)
            yield f"{key}={value}", window.pick(column.codes) == column.code(value)
