"""The checks before any handler: the command exists, its sender may send it, it is no duplicate, its object is
unchanged.

unknown command -> malformed     sender -> no-right, no-session, wrong-scope     duplicate -> the first answer

Preconditions: the one check that an object has the revision that the sender of a command expects.

Two operators who read the same revision must not overwrite each other's changes, whichever servers they use. Only the
ledger can check this, since it decides one command after another. A controller's command must not be committed either
if the spec that it follows from has changed. A rule names the object (`CommandRule.subject`); the envelope carries the
expected revision. A command without such an object is refused if it carries one: the expectation could not be enforced.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.ledger.answers import Accepted, Answer, Code, Refused, Repeated, stale
from holdfast.core.ledger.commit.dedup import find_duplicate
from holdfast.core.ledger.commit.rules import CommandContext, CommandRule, Subject
from holdfast.core.ledger.commit.size_limits import refuse_excess
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.ledger.reconciler import owner_of
from holdfast.core.ledger.state.ledger_state import LedgerState, S
from holdfast.core.model.records.servers import is_server_name
from holdfast.core.model.values.structs import Instant, Revision

#: Machines act in sessions; operators and tenants name keys; controllers run in the leader, whose term is their fence.
MACHINES = ("agent", "scheduler", "region")
PEOPLE = ("person", "tenant")
BUILT_IN = ("controller", "ledger")
#: Limit for texts in an envelope, so that no sender can grow the log with them.
NAME_MAX = 256
#: These refusals come first: a sender without access, or with an invalid command, does not learn the object's revision.
_FIRST = (Code.NO_RIGHT, Code.WRONG_SCOPE, Code.NOT_OWNER, Code.MALFORMED, Code.TOO_LARGE)


def decide_command(
    rules: Mapping[type, CommandRule[S]], state: S, envelope: Envelope[Any], at: Instant, revision: Revision
) -> Answer:
    """Return the answer to a command. Pure: the same arguments always give the same answer."""
    received = authorize(rules, state, envelope, at, revision)
    if not isinstance(received, CommandContext):
        return received
    return check_and_handle(rules[type(envelope.command)], state, received)


def authorize(
    rules: Mapping[type, CommandRule[S]], state: S, envelope: Envelope[Any], at: Instant, revision: Revision
) -> CommandContext | Refused | Repeated:
    """Return the context for the handler, or the answer if the command needs no handler."""
    rule = rules.get(type(envelope.command))
    if rule is None:
        return Refused(Code.MALFORMED, f"no such command: {type(envelope.command).__name__}", {})
    case = CommandContext(envelope, at, revision)
    answer = _refuse_sender(state, case, rule) or find_duplicate(state, case)
    return answer or refuse_excess(case.command) or case


def _refuse_sender(state: LedgerState, ctx: CommandContext, rule: CommandRule[Any]) -> Refused | None:
    envelope, actor, kind = ctx.envelope, ctx.actor, ctx.kind
    if max(len(actor), len(envelope.key), len(envelope.via)) > NAME_MAX:
        return Refused(Code.MALFORMED, f"names and keys have at most {NAME_MAX} characters", {})
    if kind in BUILT_IN:
        if envelope.session or envelope.key:
            return Refused(Code.MALFORMED, f"{kind} has neither session nor key: the term is its fence", {})
        return None if owner_of(actor) in rule.owners else _no_right(ctx, rule)
    ctx.principal = state.principals.get(actor) or state.principals.get(f"{kind}/*")
    if ctx.principal is None or ctx.principal.spec.disabled or kind not in rule.owners:
        return _no_right(ctx, rule)
    if kind in MACHINES:
        return _outside_region(state, ctx) or _refuse_machine(state, ctx, rule)
    if kind not in PEOPLE or rule.right not in ctx.principal.spec.rights:
        return _no_right(ctx, rule)
    if not envelope.key or envelope.session:
        return Refused(Code.MALFORMED, "operators and tenants name an idempotency key and no session", {})
    return _refuse_scope(state, ctx, rule)


def _refuse_scope(state: LedgerState, ctx: CommandContext, rule: CommandRule[Any]) -> Refused | None:
    """Check the scope of the sender against the ledger and the rule. The handler checks the objects that the command
    names."""
    refused = _outside_region(state, ctx)
    if refused is not None:
        return refused
    assert ctx.principal is not None
    scope, ledger = ctx.principal.spec.scope, state.info.ledger
    if scope.node and ledger == "platform":
        facts = {"scope": scope.node, "ledger": ledger}
        return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may act on node {scope.node} only, which is not here", facts)
    if rule.whole and (scope.tenant or scope.node or (scope.region and ledger == "platform")):
        facts = {"tenant": scope.tenant, "region": scope.region, "node": scope.node}
        return Refused(Code.WRONG_SCOPE, f"{ctx.actor} has a scope, and the command concerns all of {ledger}", facts)
    return None


def _outside_region(state: LedgerState, ctx: CommandContext) -> Refused | None:
    """Refuse a sender whose scope is another region than this ledger's: every ledger stores all principals."""
    assert ctx.principal is not None
    region, ledger = ctx.principal.spec.scope.region, state.info.ledger
    if not region or ledger in ("platform", f"region/{region}"):
        return None
    facts = {"scope": region, "ledger": ledger}
    return Refused(Code.WRONG_SCOPE, f"{ctx.actor} may act in region {region} only", facts)


