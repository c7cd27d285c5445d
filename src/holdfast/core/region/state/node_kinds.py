"""How large nodes are, coarsely: whether those of a size could hold one slot of a template, were they empty.

Agents report what their machines have to the byte, so amounts themselves would tell nearly all nodes apart. Of each
amount only the number of its binary digits is kept: with more of them than is needed every node of the size suffices,
with fewer none does. With as many it takes the amounts, which are counted beside the kinds, resource by resource:
nodes of one make have the same, and so there are few.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import islice
from typing import NamedTuple

from holdfast.core.model.objects.isolation import Capabilities
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.nodes import Node, kept_for, ports_of
from holdfast.core.model.values.resources import nonzero_amounts
from holdfast.core.model.values.structs import Duration

#: Amounts of one resource that nodes have, least first, each with how many nodes have it.
Amounts = tuple[tuple[int, int], ...]


class NodeSize(NamedTuple):
    """What nodes have in all, in values that have an order."""

    #: By resource: how many binary digits the amount has; what there is none of is left out.
    digits: tuple[tuple[str, int], ...]
    #: By model and size of a device: how many there are.
    devices: tuple[tuple[str, int, int], ...]
    #: How many ports it hands out.
    ports: int


def node_size(node: Node) -> NodeSize:
    """The size of a node."""
    digits = tuple([(name, amount.bit_length()) for name, amount in nonzero_amounts(node.capacity)])
    devices: tuple[tuple[str, int, int], ...] = ()
    if node.devices:
        counted = Counter((one.model, one.milli) for one in node.devices)
        devices = tuple(sorted((model, milli, count) for (model, milli), count in counted.items()))
    return NodeSize(digits, devices, len(ports_of(node)))


def holds(size: NodeSize, template: Template) -> bool | None:
    """Whether every node of the size would hold one slot, were it empty; None: only some of them may."""
    if size.ports < template.ports:
        return False
    if template.gpus:
        models, milli = template.gpu_models, template.gpu_milli
        suiting = [count for model, each, count in size.devices if each >= milli and (not models or model in models)]
        if sum(suiting) < template.gpus:
            return False
    has, surely = dict(size.digits), True
    for name, amount in nonzero_amounts(template.need):
        there, needed = has.get(name, 0), amount.bit_length()
        if there < needed:
            return False
        surely = surely and there > needed
    return surely or None


def with_count(amounts: Amounts, amount: int, change: int) -> Amounts:
    """The same, once so many more nodes have this amount; or fewer, with a negative change."""
    place = bisect_left(amounts, (amount,))
    known = place < len(amounts) and amounts[place][0] == amount
    count = change + (amounts[place][1] if known else 0)
    return (*amounts[:place], *(((amount, count),) if count else ()), *amounts[place + known :])


def with_at_least(amounts: Amounts, amount: int) -> int:
    """How many nodes have at least so much."""
    return sum(count for _, count in islice(amounts, bisect_left(amounts, (amount,)), None))


class NodeKind(NamedTuple):
    """What of a node does not depend on what stands there, in values that have an order, as a table's keys must."""

    zone: str
    pool: str
    #: Keys and values.
    taints: tuple[tuple[str, str], ...]
    #: The tenants that it is kept for; none: any may come.
    kept_for: tuple[str, ...]
    capabilities: Capabilities
    overrun: Duration
    size: NodeSize


def node_kind(node: Node) -> NodeKind:
    """The kind of a node."""
    taints = tuple([(taint.key, taint.value) for taint in node.taints]) if node.taints else ()
    return NodeKind(node.zone, node.pool, taints, kept_for(node), node.capabilities, node.overrun, node_size(node))


def node_labels(node: Node, kind: NodeKind) -> list[LabelOf]:
    """The labels of a node that count, as `label` reads them: an operator's word wins over the agent's."""
    labels = dict((*reversed(node.reported_labels), *reversed(node.labels)))
    return [(key, value, kind) for key, value in labels.items()]


#: A label that counts, key and value, and of which kind of node.
LabelOf = tuple[str, str, NodeKind]

#: A resource, and of which kind of node.
AmountOf = tuple[str, NodeKind]
