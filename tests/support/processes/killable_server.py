"""A server that will be killed: it places slots as fast as it can and says on a pipe what was acknowledged to it.

    python -m tests.support.processes.killable_server FOLDER LIFE

Lines on standard output, each one write: `begin SEQ` before an append is handed to the store, `end SEQ` after it was
answered, and `ack SESSION SEQUENCE REVISION` for each answer. What the other end of the pipe has read was acknowledged
outside this process, whatever becomes of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from holdfast.bench.fixtures.ledger_load import prepared_region
from holdfast.bench.fixtures.region import BenchRegion
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.store import Head, StoredBatch, WriteOutcome
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.stores.sqlite.store import SqliteStore

NODES = 400
WRITERS = 32
#: Small, so that kills also hit snapshots.
KEEPING = SnapshotPolicy(log_bytes=1 << 20, log_batches=500)


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class ReportingStore:
    """A store that tells when an append begins and ends. Everything else is the store's own."""

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        say("begin", batch.seq)
        outcome = await self._store.append(after, batch)
        say("end", batch.seq)
        return outcome


class ServerLife:
    """One life of the server and of the scheduler beside it."""

    def __init__(self, ledger: Ledger[RegionState], number: int) -> None:
        self._ledger = ledger
        self._number = number
        self._actor = f"scheduler/life-{number}"
        self._session = 0
        self._sequence = 0
        self._open: list[tuple[int, str, int]] = []
        self._opening = asyncio.Lock()

    async def run(self) -> None:
        landed = await self._send(Envelope(self._actor, OpenSession(), self._now()))
        self._session = self._ledger.durable.state.session_of.get(self._actor) or 0
        assert self._session >= landed.revision
        await asyncio.gather(self._beat(), *(self._write() for _ in range(WRITERS)))

    def _now(self) -> int:
        return self._ledger.clock.wall()

    async def _send(self, envelope: Envelope[Any]) -> Committed:
        answer = await self._ledger.submit(envelope)
        assert isinstance(answer, Committed), answer
        return answer

    async def _beat(self) -> None:
        """Renew its own session and those of all nodes: on a busy machine a life is longer than a lease."""
        while True:
            for actor, session in list(self._ledger.durable.state.session_of.items()):
                if actor == self._actor or actor.startswith("agent/"):
                    self._ledger.renew(actor, session)
            await asyncio.sleep(1)

    async def _write(self) -> None:
        state = self._ledger.durable.state
        nodes = [uid for uid, _ in state.nodes.items()]
        while True:
            assignment, digest, ordinal = await self._next()
            for node in (nodes[ordinal % len(nodes) :] + nodes)[: len(nodes)]:
                if await self._place(c.PlacementGroup(assignment, digest, (c.SlotPlacement(ordinal, node),))):
                    break
            else:
                await asyncio.Event().wait()  # all is full: whoever is to kill it takes his time

    async def _place(self, group: c.PlacementGroup) -> bool:
        """Propose it until it lands, since its node may have changed after the view; False: its node is full, or
        silent, as it may be after a life in which nobody could renew it in time."""
        while True:
            self._sequence += 1
            sequence, view = self._sequence, self._ledger.durable.state.info.seq << 20
            command = c.Propose((group,), self._now() + 60_000)
            envelope = Envelope(self._actor, command, self._now(), self._session, sequence, view=view)
            answer = await self._ledger.submit(envelope)
            if isinstance(answer, Refused) and answer.code is Code.STALE:
                continue
            if isinstance(answer, Refused) and answer.code in (Code.NODE_UNAVAILABLE, Code.CAPACITY):
                return False
            assert isinstance(answer, Committed), answer
            say("ack", self._session, sequence, answer.revision)
            return True

    async def _next(self) -> tuple[int, str, int]:
        """The next slot that waits; a new workload when none does."""
        async with self._opening:
            if not self._open:
                await self._open_workload()
            return self._open.pop()

    async def _open_workload(self) -> None:
        state = self._ledger.durable.state
        region = BenchRegion.__new__(BenchRegion)  # only for the shape of its workloads
        region.assignments = [a for _, a in state.assignments.items()]
        region.digest = next(digest for digest, _ in state.templates.items())
        assignment, shipped, opened = region.next_workload(state.region.cursor)
        await self._send(Envelope("controller/link", shipped, self._now()))
        await self._send(Envelope("controller/replica", opened, self._now()))
        self._open = [(assignment.uid, region.digest, ordinal) for ordinal in reversed(opened.ordinals)]


async def main(folder: Path, life: int) -> None:
    clock = SystemClock()
    store = await SqliteStore.open(folder)
    if (await store.head()).seq == 0:
        await prepared_region(store, NODES, clock)
    telling: Any = ReportingStore(store)
    ledger = Ledger(REGION, telling, clock, ServerIdentity(f"life-{life}"), policy=KEEPING)
    serving = asyncio.create_task(ledger.run())
    try:
        while ledger.role is not Role.LEADING:
            assert not serving.done(), serving.exception()
            await asyncio.sleep(0.001)
        await ServerLife(ledger, life).run()
    finally:
        serving.cancel()
        await asyncio.wait({serving})
        await store.close()


if __name__ == "__main__":
    # Whoever runs the tests in the background of a shell has children that would not hear of an interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
