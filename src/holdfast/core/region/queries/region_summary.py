"""Summary of a region: capacity and free capacity of usable nodes, charges of accounts, and issues.

    nodes ──▶ by pool and by what they are for and can do ──▶ Summary ◀── uses, silent nodes, breaches, requests

It depends on the state alone, so two summaries of one log position are equal. It reads every node, in steps, so that
other tasks of the thread can run. A row that changes meanwhile counts as it is in its step. The report has the position
of its start; the next one contains later changes.

Size: what is told and how much of it at most are one thing; apart, the bounds would not be seen where a part is added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable
from functools import reduce
from itertools import accumulate

from msgspec import Struct
from msgspec.structs import astuple, replace

from holdfast.core.ledger.codec import encode
from holdfast.core.model.objects.isolation import Capabilities, Capability
from holdfast.core.model.objects.topology import Taint
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.records.nodes import Node, NodeHealth, kept_for, usable
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, Trouble
from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.limits import ACCOUNTS_MAX
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import (
    ZERO,
    Resources,
    add,
    clamp_zero,
    elementwise_max,
    first_exceeded,
    subtract,
)
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.queries.node_conditions import exposures
from holdfast.core.region.state.tables import RegionState

#: Nodes or requests per step: about a millisecond.
BIT = 200
#: Largest number of node kinds in a summary. Smaller kinds beyond it become one kind with pool `MIXED`: without labels,
#: taints or tenancy, though its nodes may have them. Readers must treat it as nodes that admit everything; it has every
#: capability.
KINDS_MAX = 64
MIXED = "*"
#: Largest number of vectors for the largest nodes in a report, and during the computation.
LARGEST_MAX = 4
LARGEST_KEPT = 16
NAMES_MAX = 3
MESSAGE_MAX = 200
#: Largest size of nodes and of accounts in a report, whatever agents report. Beyond it a summary has fewer kinds. Of
#: resources and GPU models it names those that most nodes have.
NODES_BYTES, USES_BYTES = 256 << 10, 384 << 10
EXTENDED_TOLD, MODELS_TOLD = 32, 64

#: Kind of a node: pool, labels, taints, tenancy, GPU models and capabilities.
Kind = tuple[str, Labels, tuple[Taint, ...], tuple[str, ...], tuple[str, ...], Capabilities]


class SummarisedNode(Struct, frozen=True):
    """A node's part in a summary, with the rows that it was computed from: rows are never changed, only replaced."""

    node: Node
    room: NodeUsage
    kind: Kind
    free: Resources


#: By node: its part in the last summary.
SummarisedNodes = dict[Revision, SummarisedNode]


class _Group:
    """Nodes of one kind, counted together."""

    def __init__(self) -> None:
        self.count = 0
        self.capacity = self.free = ZERO
        self.largest: list[Resources] = []
        self.largest_free: list[Resources] = []
        self.having: Counter[str] = Counter()

    def take(self, capacity: Resources, free: Resources) -> None:
        self.count += 1
        self.having.update(name for name, _ in capacity.extended)
        self.capacity, self.free = add(self.capacity, capacity), add(self.free, free)
        _add_to_front(self.largest, capacity)
        _add_to_front(self.largest_free, free)

    def told(self, kind: Kind) -> Nodes:
        most, most_free = _merge_front(self.largest), _merge_front(self.largest_free)
        pool, labels, taints, tenancy, models, enforced = kind
        whole = self.count, self.capacity, self.free
        told = Nodes(pool, labels, taints, tenancy, models, *whole, most, most_free, enforced)
        return _named(told, self.having)


def summary_steps(state: RegionState, known: SummarisedNodes) -> Generator[None, None, RegionSummary]:
    """Compute the summary in steps. `known` is each node's part in the last summary, and is updated."""
    groups: dict[Kind, _Group] = {}
    missing: list[Node] = []
    exposed: dict[ConditionReason, list[str]] = {}
    uids = sorted(uid for uid, _ in state.nodes.unordered())
    for number, uid in enumerate(uids, 1):
        if number % BIT == 0:
            yield
        node = state.nodes.get(uid)
        if node is None or not usable(node):
            known.pop(uid, None)
            missing += [node] if node is not None and node.health is not NodeHealth.READY else []
            continue
        piece = known[uid] = _piece(node, state.node_usage.get(uid) or EMPTY_USAGE, known.get(uid))
        group = groups.get(piece.kind)
        if group is None:
            group = groups[piece.kind] = _Group()
        group.take(node.capacity, piece.free)
        for why in exposures(node):
            exposed.setdefault(why, []).append(node.name)
    for uid in [uid for uid in known if uid not in state.nodes]:
        del known[uid]
    yield
    waiting = yield from _waiting(state)
    troubles = (*_node_issues(missing), *_exposed(exposed), *_breach_issues(state), *waiting)
    return RegionSummary(_few_kinds(groups), _uses(state), troubles)


