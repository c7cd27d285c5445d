"""What an agent does not take, though it is bound to its node: the ledger's picture of the node is not the node.

It is refused at once, and waits to be placed anew. Where that leads here again it is refused later each time, so that
nobody refuses in a tight loop.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.core.agent.bound import Bound
from holdfast.core.agent.restarting import PAUSE_MOST_MS, PAUSE_MS
from holdfast.core.model.process import Driver
from holdfast.core.model.workload import Template
from holdfast.core.region.commands import RegisterNode


def refusal(one: Bound, template: Template, node: RegisterNode, drivers: Collection[Driver]) -> str:
    """Why this node cannot run it; empty: it can, as far as that can be told before it is tried."""
    if template.driver not in drivers:
        return f"this node has no driver {template.driver}"
    first, last = node.ports
    beyond = [port for port in one.ports if not first <= port <= last]
    if beyond:
        return f"port {beyond[0]} is none of this node's, which are {first} to {last}"
    missing = [index for index in one.devices if index >= len(node.devices)]
    if missing:
        return f"this node has no device {missing[0]}"
    return ""


def pause_ms(times: int) -> int:
    """How long to wait before the same slot is refused once more, after so many times."""
    return min(PAUSE_MOST_MS, PAUSE_MS << min(times - 1, 10)) if times else 0
