"""Kinds of objects that the platform ships to a region, and the names of their rows."""

from __future__ import annotations

from typing import Any

from holdfast.core.region import commands as c

#: By kind: the table of its rows, and whether its key is a number.
TABLE_OF_SHIPPED = {
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
    """Return whether it is the operator of this region's own log, which the platform cannot remove."""
    return kind == "principal" and bool(stored.meta.created_by == "ledger")


def shipped_name(put: c.ShippedItem) -> tuple[str, str]:
    """Return the identity of a shipped object: the tag of its kind and its key as text."""
    match put:
        case c.ShippedRegion():
            return "region", put.name
        case c.ShippedTemplate():
            return "template", put.digest
        case c.ShippedAssignment():
            return "assignment", str(put.assignment.uid)
        case c.ShippedGrant():
            return "grant", put.account
        case c.ShippedPriorityClass():
            return "priority-class", put.priority_class.meta.name
        case c.ShippedPrincipal():
            return "principal", put.principal.meta.name
        case c.ShippedToken():
            return "token", put.token.meta.name
        case c.ShippedPool():
            return "node-pool", put.name
        case c.ShippedPolicy():
            return "policy", str(put.policy.revision)
        case c.ShippedValidity():
            return "validity", put.validity.scope
        case c.ShippedOverride():
            return "override", str(put.override.uid)
        case c.ShippedServer():
            return "server", put.server.name
