"""Duplicates: a retry gets the first answer, so a timeout after the commit does no harm.

A machine numbers its commands within its session. The session stores the highest number, and a ring stores the answers
to recently accepted commands. A number in the ring is a duplicate. A number above the highest, or a gap within the
window, is decided. A number below the window cannot be distinguished any more and is never executed. An operator or
tenant names a key, bound to the body of the command. A refusal is not in the log: its retry is decided again.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.codec import LogRecord, body_digest, key_id
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.state.ledger_state import KEY, IdempotencyRecord, LedgerState, Session, SessionAnswer
from holdfast.core.model.values.structs import Instant, Revision

#: The largest number of commands in flight in one session.
WINDOW = 256


def find_duplicate(state: LedgerState, ctx: CommandContext) -> Repeated | Refused | None:
    """Return the first answer to a duplicate; a refusal if the command may be one, undecidably; None if it is new."""
    envelope = ctx.envelope
    settings = state.info.settings
    oldest = max(ctx.at - settings.retry_window, state.info.forgotten)
    if not oldest <= envelope.sent <= ctx.at + settings.sent_ahead:
        return _wrong_time(envelope.sent, ctx.at)
    session = ctx.session
    if session is not None:
        high = session.high
        return None if high < envelope.sequence <= high + WINDOW else _in_ring(state, session, envelope.sequence)
    if envelope.key:
        return _in_keys(state, ctx)
    return None


def _wrong_time(sent: Instant, at: Instant) -> Refused:
    """Refuse the time. A command from the future would outlive the record of its key and could be executed twice."""
    facts = {"sent": sent, "at": at}
    if sent > at:
        return Refused(Code.MALFORMED, "sent later than now: check the sender's clock", facts)
    return Refused(Code.TOO_OLD_TO_RETRY, "first sent before the retry window: check its effect before a retry", facts)


def _in_ring(state: LedgerState, session: Session, sequence: int) -> Repeated | Refused | None:
    if sequence > session.high:
        facts = {"sequence": sequence, "high": session.high}
        return Refused(Code.TOO_MANY_IN_FLIGHT, f"at most {WINDOW} commands may be in flight", facts)
    if sequence < 1:
        return Refused(Code.MALFORMED, "sequence numbers begin at 1", {"sequence": sequence})
    kept = state.session_answers.get((session.uid, sequence % WINDOW))
    if kept is not None and kept.sequence == sequence:
        return Repeated(kept.revision, kept.answer)
    if sequence <= session.high - WINDOW:
        facts = {"sequence": sequence, "high": session.high}
        return Refused(Code.TOO_OLD_TO_RETRY, "its answer was dropped: too many later commands", facts)
    return None


def forget_session(state: LedgerState, session: Revision) -> None:
    """Drop the answers of a session that has ended. Part of evolve."""
    for place in range(WINDOW):
        state.session_answers.drop((session, place))


def _in_keys(state: LedgerState, ctx: CommandContext) -> Repeated | Refused | None:
    kept = _kept_of(state, ctx.actor, ctx.envelope.key)
    if kept is None or _is_over(state, kept, ctx.at):
        if _too_many(state, ctx):
            return Refused(Code.TOO_MANY_KEYS, "too many idempotency keys in one window", {"actor": ctx.actor})
        return None
    if kept.body != body_digest(ctx.envelope):
        return Refused(Code.KEY_REUSED, "this key was used for another command", {"revision": kept.revision})
    return Repeated(kept.revision, kept.answer)


def is_known_key(state: LedgerState, actor: str, key: str, at: Instant) -> bool:
    """Whether a command was accepted under this key: a retry with it gets an answer and changes nothing."""
    kept = _kept_of(state, actor, key)
    return kept is not None and not _is_over(state, kept, at)


def _kept_of(state: LedgerState, actor: str, key: str) -> IdempotencyRecord | None:
    """Return the record of an actor's key. A record of another actor with the same number does not count."""
    kept = state.idempotency_keys.get(key_id(actor, key))
    return kept if kept is not None and kept.actor == actor else None


def _too_many(state: LedgerState, ctx: CommandContext) -> bool:
    most, mine = state.info.settings.keys_per_actor, state.idempotency_keys_by_actor.get(ctx.actor) or b""
    # Keys are listed in the order in which they expire: the limit is reached if the key that far from the end is live.
    first = len(mine) - most * KEY.size
    return first >= 0 and not _is_over(state, _kept(state, mine, first), ctx.at)


def _is_over(state: LedgerState, kept: IdempotencyRecord, at: Instant) -> bool:
    """Whether no retry of the key's command can be accepted any more."""
    return kept.at + state.info.settings.retry_window < at


def _kept(state: LedgerState, packed: bytes, place: int) -> IdempotencyRecord:
    return state.idempotency_keys[KEY.unpack_from(packed, place)[0]]


def _keep(state: LedgerState, key: int, new: IdempotencyRecord, at: Instant) -> None:
    """Insert a key into its actor's list by expiry, and drop expired keys from the start of the list."""
    mine = state.idempotency_keys_by_actor.get(new.actor) or b""
    first = 0
    while first < len(mine) and _is_over(state, _kept(state, mine, first), at):
        state.idempotency_keys.drop(KEY.unpack_from(mine, first)[0])
        first += KEY.size
    live = mine[first:]
    other = state.idempotency_keys.get(key)
    if other is not None and other.actor != new.actor:
        _unlist(state, other.actor, key)
    # Mostly the last, but a command with a future `sent` time outlives later ones.
    place = bisect_right(range(len(live) // KEY.size), new.at, key=lambda n: _kept(state, live, n * KEY.size).at)
    state.idempotency_keys.put(key, new)
    state.idempotency_keys_by_actor.put(new.actor, live[: place * KEY.size] + KEY.pack(key) + live[place * KEY.size :])


def _unlist(state: LedgerState, actor: str, key: int) -> None:
    """Remove a key from another actor's list: a newer key with the same number replaces it."""
    left = [one for (one,) in KEY.iter_unpack(state.idempotency_keys_by_actor.get(actor) or b"") if one != key]
    if left:
        state.idempotency_keys_by_actor.put(actor, b"".join(map(KEY.pack, left)))
    else:
        state.idempotency_keys_by_actor.drop(actor)


def remember_answer(state: LedgerState, record: LogRecord[Any], revision: Revision) -> None:
    """Store the answer for retries of this record. Part of evolve: it depends on the record alone."""
    if record.session:
        session = state.sessions.get(record.session)
        if session is None:
            return
        sequence = record.sequence
        state.session_answers.put((session.uid, sequence % WINDOW), SessionAnswer(sequence, revision, record.answer))
        if session.high < sequence:
            state.sessions.put(
                session.uid, Session(session.uid, session.principal, session.opened, sequence, session.fence)
            )
    elif record.key:
        # The age of a retry counts from the first attempt: a key lives from then on, if that is later than now.
        since = max(record.at, record.sent)
        _keep(
            state, record.key, IdempotencyRecord(record.actor, record.body, since, revision, record.answer), record.at
        )
