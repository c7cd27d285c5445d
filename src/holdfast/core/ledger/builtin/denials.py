"""RecordDenials: requests that were denied, recorded in the log.

A refusal leaves no record by itself, so that no sender can grow the log with refused commands. Operators need to see
attempts, though: the host adds denials up and records the sums at most once a second (`host.denials`). They are not
folded; readers find them in the log.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Accepted, Code, Refused, too_large
from holdfast.core.ledger.commit.rules import CommandContext, CommandLane, CommandRule
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.values.limits import DENIALS_MAX, TEXT_MAX
from holdfast.core.model.values.structs import Row


class RecordDenials(Row, frozen=True, tag="record-denials"):
    """Record the denials since the previous record, with actor, command, code and count."""

    denials: tuple[Denial, ...]


class DenialsRecorded(Row, frozen=True, tag="denials-recorded"):
    denials: tuple[Denial, ...]


def record_denials(state: LedgerState, command: RecordDenials, ctx: CommandContext) -> Accepted | Refused:
    """Accept 1 to `DENIALS_MAX` denials, each with a code, a count and valid times."""
    count = len(command.denials)
    if not 0 < count <= DENIALS_MAX:
        return too_large("denials in a record, which needs at least one", count, DENIALS_MAX)
    for one in command.denials:
        longest = max(map(len, (one.actor, one.what, one.code, one.tenant)))
        if longest > TEXT_MAX or not one.code or one.count < 1 or not 0 <= one.first <= one.last:
            facts = {"actor": one.actor[:TEXT_MAX], "count": one.count, "characters": longest}
            return Refused(Code.MALFORMED, "a denial has a code, a count, and a first and a last time", facts)
    return Accepted((DenialsRecorded(command.denials),))


def denials_recorded(state: LedgerState, event: DenialsRecorded, stamp: Stamp) -> None:
    """No effect: operators read denials in the log."""


RULE: CommandRule[Any] = CommandRule(
    RecordDenials,
    record_denials,
    ("ledger",),
    CommandLane.OPERATORS,
    "operators see denied attempts",
    "nothing to undo: it is a recorded fact",
)
