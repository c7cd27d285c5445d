"""What is kept of the audit where there is too much of it: nobody makes what others did be forgotten."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast.core.ledger.builtin.audit import ACCEPTED, AuditEntry
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.records.decisions import Denial
from holdfast.host.ports.index_store import AuditIndexQuery, IndexPosition
from holdfast.host.ports.store import StoredBatch
from holdfast.stores.indexes.audit_store import AuditDatabase, _level

NOBODY, TENANT, OPERATOR = "nobody", "tenant/shop", "person/ops"
#: Less than is written below.
ROOM = 1 << 20


def an_entry(seq: int, part: int, actor: str, raw: bytes, outcome: str = ACCEPTED) -> AuditEntry:
    return AuditEntry(seq, part, pack_revision(seq), seq, actor, "put", outcome, "", raw)


def entries(stored: StoredBatch) -> list[AuditEntry]:
    """An operator does something once; before and after it strangers are denied much, and a tenant writes much."""
    seq = stored.seq
    denial = encode(Denial(NOBODY, "GET /v1/nodes", "unauthenticated", "", 1, seq, seq))
    found = [an_entry(seq, part, NOBODY, denial, "unauthenticated") for part in range(20)]
    found.append(an_entry(seq, 20, TENANT, bytes(10_000)))
    return [*found, an_entry(seq, 21, OPERATOR, b"deed")] if seq in (1, 200) else found


async def filled(kept: AuditDatabase, batches: int) -> None:
    for first in range(1, batches + 1, 50):
        some = [StoredBatch("log", seq, b"", b"") for seq in range(first, first + 50)]
        await kept.add(some, entries, IndexPosition("log", first + 49, b""))


@pytest.mark.parametrize("where", ["memory", "file"])
def test_who_fills_the_audit_loses_its_own_oldest_entries_and_nobody_elses(where: str, tmp_path: Path) -> None:
    async def main() -> None:
        kept = AuditDatabase() if where == "memory" else AuditDatabase(tmp_path / "audit.db")
        await filled(kept, 400)
        size = await kept.tidy(0, ROOM)
        assert ROOM // 2 < size <= ROOM
        deeds = await kept.find(AuditIndexQuery(actor=OPERATOR))
        assert [one.seq for one in deeds.items] == [200, 1], "what was done before all of it is there"
        for actor in (NOBODY, TENANT):
            left = [one.seq for one in (await kept.find(AuditIndexQuery(actor=actor, limit=500))).items]
            assert left[0] == 400, "the newest stay"
            assert left[-1] > 1
        assert (await kept.position()).since >= 1, "and it is told from when on it is whole"
        assert await kept.tidy(0, 0) >= 0
        assert (await kept.find(AuditIndexQuery())).items == (), "where there is no room nothing is kept"
        await kept.close()

    asyncio.run(main())


@pytest.mark.parametrize(
    ("sizes", "level"),
    [([100], 95), ([100, 100], 95), ([1_000, 10, 10], 949), ([500, 480, 20], 465), ([], 0)],
)
def test_those_who_take_the_most_are_brought_down_to_one_level(sizes: list[int], level: int) -> None:
    assert _level(sizes) == level
    assert sum(min(size, level) for size in sizes) <= sum(sizes) * 19 // 20
