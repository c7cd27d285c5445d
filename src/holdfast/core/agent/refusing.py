"""What an agent does not take, though it is bound to its node: the ledger's picture of the node is not the node.

It is refused at once, and waits to be placed anew. Where that leads here again it is refused later each time, so that
nobody refuses in a tight loop.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from holdfast.core.agent.bound import Bound
from holdfast.core.agent.restarting import PAUSE_MOST_MS, PAUSE_MS
from holdfast.core.model.isolation import takes_one_tenant
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.process import Driver
from holdfast.core.model.workload import Template
from holdfast.core.region.commands import RegisterNode
from holdfast.core.region.feasible import keeps_apart


def refusal(
    one: Bound, template: Template, node: RegisterNode, drivers: Collection[Driver], there: tuple[str, ...] = ()
) -> str:
    """Why this node cannot run it; empty: it can, as far as that can be told before it is tried. `there` is whose work
    is on a node that takes one tenant at a time."""
    if template.driver not in drivers:
        return f"this node has no driver {template.driver}"
    first, last = node.ports
    beyond = [port for port in one.ports if not first <= port <= last]
    if beyond:
        return f"port {beyond[0]} is none of this node's, which are {first} to {last}"
    missing = [index for index in one.devices if index >= len(node.devices)]
    if missing:
        return f"this node has no device {missing[0]}"
    misfit = keeps_apart(node, template, one.tenant, there)
    return f"{misfit.code}: {misfit.detail}" if misfit is not None else ""


def tenants_begun(bound: Iterable[Bound], node: RegisterNode) -> dict[str, None]:
    """Whose work has begun on a node that takes one tenant at a time, in order; of another it makes no difference."""
    if not takes_one_tenant(node):
        return {}
    return {one.tenant: None for one in bound if one.phase is not Phase.BOUND}


def pause_ms(times: int) -> int:
    """How long to wait before the same slot is refused once more, after so many times."""
    return min(PAUSE_MOST_MS, PAUSE_MS << min(times - 1, 10)) if times else 0
