"""Checks every placement in a region's log against its template, by the log before it.

- meant: the node is open and accepts the work: taints, tenancy, isolation, one tenant, labels, size
- given: its devices and ports are the node's, in the required number, of an accepted model
- apart, near: its domain has at most the allowed members of a group, and some where `near` requires it

The ledger's invariants check the free capacity of nodes; `placements` checks the spread.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.nodes import Node
from holdfast.core.region.commands import SlotPlacement
from holdfast.sim.checks.placement.log_view import RegionLogView, SlotInLog
from holdfast.sim.checks.placement.usage import is_open, place_of

#: A property, and how it is violated.
Broken = tuple[str, str]


def placement_errors(log: RegionLogView, template: Template, tenant: str, one: SlotPlacement) -> Iterator[Broken]:
    """Yield the errors of a placement that the view contains already."""
    node = log.nodes[one.node]
    yield from broken_node_rules(log, template, tenant, node)
    yield from _not_given(template, node, one)
    yield from _among_others(log, template, tenant, node)


def broken_node_rules(log: RegionLogView, template: Template, tenant: str, node: Node) -> Iterator[Broken]:
    """Yield the reasons for which a node does not accept such work."""
    if not is_open(node):
        yield "meant", f"{node.name} accepts no work: {node.health}, session {node.session}, cordoned {node.cordoned}"
    why = log.why_not(node, template, tenant)
    if why:
        yield "meant", f"{node.name} does not accept it: {why}"


def _not_given(template: Template, node: Node, one: SlotPlacement) -> Iterator[Broken]:
    models = [node.devices[index].model for index in one.devices if index < len(node.devices)]
    wrong = [model for model in models if template.gpu_models and model not in template.gpu_models]
    if len(set(one.devices)) != template.gpus or len(models) != template.gpus or wrong:
        told = f"{template.gpus} devices of {template.gpu_models or 'any model'}"
        yield "given", f"it requires {told}, and has {one.devices} of {node.name}: {models}"
    first, last = node.ports
    if len(set(one.ports)) != template.ports or not all(max(1, first) <= port <= last for port in one.ports):
        yield "given", f"it requires {template.ports} ports, and has {one.ports} of {node.name}: {node.ports}"


def _among_others(log: RegionLogView, template: Template, tenant: str, node: Node) -> Iterator[Broken]:
    for apart in template.apart:
        here = [one for one in _members(log, apart.group, tenant) if _is_in(log, one, node, apart.key)]
        if len(here) > apart.most:
            yield "apart", f"{len(here)} of {apart.group} are in {apart.key} {place_of(node, apart.key)}"
    for near in [rule for rule in template.near if rule.required]:
        everybody = _members(log, near.group, tenant)  # including the slot itself
        here = [one for one in everybody if _is_in(log, one, node, near.key)]
        if len(everybody) > 1 and len(here) == 1:
            yield "near", f"none of {near.group} is in {near.key} {place_of(node, near.key)}, but others are elsewhere"


def _members(log: RegionLogView, group: str, tenant: str) -> list[SlotInLog]:
    """Return the slots of a tenant's group: those whose template names it."""
    found = []
    for one in log.stands.values():
        template = log.templates[one.template]
        names = {*(rule.group for rule in template.apart), *(rule.group for rule in template.near)}
        if group in names and log.assignments[one.assignment].tenant == tenant:
            found.append(one)
    return found


def _is_in(log: RegionLogView, one: SlotInLog, node: Node, key: str) -> bool:
    return place_of(log.nodes[one.node], key) == place_of(node, key)
