"""The kinds of objects that the platform ships to a region, and the names of their rows."""

from __future__ import annotations

from typing import Any

from holdfast.core.region import commands as c

#: By kind: the table it is dropped from, and whether its key is a number.
GONE_FROM = {
    "assignment": ("assignments", True),
    "grant": ("allowances", False),
    "priority-class": ("classes", False),
    "principal": ("principals", False),
    "token": ("tokens", False),
    "node-pool": ("pools", False),
    "policy": ("policies", True),
    "validity": ("validities", False),
    "override": ("platform_overrides", True),
    "server": ("platform_servers", False),
}


def is_own(kind: str, stored: Any) -> bool:
    """The operator that this region's own log began with is not the platform's to take away."""
    return kind == "principal" and bool(stored.meta.created_by == "ledger")


def name_of(put: c.Shipped) -> tuple[str, str]:
    """What an object is told apart by: the tag of its kind and its key as text."""
    match put:
        case c.RegionShipped():
            return "region", put.name
        case c.TemplateShipped():
            return "template", put.digest
        case c.AssignmentShipped():
            return "assignment", str(put.assignment.uid)
        case c.GrantShipped():
            return "grant", put.account
        case c.ClassShipped():
            return "priority-class", put.priority_class.meta.name
        case c.PrincipalShipped():
            return "principal", put.principal.meta.name
        case c.TokenShipped():
            return "token", put.token.meta.name
        case c.PoolShipped():
            return "node-pool", put.name
        case c.PolicyShipped():
            return "policy", str(put.policy.revision)
        case c.ValidityShipped():
            return "validity", put.validity.scope
        case c.OverrideShipped():
            return "override", str(put.override.uid)
        case c.ServerShipped():
            return "server", put.server.name
