"""Bugs planted in what an event does: a batch that a ledger would never write, and what both ways of looking find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import StateDigested
from holdfast.core.ledger.codec import Batch, Header, LogRecord
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.invariants import Violation, check, check_batch
from holdfast.core.ledger.state.ledger_state import LedgerState

S = TypeVar("S", bound=LedgerState)

#: What a bug does to a state.
Wrong = Callable[[Any], None]


def planted(definition: LedgerDefinition[S], wrong: Wrong) -> LedgerDefinition[S]:
    """The same ledger, in which an event that should change nothing does what is wrong."""

    def apply(state: S, _event: StateDigested, _stamp: Stamp) -> None:
        broken = state.fork()
        wrong(broken)
        copy_rows(broken, state)

    return replace(definition, apply={**definition.apply, StateDigested: apply})


def copy_rows(source: LedgerState, target: LedgerState) -> None:
    """Write to the target where it differs, and nowhere else."""
    for spec in source.TABLES:
        rows, table = dict(source.table(spec.name).unordered()), target.table(spec.name)
        for key, row in table.items():
            if key not in rows:
                table.drop(key)
            elif rows[key] != row:
                table.put(key, rows[key])
        for key in sorted(rows):
            if table.get(key) is None:
                table.put(key, rows[key])
    for name in (*source.SCALARS, *source.DERIVED_SCALARS, *source.ORDERS):
        setattr(target, name, getattr(source, name))


def next_batch(state: LedgerState) -> Batch[Any]:
    """A batch with one event that changes nothing, unless a bug is planted in it."""
    facts = state.info
    header = Header(facts.log_id, facts.seq + 1, facts.term, facts.level, facts.digest)
    event = StateDigested(facts.seq, b"")
    return Batch(
        header, (LogRecord(facts.at, facts.at, "ledger", "record-digest", 0, 0, 0, 0, b"", b"", (event,)),), b""
    )


def found_both_ways(definition: LedgerDefinition[S], state: S, wrong: Wrong) -> tuple[list[Violation], list[Violation]]:
    """What is found near the batch in which this goes wrong, and then in full."""
    assert check(state, definition.invariants) == []
    return found_after(planted(definition, wrong), state, next_batch(state))


def found_after(
    definition: LedgerDefinition[S], state: S, batch: Batch[Any]
) -> tuple[list[Violation], list[Violation]]:
    """Fold one more batch: what is found near it, and then in full."""
    overlay = state.overlay()
    fold(definition, overlay, batch)
    near = check_batch(state, overlay, definition.invariants)
    state.merge(overlay)
    return near, check(state, definition.invariants)


def names(violations: list[Violation]) -> list[str]:
    """The invariants that do not hold."""
    return sorted({violation.invariant for violation in violations})


def told(violations: list[Violation]) -> list[str]:
    """Those of which it is known, not only that a row was missing on the way."""
    return names([one for one in violations if not one.detail.startswith("cannot be checked")])
