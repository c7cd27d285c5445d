"""Commands and events on the log itself: start, terms, levels, digests and settings.

Size: seven small commands, each with its event, its judgement and what it does, read side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.builtin.sessions import is_fenced
from holdfast.core.ledger.commit.rules import CommandContext, Subject
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.levels import FIRST, LEVEL, members
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.principals import Permission, Principal, PrincipalSpec
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.settings import DEFAULTS, Settings, settings_problems
from holdfast.core.model.values.structs import Revision, Row

# Commands


class StartLog(Row, frozen=True, tag="start-log"):
    """Start a log: its identity, its ledger, and the first operator."""

    log_id: str
    ledger: str
    operator: str
    settings: Settings = DEFAULTS


class StartTerm(Row, frozen=True, tag="start-term"):
    """Start the term of a leader: its record in the log makes the server the leader."""

    term: int
    leader: str
    level: int = LEVEL


class RaiseLevel(Row, frozen=True, tag="raise-level"):
    """Raise the log's level once all servers can read it; later records use it."""

    level: int


class RecordDigest(Row, frozen=True, tag="record-digest"):
    """Record the state digest of an earlier batch: a follower with another digest stops."""

    seq: int
    digest: bytes


class Configure(Row, frozen=True, tag="configure"):
    """Change the settings of the ledger, which later decisions use."""

    settings: Settings


# Events


class LogStarted(Row, frozen=True, tag="log-started"):
    log_id: str
    ledger: str
    operator: str
    settings: Settings
    level: int = FIRST

    ADDED: ClassVar[Mapping[str, int]] = {"level": 2}


class TermStarted(Row, frozen=True, tag="term-started"):
    term: int
    leader: str
    level: int


class LevelRaised(Row, frozen=True, tag="level-raised"):
    level: int


class StateDigested(Row, frozen=True, tag="state-digested"):
    seq: int
    digest: bytes


class Configured(Row, frozen=True, tag="configured"):
    settings: Settings


# Decide


def start_log(state: LedgerState, command: StartLog, ctx: CommandContext) -> Accepted | Refused:
    """Only an empty log can be started, and only once."""
    if state.info.log_id:
        return Refused(Code.EXISTS, f"the log {state.info.log_id} has already started", {"log_id": state.info.log_id})
    wrong = settings_problems(command.settings)
    if wrong or not command.log_id or not command.operator.startswith("person/"):
        return Refused(Code.CONTRADICTORY, "; ".join(wrong) or "a log needs an id and an operator", {"unsafe": wrong})
    started = LogStarted(command.log_id, command.ledger, command.operator, command.settings, ctx.level)
    return Accepted((started,))


def start_term(state: LedgerState, command: StartTerm, ctx: CommandContext) -> Accepted | Refused:
    """Terms grow. A server that cannot write the log's level cannot lead."""
    facts = {"term": state.info.term, "level": state.info.level}
    if not state.info.log_id:
        return not_found("log", "here")
    if command.term <= state.info.term:
        return Refused(Code.STALE, f"term {state.info.term} has started; a new one is higher", facts)
    if command.level < state.info.level or command.level > ctx.level:
        return Refused(Code.CONTRADICTORY, f"this log is of level {state.info.level}", facts)
    return Accepted((TermStarted(command.term, command.leader, state.info.level),))


def raise_level(state: LedgerState, command: RaiseLevel, ctx: CommandContext) -> Accepted | Refused:
    """Levels only rise, and never above the level of this version."""
    if command.level <= state.info.level:
        return Refused(Code.ALREADY, f"the log is of level {state.info.level}", {"level": state.info.level})
    if command.level > ctx.level:
        return Refused(Code.CONTRADICTORY, f"this version writes at most level {ctx.level}", {"level": ctx.level})
    return Accepted((LevelRaised(command.level),))


def record_digest(state: LedgerState, command: RecordDigest, ctx: CommandContext) -> Accepted | Refused:
    """The batch of a digest must be in the log."""
    if not 0 < command.seq <= state.info.seq:
        return Refused(Code.STALE, f"batch {command.seq} is not in the log", {"seq": state.info.seq})
    return Accepted((StateDigested(command.seq, command.digest),))


def configure(state: LedgerState, command: Configure, ctx: CommandContext) -> Accepted | Refused:
    """Unsafe settings are refused with every reason."""
    wrong = settings_problems(command.settings)
    if wrong:
        return Refused(Code.CONTRADICTORY, "; ".join(wrong), {"unsafe": wrong})
    if command.settings == state.info.settings:
        return Refused(Code.ALREADY, "the settings are already in force", {})
    return Accepted((Configured(command.settings),))


def settings_subject(state: LedgerState, command: Configure) -> Subject | None:
    """Return the settings at the revision that configured them; below level 2 that revision is not stored."""
    return Subject("Settings", settings_revision(state)) if state.info.level >= 2 else None


def settings_revision(state: LedgerState) -> Revision:
    """Return the revision that configured the settings; the log's first if they are unchanged."""
    return state.info.configured or pack_revision(1)


# Evolve


def _set_facts(state: LedgerState, **changes: Any) -> None:
    state.info = msgspec.structs.replace(state.info, **changes)


def log_started(state: LedgerState, event: LogStarted, stamp: Stamp) -> None:
    _set_facts(state, log_id=event.log_id, ledger=event.ledger, settings=event.settings, level=event.level)
    spec = PrincipalSpec(rights=members(Permission, event.level))
    uid = stamp.revision
    meta = Meta(name=event.operator, uid=uid, revision=uid, created_by=stamp.actor, created=stamp.at)
    state.principals.put(event.operator, Principal(meta=meta, spec=spec))


def term_started(state: LedgerState, event: TermStarted, stamp: Stamp) -> None:
    _set_facts(state, term=event.term, level=event.level, term_at=stamp.at)


def level_raised(state: LedgerState, event: LevelRaised, stamp: Stamp) -> None:
    _set_facts(state, level=event.level)


def state_digested(state: LedgerState, event: StateDigested, stamp: Stamp) -> None:
    """No effect: followers compare the digest in their host."""


def configured(state: LedgerState, event: Configured, stamp: Stamp) -> None:
    forgotten = max(state.info.forgotten, stamp.at - state.info.settings.retry_window)
    _count_fences(state, event.settings)
    since = stamp.revision if state.info.level >= 2 else 0
    _set_facts(state, settings=event.settings, forgotten=forgotten, configured=since)


def _count_fences(state: LedgerState, settings: Settings) -> None:
    """Update the fence of each agent session. An agent may use older settings until its session ends: the longest fence
    counts."""
    before, after = state.info.settings.fence_time, settings.fence_time
    if before == after:
        return
    for uid, session in list(state.sessions.items()):
        fence = max(session.fence or before, after)
        if is_fenced(state, session.principal) and fence != session.fence:
            state.sessions.put(uid, msgspec.structs.replace(session, fence=fence))
