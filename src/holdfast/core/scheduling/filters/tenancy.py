"""Filter: the node is reserved for this tenant, or for none."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.answers import Code
from holdfast.core.scheduling.nodes.table import Truths
from holdfast.core.scheduling.nodes.window import NodeWindow


class TenancyFilter:
    """Accepts nodes that are open to the tenant."""

    name, version, code = "tenancy", "1", Code.TENANCY
    is_plain = True

    def passes(self, window: NodeWindow) -> Iterator[tuple[str, Truths]]:
        """One requirement, evaluated once per distinct set of tenants."""
        tenant, column = window.ask.tenant, window.table.attributes.tenancies
        accepted = column.matching(lambda tenants: not tenants or tenant in tenants)
        if accepted is not None:
            yield "tenancy", accepted[window.pick(column.codes)]
