"""Filter: the node's agent enforces everything that the template's isolation requires."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.isolation import Capabilities, Capability, Isolation, missing_capabilities
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class IsolationFilter:
    """Accepts nodes that enforce the required isolation."""

    name, version, code = "isolation", "1", Code.ISOLATION
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement per capability, evaluated once per distinct set of agent capabilities."""
        if window.ask.template.isolation is Isolation.STANDARD:
            return
        column = window.table.attributes.capabilities
        for needed in missing_capabilities(window.ask.template.isolation, ()):
            accepted = column.matching(partial(_has, needed))
            if accepted is not None:
                yield needed.value, accepted[window.pick(column.codes)]


def _has(needed: Capability, enforced: Capabilities) -> bool:
    return needed in enforced
