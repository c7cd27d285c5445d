"""Coarse sizes of nodes: whether nodes of a size, if empty, could hold one slot of a template.

Agents report amounts to the byte, so exact amounts would make nearly every node a kind of its own. A size has only the
number of binary digits of each amount. With more digits than the need, every node of the size suffices; with fewer,
none does. With equally many, exact amounts decide. They are counted per resource, and are few: machines of one model
have the same.
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

#: Amounts of one resource, smallest first, each with the number of nodes that have it.
Amounts = tuple[tuple[int, int], ...]


class NodeSize(NamedTuple):
    """Capacity of a node, in values that have an order."""

    #: By resource: the number of binary digits of its amount; absent resources are left out.
    digits: tuple[tuple[str, int], ...]
    #: By model and size of a device: the number of devices.
    devices: tuple[tuple[str, int, int], ...]
    #: Number of ports in the node's range.
    ports: int


def node_size(node: Node) -> NodeSize:
    digits = tuple([(name, amount.bit_length()) for name, amount in nonzero_amounts(node.capacity)])
    devices: tuple[tuple[str, int, int], ...] = ()
    if node.devices:
        counted = Counter((one.model, one.milli) for one in node.devices)
        devices = tuple(sorted((model, milli, count) for (model, milli), count in counted.items()))
    return NodeSize(digits, devices, len(ports_of(node)))


def holds(size: NodeSize, template: Template) -> bool | None:
    """Return whether every empty node of the size holds one slot; None: only some of them may."""
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
    """Return the amounts with `change` more nodes, or fewer, that have this amount."""
    place = bisect_left(amounts, (amount,))
    known = place < len(amounts) and amounts[place][0] == amount
    count = change + (amounts[place][1] if known else 0)
    return (*amounts[:place], *(((amount, count),) if count else ()), *amounts[place + known :])


def with_at_least(amounts: Amounts, amount: int) -> int:
    """Return the number of nodes with at least this amount."""
    return sum(count for _, count in islice(amounts, bisect_left(amounts, (amount,)), None))


class NodeKind(NamedTuple):
    """Attributes of a node that do not depend on its slots, in values that have an order, as table keys need."""

    zone: str
    pool: str
    #: Keys and values.
    taints: tuple[tuple[str, str], ...]
    #: Tenants that the node is reserved for; empty: any.
    kept_for: tuple[str, ...]
    capabilities: Capabilities
    overrun: Duration
    size: NodeSize


def node_kind(node: Node) -> NodeKind:
    taints = tuple([(taint.key, taint.value) for taint in node.taints]) if node.taints else ()
    return NodeKind(node.zone, node.pool, taints, kept_for(node), node.capabilities, node.overrun, node_size(node))


def node_labels(node: Node, kind: NodeKind) -> list[LabelOf]:
    """Return the effective labels of a node, as `label_value` reads them: the operator's value precedes the agent's."""
    labels = dict((*reversed(node.reported_labels), *reversed(node.labels)))
    return [(key, value, kind) for key, value in labels.items()]


#: An effective label, key and value, and the kind of the node.
LabelOf = tuple[str, str, NodeKind]

#: A resource, and the kind of the node.
AmountOf = tuple[str, NodeKind]
