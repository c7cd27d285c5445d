"""Commands, and questions to the server itself."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.client.effects import Document, Operation
from holdfast.client.requester import Requester, decode_document, if_match_header


class CommandResult(Struct, frozen=True):
    """Where and when a command stands in the log. `answer` is everything that the server said."""

    revision: str
    at: str
    answer: Document


def command(
    caller: Requester, tag: str, fields: Document, *, if_match: str | None = None, idempotency_key: str = ""
) -> Operation[CommandResult]:
    """Send a command by its tag. Names of fields may be written as in Python: `end_at` is sent as `endAt`.

    `Conflict` when the object that it changes is not at `if_match`.
    """
    if not tag or not tag.replace("-", "").isalnum():
        raise ValueError(f"not the tag of a command: {tag!r}")
    body = msgspec.json.encode({camel(name): value for name, value in fields.items()})
    key = caller.key(idempotency_key)
    request = caller.request("POST", f"/v1/commands/{tag}", (), if_match_header(if_match), body)
    reply = yield from caller.write(request, key)
    return command_result(decode_document(reply, wrote=key))


def command_result(answer: Document) -> CommandResult:
    """What an answer to a command says."""
    return CommandResult(str(answer.get("revision", "")), str(answer.get("at", "")), answer)


def camel(name: str) -> str:
    """A field's name as documents write it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
