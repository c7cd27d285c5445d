"""Commands, and questions to the server itself."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.client.effects import Call, Document
from holdfast.client.requester import Caller, document_in, matching


class Landed(Struct, frozen=True):
    """Where and when a command stands in the log. `answer` is everything that the server said."""

    revision: str
    at: str
    answer: Document


def command(
    caller: Caller, tag: str, fields: Document, *, if_match: str | None = None, idempotency_key: str = ""
) -> Call[Landed]:
    """Send a command by its tag. Names of fields may be written as in Python: `end_at` is sent as `endAt`.

    `Conflict` when the object that it changes is not at `if_match`.
    """
    if not tag or not tag.replace("-", "").isalnum():
        raise ValueError(f"not the tag of a command: {tag!r}")
    body = msgspec.json.encode({camel(name): value for name, value in fields.items()})
    key = caller.key(idempotency_key)
    request = caller.request("POST", f"/v1/commands/{tag}", (), matching(if_match), body)
    reply = yield from caller.write(request, key)
    return landed(document_in(reply, wrote=key))


def landed(answer: Document) -> Landed:
    """What an answer to a command says."""
    return Landed(str(answer.get("revision", "")), str(answer.get("at", "")), answer)


def camel(name: str) -> str:
    """A field's name as documents write it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
