"""The audit of a long log: it is read beside the leader, not on its loop, and a page is found at once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from holdfast.bench.fixtures.loop_stalls import measure_stalls
from holdfast.core.ledger.builtin.log import StartLog, StartTerm
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.model.objects.tenants import Tenant, TenantSpec
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform.commands import Put
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from holdfast.host.indexes.audit_index import AuditIndex
from holdfast.host.indexes.log_index import IndexRetention
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.index_store import AuditIndexQuery
from holdfast.host.ports.store import Head, StoredBatch
from holdfast.stores.indexes.audit_store import AuditDatabase
from holdfast.stores.memory import MemoryStore

BATCHES, STEP_MS = 100_000, 20_000
T0 = 1_700_000_000_000
START = StartLog("log-platform", "platform", "person/operator")
PAGE_MS = STALL_MS = 50


async def a_long_log(store: MemoryStore, batches: int) -> None:
    """A log in which a person does one thing in each batch, of a few objects again and again."""
    state, head, at = PlatformState(), Head(), T0
    for number in range(batches):
        at += STEP_MS
        draft = BatchDraft(PLATFORM, state)
        envelopes: list[Envelope[Any]] = []
        if not number:
            envelopes = [Envelope("ledger", START, at), Envelope("ledger", StartTerm(1, "p1", LEVEL), at)]
        spec = TenantSpec(workloads_max=number + 1)
        put = Put(Tenant(meta=Meta(name=f"t{number % 50}"), spec=spec))
        envelopes.append(Envelope("person/operator", put, at, key=f"k{number}"))
        for one in envelopes:
            assert isinstance(draft.add(one, at), Committed)
        raw, digest = draft.seal()
        draft.commit()
        stored = StoredBatch("log-platform", number + 1, digest, raw)
        await store.append(head, stored)
        head = Head("log-platform", number + 1, digest)


ASKED = (
    AuditIndexQuery(),
    AuditIndexQuery(before=(BATCHES // 2, 0)),
    AuditIndexQuery(actor="person/nobody"),
    AuditIndexQuery(tenant="t7", actors=("tenant/t7",)),
    AuditIndexQuery(tenant="nobody", actors=("tenant/nobody",)),
    AuditIndexQuery(since=T0 + (BATCHES - 10) * STEP_MS, limit=500),
    AuditIndexQuery(command="configure"),
)


async def timed(audit: AuditIndex, query: AuditIndexQuery) -> float:
    """How many milliseconds a page takes."""
    since = time.perf_counter()
    await audit.find(query)
    return (time.perf_counter() - since) * 1_000


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_of_a_log_of_100000_batches_a_page_is_found_at_once_and_no_turn_of_the_loop_is_held_up(tmp_path: Path) -> None:
    async def main() -> tuple[float, float, float]:
        store = MemoryStore("long")
        await a_long_log(store, BATCHES)
        ledger: Ledger[PlatformState] = Ledger(PLATFORM, store, SystemClock(), ServerIdentity("p1", START))
        kept = AuditDatabase(tmp_path / "audit.db")
        audit = AuditIndex(ledger, kept, IndexRetention(retention_ms=1 << 40))
        leading = asyncio.create_task(ledger.run())
        while ledger.role is not Role.LEADING:
            await asyncio.sleep(0.05)
        reading, begun = asyncio.create_task(audit.run()), time.perf_counter()
        with measure_stalls() as stalls:
            await audit.reach(BATCHES, 600_000)
            caught_up = time.perf_counter() - begun
            pages = [await timed(audit, asked) for asked in ASKED]
        found = max(pages), max((one.ms for one in stalls), default=0.0), caught_up
        for task in (reading, leading):
            task.cancel()
        await asyncio.wait([reading, leading])
        await kept.close()
        return found

    page, stall, caught_up = asyncio.run(main())
    print(f"slowest page {page:.1f} ms, longest stall {stall:.1f} ms, all read after {caught_up:.1f} s")
    assert page < PAGE_MS
    assert stall < STALL_MS
