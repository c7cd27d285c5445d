"""Pending reasons as text: a line, a tree, who can act, and the remedy. By the codes that the scheduler and the ledger
share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Reason = Mapping[str, Any]


class Remedy(NamedTuple):
    """Who can act, and what resolves it."""

    who: str
    what: str


_ROOM = "replicas that end, more or emptier nodes, or a smaller request; it is retried at once"
#: Remedies by code. {region} and {tenant} are those of the request.
REMEDIES: dict[str, Remedy] = {
    "never-fits": Remedy("you, or an operator", "a smaller or different request, or larger nodes: "
                       "`holdfast get nodes --region {region} -o wide`"),
    "capacity": Remedy("time, or an operator", _ROOM),
    "device": Remedy("time, or an operator", "replicas with GPUs that end, or nodes with more of the requested models"),
    "port": Remedy("time, or an operator", "replicas that release ports, or a wider port range on nodes"),
    "labels": Remedy("you, or an operator", "other labels in spec.template.require, or nodes with these labels"),
    "taint": Remedy("you, or an operator", "spec.template.tolerate, or nodes without that taint"),
    "tenancy": Remedy("an operator", "nodes that are dedicated to tenant {tenant}, or to no tenant"),
    "one-tenant": Remedy("time, or an operator", "nodes whose agents run as root, or that run only {tenant}"),
    "isolation": Remedy("you, or an operator", "spec.template.isolation, or nodes whose agents enforce all of it: "
                      "`holdfast describe node NAME --region {region}`"),
    "node-unavailable": Remedy("an operator", "nodes that are connected and neither cordoned nor draining: "
                             "`holdfast get nodes --region {region}`"),
    "spread": Remedy("you, or an operator", "free capacity where it has too few replicas, or a larger maxSkew"),
    "apart": Remedy("you, or an operator", "more nodes or zones, or a larger `most` in spec.template.apart"),
    "near": Remedy("you, or an operator", "free capacity near the group, or `required: false` in spec.template.near"),
    "over-grant": Remedy("an operator", "more quota, or replicas of {tenant} that end: `holdfast quota {tenant}`"),
    "grant-ended": Remedy("the platform", "a new grant, once the region is connected to it: `holdfast status`"),
    "protected": Remedy("an operator", "less protected capacity of other tenants, or more nodes"),
    "paused": Remedy("an operator", "the end of an override: `holdfast get overrides --region {region}`"),
    "not-assigned": Remedy("the platform", "an assignment to this region: `holdfast get assignments -t {tenant}`"),
    "not-found": Remedy("the platform", "its priority class, once the region has received it: `holdfast status`"),
    "residency": Remedy("you", "other jurisdictions in spec.placement"),
    "policy": Remedy("the scheduler", "no action needed: it is retried under the valid policy"),
    "stale-view": Remedy("the scheduler", "no action needed: it is retried with a newer view"),
    "plugin-failed": Remedy("an operator", "a plugin that works: read the log lines of the region's scheduler"),
    "not-yet-examined": Remedy("the scheduler", "no action needed: it is tried soon if the region has a scheduler"),
}  # fmt: skip


def remedy(code: str, region: str, tenant: str) -> Remedy:
    """Return the remedy of a reason."""
    found = REMEDIES.get(code, Remedy("an operator", f"the log lines of the region's scheduler explain {code}"))
    return Remedy(found.who, found.what.format(region=region, tenant=tenant))


def reason_line(one: Mapping[str, Any]) -> str:
    """Return in one line why a request waits: the first reason, with the nearest fit if there is one."""
    code, message = str(one.get("reason") or ""), str(one.get("message") or "")
    return f"{code}: {message}" if message else code


def reason_tree(reasons: Sequence[Reason], indent: str = "") -> Iterator[str]:
    """Yield all reasons with their counts; nested reasons are indented."""
    width = max((len(str(one.get("count"))) for one in reasons), default=0)
    for one in reasons:
        said = f": {one['message']}" if one.get("message") else ""
        yield f"{indent}{str(one.get('count')).rjust(width)} {one.get('code')}{said}"
        yield from reason_tree(one.get("below") or (), f"{indent}{' ' * (width + 1)}")


def nearest_fit(reasons: Sequence[Reason]) -> str:
    """Return the nearest fit from anywhere in the tree; empty if there is none."""
    for one in reasons:
        said = str(one.get("message") or "")
        if "nearest fit" in said:
            return said[said.index("nearest fit") :]
        below = nearest_fit(one.get("below") or ())
        if below:
            return below
    return ""
