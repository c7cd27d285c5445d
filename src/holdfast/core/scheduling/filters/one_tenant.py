"""Whether a node that takes one tenant at a time has work of nobody else."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class OneTenantFilter:
    """Only nodes on which the tenant is alone, where one has to be."""

    name, version, code = "one-tenant", "1", Code.ONE_TENANT
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """Asked once for each set of tenants whose work is on such nodes; nothing, where no node is one."""
        if window.table.occupants.is_empty:
            return
        tenant, column = window.ask.tenant, window.table.occupants.column
        accepted = column.matching(lambda there: not there or there == (tenant,))
        if accepted is not None:
            yield "another tenant's", accepted[window.pick(column.codes)]
