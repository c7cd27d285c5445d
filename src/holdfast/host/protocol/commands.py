"""What machines send to a server, and what they are told, as bytes: commands in envelopes, heartbeats, problems.

    POST /v1/envelopes   an `Envelope`, msgpack       -> `CommandReply`, msgpack, when it landed; otherwise a problem
    POST /v1/envelopes/batch   an array of them       -> an array of `CommandReply`, in the same order
    POST /v1/renewals    `Renew`, JSON                -> `Renewed`, JSON; or a problem
    anything else that cannot be done                 -> a problem: JSON with a `code`

A command landed, it was refused, or nobody can tell here now. A problem whose code is a refusal of the ledgers is the
second; any other, whatever its status, leaves the command unjudged.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.revision import DIGITS_MAX, parse_revision
from holdfast.core.model.values.settings import AgentTimes
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.host.ports.transport import Reply, first_value
from holdfast.host.protocol.problem import UNREADABLE, ProblemBody, read_problem

ENVELOPES = "/v1/envelopes"
ENVELOPES_BATCH = "/v1/envelopes/batch"
RENEWALS = "/v1/renewals"

MSGPACK = ("content-type", "application/msgpack")
JSON = ("content-type", "application/json")
#: Names of headers. The leader's name is on every answer of a server that knows it.
LEADER = "holdfast-leader"
TIMEOUT = "holdfast-timeout-ms"
#: Ledger time in milliseconds, on a refusal: whoever is refused for its wrong clock can set it right.
AT = "holdfast-at"


class CommandOutcome(StrEnum):
    """What became of a command."""

    LANDED = "landed"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class CommandReply(Struct, frozen=True, array_like=True):
    """`landed` at a revision (a repeat: at the first one); `refused`, or `unavailable`, with a code and a message.

    `session` is the sender's present session, for one that has just opened it; `at` is ledger time, 0 where the
    server cannot tell it; `facts` are those of a refusal, such as the revision to catch up to; read from a problem,
    revisions among them are texts.
    """

    said: CommandOutcome
    code: str = ""
    message: str = ""
    revision: Revision = 0
    session: Revision = 0
    answer: bytes = b""
    at: Instant = 0
    facts: dict[str, Any] = {}


class Renew(Struct, frozen=True, rename="camel"):
    """A heartbeat. The session is written as people read a revision: `41.3`."""

    session: str


class Renewed(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The session lives for `worth_ms` from when the heartbeat was sent; at this ledger time, in milliseconds.

    `times` are the region's lease, grace, kill margin and fence time, which hold from before that; None: not told.
    """

    worth_ms: int
    term: int
    log_id: str
    at: Instant
    times: AgentTimes | None = None


_REFUSALS = frozenset(code.value for code in Code)
_answered = msgspec.msgpack.Decoder(CommandReply)
_answered_many = msgspec.msgpack.Decoder(list[CommandReply])
_renewed = msgspec.json.Decoder(Renewed)


def read_command_reply(reply: Reply) -> CommandReply:
    """What became of a command, whoever answered: what is no answer of a ledger left the command unjudged."""
    try:
        if first_value(reply.headers, MSGPACK[0], MSGPACK[1]) == MSGPACK[1]:
            return _answered.decode(reply.body)
    except UNREADABLE:
        pass
    found = read_problem(reply)
    said = CommandOutcome.REFUSED if found.code in _REFUSALS else CommandOutcome.UNAVAILABLE
    at = first_value(reply.headers, AT)
    is_number = at.isascii() and at.isdigit() and len(at) < DIGITS_MAX
    return CommandReply(said, found.code, found.detail, at=int(at) if is_number else 0, facts=found.facts)


def read_command_replies(reply: Reply, count: int) -> list[CommandReply]:
    """What became of so many commands: of all of them the same, where the reply is about the request as a whole."""
    try:
        if first_value(reply.headers, MSGPACK[0]) == MSGPACK[1]:
            found = _answered_many.decode(reply.body)
            if len(found) == count:
                return found
    except UNREADABLE:
        pass
    return [read_command_reply(reply)] * count


def successor(session: Revision, facts: dict[str, Any]) -> Revision:
    """The session that came after this one, by the facts of a refusal; 0: they name none.

    An older one is none: a store that was restored may remember what came before.
    """
    current = facts.get("current", 0)
    found = current if isinstance(current, int) else parse_revision(str(current)) or 0
    return found if found > session else 0


def read_renewed(reply: Reply) -> Renewed | ProblemBody:
    """What a heartbeat was worth, or why it was not heard."""
    try:
        if reply.status == 200:
            return _renewed.decode(reply.body)
    except UNREADABLE:
        pass
    return read_problem(reply)
