"""Whether a node that is kept for some tenants is kept for this one."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class TenancyFilter:
    """Only nodes that are there for the tenant."""

    name, version, code = "tenancy", "1", Code.TENANCY
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """Asked once for each set of tenants that nodes are kept for."""
        tenant, column = window.ask.tenant, window.table.attributes.tenancies
        accepted = column.matching(lambda tenants: not tenants or tenant in tenants)
        if accepted is not None:
            yield "tenancy", accepted[window.pick(column.codes)]
