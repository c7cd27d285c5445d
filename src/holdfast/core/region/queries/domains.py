"""Domains in which a template could be placed; spread, apart and near rules over them.

A spread rule compares with the emptiest domain that could take a replica. A zone may be unable to: its nodes lack a
required label, are reserved for others, are too small even when empty, or are avoided. Such a zone would stay at zero,
and every placement would wait for it forever. Free capacity does not matter: the rule says to wait for a full zone.

Kinds of nodes are few, nodes many. There may be as many labels as nodes, so labels are counted beside kinds, one by
one. Exact amounts are counted beside the coarse sizes (`node_kinds`). A proposal walks over nodes only if nothing else
shows that one of them has several labels, or just enough of several resources, at once.

Gates of spread, apart and near rules count other slots in a node's domain.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.isolation import missing_capabilities
from holdfast.core.model.objects.workloads import Near, Template, accepts
from holdfast.core.model.records.domains import REGION_WIDE, domain_of
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.records.nodes import Node, label_value, usable
from holdfast.core.model.values.resources import nonzero_amounts
from holdfast.core.model.values.structs import Duration, Revision
from holdfast.core.region.queries.feasibility import Infeasible, fits, picked
from holdfast.core.region.queries.fence import overrun_max
from holdfast.core.region.state.node_kinds import NodeKind, holds, node_kind, with_at_least
from holdfast.core.region.state.tables import RegionState

#: Return the number of slots in a domain: (scope, topology key, name).
Counting = Callable[[tuple[str, str, str]], int]


class DomainSubject(NamedTuple):
    """Slots to place, as far as rules over domains need them."""

    template: Template
    workload: Revision
    tenant: str
    exclusive: bool


#: By topology key: the domains in which slots could be placed, sorted.
ReachableDomains = Mapping[str, tuple[str, ...]]
#: A search by a caller with its own node table. By topology key, it returns the domains with a usable node that would
#: take such slots if empty.
DomainSearch = Callable[[], Mapping[str, Iterable[str]]]


def reachable_domains(
    state: RegionState, standing: DomainSubject, avoided: Container[str], search: DomainSearch | None = None
) -> ReachableDomains:
    """Return the domains of the spread rules with a usable node that would take such slots if empty.

    If nodes themselves must be examined, `search` does it, if given: a walk over 50,000 nodes takes thousands of times
    as long as all else.
    """
    wanted = {rule.key: 0 for rule in standing.template.spread}
    for (key, _), _ in state.domains.unordered():
        if key in wanted:
            wanted[key] += 1
    found: dict[str, set[str]] = {key: set() for key in wanted}
    most = overrun_max(state.info.settings) if standing.exclusive else None
    doubtful: list[NodeKind] = []
    for kind, count in state.node_kinds.unordered():
        if _is_found(kind, found) or kind.zone in avoided or not _takes(kind, standing, most):
            continue
        having = _having(state, kind, count, standing.template)
        if sum(count - one for one in having) < count:  # whatever they lack, one of them lacks nothing
            _find(kind, found)
            if all(len(found[key]) == number for key, number in wanted.items()):
                break  # nearly always, and soon
        elif all(having):
            doubtful.append(kind)
    if doubtful and search is not None:
        for key, names in search().items():
            found[key].update(names)
    elif doubtful:
        _look_through(state, standing, doubtful, found)
    return {key: tuple(sorted(names)) for key, names in found.items()}


def _is_found(kind: NodeKind, found: dict[str, set[str]]) -> bool:
    return all((kind.zone if key == "zone" else kind.pool) in names for key, names in found.items())


def _find(kind: NodeKind, found: dict[str, set[str]]) -> None:
    for key, names in found.items():
        names.add(kind.zone if key == "zone" else kind.pool)


def _having(state: RegionState, kind: NodeKind, count: int, template: Template) -> list[int]:
    """Return how many of `count` nodes of a kind have each label, and enough of each resource that not all have enough
    of."""
    large = holds(kind.size, template)
    if large is False:
        return [0]
    has = [state.node_labels.get((key, value, kind)) or 0 for key, value in template.require]
    for name, amount in nonzero_amounts(template.need) if not large else ():
        has.append(with_at_least(state.node_amounts.get((name, kind)) or (), amount))
    return has


def _look_through(
    state: RegionState, standing: DomainSubject, doubtful: list[NodeKind], found: dict[str, set[str]]
) -> None:
    """Examine nodes of kinds where each label, and enough of each resource, is on some node: only nodes show whether
    one has all. Cheap checks come first."""
    template, left = standing.template, [kind for kind in doubtful if not _is_found(kind, found)]
    if not left:
        return
    places = {(kind.zone, kind.pool) for kind in left}
    nodes = [node for _, node in state.nodes.unordered() if (node.zone, node.pool) in places]
    for one in template.require:
        nodes = [node for node in nodes if one in node.labels or one in node.reported_labels]
    for node in nodes:
        if node.capacity.cpu < template.need.cpu or node.capacity.memory < template.need.memory:
            continue
        if all(label_value(node, key) == value for key, value in template.require) and usable(node):
            kind = node_kind(node)
            if kind in left and would_hold(node, template):
                _find(kind, found)
                left = [kind for kind in left if not _is_found(kind, found)]
                if not left:
                    return


def _takes(kind: NodeKind, standing: DomainSubject, overrun: Duration | None) -> bool:
    """Return whether nodes of a kind are for such slots, labels aside: as `admits` and `why_unfenced` for an empty
    node."""
    template = standing.template
    return (
        all(accepts(template, key, value) for key, value in kind.taints)
        and (not kind.kept_for or standing.tenant in kind.kept_for)
        and not missing_capabilities(template.isolation, kind.capabilities)
        and (overrun is None or kind.overrun <= overrun)
    )


def check_domains(count: Counting, standing: DomainSubject, reach: ReachableDomains, node: Node) -> Infeasible | None:
    """Refuse if one more slot there breaks a spread rule, exceeds an apart rule, or is too far from a near group."""
    template, tenant = standing.template, standing.tenant
    scope = f"#{standing.workload}"
    for spread in template.spread:
        here = domain_of(node, spread.key)
        fewest = min([count((scope, spread.key, name)) for name in reach[spread.key]], default=0)
        if count((scope, spread.key, here)) + 1 - fewest > spread.max_skew:
            return Infeasible(Code.SPREAD, f"{spread.key} {here} has {spread.max_skew} more than the emptiest")
    for apart in template.apart:
        where = (f"{tenant}/{apart.group}", apart.key, domain_of(node, apart.key))
        if count(where) >= apart.most:
            return Infeasible(Code.APART, f"{apart.key} {where[2]} has {apart.most} of {apart.group}")
    for near in template.near:
        if near.required and _is_far(count, tenant, near, node):
            return Infeasible(Code.NEAR, f"{near.key} {domain_of(node, near.key)} has none of {near.group}")
    return None


def _is_far(count: Counting, tenant: str, near: Near, node: Node) -> bool:
    """Return whether the group has slots in the region, and none in this node's domain."""
    group = f"{tenant}/{near.group}"
    here = count((group, near.key, domain_of(node, near.key)))
    return not here and count((group, REGION_WIDE, "")) > 0


def would_hold(node: Node, template: Template) -> bool:
    """Return whether an empty node would hold one slot."""
    devices, ports = picked(node, EMPTY_USAGE, template, firm=True)
    return fits(node, EMPTY_USAGE, template, devices, ports, firm=True) is None
