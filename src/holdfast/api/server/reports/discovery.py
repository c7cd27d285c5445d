"""The public description of a server: health, the OpenAPI document, and the schema of every kind."""

from __future__ import annotations

from functools import cache
from typing import Any

import holdfast
from holdfast.api.kinds import KINDS, find_kind
from holdfast.api.openapi.document import description
from holdfast.api.problems import problem
from holdfast.api.resources.schemas import kind_schema
from holdfast.api.server.context import ServerContext
from holdfast.api.server.request import JSON, ApiError, ApiRequest, encode, json_reply
from holdfast.core.model.values.conditions import Condition
from holdfast.host.ledger.health import writable
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.transport import Reply


async def openapi(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the OpenAPI document of this ledger's API."""
    return Reply(200, (JSON,), _description(ctx.ledger.definition.name))


async def schemas(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Return the names of all kinds, or the JSON Schema of one."""
    if not call.rest:
        return Reply(200, (JSON,), encode({"kinds": sorted(kind.name for kind in KINDS.values())}))
    kind = find_kind(call.rest[0])
    if kind is None:
        raise ApiError(problem("no-such-route", f"there is no kind {call.rest[0][:80]!r}"))
    return Reply(200, (JSON,), _schema(kind.name))


# Both are encoded once: no authentication is needed to read them, and the first takes longest of all replies.
@cache
def _description(ledger: str) -> bytes:
    return encode(description(ledger))


@cache
def _schema(kind: str) -> bytes:
    return encode(kind_schema(kind))


async def healthz(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Reply that the process is alive."""
    return json_reply({"status": "alive", "version": holdfast.__version__})


async def readyz(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Reply whether reads are served; the body also shows whether writes are."""
    role = ctx.ledger.role
    conditions = [render_condition(writable(ctx.ledger))]
    ready = role not in (Role.LOADING, Role.STOPPED)
    return json_reply({"ready": ready, "role": role.value, "conditions": conditions}, (), 200 if ready else 503)


def render_condition(condition: Condition) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status.value,
        "reason": condition.reason.value,
        "message": condition.message,
    }
