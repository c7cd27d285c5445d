"""Machines: sessions, numbered commands, heartbeats.

A machine opens a session and numbers its commands within it, from 1; repeated with the same number, a command is done
at most once. When its session has ended it is told `no-session`. Whether it may then simply begin a new life is not for
this module to know (an agent has to stop what it runs first), so the owner is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.commands import CommandResult, command_result
from holdfast.client.effects import Operation
from holdfast.client.errors import ProblemReport, SessionEndedError
from holdfast.client.requester import Requester, decode_document, decode_reply
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision, parse_revision
from holdfast.host.ports.transport import Reply
from holdfast.host.protocol.commands import CommandReply

MSGPACK = (("content-type", "application/msgpack"),)
#: How many lives one command may see: a second sender of the same name would end each of them.
SESSIONS_MAX = 3

encode = msgspec.msgpack.Encoder(order="deterministic").encode
_answered = msgspec.msgpack.Decoder(CommandReply)

#: Asked when a session has ended: whether to open another and send there what was refused.
Reopen = Callable[[ProblemReport], bool]


class LeaseRenewal(Struct, frozen=True, rename="camel"):
    """What a heartbeat is worth: the session lives for `worth_ms` after `sent`, an instant of our own even clock."""

    worth_ms: int
    term: int = 0
    log_id: str = ""
    at: Any = None
    sent: int = 0


def send(caller: Requester, envelope: bytes) -> Operation[CommandResult]:
    """Send an envelope that is encoded already, the same bytes in every attempt."""
    reply = yield from caller.call(caller.request("POST", "/v1/envelopes", headers=MSGPACK, body=envelope), writes=True)
    caller.tokens.wrote(caller.region, reply)
    return command_result(_decode_answer(reply))


def open_session(caller: Requester, actor: str) -> Operation[str]:
    """Begin a life at the ledger: its session, as text. An older one of the same name ends."""
    answer = yield from send(caller, encode(Envelope(actor, ("open-session",), caller.means.wall())))
    return str(answer.answer.get("session") or answer.revision)


def renew(caller: Requester, session: str) -> Operation[LeaseRenewal]:
    """A heartbeat. `SessionEndedError` when the session has ended. It counts from before the first attempt: never
    too long."""
    sent = caller.means.now()
    body = msgspec.json.encode({"session": session})
    reply = yield from caller.call(caller.request("POST", "/v1/renewals", body=body))
    return msgspec.structs.replace(decode_reply(reply, LeaseRenewal), sent=sent)


class MachineSession:
    """A machine that speaks in sessions. It goes on in a new session only if `reopen` says so."""

    def __init__(self, caller: Requester, actor: str, reopen: Reopen | None = None) -> None:
        self.actor = actor
        #: The session of this life; empty before the first and after the last.
        self.session = ""
        self._caller = caller
        self._reopen = reopen
        self._sequence = 0

    def open(self) -> Operation[str]:
        """Begin a life."""
        self.session = ""
        opened = yield from open_session(self._caller, self.actor)
        self.session, self._sequence = opened, 0
        return opened

    def renew(self) -> Operation[LeaseRenewal]:
        """A heartbeat of this life."""
        session = self._alive()
        try:
            return (yield from renew(self._caller, session))
        except SessionEndedError:
            self._ended(session)
            raise

    def envelope(self, command: Any, **fields: Any) -> bytes:
        """A command under the next number, for an owner who sends it, and repeats it, by `send(envelope)`."""
        session = parse_revision(self._alive())
        assert session is not None, f"no session of a ledger: {self.session!r}"
        self._sequence += 1
        sent = self._caller.means.wall()
        return encode(Envelope(self.actor, command, sent, session=session, sequence=self._sequence, **fields))

    def send(self, command: Any, **fields: Any) -> Operation[CommandResult]:
        """Send a command under the next number. `fields` are those of the envelope: cause, view, policy, evidence.

        A refusal with `no-session` is a promise that nothing was done, so that it can be sent anew in another life;
        where an attempt before it may have been executed, it is `OutcomeUnknown` instead and nothing is sent anew.
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
        """Forget a life that has ended, unless another has begun meanwhile."""
        if self.session == session:
            self.session = ""


def _decode_answer(reply: Reply) -> dict[str, Any]:
    """What a command that landed was answered, with revisions as text."""
    try:
        found = _answered.decode(reply.body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return decode_document(reply, wrote="")
    session = format_revision(found.session) if found.session else ""
    return {"revision": format_revision(found.revision), "session": session, "at": found.at, "answer": found.answer}
