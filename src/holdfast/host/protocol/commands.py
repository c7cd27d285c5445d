"""Requests of machines to a server, and the replies, as bytes: commands in envelopes, heartbeats, problems.

    POST /v1/envelopes   an `Envelope`, msgpack       -> `CommandReply`, msgpack, when committed; otherwise a problem
    POST /v1/envelopes/batch   an array of them       -> an array of `CommandReply`, in the same order
    POST /v1/renewals    `Renew`, JSON                -> `Renewed`, JSON; or a problem
    any other failure                                 -> a problem: JSON with a `code`

A problem with a refusal code of the ledgers is a refusal. Any other problem, whatever its status, leaves the command
undecided.
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
#: Names of headers. An answer names the leader, if the server has one.
LEADER = "holdfast-leader"
TIMEOUT = "holdfast-timeout-ms"
#: Ledger time in milliseconds, on a refusal, so that the sender can correct its clock.
AT = "holdfast-at"


class CommandOutcome(StrEnum):
    LANDED = "landed"
    REFUSED = "refused"
    UNAVAILABLE = "unavailable"


class CommandReply(Struct, frozen=True, array_like=True):
    """The outcome of one command, with a code and a message unless it `landed`. A duplicate has the first `revision`.

    After an opening, `session` is the new session. `at` is ledger time, 0 if unknown. `facts` belong to a refusal;
    revisions read from a problem are texts.
    """

    said: CommandOutcome
    code: str = ""
    message: str = ""
    revision: Revision = 0
    session: Revision = 0
    answer: bytes = b""
    at: Instant = 0
    facts: dict[str, Any] = {}


class SchedulerVitals(Struct, frozen=True, rename="camel"):
    """What a scheduler reports of itself: where it runs, the time since its last cycle, and the age of its view."""

    where: str
    cycle_ms: int
    view_age_ms: int


class Renew(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A heartbeat. The session is written as in texts: `41.3`. A scheduler adds how it fares."""

    session: str
    scheduler: SchedulerVitals | None = None


class Renewed(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The session stays valid for `worth_ms` from when the heartbeat was sent; `at` is ledger time in milliseconds.

    The region's lease, grace, kill margin and fence time in `times` are already in force; None: not sent. A scheduler
    receives the names of all live `schedulers`.
    """

    worth_ms: int
    term: int
    log_id: str
    at: Instant
    times: AgentTimes | None = None
    schedulers: tuple[str, ...] = ()


_REFUSALS = frozenset(code.value for code in Code)
_answered = msgspec.msgpack.Decoder(CommandReply)
_answered_many = msgspec.msgpack.Decoder(list[CommandReply])
_renewed = msgspec.json.Decoder(Renewed)


def read_command_reply(reply: Reply) -> CommandReply:
    """Return the outcome of a command."""
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
    """Return the outcomes of `count` commands. A reply about the request applies to all."""
    try:
        if first_value(reply.headers, MSGPACK[0]) == MSGPACK[1]:
            found = _answered_many.decode(reply.body)
            if len(found) == count:
                return found
    except UNREADABLE:
        pass
    return [read_command_reply(reply)] * count


def successor(session: Revision, facts: dict[str, Any]) -> Revision:
    """Return the session that replaced this one, from the facts of a refusal; 0: they name none.

    An older session is none: a restored store may name one.
    """
    current = facts.get("current", 0)
    found = current if isinstance(current, int) else parse_revision(str(current)) or 0
    return found if found > session else 0


def read_renewed(reply: Reply) -> Renewed | ProblemBody:
    """Return the renewal of a heartbeat, or why it failed."""
    try:
        if reply.status == 200:
            return _renewed.decode(reply.body)
    except UNREADABLE:
        pass
    return read_problem(reply)
