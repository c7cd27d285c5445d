"""RFC 9457 bodies for machines: why a request has no other reply."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.host.ports.transport import Reply

UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError)


class ProblemBody(Struct, frozen=True):
    """Why a request failed, for machines. Revisions in facts are texts."""

    code: str
    title: str = ""
    detail: str = ""
    status: int = 0
    type: str = ""
    facts: dict[str, Any] = {}


def problem_reply(status: int, code: str, detail: str) -> Reply:
    """Return a reply with a problem body."""
    body = ProblemBody(code, code.replace("-", " "), detail, status, f"urn:holdfast:problem:{code}")
    return Reply(status, (PROBLEM,), msgspec.json.encode(body))


def read_problem(reply: Reply) -> ProblemBody:
    """Return the problem in a reply; without a readable one its code is `status-N`."""
    try:
        return _problem.decode(reply.body)
    except UNREADABLE:
        return ProblemBody(
            f"status-{reply.status}", detail=reply.body[:200].decode(errors="replace"), status=reply.status
        )


PROBLEM = ("content-type", "application/problem+json")

_problem = msgspec.json.Decoder(ProblemBody)
