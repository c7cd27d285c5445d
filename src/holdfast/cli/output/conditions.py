"""Conditions and pending reasons as text, who can act, and what to do about each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from holdfast.cli.output import printer

#: Condition types for which `true` is bad. For all others `false` is.
BAD_WHEN_TRUE = frozenset({"failed"})

#: The next step by reason. {kind}, {name} and {tenant} are the object's; {type} is the condition's; {region} its
#: region.
CONDITION_HINTS = {
    "waiting-for-quota": "`holdfast quota {tenant}` shows what is left; an operator can raise it",
    "waiting-for-room": "`holdfast get nodes --region {region}` shows free capacity; `holdfast queue` why nothing fits",
    "waiting-for-region": "`holdfast status` shows each region's last contact",
    "may-not-disrupt": "an identity stops before it starts again: raise spec.disruptionMax to 1 meanwhile",
    "never-fits": "no node is large enough: `holdfast get nodes --region {region} -o wide`; request less",
    "progressing": "in progress: `holdfast wait {kind} {name} --for=condition={type}`",
    "not-yet-known": "`holdfast status` shows each region's last contact; nodes join their region automatically",
    "not-yet-examined": "not processed yet: `holdfast wait {kind} {name} --for=observed`",
    "stale-view": "no action needed: it is retried with a newer view",
    "plugin-failed": "read the log lines of the region's scheduler",
    "session-ended": "its agent is silent: `holdfast get nodes --region {region}` shows which are connected",
    "crashed": "`holdfast get replicas --region {region}` shows how they ended; output is in the node's data folder",
    "cannot-start": "check command, user, folder and secrets: `holdfast get {kind} {name} -o yaml`",
    "over-limit": "check spec.template.need and pids: `holdfast get {kind} {name} -o yaml`",
    "starting-slowly": "no action needed if it starts slowly; spec.template.startup limits the time",
    "probe-not-passed": "check the process: it runs, and its readiness probe fails",
    "probe-failed": "check the process: it runs and does not answer its probe",
    "overcommitted": "`holdfast get breaches` shows by how much and until when",
    "no-longer-allowed": "`holdfast get breaches` shows what runs against the rules",
    "not-covered": "`holdfast get recoverybudgets` shows what is reserved for a lost region",
    "suspect": "`holdfast status` shows its last contact; it becomes lost by itself, or by `region declare-lost`",
    "lost": "`holdfast status` shows its last contact, `holdfast get assignments -A` what it ran",
    "retired": "the region is retired for good: `holdfast get assignments -A` shows what is still assigned to it",
    "cordoned": "an operator keeps new work away; spec.note has the reason",
    "draining": "`holdfast get replicas --region {region}` shows what still runs there",
    "machine-replaced": "no action needed if intended: exclusive work waits for the fence; "
    "otherwise two agents use one name: stop the wrong one",
    "rebooted": "no action needed: its exclusive work waits for the fence",
    "times-not-kept": "it receives no exclusive work: raise the region's kill margin, or upgrade the agent",
    "user-shared": "its tenants are not isolated: run its agent as root, or without --share-user",
    "token-readable": "its replicas can read the agent's token: run the agent as root, with a token of one node",
    "overridden": "`holdfast get overrides` shows owner, reason and end",
    "deadline-missed": "spec.onDeadline: it continues behind other work, or is given up; spec.deadline can be raised",
    "store-full": "free space on the disk of the server's log",
    "store-filling": "free space on the disk of the server's log",
    "store-silent": "check the disk of the server's log: it does not respond",
    "stopped": "read that server's log lines: it has stopped; `holdfast status` shows the leader",
    "not-leading": "`holdfast status` shows the leader",
}

#: States of a region that need attention; each is a reason in `CONDITION_HINTS`.
BAD_HEALTH = frozenset({"suspect", "lost", "retired"})
#: Reasons of conditions that become good by themselves.
IN_PROGRESS = frozenset({"progressing", "not-yet-examined", "stale-view"})
_ROOM = "replicas that end, more or emptier nodes, or a smaller request; it is retried at once"


def is_bad(condition: Mapping[str, Any]) -> bool:
    """Return whether the condition needs attention."""
    truth = str(condition.get("status", "")).lower()
    if truth == "unknown":
        return True
    return (truth == "true") == (str(condition.get("type", "")).lower() in BAD_WHEN_TRUE)


def format_condition(condition: Mapping[str, Any]) -> str:
    """`Ready is false: waiting-for-room: 3 replicas fit nowhere`."""
    words = [f"{condition.get('type')} is {condition.get('status')}", condition.get("reason"), condition.get("message")]
    return ": ".join(str(word) for word in words if word)


def condition_table(conditions: Iterable[Mapping[str, Any]]) -> list[str]:
    rows = [
        [
            printer.format_value(one.get("type")),
            printer.format_value(one.get("status")),
            printer.format_value(one.get("reason")),
            printer.format_age(one.get("since")),
            str(one.get("message") or ""),
        ]
        for one in conditions
    ]
    return printer.table(["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"], rows).splitlines() if rows else []


def condition_hints(
    conditions: Iterable[Mapping[str, Any]], kind: str, name: str, tenant: str, region: str = ""
) -> list[str]:
    """Return the next steps for bad conditions, each once.

    A condition in progress needs no step of its own while another one is in the way.
    """
    bad = [one for one in conditions if is_bad(one) and one.get("reason") in CONDITION_HINTS]
    others = [one for one in bad if one.get("reason") not in IN_PROGRESS]
    found = [
        CONDITION_HINTS[str(one.get("reason"))].format(
            kind=kind, name=name, tenant=tenant, type=one.get("type"), region=region or "REGION"
        )
        for one in others or bad
    ]
    return list(dict.fromkeys(found))


Reason = Mapping[str, Any]


class Remedy(NamedTuple):
    """Who can act, and what resolves it."""

    who: str
    what: str


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
    "gang": Remedy("time, or an operator", "free capacity for all of a gang at once, or a smaller spec.gang.min"),
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
