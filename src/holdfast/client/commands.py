"""Commands by their tag, and the commands of machines in sessions, with lease renewals.

A machine opens a session and numbers its commands within it, from 1. A retry with the same number is executed at most
once. After the session has ended, the server answers `no-session`. Only the owner can decide whether a new session may
begin (an agent must stop its runs first), so `reopen` is called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.errors import ProblemReport, SessionEndedError
from holdfast.client.requester import Document, Operation, Requester, decode_document, decode_reply, if_match_header
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision, parse_revision
from holdfast.host.ports.transport import Reply
from holdfast.host.protocol.commands import CommandReply


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


MSGPACK = (("content-type", "application/msgpack"),)
#: Most sessions that one command may use: a second sender of the same name would end each of them.
SESSIONS_MAX = 3

encode = msgspec.msgpack.Encoder(order="deterministic").encode
_answered = msgspec.msgpack.Decoder(CommandReply)

#: Called when a session has ended: whether to open another and send the refused command there.
Reopen = Callable[[ProblemReport], bool]


class LeaseRenewal(Struct, frozen=True, rename="camel"):
    """The lease that a renewal returned: the session lives for `worth_ms` after `sent`, on the client's monotonic
    clock."""

    worth_ms: int
    term: int = 0
    log_id: str = ""
    at: Any = None
    sent: int = 0


def send(caller: Requester, envelope: bytes) -> Operation[CommandResult]:
    """Send an encoded envelope, with the same bytes in every attempt."""
    reply = yield from caller.call(caller.request("POST", "/v1/envelopes", headers=MSGPACK, body=envelope), writes=True)
    caller.tokens.wrote(caller.region, reply)
    return command_result(_decode_answer(reply))


def open_session(caller: Requester, actor: str) -> Operation[str]:
    """Open a session at the ledger and return it as text. An older session of the same name ends."""
    answer = yield from send(caller, encode(Envelope(actor, ("open-session",), caller.means.wall())))
    return str(answer.answer.get("session") or answer.revision)


def renew(caller: Requester, session: str) -> Operation[LeaseRenewal]:
    """Renew a session. Raises `SessionEndedError` if it has ended. The lease counts from before the first attempt, so
    it is never too long."""
    sent = caller.means.now()
    body = msgspec.json.encode({"session": session})
    reply = yield from caller.call(caller.request("POST", "/v1/renewals", body=body))
    return msgspec.structs.replace(decode_reply(reply, LeaseRenewal), sent=sent)


class MachineSession:
    """A machine that sends commands in sessions. It continues in a new session only if `reopen` agrees."""

    def __init__(self, caller: Requester, actor: str, reopen: Reopen | None = None) -> None:
        self.actor = actor
        #: The open session; empty before the first and after the last.
        self.session = ""
        self._caller = caller
        self._reopen = reopen
        self._sequence = 0

    def open(self) -> Operation[str]:
        """Open a session."""
        self.session = ""
        opened = yield from open_session(self._caller, self.actor)
        self.session, self._sequence = opened, 0
        return opened

    def renew(self) -> Operation[LeaseRenewal]:
        """Renew this session."""
        session = self._alive()
        try:
            return (yield from renew(self._caller, session))
        except SessionEndedError:
            self._ended(session)
            raise

    def envelope(self, command: Any, **fields: Any) -> bytes:
        """Encode a command under the next number. The owner sends and retries it with `send(envelope)`."""
        session = parse_revision(self._alive())
        assert session is not None, f"no session of a ledger: {self.session!r}"
        self._sequence += 1
        sent = self._caller.means.wall()
        return encode(Envelope(self.actor, command, sent, session=session, sequence=self._sequence, **fields))

    def send(self, /, command: Any, **fields: Any) -> Operation[CommandResult]:
        """Send a command under the next number. `fields` are those of the envelope: cause, view, policy, evidence.

        A `no-session` refusal guarantees that the command was not executed, so it can be sent again in a new session.
        If an earlier attempt may have been executed, `OutcomeUnknownError` is raised and nothing is sent again.
        """
        for life in range(SESSIONS_MAX):
            envelope, session = self.envelope(command, **fields), self.session
            try:
                return (yield from send(self._caller, envelope))
            except SessionEndedError as lost:
                self._ended(session)
                if life == SESSIONS_MAX - 1 or self._reopen is None or not self._reopen(lost.problem):
                    raise
            if not self.session:
                yield from self.open()
        raise AssertionError("a command is answered or raises")

    def _alive(self) -> str:
        if not self.session:
            raise ValueError(f"{self.actor} has no session: open one first")
        return self.session

    def _ended(self, session: str) -> None:
        """Forget an ended session, unless another has begun meanwhile."""
        if self.session == session:
            self.session = ""


def _decode_answer(reply: Reply) -> dict[str, Any]:
    """Decode the reply to a committed command, with revisions as text."""
    try:
        found = _answered.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return decode_document(reply, wrote="")
    session = format_revision(found.session) if found.session else ""
    return {"revision": format_revision(found.revision), "session": session, "at": found.at, "answer": found.answer}
