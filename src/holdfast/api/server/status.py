"""What a server says of itself, and of who asks."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.api.documents.kinds import KINDS
from holdfast.api.documents.rows import rows
from holdfast.api.documents.scalars import format_instant as show_instant
from holdfast.api.problems import problem
from holdfast.api.server.call import Call, Trouble, answer
from holdfast.api.server.commands import rule_of
from holdfast.api.server.desk import Desk
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.rights import operates_all, sees_everything
from holdfast.api.server.warnings import node_warnings, token_warnings, warnings
from holdfast.core.ledger.house import settings_revision
from holdfast.core.ledger.registry import Lane
from holdfast.core.ledger.revision import seq_of
from holdfast.core.ledger.revision import show as show_revision
from holdfast.core.model.meta import Condition, Truth
from holdfast.core.model.shapes import Instant
from holdfast.core.model.tenancy import Right
from holdfast.core.model.topology import Region, RegionHealth
from holdfast.host.errors import show_token
from holdfast.host.health import writable
from holdfast.host.lanes import SHARES
from holdfast.host.ledger import Role
from holdfast.host.transport import Reply


async def healthz(desk: Desk, call: Call) -> Reply:
    """This process answers."""
    return answer({"status": "alive", "version": holdfast.__version__})


async def readyz(desk: Desk, call: Call) -> Reply:
    """Whether reads are served here; whether writes are, is told too."""
    role = desk.ledger.role
    conditions = [_condition(writable(desk.ledger))]
    ready = role not in (Role.LOADING, Role.STOPPED)
    return answer({"ready": ready, "role": role.value, "conditions": conditions}, (), 200 if ready else 503)


async def status(desk: Desk, call: Call) -> Reply:
    """Who leads, how old everything is, what is degraded now, what is not safe, and which overrides are in force."""
    is_operator = sees_everything(call.caller) or call.caller.has(Right.OPERATE)
    of_nodes = await node_warnings(desk.state) if is_operator else []
    ledger, state, now = desk.ledger, desk.state, desk.now()
    facts, redaction = state.facts, Redaction(call.caller, state)
    found: dict[str, Any] = {
        "server": ledger.identity.server,
        "role": ledger.role.value,
        "ledger": facts.ledger,
        "leader": ledger.leading_server(),
        "term": facts.term,
        "token": show_token(ledger.durable.token()),
        "settingsRevision": show_revision(settings_revision(state)),
        "ageMs": desk.age(),
        "at": show_instant(now),
        "version": holdfast.__version__,
        "conditions": [_condition(writable(ledger))],
        "degraded": _degraded(desk, redaction),
        "lanes": _lanes(desk),
        "watches": desk.watches.taken,
    }
    if is_operator:
        kind = KINDS["overrides"]
        every = [(key, row) for key, row in rows(kind, state) if redaction.shows(kind, key, row)]
        # How the platform is run is not a tenant's to look at.
        is_whole = not redaction.tenant
        of_tokens = token_warnings(state, now) if operates_all(call.caller) else ()
        of_regions = desk.evidence.warnings(state) if ledger.leader is not None else ()
        every_one = [*desk.warnings(), *of_tokens, *warnings(state), *of_regions, *of_nodes]
        found["warnings"] = every_one if is_whole else []
        found["overrides"] = [redaction.tree(kind, key, row) for key, row in every]
    if hasattr(state, "regions"):
        found["regions"] = [_region(desk, region, now) for region in state.regions.values()]
    if desk.link is not None:
        found["platform"] = {"heardMsAgo": desk.link.age_ms(), "trouble": redaction.words(desk.link.trouble())}
    return answer(found)


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status.value,
        "reason": condition.reason.value,
        "message": condition.message,
    }


def _degraded(desk: Desk, redaction: Redaction) -> list[str]:
    """What does not work as it should, in words; why, as far as that names nobody else."""
    found = []
    condition = writable(desk.ledger)
    if desk.ledger.leader is not None and condition.status is not Truth.TRUE:
        found.append(f"takes no writes: {condition.message}")
    if not desk.ledger.leading_server():
        found.append("nobody is known to lead")
    troubles = {
        "cut off from the platform": desk.link.trouble() if desk.link is not None else "",
        "decisions are not kept": desk.decisions.trouble if desk.decisions is not None else "",
        "the audit is not kept": desk.audit.trouble if desk.audit is not None else "",
    }
    for what, why in troubles.items():
        said = redaction.words(why)
        found += [f"{what}: {said}" if said else what] if why else []
    regions = desk.state.regions.values() if hasattr(desk.state, "regions") else ()
    return found + [f"region {one.meta.name} is {one.status.health.value}" for one in regions if not _is_well(one)]


def _is_well(region: Region) -> bool:
    return region.status.health is RegionHealth.HEALTHY


def _lanes(desk: Desk) -> list[dict[str, Any]]:
    lanes = desk.ledger.leader.term.lanes if desk.ledger.leader is not None else None
    return [
        {"lane": lane.name.lower(), "sharePercent": share, "waiting": lanes.depth(lane) if lanes is not None else 0}
        for lane, share in SHARES.items()
    ] + [{"lane": Lane.READS.name.lower(), "sharePercent": 0, "waiting": desk.lists.taken}]


def _region(desk: Desk, region: Region, now: Instant) -> dict[str, Any]:
    status, heard_at = region.status, desk.heard_at(region)
    told = desk.state.summaries.get(region.meta.name)
    return {
        "name": region.meta.name,
        "health": status.health.value,
        "address": region.spec.address,
        "reportedAddress": status.address,
        "heardMsAgo": max(0, now - heard_at) if heard_at else None,
        "summaryMsAgo": max(0, now - told.at) if told is not None else None,
        "behind": desk.state.facts.seq - seq_of(status.cursor) if status.cursor else None,
        "joined": bool(status.log_id),
    }


async def whoami(desk: Desk, call: Call) -> Reply:
    """Who asks, as this server knows it."""
    caller = call.caller
    scope = caller.principal.spec.scope
    found: dict[str, Any] = {
        "principal": caller.actor,
        "rights": [right.value for right in caller.principal.spec.rights],
        "scope": {"tenant": scope.tenant, "region": scope.region, "node": scope.node},
    }
    if caller.via:
        found["via"] = caller.via
    if caller.token:
        found |= {"token": caller.token, "expires": show_instant(caller.expires)}
    return answer(found)


async def can_i(desk: Desk, call: Call) -> Reply:
    """Whether the caller might send a command, or has a right, as far as rights and scopes go."""
    body = call.json()
    known = ("command", "right", "tenant", "region", "node")
    if not isinstance(body, dict) or set(body) - set(known) or not all(isinstance(v, str) for v in body.values()):
        raise Trouble(problem("unreadable", f"a question has the fields {', '.join(known)}, all text"))
    if ("command" in body) == ("right" in body):
        raise Trouble(problem("unreadable", "name either a command or a right"))
    why = _why_not(desk, call, body)
    return answer({"allowed": not why, "why": why})


def _why_not(desk: Desk, call: Call, body: dict[str, str]) -> str:
    caller = call.caller
    if "right" in body:
        if body["right"] not in list(Right):
            raise Trouble(problem("unreadable", f"rights are {', '.join(Right)}"))
        if body["right"] not in caller.principal.spec.rights:
            return f"{caller.actor} does not have the right {body['right']}"
    else:
        rule = rule_of(desk.ledger.book, body["command"])
        if rule is None:
            raise Trouble(problem("unreadable", f"no command {body['command'][:80]!r}"))
        if caller.kind not in rule.owners:
            return f"{body['command']} is sent by {', '.join(rule.owners)}"
        if caller.kind in ("person", "tenant") and rule.right not in caller.principal.spec.rights:
            return f"{body['command']} takes the right {rule.right.value}"
    return _out_of_scope(call, body)


def _out_of_scope(call: Call, body: dict[str, str]) -> str:
    caller, scope = call.caller, call.caller.principal.spec.scope
    own = {"tenant": caller.tenant(), "region": scope.region, "node": scope.node}
    for word, name in own.items():
        if name and body.get(word) and body[word] != name:
            return f"{caller.actor} is bound to {word} {name}"
    return ""
