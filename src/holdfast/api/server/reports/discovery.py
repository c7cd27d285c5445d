"""What a server publishes of its own shape: the OpenAPI document, and the schema of every kind."""

from __future__ import annotations

from functools import cache
from typing import Any

import holdfast
from holdfast.api.kinds import KINDS, find
from holdfast.api.openapi.document import description
from holdfast.api.problems import problem
from holdfast.api.resources.schemas import kind_schema
from holdfast.api.server.context import Desk
from holdfast.api.server.request import JSON, Call, Trouble, answer, encode
from holdfast.core.model.values.conditions import Condition
from holdfast.host.ledger.health import writable
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.transport import Reply


async def openapi(desk: Desk, call: Call) -> Reply:
    """The OpenAPI document of this ledger's API."""
    return Reply(200, (JSON,), _description(desk.ledger.book.name))


async def schemas(desk: Desk, call: Call) -> Reply:
    """The names of all kinds, or the JSON Schema of one."""
    if not call.rest:
        return Reply(200, (JSON,), encode({"kinds": sorted(kind.name for kind in KINDS.values())}))
    kind = find(call.rest[0])
    if kind is None:
        raise Trouble(problem("no-such-route", f"there is no kind {call.rest[0][:80]!r}"))
    return Reply(200, (JSON,), _schema(kind.name))


# Both are made once: everybody may ask for them, and the first takes longer than any other answer.
@cache
def _description(ledger: str) -> bytes:
    return encode(description(ledger))


@cache
def _schema(kind: str) -> bytes:
    return encode(kind_schema(kind))


async def healthz(desk: Desk, call: Call) -> Reply:
    """This process answers."""
    return answer({"status": "alive", "version": holdfast.__version__})


async def readyz(desk: Desk, call: Call) -> Reply:
    """Whether reads are served here; whether writes are, is told too."""
    role = desk.ledger.role
    conditions = [_condition(writable(desk.ledger))]
    ready = role not in (Role.LOADING, Role.STOPPED)
    return answer({"ready": ready, "role": role.value, "conditions": conditions}, (), 200 if ready else 503)


def _condition(condition: Condition) -> dict[str, Any]:
    return {
        "type": condition.type,
        "status": condition.status.value,
        "reason": condition.reason.value,
        "message": condition.message,
    }
