"""The text of `explain` for a workload and for a slot: the nearest fit first, then all other facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.cli.output import conditions, field_path, printer

Document = Mapping[str, Any]
#: Number of candidates and of rejection codes shown.
BEST, REJECTED = 5, 8


def explain_workload(
    name: str, found: Document | None, queued: Sequence[Document], decided: Sequence[Document]
) -> list[str]:
    """Explain a workload: its progress, waiting requests with reasons, and recent decisions."""
    lines = [printer.paint(f"workload {name}", "bold"), *(_standing(found) if found is not None else [_gone(decided)])]
    for one in queued:
        lines += ["", *_waiting(one)]
    if decided:
        lines += ["", printer.paint("Recent decisions", "bold"), *(f"  {_brief(one)}" for one in decided)]
    return lines


def _standing(found: Document) -> Iterator[str]:
    spec, status = found.get("spec") or {}, found.get("status") or {}
    over = [key for key in ("succeeded", "failed") if status.get(key)]
    counts = ", ".join(f"{status.get(key) or 0} {key}" for key in ("bound", "ready", "serving", *over))
    yield f"  {spec.get('replicas')} replicas requested: {counts}"
    deletion = (found.get("metadata") or {}).get("deletion")
    if deletion:
        yield f"  being deleted since {deletion.get('at')}"
    for condition in field_path.conditions_of(found):
        if conditions.is_bad(condition):
            yield f"  {conditions.format_condition(condition)}"


def _gone(decided: Sequence[Document]) -> str:
    return "  the workload does not exist now" + ("; decisions about it:" if decided else "")


def _waiting(one: Document) -> Iterator[str]:
    """Describe a waiting request: nearest fit, reasons, age, who can act, what resolves it."""
    region, tenant, code = (str(one.get(key) or "") for key in ("region", "tenant", "reason"))
    title = "Will never fit" if one.get("never") else "Not yet examined" if not one.get("reasons") else "Waiting"
    yield printer.paint(
        f"{title} in {region}: {one.get('open')} replicas, for {printer.format_age(one.get('since'))}", "bold"
    )
    said = one.get("reasons") or ()
    near = conditions.nearest_fit(said)
    if near:
        yield f"  {near}"
    if said:
        yield "  reasons, with the number of nodes or replicas that each excludes:"
        yield from conditions.reason_tree(said, "    ")
    cure = conditions.remedy(code, region, tenant)
    rows = [
        ("resolved by", cure.who),
        ("remedy", cure.what),
        ("queue position", f"{one.get('position')}, class {one.get('priorityClass')}"),
        ("scheduling attempts", str(one.get("attempts") or 0)),
    ]
    if one.get("deadline"):
        rows.append(("deadline", f"in {printer.format_until(one['deadline'])}"))
    yield printer.pairs(rows, "  ")


def explain_slot(name: str, replica: Document | None, decided: Document | None) -> list[str]:
    """Explain a slot: where it is, and why it was placed there."""
    lines = [printer.paint(f"slot {name}", "bold"), *_phase(replica)]
    if decided is None:
        return [*lines, "", "  no decision about it is stored"]
    return [*lines, "", *explain_decision(decided)]


def _phase(replica: Document | None) -> Iterator[str]:
    if replica is None:
        yield "  the slot does not exist now"
        return
    status = replica.get("status") or {}
    node = f" on {status['node']}" if status.get("node") else ""
    cause = f": {status['cause']}" if status.get("cause") else ""
    yield f"  {status.get('phase')}{node}, for {printer.format_age(status.get('since'))}, by {status.get('by')}{cause}"
    if status.get("preempted"):
        yield f"  {preemption(status['preempted'])}"
    yield from (f"  {preemption(one)}" for one in status.get("preempts") or ())


def preemption(one: Document) -> str:
    """Tell of a preemption, the same to the victim and to its successor."""
    victim, successor = (one.get(key) or "a replica of another tenant" for key in ("victim", "successor"))
    why = f"class priority {one.get('priority')} over {one.get('victimPriority')}"
    if one.get("rule") == "reclaimed":
        why = f"recovery takes back what reclaimable work borrowed; {why}"
    return f"{successor} took the place of {victim} at {one.get('at')}: {why}"


def explain_decision(one: Document) -> Iterator[str]:
    """Describe one decision in full."""
    went: Document = next(iter(one.get("placements") or ()), {})
    title = f"Decided at {one.get('at')}: {one.get('outcome')}" + (f", on {went['node']}" if went else "")
    yield printer.paint(title, "bold")
    rows = [
        ("for", f"{workloads_of(one)}, {one.get('placed')} placed in this decision"),
        ("scheduler", f"{one.get('scheduler')}, view at batch {_batch(one)}, {_policy(one)}"),
        ("queued", _queued(one)),
        ("nodes examined", printer.format_value(one.get("examined"))),
        ("revision", printer.format_value(one.get("revision"))),
        ("quota", "; ".join(map(_quota, one.get("quota") or ())) or "-"),
        ("preempted", f"replicas that stop for it: {one.get('preempted')}" if one.get("preempted") else "-"),
        ("next", printer.format_value(one.get("nextOwner"))),
    ]
    yield printer.pairs([row for row in rows if row[1] not in ("", "-")], "  ")
    yield from _section("Rejected", map(_kept, (one.get("rejected") or ())[:REJECTED]))
    yield from _section("Refused by the ledger", map(_kept, one.get("refused") or ()))
    yield from _section("Reasons", conditions.reason_tree(one.get("reasons") or ()))
    yield from _section("Best candidates", _candidates(one, str(went.get("node") or "")))


def _section(title: str, lines: Iterator[str] | Sequence[str]) -> Iterator[str]:
    found = list(lines)
    if found:
        yield f"  {printer.paint(title, 'bold')}"
        yield from (f"    {line}" for line in found)


def _batch(one: Document) -> str:
    return str(one.get("view")).partition(".")[0]


def _policy(one: Document) -> str:
    revision = str(one.get("policy"))
    return "the built-in policy" if revision == "0.0" else f"policy {revision}"


def _queued(one: Document) -> str:
    since, at = (
        printer.parse_instant(str(one.get("queuedSince") or "")),
        printer.parse_instant(str(one.get("at") or "")),
    )
    return "-" if since is None or at is None else printer.format_span((at - since).total_seconds())


def _quota(one: Document) -> str:
    charged, target = printer.format_value(one.get("charged")), printer.format_value(one.get("target"))
    return f"{one.get('account')} charged {charged} of {target}"


def _kept(one: Document) -> str:
    detail = f": {one['detail']}" if one.get("detail") else ""
    return f"{one.get('count')} {one.get('code')}{detail}"


def _candidates(one: Document, chosen: str) -> list[str]:
    found = (one.get("candidates") or ())[:BEST]
    if not found:
        count = int(one.get("candidateCount") or 0)
        return [f"{count} were compared; only principals that see all tenants can list them"] if count else []
    rows = [
        ["*" if best.get("node") == chosen else "", printer.format_value(best.get("node")),
         printer.format_value(best.get("score")),
         printer.format_value(best.get("parts"))]
        for best in found
    ]  # fmt: skip
    return printer.table(["", "NODE", "SCORE", "PARTS"], rows).splitlines()


def _brief(one: Document) -> str:
    first: Document = next(iter(one.get("reasons") or ()), {})
    why = f": {first.get('message') or first.get('code')}" if first else ""
    placed = f" {one.get('placed')}" if one.get("placed") else ""
    return f"{one.get('at')} {one.get('region')}: {one.get('outcome')}{placed}, by {one.get('scheduler')}{why}"


def workloads_of(one: Mapping[str, Any]) -> str:
    """Return the workloads of a decision, at most three by name."""
    named = [str(request.get("workload")) for request in one.get("requests") or ()]
    more = int(one.get("requestCount") or 0) - len(named)
    few = ",".join(named[:3])
    left = more + len(named[3:])
    return f"{few} and {left} more" if left > 0 else few
