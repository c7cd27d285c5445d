"""Decisions are read from the log and found again: after a restart, from a trimmed log, when the workload is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import apsw
import pytest

from holdfast.core.ledger.commit.draft import Committed
from holdfast.host.errors import NotReached
from holdfast.host.indexes import log_index
from holdfast.host.indexes.decision_index import DecisionIndex
from holdfast.host.indexes.log_index import AFTER_FAILURE_MS, GATHER_MAX_MS, GATHER_MS, TIDY_EVERY_MS, IndexRetention
from holdfast.host.ports.index_store import DecisionBatch, DecisionPage, DecisionQuery, DecisionStore, IndexPosition
from holdfast.host.ports.store import StoreError
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.stores.indexes.decision_rows import DecisionDatabase
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import Server, World, in_world, until
from tests.support.ledgers.deciding_region import SCHEDULER, DecidingRegion

EVERYTHING = DecisionQuery(limit=500)


class Watched:
    """A server of a region that keeps decisions."""

    def __init__(self, world: World, store: MemoryStore, kept: DecisionStore, name: str = "s1", **fields: Any) -> None:
        self.lasting = fields.pop("lasting", None)
        self.server: Server = world.server(store, name, **fields)
        self.decisions = DecisionIndex(self.server.ledger, kept, self.lasting)
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> Any:
        return self.server.state

    async def submit(self, actor: str, command: Any, **fields: Any) -> Committed:
        return await self.server.accept(actor, command, **fields)

    async def start(self, *, leads: bool) -> Watched:
        self.server.start()
        if leads:
            await self.server.leads()
        self._task = asyncio.create_task(self.decisions.run())
        return self

    def stop_reading(self) -> None:
        assert self._task is not None
        self._task.cancel()

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self.server.stop()

    async def deciding(self) -> DecidingRegion:
        return await DecidingRegion(self, self.server.clock.wall).prepared()

    async def find(self, query: DecisionQuery = EVERYTHING) -> DecisionPage:
        await self.decisions.reach(self.state.info.seq, 5_000)
        return await self.decisions.find(query)

    async def outcomes(self, **asked: Any) -> list[str]:
        return [one.decided.outcome.value for one in (await self.find(DecisionQuery(**asked))).items]

    async def trims(self) -> int:
        """Take as many snapshots as trimming asks for; the trim floor then."""
        for number in range(2):
            await self.server.override(f"between-{self.state.info.seq}-{number}")
            await self.server.ledger.snapshots.take()
        return (await self.server.ledger.store.head()).floor


def story_of(told: Any) -> None:
    """Run a story, and end what it has started."""

    async def story(world: World) -> None:
        started: list[Watched] = []

        async def watched(
            store: MemoryStore, kept: DecisionStore, name: str = "s1", *, leads: bool = True, **fields: Any
        ) -> Watched:
            one = Watched(world, store, kept, name, **fields)
            started.append(one)
            return await one.start(leads=leads)

        try:
            await told(watched)
        finally:
            for one in started:
                await one.end()

    in_world(story)


def test_a_decision_is_found_as_soon_as_it_is_asked_for() -> None:
    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), DecisionDatabase())
        deciding = await region.deciding()
        web = await deciding.workload("web")
        await deciding.place(web, (0, "n1"), (1, "n2"))
        page = await region.find(DecisionQuery(workload="web", tenant="shop", ordinal=1))
        (one,) = page.items
        assert [page.nodes[node] for _, _, node in one.placements] == ["n2"]
        assert one.decided.actor == SCHEDULER
        await deciding.wait(web)
        assert await region.outcomes(workload="web") == ["waiting", "placed"]

    story_of(story)


def test_more_batches_than_are_kept_in_mind_are_found_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_index, "WANTED_MAX", 2)

    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), DecisionDatabase())
        deciding = await region.deciding()
        web = await deciding.workload("web")
        for _ in range(7):
            await deciding.wait(web)
            assert len(region.decisions._wanted) <= 2
        assert await region.outcomes(workload="web") == ["waiting"] * 7

    story_of(story)


def test_an_index_that_nothing_concerns_sleeps_until_it_tidies_up(monkeypatch: pytest.MonkeyPatch) -> None:
    woken: list[int] = []
    tell = DecisionIndex._tell_moved

    def told(self: DecisionIndex) -> None:
        woken.append(self._clock.boot())
        tell(self)

    monkeypatch.setattr(DecisionIndex, "_tell_moved", told)

    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), DecisionDatabase())
        await region.server.clock.sleep(TIDY_EVERY_MS // 2)
        before = len(woken)
        for number in range(5):
            await region.server.override(f"nothing-{number}")
            await region.server.clock.sleep(TIDY_EVERY_MS)
        assert len(woken) - before <= 6

    story_of(story)


def test_batches_come_together_while_nobody_asks() -> None:
    writes: list[int] = []

    class Counting(DecisionDatabase):
        async def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
            writes.append(len(reading.found))
            await super().add(reading, position)

    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), Counting())
        deciding = await region.deciding()
        web = await deciding.workload("web", count=20)
        await region.server.clock.sleep(5_000)
        writes.clear()
        for ordinal in range(20):
            await deciding.place(web, (ordinal, "n1"))
        await region.server.clock.sleep(GATHER_MS * 4)
        assert sum(writes) == 20
        assert len(writes) < 10

    story_of(story)


def test_while_batches_keep_coming_decisions_wait_and_not_for_long() -> None:
    waits: list[int] = []

    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), DecisionDatabase())
        deciding = await region.deciding()
        web = await deciding.workload("web", count=40)
        await region.server.clock.sleep(5_000)
        behind, since = region.decisions.up_to, region.server.clock.boot()
        for ordinal in range(40):
            before = behind()
            await deciding.place(web, (ordinal, "n1"))
            await region.server.clock.sleep(GATHER_MS // 2)
            now = region.server.clock.boot()
            if behind() > before:
                waits.append(now - since)
                since = now
        assert waits, "it is told of while more comes"
        assert max(waits) <= GATHER_MAX_MS + 2 * GATHER_MS
        assert min(waits[1:]) > 2 * GATHER_MS, "and it waited for more"

    story_of(story)


def test_whoever_asks_does_not_wait_until_more_has_come_together() -> None:
    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), DecisionDatabase())
        deciding = await region.deciding()
        web = await deciding.workload("web")
        await region.server.clock.sleep(5_000)
        await deciding.place(web, (0, "n1"))
        await region.server.clock.sleep(GATHER_MS // 10)  # it has begun to gather
        before = region.server.clock.boot()
        await region.find()
        assert region.server.clock.boot() - before < GATHER_MS // 10

    story_of(story)


def test_what_was_kept_outlives_the_workload_and_the_log() -> None:
    async def story(watched: Any) -> None:
        keeping = SnapshotPolicy(retention_ms=60_000)
        lasting = IndexRetention(retention_ms=10**9)
        region = await watched(MemoryStore(), DecisionDatabase(), policy=keeping, lasting=lasting)
        deciding = await region.deciding()
        web = await deciding.workload("web")
        await deciding.place(web, (0, "n1"))
        landed_in = region.state.info.seq
        await deciding.end(web)
        assert not region.state.assignments.get(web.uid)
        await region.server.clock.sleep(3_600_000)
        assert await region.trims() > landed_in
        (one,) = (await region.find(DecisionQuery(workload="web", ordinal=0))).items
        assert one.decided.tenant == "shop"

    story_of(story)


def test_the_log_is_not_trimmed_past_what_was_not_read_unless_room_is_short() -> None:
    class Failing(DecisionDatabase):
        async def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
            raise StoreError("no room")

    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), Failing(), policy=SnapshotPolicy(retention_ms=1_000))
        deciding = await region.deciding()
        await deciding.place(await deciding.workload("web"), (0, "n1"))
        await region.server.clock.sleep(3_600_000)
        assert await region.trims() == 0
        assert "no room" in region.decisions.last_error
        region.server.ledger.snapshots.has_pressure = True
        assert await region.trims() > 0

    story_of(story)


def test_without_decisions_the_log_is_trimmed_as_before() -> None:
    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), DecisionDatabase(), policy=SnapshotPolicy(retention_ms=1_000))
        for number in range(20):
            await region.server.override(f"o{number}")
        await region.server.clock.sleep(TIDY_EVERY_MS * 3)
        assert await region.trims() > 15

    story_of(story)


def test_a_server_that_starts_again_goes_on_where_it_was() -> None:
    async def story(watched: Any) -> None:
        store, kept = MemoryStore(), DecisionDatabase()
        store.shared = False
        first = await watched(store, kept)
        deciding = await first.deciding()
        web = await deciding.workload("web")
        await deciding.place(web, (0, "n1"))
        await first.find()
        first.stop_reading()
        await deciding.place(web, (1, "n1"))  # landed, and not read in this life
        await first.end()
        second = await watched(store, kept, "s2")
        assert await second.outcomes(workload="web") == ["placed", "placed"]
        assert second.server.ledger.metrics.counted("decisions_begun_anew") == 0
        assert second.server.ledger.metrics.counted("decisions_kept") == 1

    story_of(story)


def test_what_is_gone_is_made_again_from_the_log_with_the_names_it_gives() -> None:
    async def story(watched: Any) -> None:
        store = MemoryStore()
        store.shared = False
        first = await watched(store, DecisionDatabase())
        deciding = await first.deciding()
        web = await deciding.workload("web")
        await deciding.place(web, (0, "n1"))
        before = await first.find(DecisionQuery(workload="web"))
        await deciding.end(web)
        await first.end()
        second = await watched(store, DecisionDatabase(), "s2")
        after = await second.find(DecisionQuery(workload="web"))
        assert (after.items, after.nodes) == (before.items, before.nodes)
        assert second.server.ledger.metrics.counted("decisions_begun_anew") == 1

    story_of(story)


def test_what_is_made_again_from_a_trimmed_log_says_since_when_it_is_whole() -> None:
    async def story(watched: Any) -> None:
        store = MemoryStore()
        store.shared = False
        keeping = SnapshotPolicy(retention_ms=60_000)
        first = await watched(store, DecisionDatabase(), policy=keeping)
        deciding = await first.deciding()
        web = await deciding.workload("web")
        await deciding.place(web, (0, "n1"))
        await first.server.clock.sleep(3_600_000)
        assert await first.trims() > 0
        since = first.state.info.at
        await deciding.node("n4")  # the agents of the others have been silent for too long
        await deciding.place(web, (1, "n4"))
        await first.end()
        second = await watched(store, DecisionDatabase(), "s2", policy=keeping)
        page = await second.find()
        assert [[ordinal for _, ordinal, _ in one.placements] for one in page.items] == [[1]]
        assert page.items[0].decided.tenant == "shop"  # the state still knows it
        assert since - 10_000 < page.position.since <= since

    story_of(story)


def test_what_was_kept_of_another_log_is_dropped() -> None:
    async def story(watched: Any) -> None:
        kept = DecisionDatabase()
        await kept.begin(IndexPosition("log-other", 3))
        region = await watched(MemoryStore(), kept)
        deciding = await region.deciding()
        await deciding.place(await deciding.workload("web"), (0, "n1"))
        page = await region.find()
        assert (page.position.log_id, len(page.items)) == ("log-eu", 1)

    story_of(story)


def test_what_was_kept_of_batches_that_this_log_does_not_have_is_dropped() -> None:
    async def story(watched: Any) -> None:
        kept = DecisionDatabase()
        await kept.begin(IndexPosition("log-eu", 1, b"another digest"))
        region = await watched(MemoryStore(), kept)
        deciding = await region.deciding()
        await deciding.place(await deciding.workload("web"), (0, "n1"))
        await region.find()
        assert region.server.ledger.metrics.counted("decisions_begun_anew") == 1

    story_of(story)


def test_a_server_that_follows_keeps_decisions_too() -> None:
    async def story(watched: Any) -> None:
        store = MemoryStore()
        leader = await watched(store, DecisionDatabase())
        follower = await watched(store, DecisionDatabase(), "s2", leads=False)
        deciding = await leader.deciding()
        await deciding.place(await deciding.workload("web"), (0, "n1"))
        await until(lambda: follower.state.info.seq == leader.state.info.seq, leader.server.clock)
        assert await follower.outcomes(workload="web") == ["placed"]

    story_of(story)


def test_decisions_go_when_their_time_is_over() -> None:
    async def story(watched: Any) -> None:
        region = await watched(MemoryStore(), DecisionDatabase(), lasting=IndexRetention(retention_ms=3_600_000))
        deciding = await region.deciding()
        web = await deciding.workload("web")
        await deciding.place(web, (0, "n1"))
        await region.server.clock.sleep(7_200_000)
        await deciding.node("n4")
        await deciding.place(web, (1, "n4"))
        await region.server.clock.sleep(TIDY_EVERY_MS * 2)
        page = await region.find()
        assert [[ordinal for _, ordinal, _ in one.placements] for one in page.items] == [[1]]

    story_of(story)


def test_where_nothing_can_be_kept_that_is_told_and_tried_again() -> None:
    class Full(DecisionDatabase):
        is_full = True

        async def add(self, reading: DecisionBatch, position: IndexPosition) -> None:
            if self.is_full:
                raise StoreError("the disk is full")
            await super().add(reading, position)

    async def story(watched: Any) -> None:
        kept = Full()
        region = await watched(MemoryStore(), kept)
        deciding = await region.deciding()
        await deciding.place(await deciding.workload("web"), (0, "n1"))
        with pytest.raises(NotReached, match="the disk is full"):
            await region.find()
        kept.is_full = False
        await region.server.clock.sleep(AFTER_FAILURE_MS * 2)
        assert await region.outcomes() == ["placed"]
        assert region.decisions.last_error == ""

    story_of(story)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.parametrize("kind", ["garbage", "empty", "foreign", "newer"])
def test_a_file_that_is_no_database_of_ours_is_put_aside_and_begun_anew(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"
    if kind == "garbage":
        path.write_bytes(b"not a database" * 1_000)
    elif kind == "empty":
        path.write_bytes(b"")
    else:
        connection = apsw.Connection(str(path))
        connection.execute("CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
        if kind == "newer":
            connection.execute("PRAGMA application_id=1212957764; PRAGMA user_version=99")
        connection.close()

    async def work() -> None:
        kept = DecisionDatabase(path)
        assert await kept.position() == IndexPosition()
        await kept.add(DecisionBatch(), IndexPosition("log", 3, b"d", 1))
        await kept.close()
        again = DecisionDatabase(path)
        assert (await again.position()).seq == 3
        await again.close()

    run(work())
    assert path.with_name("decisions.db.aside").exists() == (kind != "empty")


def test_a_file_that_is_damaged_while_it_is_in_use_is_put_aside_and_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "decisions.db"

    async def work() -> None:
        kept = DecisionDatabase(path)
        await kept.add(DecisionBatch(), IndexPosition("log", 3, b"d", 1))
        await kept.close()
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(8192)
            file.write(b"\xff" * (size - 8192))
        again = DecisionDatabase(path)
        assert await again.position() == IndexPosition()
        await again.close()

    run(work())
    assert path.with_name("decisions.db.aside").exists()
