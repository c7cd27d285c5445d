"""The model put together: the answer it expects to an envelope, with everything that the answer changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin import audit, log, overrides, servers, sessions
from holdfast.core.ledger.codec import body_digest
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region import commands as c
from tests.properties.oversized_values import excess_of
from tests.properties.region.model import holds, objects, senders, slots
from tests.properties.region.model import proposals as placing
from tests.properties.region.model import shipments as shipping
from tests.properties.region.model.proposals import Parts
from tests.properties.region.model.records import Key
from tests.properties.region.model.region import Model
from tests.properties.region.model.senders import Sender

HANDLERS: dict[type, Callable[[Model, Any, Sender], Code | Parts | None]] = {
    log.StartLog: senders.start_log,
    log.StartTerm: senders.start_term,
    log.RaiseLevel: senders.raise_level,
    log.RecordDigest: senders.record_digest,
    audit.RecordDenials: senders.record_denials,
    servers.AdmitServer: senders.servers,
    servers.RevokeServer: senders.servers,
    servers.ForgetServer: senders.servers,
    sessions.OpenSession: senders.open_session,
    sessions.EndSession: senders.end_session,
    log.Configure: senders.configure,
    overrides.OpenOverride: senders.open_override,
    overrides.EndOverride: senders.end_override,
    c.RegisterNode: objects.register_node,
    c.ReportNode: objects.report_node,
    c.AdministerNode: objects.administer_node,
    c.JudgeNode: objects.judge_node,
    c.RemoveNode: objects.remove_node,
    c.OpenSlots: objects.open_slots,
    c.WithdrawSlots: objects.withdraw_slots,
    c.ForgetAssignment: objects.forget_assignment,
    c.AdoptSlots: objects.adopt_slots,
    c.ReportPending: objects.report_pending,
    c.Hold: holds.hold,
    c.ExtendHold: holds.extend_hold,
    c.DropHold: holds.drop_hold,
    c.Propose: placing.propose,
    c.Bind: slots.bind,
    c.Unreserve: slots.unreserve,
    c.Expire: slots.expire,
    c.Move: slots.move,
    c.Stop: slots.stop,
    c.CloseBreach: shipping.close_breach,
    c.Ship: shipping.ship,
    c.StandDown: shipping.stand_down,
}


@dataclass
class Verdict:
    """Accepted without a code, but for the parts that are refused; or a repeat of an earlier answer.

    With both a code and an answer to repeat, either will do.
    """

    code: Code | None = None
    parts: Parts = field(default_factory=dict)
    repeats: tuple[int, bytes] | None = None

    @property
    def accepted(self) -> bool:
        return self.code is None and self.repeats is None


def judge(model: Model, envelope: Envelope[Any], at: int) -> tuple[Verdict, Model]:
    """What should be answered, and the region as it is then. What is refused changes nothing."""
    sender = senders.sender_of(model, envelope, at)
    refused = senders.refuse_sender(model, sender)
    if refused is not None:
        return Verdict(refused), model
    refused, first = senders.earlier(model, sender)
    if refused is not None or first is not None:
        return Verdict(refused, repeats=first), model
    refused = excess_of(envelope.command)
    if refused is not None:
        return Verdict(refused), model
    after = model.clone()
    answer = HANDLERS[type(envelope.command)](after, envelope.command, sender)
    wrong = senders.unexpected(model, envelope)
    if wrong is not None and not senders.comes_first(model, envelope, answer):
        return Verdict(wrong), model
    if isinstance(answer, Code):
        return Verdict(answer), model
    parts = answer or {}
    whole = isinstance(envelope.command, c.Propose) and envelope.command.all_or_nothing
    if parts and (whole or len(parts) == named(envelope.command)):
        return Verdict(next(iter(parts.values())), parts), model
    after.forget_unused()
    after.forget_over()
    after.seq += 1
    return Verdict(parts=parts), after


def named(command: Any) -> int:
    """How many parts a command has that are judged one by one."""
    match command:
        case c.Propose():
            return sum(len(group.placements) for group in command.groups)
        case c.Expire():
            return len(command.slots) + len(command.holds)
        case c.Move():
            return len(command.moves)
        case _:
            return len(command.slots)


def remember(model: Model, envelope: Envelope[Any], at: int, revision: int, answer: bytes) -> None:
    """Keep the answer that was given, for repeats."""
    if envelope.session in model.sessions:
        session = model.sessions[envelope.session]
        session.answered[envelope.sequence] = (revision, answer)
        session.high = max(session.high, envelope.sequence)
    elif envelope.key:
        body = body_digest(envelope)
        model.keys[envelope.actor, envelope.key] = Key(body, max(at, envelope.sent), revision, answer)
