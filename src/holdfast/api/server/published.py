"""What a server publishes of its own shape: the OpenAPI document, and the schema of every kind."""

from __future__ import annotations

from functools import cache

from holdfast.api.documents.kinds import KINDS, find
from holdfast.api.documents.openapi import description
from holdfast.api.documents.schema import kind_schema
from holdfast.api.problems import problem
from holdfast.api.server.call import JSON, Call, Trouble, encode
from holdfast.api.server.desk import Desk
from holdfast.host.transport import Reply


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
