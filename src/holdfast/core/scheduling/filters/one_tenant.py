"""Filter: a node that takes one tenant at a time has no work of another tenant."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class OneTenantFilter:
    """Accepts nodes without another tenant's work, where the node takes one tenant at a time."""

    name, version, code = "one-tenant", "1", Code.ONE_TENANT
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement, evaluated once per distinct set of tenants; none without such nodes."""
        if window.table.occupants.is_empty:
            return
        tenant, column = window.ask.tenant, window.table.occupants.column
        accepted = column.matching(lambda there: not there or there == (tenant,))
        if accepted is not None:
            yield "another tenant", accepted[window.pick(column.codes)]
