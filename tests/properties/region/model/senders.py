"""The model of what comes before any handler, senders and repeats, and of sessions, settings and overrides."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.audit import RecordDenials
from holdfast.core.ledger.builtin.log import Configure, RaiseLevel, RecordDigest, StartLog, StartTerm
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.servers import AdmitServer, ForgetServer, RevokeServer
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.codec import body_digest
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.objects.principals import Permission, Principal
from holdfast.core.model.values.settings import Settings
from holdfast.core.region import commands as c
from tests.properties import servers_model
from tests.properties.region.model.records import Node, Session
from tests.properties.region.model.region import Model

CONTROLLERS = (
    "replica", "rollout", "drain", "rebalance", "evacuation", "failback", "repair", "rights", "grant", "provisional",
    "endpoints", "node-health", "sessions", "override", "link", "servers",
)  # fmt: skip
STOPPERS = (
    *(f"controller/{name}" for name in CONTROLLERS[:10]),
    "scheduler",
)
#: Who may send what. People need a right besides: to override for overrides, to operate for the rest.
OWNERS: dict[type, tuple[str, ...]] = {
    StartLog: ("ledger",),
    StartTerm: ("ledger",),
    RaiseLevel: ("ledger", "person"),
    RecordDigest: ("ledger",),
    RecordDenials: ("ledger",),
    AdmitServer: ("controller/servers",),
    RevokeServer: ("person",),
    ForgetServer: ("controller/servers",),
    OpenSession: ("agent", "scheduler"),
    EndSession: ("agent", "scheduler", "controller/node-health", "controller/sessions", "ledger"),
    Configure: ("person",),
    OpenOverride: ("person",),
    EndOverride: ("person", "controller/override"),
    c.RegisterNode: ("agent",),
    c.ReportNode: ("agent",),
    c.AdministerNode: ("person",),
    c.JudgeNode: ("controller/node-health",),
    c.RemoveNode: ("person", "controller/node-health"),
    c.OpenSlots: ("controller/replica",),
    c.WithdrawSlots: ("controller/replica",),
    c.ForgetAssignment: ("controller/link",),
    c.AdoptSlots: ("controller/replica",),
    c.Propose: ("scheduler",),
    c.Bind: ("scheduler",),
    c.Unreserve: ("scheduler",),
    c.Expire: ("ledger",),
    c.Move: ("agent", "controller/endpoints", "controller/node-health", "controller/repair"),
    c.Stop: STOPPERS,
    c.ReportPending: ("scheduler",),
    c.Hold: ("scheduler", "person"),
    c.ExtendHold: ("scheduler", "person"),
    c.DropHold: ("scheduler", "person", "controller/repair"),
    c.CloseBreach: ("controller/repair",),
    c.Ship: ("controller/link",),
    c.StandDown: ("controller/link",),
}
NAME_MAX = 256
IN_FLIGHT_MAX = 256
REASON_MAX = 1_000
#: What this version can write.
LEVEL = 3


@dataclass
class Sender:
    """Who sends: the envelope's actor, and what is known of it."""

    envelope: Envelope[object]
    at: int
    principal: Principal | None

    @property
    def actor(self) -> str:
        return self.envelope.actor

    @property
    def kind(self) -> str:
        return self.actor.partition("/")[0]

    def scope(self, field: str) -> str:
        return str(getattr(self.principal.spec.scope, field)) if self.principal else ""

    def outside(self, field: str, name: str) -> bool:
        return self.scope(field) not in ("", name)


def sender_of(model: Model, envelope: Envelope[object], at: int) -> Sender:
    kind = envelope.actor.partition("/")[0]
    if kind in ("controller", "ledger"):
        return Sender(envelope, at, None)
    return Sender(envelope, at, model.principals.get(envelope.actor) or model.principals.get(f"{kind}/*"))


def refuse_sender(model: Model, sender: Sender) -> Code | None:
    """Each command names who may send it; machines act in sessions, people name keys, controllers neither."""
    envelope, kind, command = sender.envelope, sender.kind, type(sender.envelope.command)
    owners = OWNERS[command]
    if max(len(sender.actor), len(envelope.key), len(envelope.via)) > NAME_MAX:
        return Code.MALFORMED
    if kind in ("controller", "ledger"):
        if envelope.session or envelope.key:
            return Code.MALFORMED
        return None if sender.actor in owners else Code.NO_RIGHT
    if sender.principal is None or sender.principal.spec.disabled or kind not in owners:
        return Code.NO_RIGHT
    elsewhere = sender.outside("region", model.ledger.removeprefix("region/"))
    if kind != "person":
        if elsewhere:
            return Code.WRONG_SCOPE
        session = model.sessions.get(envelope.session)
        opens = command is OpenSession and not envelope.session
        return None if opens or (session and session.principal == sender.actor) else Code.NO_SESSION
    right = Permission.OVERRIDE if command in (OpenOverride, EndOverride) else Permission.OPERATE
    if right not in sender.principal.spec.rights:
        return Code.NO_RIGHT
    if not envelope.key or envelope.session:
        return Code.MALFORMED
    concerns_all = command in (Configure, RaiseLevel, RevokeServer)
    narrow = concerns_all and (sender.scope("tenant") or sender.scope("node"))
    return Code.WRONG_SCOPE if narrow or elsewhere else None


