"""Conditions as text, and what to do about each reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

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
    """Return a table of conditions."""
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
