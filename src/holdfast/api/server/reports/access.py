"""The caller and its permissions: `whoami` and `can-i`."""

from __future__ import annotations

from typing import Any

from holdfast.api.problems import problem
from holdfast.api.resources.schemas import rule_of
from holdfast.api.serialization.scalars import format_instant as show_instant
from holdfast.api.server.context import ServerContext
from holdfast.api.server.request import ApiError, ApiRequest, json_reply
from holdfast.core.ledger.commit.authorization import PEOPLE
from holdfast.core.model.objects.principals import Permission
from holdfast.host.ports.transport import Reply


async def whoami(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the authenticated caller."""
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
    return json_reply(found)


async def can_i(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return whether the caller may send a command, or has a permission, by permissions and scopes alone."""
    body = call.json()
    known = ("command", "right", "tenant", "region", "node")
    if not isinstance(body, dict) or set(body) - set(known) or not all(isinstance(v, str) for v in body.values()):
        raise ApiError(problem("unreadable", f"the body has the fields {', '.join(known)}, all text"))
    if ("command" in body) == ("right" in body):
        raise ApiError(problem("unreadable", "name either a command or a right"))
    why = _denial_reason(ctx, call, body)
    return json_reply({"allowed": not why, "why": why})


def _denial_reason(ctx: ServerContext, call: ApiRequest, body: dict[str, str]) -> str:
    caller = call.caller
    if "right" in body:
        if body["right"] not in list(Permission):
            raise ApiError(problem("unreadable", f"rights are {', '.join(Permission)}"))
        if body["right"] not in caller.principal.spec.rights:
            return f"{caller.actor} lacks the permission {body['right']}"
    else:
        rule = rule_of(ctx.ledger.definition, body["command"])
        if rule is None:
            raise ApiError(problem("unreadable", f"no command {body['command'][:80]!r}"))
        if caller.kind not in rule.owners:
            return f"{body['command']} can be sent only by {', '.join(rule.owners)}"
        if caller.kind in PEOPLE and rule.right not in caller.principal.spec.rights:
            return f"{body['command']} needs the permission {rule.right.value}"
    return _out_of_scope(call, body)


def _out_of_scope(call: ApiRequest, body: dict[str, str]) -> str:
    caller, scope = call.caller, call.caller.principal.spec.scope
    own = {"tenant": caller.tenant(), "region": scope.region, "node": scope.node}
    for word, name in own.items():
        if name and body.get(word) and body[word] != name:
            return f"{caller.actor} is scoped to {word} {name}"
    return ""
