"""Sessions of machines: opened, and ended."""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.commit.dedup import forget_session
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.ledger_state import LedgerState, Session
from holdfast.core.model.values.structs import Row


class OpenSession(Row, frozen=True, tag="open-session"):
    """Open a session of a machine; an older session of the same name ends."""


class EndSession(Row, frozen=True, tag="end-session"):
    """End a session: its fences count from now on."""

    session: int
    reason: str


class SessionOpened(Row, frozen=True, tag="session-opened"):
    principal: str


class SessionEnded(Row, frozen=True, tag="session-ended"):
    session: int
    principal: str
    reason: str


def open_session(state: LedgerState, command: OpenSession, ctx: CommandContext) -> Accepted | Refused:
    """A machine has one session: an older one ends in the same commit."""
    opened = SessionOpened(ctx.actor)
    old = state.session_of.get(ctx.actor)
    if old is None:
        return Accepted((opened,))
    return Accepted((SessionEnded(old, ctx.actor, "superseded"), opened))


def end_session(state: LedgerState, command: EndSession, ctx: CommandContext) -> Accepted | Refused:
    """Node health and the ledger may end any session, a machine only its own."""
    session = state.sessions.get(command.session)
    if session is None:
        return Refused(Code.NO_SESSION, f"there is no session {command.session}", {"session": command.session})
    if ctx.principal is not None and session.principal != ctx.actor:
        return Refused(Code.NOT_OWNER, f"the session belongs to {session.principal}", {"owner": session.principal})
    return Accepted((SessionEnded(session.uid, session.principal, command.reason),))


def session_opened(state: LedgerState, event: SessionOpened, stamp: Stamp) -> None:
    fence = state.info.settings.fence_time if is_fenced(state, event.principal) else 0
    state.sessions.put(stamp.revision, Session(stamp.revision, event.principal, stamp.at, 0, fence))
    state.session_of.put(event.principal, stamp.revision)


def session_ended(state: LedgerState, event: SessionEnded, stamp: Stamp) -> None:
    state.sessions.drop(event.session)
    forget_session(state, event.session)
    if state.session_of.get(event.principal) == event.session:
        state.session_of.drop(event.principal)


def is_fenced(state: LedgerState, principal: str) -> bool:
    return state.info.level >= 2 and principal.startswith("agent/")
