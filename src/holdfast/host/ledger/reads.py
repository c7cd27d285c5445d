"""Read levels. Every answer states its position, and how long ago that was proven to be the head (RULES 10).

    any        the state of this server
    at-least   the state of this server, once it has reached a revision token: read your own writes
    linear     at least everything that was acknowledged anywhere before the request

A view is of durable state and changes with the next batch: to keep it across an `await`, take a fork.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import Generic

from msgspec import Struct

from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.errors import Gone, NotLeading, NotProven, NotReached, Stopped, show_token
from holdfast.host.leader.leader import Leader
from holdfast.host.leader.term import SteppedDown
from holdfast.host.ledger.follower import Follower
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import LogTrimmed, Store, StoreError
from holdfast.host.storage.durable_state import DurableState


class ReadLevel(StrEnum):
    """How fresh a read must be."""

    ANY = "any"
    AT_LEAST = "at-least"
    LINEAR = "linear"


class ReadResult(Struct, Generic[S], frozen=True):
    """A state, its position, and the milliseconds since that was proven to be the head; None: never."""

    state: S
    token: RevisionToken
    age: int | None


class ReadService(Generic[S]):
    """The reads of one server, whether it leads or follows."""

    def __init__(self, durable: DurableState[S], store: Store, clock: Clock, follower: Follower[S]) -> None:
        self._durable = durable
        self._store = store
        self._clock = clock
        self._follower = follower

    async def read(
        self, leader: Leader[S] | None, level: ReadLevel, token: RevisionToken | None, timeout_ms: int
    ) -> None:
        """Return when the durable state has the read level. Raise `Unavailable` or `ListAgain` if it cannot."""
        if token is not None:
            await self.reach(token, timeout_ms)
        if level is not ReadLevel.LINEAR:
            return
        if leader is None:
            await self._reach_head(timeout_ms)
            return
        try:
            await leader.prove_now(timeout_ms)
        except (SteppedDown, Stopped) as error:
            raise NotLeading(str(error)) from error

    async def reach(self, token: RevisionToken, timeout_ms: int) -> None:
        """Return when the state contains the token's batch. Raise `ListAgain` if it never will."""
        self._durable.must_be_of_this_log(token)
        await self._durable.wait_for(token.seq, timeout_ms)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._durable.verify(token, self._store)
        except LogTrimmed as error:
            raise Gone(f"the log no longer reaches back to {show_token(token)}: list again") from error
        except (StoreError, TimeoutError) as error:
            raise NotReached(f"{show_token(token)} cannot be verified: {self._told(error)}") from error

    async def _reach_head(self, timeout_ms: int) -> None:
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                head = await self._store.head()
        except (StoreError, TimeoutError) as error:
            raise NotProven(f"the head cannot be read: {self._told(error)}") from error
        await self._durable.wait_for(head.seq, timeout_ms)

    def _told(self, error: Exception) -> str:
        return str(error) or f"{self._store.name} does not answer"

    def view(self, leader: Leader[S] | None) -> ReadResult[S]:
        """Return the durable state as it is now."""
        return ReadResult(self._durable.state, self._durable.token(), self.age(leader))

    def age(self, leader: Leader[S] | None) -> int | None:
        """Return the milliseconds since the state was proven to be the head; None: never."""
        if leader is not None:
            return leader.term.proof.age()
        seen = self._follower.caught_up
        return None if seen is None else self._clock.boot() - seen
