"""Reads name their level, and every answer says where it is from and how long ago that was proven (RULES 10).

    any        what this server has
    at-least   what this server has, once it has reached a token: read your own writes
    linear     at least everything that was acknowledged anywhere before the question

A view is of durable state. It moves on with the next batch: whoever keeps it across an `await` takes a fork.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Generic, TypeVar

from msgspec import Struct

from holdfast.core.ledger.revision import Token
from holdfast.core.ledger.state import LedgerState

S = TypeVar("S", bound=LedgerState)


class Level(StrEnum):
    """How fresh a read must be."""

    ANY = "any"
    AT_LEAST = "at-least"
    LINEAR = "linear"


class View(Struct, Generic[S], frozen=True):
    """A state, its place in the log, and how many milliseconds ago that was proven to be the head; None: never."""

    state: S
    token: Token
    age: int | None
