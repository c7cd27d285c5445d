"""What the controllers of a region's assignments have in common: one assignment at a time, by uid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from holdfast.core.ledger.reconciler import Key, WatchKey
from holdfast.core.model.allotment import Assignment
from holdfast.core.model.shapes import Instant
from holdfast.core.region.assigned import runs_until
from holdfast.core.region.commands import NAMED_MAX
from holdfast.core.region.state import RegionState

T = TypeVar("T")


class OfAssignments:
    """Looks at one assignment at a time; its slots and requests are told under its workload."""

    watches: tuple[str, ...] = ("assignment", "workload")

    def keys(self, state: RegionState) -> Iterable[Key]:
        return state.assignments.keys()

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[Key]:
        kind, key = touched
        if kind == "assignment":
            return [key]
        return state.assignments_of.get(key) or ()  # type: ignore[arg-type]


def has_lapsed(state: RegionState, assignment: Assignment, now: Instant) -> bool:
    """Whether this region's leased right to what it names is over."""
    until = runs_until(state, assignment)
    return until is not None and until <= now


def in_chunks(named: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """As many as one command may name, and then as many again (RULES 11)."""
    for first in range(0, len(named), NAMED_MAX):
        yield tuple(named[first : first + NAMED_MAX])
