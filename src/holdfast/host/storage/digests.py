"""State digests in the log: a server whose state differs stops, and a mirror whose state differs loads again (RULES
16).

A leader forks its state at certain batches, digests the fork in small steps, and records the digest in the log.
Followers and mirrors fork at the same batches and compare. The state determines these batches: every thousandth, and
fewer in a large state, to limit the work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic

from holdfast.core.ledger.builtin.log import RecordDigest, StateDigested
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.state.chunks import digest_of_chunks, digest_steps
from holdfast.core.ledger.state.ledger_state import LedgerState, S
from holdfast.host.errors import StateDiffers
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.storage.durable_state import DurableState

EVERY_BATCHES = 1_000
#: For each group of this many rows, a digest waits for another thousand batches.
ROWS_EACH = 1 << 14
#: The pause after each step of a millisecond or two, for other tasks.
REST_MS = 4

Record = Callable[[RecordDigest], Awaitable[object]]


def is_due(state: LedgerState) -> bool:
    """Whether the state after this batch is digested: the same on every server."""
    seq = state.info.seq
    return seq % EVERY_BATCHES == 0 and seq // EVERY_BATCHES % (state.row_count() // ROWS_EACH + 1) == 0


class DigestChecker(Generic[S]):
    """Recent digests of one state, and those in the log."""

    def __init__(self, durable: DurableState[S], clock: Clock, metrics: Metrics) -> None:
        self._durable = durable
        self._clock = clock
        self._metrics = metrics
        self._forks: deque[S] = deque(maxlen=1)
        self._taken: dict[int, bytes] = {}
        self._logged: dict[int, bytes] = {}
        self._some = asyncio.Event()
        durable.listeners.append(self._see)

    def _see(self, batch: Batch[Any]) -> None:
        state = self._durable.state
        if is_due(state):
            self._forks.append(state.fork())
            self._some.set()
        for record in batch.records:
            for event in record.events:
                if type(event) is StateDigested:
                    self._logged[event.seq] = event.digest
                    self._some.set()

    async def watch(self, record: Record | None = None) -> None:
        """Digest the state when due and compare it with the log. Raise `StateDiffers` if they differ.

        A leader passes `record`, which puts a digest into the log; followers do not.
        """
        while True:
            await self._some.wait()
            self._some.clear()
            while self._forks:
                seq = await self._take(self._forks.popleft())
                if record is not None and seq not in self._logged:
                    await record(RecordDigest(seq, self._taken[seq]))
            self._compare()

    async def _take(self, fork: S) -> int:
        names: list[str] = []
        for name in digest_steps(fork):
            if name is not None:
                names.append(name)
            await self._clock.sleep(REST_MS)
        seq = fork.info.seq
        for _ in fork.release():
            await self._clock.sleep(REST_MS)
        self._taken[seq] = digest_of_chunks(names)
        self._metrics.count("state_digests")
        return seq

    def _compare(self) -> None:
        for seq in sorted(self._logged.keys() & self._taken.keys()):
            mine, logged = self._taken[seq], self._logged[seq]
            if mine != logged:
                raise StateDiffers(
                    f"after batch {seq} the state here has digest {mine.hex()}, the log has {logged.hex()}. "
                    "hint: restart the server, which loads its state again, and report this error"
                )
            self._metrics.count("state_digests_compared")
        newest = max(self._taken, default=0)
        self._taken = {seq: digest for seq, digest in self._taken.items() if seq >= newest - 8 * EVERY_BATCHES}
        self._logged = {seq: digest for seq, digest in self._logged.items() if seq > newest}
