"""Digests of the state in the log: a server whose state differs stops, and a mirror's begins anew (RULES 16).

A leader forks its state at certain batches, digests the fork in small steps, and records the digest in the log. Whoever
follows forks at the same batches and compares. Which batches those are follows from the state alone: every thousandth,
and in a large state only every so many thousandth that digesting stays a small part of the work.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.builtin.log import RecordDigest, StateDigested
from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.state.chunks import digest_of_chunks, digest_steps
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.errors import StateDiffers
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.storage.durable_state import DurableState

S = TypeVar("S", bound=LedgerState)

EVERY_BATCHES = 1_000
#: For each of so many rows a digest waits for another thousand batches.
ROWS_EACH = 1 << 14
#: Between two steps, which take a millisecond or two, everybody else gets at least this long.
REST_MS = 4

Record = Callable[[RecordDigest], Awaitable[object]]


def is_due(state: LedgerState) -> bool:
    """Whether the state after this batch is one to be digested: the same answer on every server."""
    seq = state.info.seq
    return seq % EVERY_BATCHES == 0 and seq // EVERY_BATCHES % (state.row_count() // ROWS_EACH + 1) == 0


class DigestChecker(Generic[S]):
    """The digests that one process has taken lately of one state, and those it found in the log."""

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
        """Digest what is due and compare it with the log, for ever. `StateDiffers` when the two disagree.

        A leader says how a digest is recorded; who follows does not.
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
                    f"after batch {seq} the state here has digest {mine.hex()}, the log says {logged.hex()}. "
                    "hint: it has to be loaded anew: start a server that has stopped again, and report it"
                )
            self._metrics.count("state_digests_compared")
        newest = max(self._taken, default=0)
        self._taken = {seq: digest for seq, digest in self._taken.items() if seq >= newest - 8 * EVERY_BATCHES}
        self._logged = {seq: digest for seq, digest in self._logged.items() if seq > newest}
