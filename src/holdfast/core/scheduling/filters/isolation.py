"""Whether a node's agent enforces all that the template's isolation takes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.isolation import Capabilities, Capability, Isolation, missing_capabilities
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class IsolationFilter:
    """Only nodes that keep it as far apart as it has to be."""

    name, version, code = "isolation", "1", Code.ISOLATION
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One question for each thing that is to be enforced, asked once for each set of them that agents do."""
        if window.ask.template.isolation is Isolation.STANDARD:
            return
        column = window.table.attributes.capabilities
        for needed in missing_capabilities(window.ask.template.isolation, ()):
            accepted = column.matching(partial(_has, needed))
            if accepted is not None:
                yield needed.value, accepted[window.pick(column.codes)]


def _has(needed: Capability, enforced: Capabilities) -> bool:
    return needed in enforced
