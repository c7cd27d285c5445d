"""Preconditions: the one check that an object has the revision that the sender of a command expects.

Two operators who read the same revision must not overwrite each other's changes, whichever servers they use. Only the
ledger can check this, since it decides one command after another. A controller's command must not be committed either
if the spec that it follows from has changed. A rule names the object (`CommandRule.subject`); the envelope carries the
expected revision. A command without such an object is refused if it carries one: the expectation could not be enforced.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Accepted, Code, Refused, stale
from holdfast.core.ledger.commit.rules import CommandContext, CommandRule, Subject
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.model.values.structs import Revision

#: These refusals come first: a sender without access, or with an invalid command, does not learn the object's revision.
_FIRST = (Code.NO_RIGHT, Code.WRONG_SCOPE, Code.NOT_OWNER, Code.MALFORMED, Code.TOO_LARGE)


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