def earlier(model: Model, sender: Sender) -> tuple[Code | None, tuple[int, bytes] | None]:
    """A refusal of what can no longer be told apart, or the first answer to a repeat; neither when it is new.

    Both when it is so far behind that its answer may be forgotten, and need not be.
    """
    envelope, window, ahead = sender.envelope, model.settings.retry_window, model.settings.sent_ahead
    if envelope.sent > sender.at + ahead:
        return Code.MALFORMED, None
    if envelope.sent < sender.at - window:
        return Code.TOO_OLD_TO_RETRY, None
    if envelope.session:
        session = model.sessions[envelope.session]
        if envelope.sequence < 1:
            return Code.MALFORMED, None
        if envelope.sequence > session.high + IN_FLIGHT_MAX:
            return Code.TOO_MANY_IN_FLIGHT, None
        behind = envelope.sequence <= session.high - IN_FLIGHT_MAX
        return Code.TOO_OLD_TO_RETRY if behind else None, session.answered.get(envelope.sequence)
    if envelope.key:
        mine = {key: kept for (actor, key), kept in model.keys.items() if actor == sender.actor}
        live = {key: kept for key, kept in mine.items() if kept.at + window >= sender.at}
        kept = live.get(envelope.key)
        if kept is not None:
            same = kept.body == body_digest(envelope)
            return (None, (kept.revision, kept.answer)) if same else (Code.KEY_REUSED, None)
        if len(live) >= model.settings.keys_per_actor:
            return Code.TOO_MANY_KEYS, None
    return None, None


# What every ledger has


def start_log(model: Model, command: StartLog, sender: Sender) -> Code | None:
    return Code.EXISTS


def start_term(model: Model, command: StartTerm, sender: Sender) -> Code | None:
    if command.term <= model.term:
        return Code.STALE
    if command.level != LEVEL:
        return Code.CONTRADICTORY
    model.term, model.term_at = command.term, sender.at
    return None


def raise_level(model: Model, command: RaiseLevel, sender: Sender) -> Code | None:
    return Code.ALREADY if command.level <= LEVEL else Code.CONTRADICTORY


def record_digest(model: Model, command: RecordDigest, sender: Sender) -> Code | None:
    return None if 0 < command.seq <= model.seq else Code.STALE


def record_denials(model: Model, command: RecordDenials, sender: Sender) -> Code | None:
    """What was denied is in the log and nowhere else."""
    if not 1 <= len(command.denials) <= 200:
        return Code.TOO_LARGE
    sound = all(one.code and one.count > 0 and 0 <= one.first <= one.last for one in command.denials)
    return None if sound else Code.MALFORMED


def servers(model: Model, command: AdmitServer | RevokeServer | ForgetServer, sender: Sender) -> Code | None:
    """This region's own; the platform's are shipped."""
    return servers_model.judge(model.servers, command, model.ledger, sender.at)


def open_session(model: Model, command: OpenSession, sender: Sender) -> Code | None:
    older = [uid for uid, session in model.sessions.items() if session.principal == sender.actor]
    for uid in older:
        end(model, uid, sender.at)
    fence = model.settings.fence_time
    model.sessions[model.uid + len(older)] = Session(sender.actor, model.here, sender.at, fence=fence)
    return None


def end_session(model: Model, command: EndSession, sender: Sender) -> Code | None:
    session = model.sessions.get(command.session)
    if session is None:
        return Code.NO_SESSION
    if sender.principal is not None and session.principal != sender.actor:
        return Code.NOT_OWNER
    end(model, command.session, sender.at)
    return None


def end(model: Model, session: int, at: int) -> None:
    """From here on the fences of its node are counted."""
    life = model.sessions.pop(session)
    for node in model.nodes.values():
        if life.principal == f"agent/{node.said.name}":
            node.session = 0 if node.session == session else node.session
            is_past = at >= fence_of(model, node)
            node.fence = life.fence if is_past else max(life.fence, node.fence)
            node.ended, node.changed = at, model.here


def fence_of(model: Model, node: Node) -> int:
    """Of what lies before this term nobody knows how long it lasted."""
    return max(node.ended, model.term_at) + (node.fence or model.settings.fence_time)


def configure(model: Model, command: Configure, sender: Sender) -> Code | None:
    if unsafe(command.settings) or outlives_fence(model, command.settings) or outlasts_leases(model, command.settings):
        return Code.CONTRADICTORY
    if command.settings == model.settings:
        return Code.ALREADY
    for life in model.sessions.values():
        life.fence = max(life.fence, command.settings.fence_time)
    model.settings = command.settings
    return None