def _uses(state: RegionState) -> tuple[tuple[str, Resources], ...]:
    """Return the charges of accounts; if they are too many for one report, the largest."""
    uses = [(account, use.charged) for account, use in state.account_usage.items() if use.charged != ZERO]
    if len(uses) > ACCOUNTS_MAX:
        uses.sort(key=lambda one: (-one[1].cpu, -one[1].memory, one[0]))
        uses = sorted(uses[:ACCOUNTS_MAX])
    if len(encode(uses)) > USES_BYTES:
        uses.sort(key=lambda one: (-one[1].cpu, -one[1].memory, one[0]))
        sizes = accumulate(len(encode(one)) for one in uses)
        uses = sorted(one for one, size in zip(uses, sizes, strict=True) if size <= USES_BYTES)
    return tuple(uses)


def _piece(node: Node, usage: NodeUsage, before: SummarisedNode | None) -> SummarisedNode:
    if before is not None and before.node is node and before.room is usage:
        return before
    free = clamp_zero(subtract(node.capacity, usage.all))
    if before is not None and before.node is node:
        return SummarisedNode(node, usage, before.kind, free)
    labels = tuple(sorted((dict(node.reported_labels) | dict(node.labels)).items()))  # an operator's value precedes
    taints = tuple(sorted(node.taints, key=astuple))
    models = tuple(sorted({device.model for device in node.devices}))
    return SummarisedNode(node, usage, (node.pool, labels, taints, kept_for(node), models, node.capabilities), free)


def _add_to_front(front: list[Resources], one: Resources) -> None:
    """Add a vector to those that no other vector covers, if none covers it."""
    if one == ZERO:
        return
    for known in front:
        if not first_exceeded(one, known):
            return
    front[:] = [*[known for known in front if first_exceeded(known, one)], one]
    if len(front) > LARGEST_KEPT:
        front[:] = _merge_front(front)


def _merge_front(front: Iterable[Resources]) -> tuple[Resources, ...]:
    """Return at most `LARGEST_MAX` vectors, the largest first; the last one covers all that were left out."""
    ordered = sorted(front, key=astuple, reverse=True)
    if len(ordered) <= LARGEST_MAX:
        return tuple(ordered)
    merged = reduce(elementwise_max, ordered[LARGEST_MAX - 1 :])
    return (*[one for one in ordered[: LARGEST_MAX - 1] if first_exceeded(one, merged)], merged)


def _few_kinds(groups: dict[Kind, _Group]) -> tuple[Nodes, ...]:
    """Return every kind, in order; if there are too many, those with most nodes, and the rest as one."""
    told = [group.told(kind) for kind, group in groups.items()]
    ordered = sorted(told, key=lambda nodes: (-nodes.count, _order(nodes)))
    most = KINDS_MAX
    kept = _kept(ordered, most)
    while most and len(encode(kept)) > NODES_BYTES:
        most //= 2
        kept = _kept(ordered, most)
    return tuple(sorted(kept, key=_order))


def _kept(ordered: list[Nodes], most: int) -> list[Nodes]:
    others = ordered[most:]
    return [*ordered[:most], _mixed(others)] if others else ordered


def _order(nodes: Nodes) -> tuple[object, ...]:
    return nodes.pool, nodes.labels, tuple(map(astuple, nodes.taints)), nodes.tenancy, nodes.models, nodes.capabilities


