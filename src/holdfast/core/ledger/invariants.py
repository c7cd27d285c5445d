"""The shape of an invariant, and how a list of them is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

S = TypeVar("S")


class Kind(StrEnum):
    """*always* holds in every state; *at commit* may be broken from outside, is then open as a breach, and never grows."""

    ALWAYS = "always"
    AT_COMMIT = "at commit"


class Class(StrEnum):
    """What it takes to keep it: the ledger's order, an escrow, only a hint, or nothing since it merges."""

    LEDGER = "needs the ledger"
    ESCROW = "escrow"
    HINT = "hint"
    MERGEABLE = "mergeable"


class Invariant(Struct, Generic[S], frozen=True):
    """A promise about one state. `violations` yields a sentence for each place where it does not hold."""

    id: str
    sentence: str
    kind: Kind
    needs: Class
    violations: Callable[[S], Iterator[str]]


class Violation(Struct, frozen=True):
    """A promise that was found broken."""

    invariant: str
    detail: str


def check(state: S, invariants: Iterable[Invariant[S]]) -> list[Violation]:
    """Every violation of every invariant in this state."""
    return [Violation(inv.id, detail) for inv in invariants for detail in inv.violations(state)]
