"""The definition of one ledger: its commands, events, invariants and readers; `decide`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic

import msgspec
from msgspec import Struct

from holdfast.core.ledger.answers import Answer
from holdfast.core.ledger.codec import BatchReader, EnvelopeReader
from holdfast.core.ledger.commit.authorization import decide_command
from holdfast.core.ledger.commit.rules import CommandRule
from holdfast.core.ledger.commit.watch import KeysOf
from holdfast.core.ledger.envelope import Envelope, Stamp
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.ledger.state.invariants import Invariant
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.values.structs import Instant


class LedgerDefinition(Struct, Generic[S], frozen=True):
    """The code of one ledger: its empty state, rules, appliers, watch keys, invariants and readers."""

    name: str
    empty: Callable[[], S]
    rules: Mapping[type, CommandRule[S]]
    apply: Mapping[type, Callable[[S, Any, Stamp], None]]
    keys: Mapping[type, KeysOf]
    kinds: Mapping[str, str]
    invariants: tuple[Invariant[S], ...]
    batches: BatchReader[Any]
    envelopes: EnvelopeReader

    @property
    def level(self) -> int:
        """The highest level that a server with this definition can read and write."""
        return self.batches.level

    def of_level(self, level: int) -> LedgerDefinition[S]:
        """Return this ledger as a server with an older version runs it: it reads and writes no level above this one."""
        return msgspec.structs.replace(self, batches=self.batches.of_level(level))


def decide(definition: LedgerDefinition[S], state: S, envelope: Envelope[Any], at: Instant) -> Answer:
    """Return the answer to one command in this state, as if it were the next in the log."""
    return decide_command(definition.rules, state, envelope, at, pack_revision(state.info.seq + 1))
