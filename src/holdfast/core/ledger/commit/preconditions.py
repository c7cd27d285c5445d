"""What a sender expects of the object that its command changes or follows from: the one check of it.

Two people who read the same revision and both write must not overwrite one another, through whichever servers they
come: only the ledger, which judges one command after another, can tell. Nor must a controller's command land that
follows from what was wanted a moment before. A rule names that object (`CommandRule.subject`); what is expected of it
comes with the envelope. A command without such an object takes no expectation: it would not be kept.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Accepted, Code, Refused, stale
from holdfast.core.ledger.commit.rules import CommandContext, CommandRule, Subject
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.model.values.structs import Revision

#: Whoever may not have the object changed, or has said nothing that could be done, is not told how the object stands.
_FIRST = (Code.NO_RIGHT, Code.WRONG_SCOPE, Code.NOT_OWNER, Code.MALFORMED, Code.TOO_LARGE)


def check_and_handle(rule: CommandRule[Any], state: Any, ctx: CommandContext) -> Accepted | Refused:
    """The handler's answer, unless the object that the command changes is not as its sender expects."""
    answer = rule.handler(state, ctx.command, ctx)
    expect = expected_by(ctx.envelope)
    if not expect or (isinstance(answer, Refused) and answer.code in _FIRST):
        return answer
    subject = rule.subject(state, ctx.command) if rule.subject is not None else None
    if subject is None:
        message = f"{rule.command.__name__} changes no object of which a revision could be expected"
        return Refused(Code.MALFORMED, message, {"expected": expect})
    if isinstance(answer, Refused) and answer.code is Code.NOT_FOUND and not subject.revision:
        return answer
    return refuse_unexpected(subject, expect) or answer


def expected_by(envelope: Envelope[Any]) -> Revision:
    """What the sender expects. Some commands have had a field for it before envelopes had one."""
    return envelope.expect or getattr(envelope.command, "expect", 0)


def refuse_unexpected(subject: Subject, expect: Revision) -> Refused | None:
    """The object is not at the revision that was read, is there, or is not: with the one seen and the present one."""
    key, found, _ = subject
    if expect == found or (expect == PRESENT and found) or (expect == ABSENT and not found):
        return None
    if expect == ABSENT:
        return Refused(Code.EXISTS, f"{key} exists", {"key": key, "revision": found})
    catch_up_to = found if subject.own else 0
    return stale(key, max(expect, 0), catch_up_to, "it was changed" if found else "it is gone, or never was")
