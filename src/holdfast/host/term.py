"""Everything that lives as long as one term of one leader, and is dropped with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state import LedgerState
from holdfast.host.clock import Clock
from holdfast.host.durable import Durable
from holdfast.host.errors import NotLeading, NotProven, StoreWentBackwards
from holdfast.host.journal import Journal
from holdfast.host.lanes import Lanes
from holdfast.host.ledger_time import LedgerTime
from holdfast.host.meters import Meters
from holdfast.host.proof import Proof
from holdfast.host.refusals import Refusals
from holdfast.host.room import Room
from holdfast.host.sessions import Sessions
from holdfast.host.store import Head, Store

S = TypeVar("S", bound=LedgerState)

#: Told of every refusal that is answered.
Denied = Callable[[Envelope[Any], Refused], None]


class SteppedDown(Exception):
    """This server leads no more. `deposed`: another one does."""

    def __init__(self, why: str, *, deposed: bool = False) -> None:
        super().__init__(why)
        self.deposed = deposed


class Term(Generic[S]):
    """What a leader knows beside the log: who waits, who was heard of, how much its word is worth."""

    def __init__(
        self, durable: Durable[S], store: Store, clock: Clock, meters: Meters, journal: Journal, denied: Denied
    ) -> None:
        self.durable = durable
        self.store = store
        self.clock = clock
        self.meters = meters
        self.journal = journal
        self.time = LedgerTime(clock, durable.state.facts.at)
        self.proof = Proof(clock)
        self.sessions = Sessions(clock, meters, journal)
        self.room = Room(store, clock, meters, journal)
        self.lanes = Lanes()
        self.refusals = Refusals()
        self.denied = denied
        self.is_over = False
        #: What the store said last when it did not answer plainly.
        self.trouble = ""

    def now(self) -> int:
        """Ledger time, never before the last stamp in the log."""
        steps = self.time.steps
        at = self.time.now()
        if self.time.steps != steps:
            self.sessions.restart("clock-set")
        return max(at, self.durable.state.facts.at)

    def must_be_leading(self) -> None:
        """Raise when the term is over."""
        if self.is_over:
            raise NotLeading("this server has stepped down")

    def must_be_proven(self) -> None:
        """Raise unless this server can show that it leads."""
        self.must_be_leading()
        if not self.proof.is_young(self.durable.state.facts.settings):
            why = f": {self.trouble}" if self.trouble else ""
            raise NotProven(f"the last proof of this term is {self.proof.age()} ms old{why}")

    def depose(self, ours: Head, head: Head) -> SteppedDown:
        """The store's head is not ours: somebody else leads. Raises when that cannot be all."""
        check_forward(self.store.name, ours, head)
        return SteppedDown(f"another server leads: the head is at {head.seq}, not at {ours.seq}", deposed=True)


def check_forward(store: str, seen: Head, head: Head) -> None:
    """`StoreWentBackwards` unless `head` can be what `seen` became."""
    is_same = head.seq == seen.seq and head.same_place(seen)
    if is_same or seen.seq == 0 or (head.seq > seen.seq and head.log_id == seen.log_id):
        return
    raise StoreWentBackwards(
        f"{store} was at {_show(seen)} and is at {_show(head)} now; this server stops. "
        "hint: if the store was restored from a backup, start a new log from it; if it was copied, use the original"
    )


def _show(head: Head) -> str:
    return f"{head.log_id or 'nothing'}:{head.seq}:{head.digest[:8].hex()}"
