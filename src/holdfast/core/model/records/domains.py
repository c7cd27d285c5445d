"""Topology keys and domains, and the scopes under which a slot is counted there."""

from __future__ import annotations

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.structs import Revision


def domain_of(node: Node, key: str) -> str:
    """Return the node's domain of a topology key (node, zone or pool). It is fixed while slots are on the node."""
    if key == "zone":
        return node.zone
    if key == REGION_WIDE:
        return ""
    return node.name if key == "node" else node.pool


def has_domain_rules(template: Template) -> bool:
    """Whether replicas are counted over domains, for the template's own rules or for those of its groups."""
    return bool(template.spread or template.apart or template.near)


def domain_scopes(template: Template, workload: Revision, tenant: str) -> list[tuple[str, str]]:
    """Return the scopes under which a slot of this template is counted: (scope, topology key)."""
    spread = {(f"#{workload}", rule.key): None for rule in template.spread}
    names = [*(rule.group for rule in template.apart), *(rule.group for rule in template.near)]
    groups = dict.fromkeys(f"{tenant}/{name}" for name in names)
    members = [(group, key) for group in groups for key in ("node", "zone", "pool", REGION_WIDE)]
    return [*spread, *members]


#: The topology key of the one domain that contains all nodes of a region.
REGION_WIDE = ""