def _refuse_machine(state: LedgerState, ctx: CommandContext, rule: CommandRule[Any]) -> Refused | None:
    if is_server_name(ctx.actor):
        return _no_right(ctx, rule)  # a server acts for others, never in its own name
    number = ctx.envelope.session
    if number == 0 and rule.command.__name__ == "OpenSession":
        return None
    session = ctx.session = state.sessions.get(number)
    if session is None or session.principal != ctx.actor:
        facts = {"session": number, "current": state.session_of.get(ctx.actor) or 0}
        return Refused(Code.NO_SESSION, f"{ctx.actor} has no session {number}; open one", facts)
    return None


def _no_right(ctx: CommandContext, rule: CommandRule[Any]) -> Refused:
    facts = {"actor": ctx.actor, "owners": list(rule.owners), "right": rule.right.value}
    return Refused(Code.NO_RIGHT, f"{ctx.actor} may not send {rule.command.__name__}", facts)


def check_and_handle(rule: CommandRule[Any], state: Any, ctx: CommandContext) -> Accepted | Refused:
    """Return the handler's answer, unless the object that the command changes has an unexpected revision."""
    answer = rule.handler(state, ctx.command, ctx)
    expect = expected_by(ctx.envelope)
    if not expect or (isinstance(answer, Refused) and answer.code in _FIRST):
        return answer
    subject = rule.subject(state, ctx.command) if rule.subject is not None else None
    if subject is None:
        message = f"{rule.command.__name__} changes no object with a revision; send it without a precondition"
        return Refused(Code.MALFORMED, message, {"expected": expect})
    if isinstance(answer, Refused) and answer.code is Code.NOT_FOUND and not subject.revision:
        return answer
    return refuse_unexpected(subject, expect) or answer


def expected_by(envelope: Envelope[Any]) -> Revision:
    """Return the expected revision. Some commands had a field for it before envelopes did."""
    return envelope.expect or getattr(envelope.command, "expect", 0)


def refuse_unexpected(subject: Subject, expect: Revision) -> Refused | None:
    """Refuse if the object has another revision than expected, is missing, or exists. The facts name both revisions."""
    key, found, _ = subject
    if expect == found or (expect == PRESENT and found) or (expect == ABSENT and not found):
        return None
    if expect == ABSENT:
        return Refused(Code.EXISTS, f"{key} exists", {"key": key, "revision": found})
    catch_up_to = found if subject.own else 0
    return stale(key, max(expect, 0), catch_up_to, "it was changed" if found else "it does not exist")
