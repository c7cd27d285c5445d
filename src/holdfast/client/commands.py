"""Commands by their tag."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.client.requester import Document, Operation, Requester, decode_document, if_match_header


class CommandResult(Struct, frozen=True):
    """Log position and time of an accepted command. `answer` is the server's full reply."""

    revision: str
    at: str
    answer: Document


def command(
    caller: Requester, tag: str, fields: Document, *, if_match: str | None = None, idempotency_key: str = ""
) -> Operation[CommandResult]:
    """Send a command by its tag. Field names may be written as in Python: `end_at` is sent as `endAt`.

    Raises `ConflictError` if the object that it changes is not at `if_match`.
    """
    if not tag or not tag.replace("-", "").isalnum():
        raise ValueError(f"not the tag of a command: {tag!r}")
    body = msgspec.json.encode({camel(name): value for name, value in fields.items()})
    key = caller.key(idempotency_key)
    request = caller.request("POST", f"/v1/commands/{tag}", (), if_match_header(if_match), body)
    reply = yield from caller.write(request, key)
    return command_result(decode_document(reply, wrote=key))


def command_result(answer: Document) -> CommandResult:
    """Build the result from the server's reply."""
    return CommandResult(str(answer.get("revision", "")), str(answer.get("at", "")), answer)


def camel(name: str) -> str:
    """Return a field's name as documents write it."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