def _mixed(others: list[Nodes]) -> Nodes:
    largest: list[Resources] = []
    largest_free: list[Resources] = []
    for nodes in others:
        for one in nodes.largest:
            _add_to_front(largest, one)
        for one in nodes.largest_free:
            _add_to_front(largest_free, one)
    models = tuple(sorted({model for nodes in others for model in nodes.models}))
    count = sum(nodes.count for nodes in others)
    capacity, free = reduce(add, [n.capacity for n in others]), reduce(add, [n.free for n in others])
    having: Counter[str] = Counter()
    for nodes in others:
        having.update(dict.fromkeys((name for name, _ in nodes.capacity.extended), nodes.count))
        having.update(dict.fromkeys(nodes.models, nodes.count))
    if len(models) > MODELS_TOLD:
        models = tuple(sorted(sorted(models, key=lambda model: (-having[model], model))[:MODELS_TOLD]))
    enforced = tuple(sorted(Capability))
    mixed = Nodes(
        MIXED, (), (), (), models, count, capacity, free, _merge_front(largest), _merge_front(largest_free), enforced
    )
    return _named(mixed, having)


def _named(nodes: Nodes, having: Counter[str]) -> Nodes:
    """Limit the nodes' resources to the number that a report may name."""
    if len(nodes.capacity.extended) <= EXTENDED_TOLD:
        return nodes
    names = sorted((name for name, _ in nodes.capacity.extended), key=lambda name: (-having[name], name))
    told = {*names[:EXTENDED_TOLD]}

    def cut(amounts: Resources) -> Resources:
        return replace(amounts, extended=tuple(pair for pair in amounts.extended if pair[0] in told))

    return replace(
        nodes,
        capacity=cut(nodes.capacity),
        free=cut(nodes.free),
        largest=tuple(map(cut, nodes.largest)),
        largest_free=tuple(map(cut, nodes.largest_free)),
    )


# Issues


def _node_issues(missing: list[Node]) -> list[Trouble]:
    found = []
    for health in (NodeHealth.SILENT, NodeHealth.LOST):
        nodes = sorted((node for node in missing if node.health is health), key=lambda n: (n.session_ended, n.name))
        if nodes:
            told = _names([node.name for node in nodes])
            found.append(Trouble(f"node-{health}", len(nodes), nodes[0].session_ended, told))
    return found


def exposing(state: RegionState) -> Generator[None, None, list[Trouble]]:
    """Find, in steps, usable nodes on which tenants or a token are exposed, by reason."""
    found: dict[ConditionReason, list[str]] = {}
    for number, uid in enumerate([uid for uid, _ in state.nodes.unordered()], 1):
        node = state.nodes.get(uid)
        if node is not None and usable(node):
            for why in exposures(node):
                found.setdefault(why, []).append(node.name)
        if number % BIT == 0:
            yield
    return _exposed(found)


def _exposed(by_reason: dict[ConditionReason, list[str]]) -> list[Trouble]:
    """Return issues of nodes on which tenants or a token are exposed, as long as agents report so."""
    return [Trouble(why.value, len(names), 0, _names(sorted(names))) for why, names in sorted(by_reason.items())]


def _names(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return _cut(", ".join(names[:NAMES_MAX]) + more)


def _breach_issues(state: RegionState) -> list[Trouble]:
    """Return open breaches, by invariant."""
    opened: dict[str, list[tuple[Instant, str]]] = {}
    for (invariant, key), breach in state.breaches.unordered():
        opened.setdefault(invariant, []).append((breach.opened, key))
    found = []
    for invariant in sorted(opened):
        since, key = min(opened[invariant])
        found.append(Trouble(f"breach/{invariant}", len(opened[invariant]), since, _cut(f"first of {key}")))
    return found


def _waiting(state: RegionState) -> Generator[None, None, list[Trouble]]:
    """Return, in steps, the replicas that were tried in vain, with the request that has been pending longest."""
    count, oldest = 0, None
    for number, (_, requests) in enumerate(list(state.requests.unordered()), 1):
        if number % BIT == 0:
            yield
        for request in requests:
            if request.reasons:
                count += request.open
                oldest = request if oldest is None or _age(request) < _age(oldest) else oldest
    if oldest is None:
        return []
    assignment = state.assignments.get(oldest.assignment)
    name = assignment.workload_name if assignment is not None else str(oldest.assignment)
    why = f"{name}: {oldest.reasons[0].code} {oldest.reasons[0].message}".rstrip()
    return [Trouble("request-waits", count, oldest.since, _cut(why))]


def _age(request: SchedulingRequest) -> tuple[Instant, Revision]:
    return request.since, request.uid


def _cut(message: str) -> str:
    return message[:MESSAGE_MAX]
