"""Commands and events that both ledgers have, in one place: rules, appliers, watch keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.core.ledger.builtin import audit, log, overrides, servers, sessions
from holdfast.core.ledger.builtin.audit import RULE, DenialsRecorded, RecordDenials, denials_recorded
from holdfast.core.ledger.commit.rules import CommandLane, CommandRule
from holdfast.core.ledger.commit.watch import LOG, OVERRIDE, PRINCIPAL, SERVER, SESSION, KeysOf

BuiltinCommand = (
    log.StartLog | log.StartTerm | log.RaiseLevel | log.RecordDigest | sessions.OpenSession | sessions.EndSession | log.Configure | RecordDenials
    | servers.AdmitServer | servers.RevokeServer | servers.ForgetServer
)  # fmt: skip

BuiltinEvent = (
    log.LogStarted | log.TermStarted | log.LevelRaised | log.StateDigested | sessions.SessionOpened | sessions.SessionEnded | log.Configured | DenialsRecorded
    | servers.ServerStored | servers.ServerForgotten
)  # fmt: skip

APPLY: dict[type, Any] = {
    log.LogStarted: log.log_started,
    log.TermStarted: log.term_started,
    log.LevelRaised: log.level_raised,
    log.StateDigested: log.state_digested,
    sessions.SessionOpened: sessions.session_opened,
    sessions.SessionEnded: sessions.session_ended,
    log.Configured: log.configured,
    DenialsRecorded: denials_recorded,
    **servers.APPLY,
}

_RULES: tuple[CommandRule[Any], ...] = (
    CommandRule(log.StartLog, log.start_log, ("ledger",), CommandLane.PROOFS, "a log exists", "delete the empty log with its store"),
    CommandRule(log.StartTerm, log.start_term, ("ledger",), CommandLane.PROOFS, "the server leads", "the next term"),
    CommandRule(log.RaiseLevel, log.raise_level, ("ledger", "person"), CommandLane.OPERATORS, "older readers stop", "nothing: records of that level stay in the log", whole=True),
    CommandRule(log.RecordDigest, log.record_digest, ("ledger",), CommandLane.PROOFS, "followers compare", "nothing to undo: it is a recorded fact"),
    CommandRule(sessions.OpenSession, sessions.open_session, (), CommandLane.PROOFS, "a session begins, an older one ends", "EndSession, by its owner or by node health"),
    CommandRule(sessions.EndSession, sessions.end_session, ("controller/node-health", "controller/sessions", "ledger"), CommandLane.PROOFS, "fences are counted", "OpenSession, as a new session"),
    CommandRule(log.Configure, log.configure, ("person",), CommandLane.OPERATORS, "later decisions use the new settings", "Configure with the old settings", subject=log.settings_subject, whole=True),
    RULE,
    *servers.RULES,
)  # fmt: skip

WATCH_KEYS: Mapping[type, KeysOf] = {
    log.LogStarted: lambda event, _: ((LOG, "started"), (PRINCIPAL, event.operator)),
    log.TermStarted: lambda _event, _: ((LOG, "term"),),
    log.LevelRaised: lambda _event, _: ((LOG, "level"),),
    log.StateDigested: lambda _event, _: ((LOG, "digest"),),
    log.Configured: lambda _event, _: ((LOG, "settings"),),
    audit.DenialsRecorded: lambda _event, _: ((LOG, "denials"),),
    sessions.SessionOpened: lambda event, revision: ((SESSION, revision), (PRINCIPAL, event.principal)),
    sessions.SessionEnded: lambda event, _: ((SESSION, event.session), (PRINCIPAL, event.principal)),
    servers.ServerStored: lambda event, _: ((SERVER, event.server.name),),
    servers.ServerForgotten: lambda event, _: ((SERVER, event.name),),
    overrides.OverrideOpened: lambda event, _: ((OVERRIDE, event.override.uid),),
    overrides.OverrideEnded: lambda event, _: ((OVERRIDE, event.uid),),
}


def rules(*machines: str) -> Iterator[CommandRule[Any]]:
    """Yield the rules of every ledger, for one in which these kinds of machines have sessions."""
    for rule in _RULES:
        is_of_sessions = rule.command in (sessions.OpenSession, sessions.EndSession)
        yield msgspec.structs.replace(rule, owners=(*machines, *rule.owners)) if is_of_sessions else rule