def outlasts_leases(model: Model, s: Settings) -> bool:
    """Whether what runs by a lease could outlast it by longer than the platform was told."""
    then, before = (2 * t.session_lease + t.fence_time for t in (s, model.settings))
    leased = [uid for uid, one in model.assignments.items() if one.right_until]
    wanted = any(model.assignments[uid].ordinals or model.assignments[uid].returning for uid in leased)
    return then > before and (wanted or any(slot.assignment in leased for slot in model.slots.values()))


def outlives_fence(model: Model, s: Settings) -> bool:
    """Whether a lease becomes so long that what is exclusive somewhere would end after the fence of its session."""
    lease, before = (-(-t.session_lease * (1_000_000 + t.drift_per_million) // 1_000_000) for t in (s, model.settings))
    late = [
        uid
        for uid, node in model.nodes.items()
        if node.session in model.sessions
        and lease + node.said.overrun > max(model.sessions[node.session].fence, s.fence_time)
    ]
    return lease > before and any(
        model.assignments[slot.assignment].exclusive for uid in late for slot in model.on(uid)
    )


def unsafe(s: Settings) -> bool:
    may_be_zero = ("drift_per_million", "grace")
    low = any(getattr(s, name) < (0 if name in may_be_zero else 1) for name in s.__struct_fields__)
    lease = s.session_lease * (1_000_000 + s.drift_per_million)
    fence_short = s.fence_time * 1_000_000 < lease + (s.grace + s.kill_margin) * 1_000_000
    proofs_rare = s.proof_interval * 5 > s.session_lease
    return low or fence_short or proofs_rare or s.lost_after <= s.suspect_after or s.grant_life < 2 * s.lost_after


def is_readable(command: OpenOverride) -> bool:
    """Whether each parameter is one that this kind of override has: a region's people open those without facts."""
    if command.facts:
        return False
    match command.action:
        case OverrideAction.PAUSE_REPAIR | OverrideAction.PAUSE_AUTOSCALER:
            return not command.target
        case OverrideAction.AVOID_ZONE:
            return bool(command.target)
        case OverrideAction.DECLARE_LOST:
            return bool(command.target) and command.region in ("", command.target)
        case OverrideAction.EMERGENCY_QUOTA:
            return False
    return True


def open_override(model: Model, command: OpenOverride, sender: Sender) -> Code | None:
    if not command.reason.strip() or len(command.reason) > REASON_MAX:
        return Code.MALFORMED
    if not is_readable(command):
        return Code.MALFORMED
    if command.action is OverrideAction.DECLARE_LOST:
        return Code.CONTRADICTORY
    if not sender.at < command.ends <= sender.at + model.settings.override_life:
        return Code.EXPIRED
    if sender.outside("region", command.region):
        return Code.WRONG_SCOPE
    model.overrides[model.uid] = Override(
        model.uid, command.action, command.region, command.target, command.reason, sender.actor, sender.at, command.ends
    )
    return None


def end_override(model: Model, command: EndOverride, sender: Sender) -> Code | None:
    override = model.overrides.get(command.uid)
    if override is None:
        return Code.NOT_FOUND
    if sender.kind == "controller" and sender.at < override.ends:
        return Code.TOO_EARLY
    if sender.outside("region", override.region):
        return Code.WRONG_SCOPE
    del model.overrides[command.uid]
    return None


def in_force(model: Model, action: OverrideAction, at: int) -> list[str]:
    """What overrides of this action are aimed at now."""
    every = [*model.overrides.values(), *model.shipped_overrides.values()]
    return [override.target for override in every if override.action is action and override.ends > at]


def is_paused(model: Model, tenant: str, at: int) -> bool:
    """Whether somebody has paused the scheduling of this tenant, or of everybody."""
    paused = in_force(model, OverrideAction.PAUSE_SCHEDULING, at)
    return "" in paused or tenant in paused


# What senders expect


def present(model: Model, command: object) -> int | None:
    """The batch of the last change of the object, 0 where there is none; None: nothing can be expected of it."""
    match command:
        case c.AdministerNode() | c.RemoveNode():
            return model.nodes[command.node].changed if command.node in model.nodes else 0
        case EndOverride():
            return seq_of(command.uid) if command.uid in model.overrides else 0
    return None


def unexpected(model: Model, envelope: Envelope[object]) -> Code | None:
    """Whether what the command changes is not as its sender expects. Revisions are told apart by their batch."""
    expect, found = envelope.expect, present(model, envelope.command)
    if not expect:
        return None
    if found is None:
        return Code.MALFORMED
    if (expect == PRESENT and found) or (expect == ABSENT and not found) or (expect > 0 and seq_of(expect) == found):
        return None
    return Code.EXISTS if expect == ABSENT else Code.STALE


def comes_first(model: Model, envelope: Envelope[object], answer: object) -> bool:
    """Whether the command is refused for a reason after which nothing is said of the object."""
    first = (Code.NO_RIGHT, Code.WRONG_SCOPE, Code.NOT_OWNER, Code.MALFORMED, Code.TOO_LARGE)
    return answer in first or (answer is Code.NOT_FOUND and present(model, envelope.command) == 0)
