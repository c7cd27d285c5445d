"""Why something waits, as people read it: a line, a tree, who can act, and what would change it. By the codes that the
scheduler and the ledger use, which are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

Reason = Mapping[str, Any]


class Remedy(NamedTuple):
    """Who can act, and what would change it."""

    who: str
    what: str


_ROOM = "replicas that end, nodes that come or are freed, or asking for less; it is looked at again at once"
#: By code. {region} and {tenant} are where and whose it is.
REMEDIES: dict[str, Remedy] = {
    "never-fits": Remedy("you, or an operator", "asking for less or other things, or nodes that are large enough: "
                       "`holdfast get nodes --region {region} -o wide`"),
    "capacity": Remedy("time, or an operator", _ROOM),
    "device": Remedy("time, or an operator", "replicas with GPUs that end, or nodes with more of the models asked for"),
    "port": Remedy("time, or an operator", "replicas that give ports back, or a wider range of ports on nodes"),
    "labels": Remedy("you, or an operator", "other labels in spec.template.require, or nodes that have these"),
    "taint": Remedy("you, or an operator", "spec.template.tolerate, or nodes without that taint"),
    "tenancy": Remedy("an operator", "nodes that are kept for tenant {tenant}, or for nobody"),
    "one-tenant": Remedy("time, or an operator", "nodes whose agents run as root, or on which {tenant} is alone"),
    "isolation": Remedy("you, or an operator", "spec.template.isolation, or nodes whose agents enforce all of it: "
                      "`holdfast describe node NAME --region {region}`"),
    "node-unavailable": Remedy("an operator", "nodes that live and are neither cordoned nor drained: "
                             "`holdfast get nodes --region {region}`"),
    "spread": Remedy("you, or an operator", "room where there are too few of its replicas, or a larger maxSkew"),
    "apart": Remedy("you, or an operator", "more nodes or zones, or a larger `most` in spec.template.apart"),
    "near": Remedy("you, or an operator", "room where the group stands, or `required: false` in spec.template.near"),
    "over-grant": Remedy("an operator", "more quota, or replicas of {tenant} that end: `holdfast quota {tenant}`"),
    "grant-ended": Remedy("the platform", "a new grant, once the region hears from it: `holdfast status`"),
    "protected": Remedy("an operator", "less that is protected for other tenants, or more nodes"),
    "paused": Remedy("an operator", "the end of an override: `holdfast get overrides --region {region}`"),
    "not-assigned": Remedy("the platform", "an assignment to this region: `holdfast get assignments -t {tenant}`"),
    "not-found": Remedy("the platform", "its priority class, once the region is told of it: `holdfast status`"),
    "residency": Remedy("you", "other jurisdictions in spec.placement"),
    "policy": Remedy("nobody", "nothing: it is looked at again under the policy that is valid"),
    "stale-view": Remedy("nobody", "nothing: it is looked at again with a newer view"),
    "plugin-failed": Remedy("an operator", "a plugin that works: look into the logs of the region's scheduler"),
    "not-yet-examined": Remedy("nobody", "nothing: it is looked at soon. If not, no scheduler is at work there"),
}  # fmt: skip


def remedy(code: str, region: str, tenant: str) -> Remedy:
    """Who can act on a reason, and what would change it."""
    found = REMEDIES.get(code, Remedy("an operator", f"{code} is told in the logs of the region's scheduler"))
    return Remedy(found.who, found.what.format(region=region, tenant=tenant))


def reason_line(one: Mapping[str, Any]) -> str:
    """Why a request waits, in one line: the first reason, with the nearest fit where there is one."""
    code, message = str(one.get("reason") or ""), str(one.get("message") or "")
    return f"{code}: {message}" if message else code


def reason_tree(reasons: Sequence[Reason], indent: str = "") -> Iterator[str]:
    """All reasons, each with its count, what lies below it further in."""
    width = max((len(str(one.get("count"))) for one in reasons), default=0)
    for one in reasons:
        said = f": {one['message']}" if one.get("message") else ""
        yield f"{indent}{str(one.get('count')).rjust(width)} {one.get('code')}{said}"
        yield from reason_tree(one.get("below") or (), f"{indent}{' ' * (width + 1)}")


def nearest_fit(reasons: Sequence[Reason]) -> str:
    """The nearest fit, wherever in the tree it is told; empty: there is none."""
    for one in reasons:
        said = str(one.get("message") or "")
        if "nearest fit" in said:
            return said[said.index("nearest fit") :]
        below = nearest_fit(one.get("below") or ())
        if below:
            return below
    return ""
