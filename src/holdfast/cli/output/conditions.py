"""Conditions as people read them, and what to do about each reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.cli.output import printer

#: Conditions of which `true` is the bad news. Of all others it is `false`.
BAD_WHEN_TRUE = frozenset({"failed"})

#: What to do next, by reason: {kind} and {name} are the object's.
CONDITION_HINTS = {
    "waiting-for-quota": "`holdfast describe quota {tenant}` shows what is left; an operator can raise it",
    "waiting-for-room": "`holdfast get nodes --region REGION` shows what is free; "
    "`holdfast get requests --region REGION` why nothing fits",
    "waiting-for-region": "`holdfast status` shows when each region was last heard",
    "may-not-disrupt": "an identity is stopped before it starts anew: raise spec.disruptionMax to 1 for as long",
    "never-fits": "no node is large enough: `holdfast get nodes --region REGION -o wide`; ask for less",
    "progressing": "nothing: it is on its way; `holdfast wait {kind} {name} --for=observed`",
    "not-yet-known": "`holdfast status` shows which regions were heard; nodes join their region by themselves",
    "not-yet-examined": "nothing: it is looked at soon; `holdfast wait {kind} {name} --for=observed`",
    "stale-view": "nothing: it is tried again with a newer view",
    "plugin-failed": "look into the logs of the region's scheduler",
    "session-ended": "its agent has gone silent: `holdfast get nodes --region REGION` shows which live",
    "crashed": "`holdfast get replicas --region REGION` shows which, and how they ended",
    "cannot-start": "look at command, user, folder and secrets: `holdfast get {kind} {name} -o yaml`",
    "over-limit": "look at what it needs: spec.template.need and pids; `holdfast get {kind} {name} -o yaml`",
    "starting-slowly": "nothing, if it takes long to start; spec.template.startup says when it gives up",
    "probe-not-passed": "look at the process itself: it runs, and its readiness probe does not pass",
    "probe-failed": "look at the process itself: it runs and does not answer",
    "overcommitted": "`holdfast get breaches` shows by how much and until when",
    "no-longer-allowed": "`holdfast get breaches` shows what is where it may not be",
    "not-covered": "`holdfast get recoverybudgets` shows what is kept for a lost region",
    "suspect": "`holdfast status` shows when the region was last heard; only a person declares it lost",
    "lost": "`holdfast get assignments -A` shows what was there; `holdfast repair list` what waits for it",
    "retired": "the region is given up for good: `holdfast get assignments -A` shows what is still meant to be there",
    "cordoned": "an operator keeps new work away; spec.note says why",
    "draining": "`holdfast get replicas --region REGION` shows what is still there",
    "machine-replaced": "nothing, if that was meant: exclusive work waits for the fence; "
    "otherwise two agents have one name: stop the one that is not meant",
    "rebooted": "nothing: exclusive work that was there waits for the fence",
    "times-not-kept": "it gets no exclusive work: raise the region's kill margin, or upgrade the agent",
    "user-shared": "what one tenant runs there is open to others: run its agent as root, or without --share-user",
    "token-readable": "what runs there could speak as its agent: run that as root, and give it a token of one node",
    "overridden": "`holdfast get overrides` shows by whom, why and until when",
    "deadline-missed": "it goes on behind the others, or is given up: spec.onDeadline; spec.deadline can be raised",
    "store-full": "free space where the server keeps its log",
    "store-filling": "free space where the server keeps its log",
    "store-silent": "look at the disk where the server keeps its log: it does not answer",
    "stopped": "look into the logs of that server: it has stopped; `holdfast status` shows who leads",
    "not-leading": "`holdfast status` shows who leads",
}


def is_bad(condition: Mapping[str, Any]) -> bool:
    """Whether somebody should look at it."""
    truth = str(condition.get("status", "")).lower()
    if truth == "unknown":
        return True
    return (truth == "true") == (str(condition.get("type", "")).lower() in BAD_WHEN_TRUE)


def format_condition(condition: Mapping[str, Any]) -> str:
    """`Ready is false: waiting-for-room: 3 replicas fit nowhere`."""
    words = [f"{condition.get('type')} is {condition.get('status')}", condition.get("reason"), condition.get("message")]
    return ": ".join(str(word) for word in words if word)


def condition_table(conditions: Iterable[Mapping[str, Any]]) -> list[str]:
    """A table of conditions."""
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


def condition_hints(conditions: Iterable[Mapping[str, Any]], kind: str, name: str, tenant: str) -> list[str]:
    """What to do next about those that need it, each once."""
    found = [CONDITION_HINTS.get(str(one.get("reason")), "") for one in conditions if is_bad(one)]
    return [one.format(kind=kind, name=name, tenant=tenant) for one in dict.fromkeys(found) if one]
