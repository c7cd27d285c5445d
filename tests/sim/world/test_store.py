"""The simulated store keeps the port's promises in any weather, and does what it was told to do wrong."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from holdfast.core.ledger.commit.draft import Committed
from holdfast.host.errors import Unavailable
from holdfast.host.ports.store import (
    Head,
    Store,
    StoreCorrupt,
    StoreError,
    WriteConflict,
    WriteFull,
    WriteOk,
    WriteOutcome,
    WriteUnknown,
)
from holdfast.sim.world.disk import SimDisk
from holdfast.sim.world.machine import Incarnation, SimClock, SimMachine, track_incarnations
from holdfast.sim.world.store import SimStore
from holdfast.sim.world.store_service import StoreConditions
from holdfast.sim.world.virtual_loop import SimulationStalled, VirtualLoop, run_virtual
from tests.support.hosts.ledger_world import World, in_world, keys_in
from tests.support.hosts.stores import LOG, MIB, a_batch, conflicting, grow, head_at, written

#: A bit of everything, often.
FOUL = StoreConditions(
    latency_ms=(0, 40),
    lose_request=0.1,
    lose_answer=0.1,
    land_late=0.1,
    late_ms=(50, 900),
    unheard_ms=(0, 500),
    full=0.1,
)


def on_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def call(*args: Any, **kwargs: Any) -> None:
        run_virtual(test(*args, **kwargs))

    return call


def a_store(weather: StoreConditions | None = None, seed: int = 1) -> SimStore:
    return SimStore(SimDisk("etcd"), Random(seed), weather or StoreConditions())


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


def unknown(outcome: WriteOutcome) -> str:
    assert isinstance(outcome, WriteUnknown), outcome
    return outcome.why


# Weather


@on_virtual_time
async def test_several_servers_reach_one_log() -> None:
    store = a_store()
    one, other = store.door("one"), store.door("other")
    waiting = asyncio.create_task(other.wait(Head(), 60_000))
    await asyncio.sleep(0)
    (batch,) = await grow(one, 1)
    assert await waiting == head_at(batch)
    assert conflicting(await other.append(Head(), a_batch(Head(), "late"))) == head_at(batch)


@on_virtual_time
async def test_a_call_takes_its_latency_there_and_back() -> None:
    door = a_store(StoreConditions(latency_ms=(20, 20))).door("one")
    written(await door.append(Head(), a_batch(Head())))
    assert now_ms() == 40


@on_virtual_time
async def test_one_host_can_be_slowed_alone() -> None:
    store = a_store()
    slow, quick = store.door("slow"), store.door("quick")
    store.set_weather(StoreConditions(latency_ms=(500, 500)), "slow")
    await quick.head()
    assert now_ms() == 0
    await slow.head()
    assert now_ms() == 1000


@on_virtual_time
async def test_an_append_whose_answer_is_lost_is_unknown_and_has_landed() -> None:
    store = a_store(StoreConditions(lose_answer=1, unheard_ms=(300, 300)))
    batch = a_batch(Head())
    assert "one cannot reach etcd: no answer within 300 ms" in unknown(await store.door("one").append(Head(), batch))
    store.set_weather(StoreConditions())
    assert conflicting(await store.door("one").append(Head(), batch)) == head_at(batch)
    assert store.happened["append_unknown"] == store.happened["landed_unheard"] == 1


@on_virtual_time
async def test_an_append_whose_request_is_lost_is_unknown_and_never_lands() -> None:
    store = a_store(StoreConditions(lose_request=1))
    unknown(await store.door("one").append(Head(), a_batch(Head())))
    store.set_weather(StoreConditions())
    await asyncio.sleep(60)
    assert await store.door("one").head() == Head()


@on_virtual_time
async def test_an_append_can_land_after_its_writer_looked_and_saw_nothing() -> None:
    store = a_store(StoreConditions(land_late=1, late_ms=(300, 300), unheard_ms=(0, 0)))
    door = store.door("one")
    batch = a_batch(Head())
    unknown(await door.append(Head(), batch))
    assert await door.head() == Head()
    await asyncio.sleep(0.301)
    assert await door.head() == head_at(batch)
    assert store.happened["landed_late"] == 1


@on_virtual_time
async def test_a_late_append_that_was_overtaken_changes_nothing() -> None:
    store = a_store()
    sleeper, other = store.door("sleeper"), store.door("other")
    store.set_weather(StoreConditions(land_late=1), "sleeper")
    unknown(await sleeper.append(Head(), a_batch(Head(), "late")))
    batches = await grow(other, 2)
    written(await other.trim(LOG, 1))
    await asyncio.sleep(3)
    assert await other.head() == head_at(batches[-1], floor=1)
    assert store.happened["came_too_late"] == 1


@on_virtual_time
async def test_a_store_that_says_full_has_written_nothing() -> None:
    store = a_store(StoreConditions(full=1))
    door = store.door("one")
    assert isinstance(await door.append(Head(), a_batch(Head())), WriteFull)
    with pytest.raises(StoreError, match="no room for chunk c"):
        await door.put_chunk(1, "c", b"raw")
    await asyncio.sleep(60)
    assert (await door.head(), await door.unfinished()) == (Head(), [])
    assert store.happened["full"] == 2


@on_virtual_time
async def test_a_call_without_an_outcome_fails_when_it_is_not_heard() -> None:
    store = a_store(StoreConditions(lose_answer=1))
    door = store.door("one")
    for call in (door.head(), door.read(1), door.usage(), door.put_chunk(1, "c", b"raw"), door.put_manifest(1, b"m")):
        with pytest.raises(StoreError, match="hint: try again"):
            await call
    store.set_weather(StoreConditions())
    assert await door.manifests() == [(1, b"m")]


@on_virtual_time
async def test_a_write_that_was_sent_lands_although_its_caller_is_cancelled() -> None:
    door = a_store(StoreConditions(latency_ms=(50, 50))).door("one")
    batch = a_batch(Head())
    appending = asyncio.create_task(door.append(Head(), batch))
    await asyncio.sleep(0.01)
    appending.cancel()
    assert await door.head() == head_at(batch)
    assert appending.cancelled()


# Cuts and hangs


@on_virtual_time
async def test_a_host_that_is_cut_off_gets_nothing_done_and_the_others_do() -> None:
    store = a_store()
    cut, other = store.door("cut"), store.door("other")
    store.cut("cut")
    assert "cut cannot reach etcd: it is cut off" in unknown(await cut.append(Head(), a_batch(Head())))
    with pytest.raises(StoreError, match="cut off"):
        await cut.head()
    (batch,) = await grow(other, 1)
    store.heal("cut")
    assert await cut.head() == head_at(batch)


@on_virtual_time
async def test_a_cut_takes_the_answers_that_are_on_their_way() -> None:
    store = a_store(StoreConditions(latency_ms=(100, 100)))
    door = store.door("one")
    batch = a_batch(Head())
    appending = asyncio.create_task(door.append(Head(), batch))
    await asyncio.sleep(0.150)
    store.cut("one")
    unknown(await appending)
    store.heal("one")
    assert await door.head() == head_at(batch)


@on_virtual_time
async def test_a_refusal_of_the_disk_takes_the_way_back_too() -> None:
    store = a_store(StoreConditions(latency_ms=(100, 100)))
    door = store.door("one")
    with pytest.raises(StoreCorrupt, match="chunk gone of snapshot 1"):
        await door.get_chunk(1, "gone")
    assert now_ms() == 200


@on_virtual_time
async def test_nothing_is_answered_while_it_hangs_and_each_ends_one_way_or_the_other_when_it_heals() -> None:
    ends = set()
    for seed in range(20):
        store = a_store(seed=seed)
        door = store.door("one")
        store.hang("one")
        appending = asyncio.create_task(door.append(Head(), a_batch(Head())))
        await asyncio.sleep(3600)
        assert not appending.done()
        store.heal("one")
        outcome = await appending
        ends.add(type(outcome))
        assert (await door.head()).seq == isinstance(outcome, WriteOk)
    assert ends == {WriteOk, WriteUnknown}


# Dead doors


def test_a_dead_door_never_answers() -> None:
    async def ask_the_dead() -> None:
        store = a_store()
        door = store.door("one")
        store.crash("one")
        await door.head()

    with pytest.raises(SimulationStalled):
        run_virtual(ask_the_dead())


@on_virtual_time
async def test_what_a_dead_process_sent_may_land_and_neither_answer_nor_error_reaches_it() -> None:
    store = a_store(StoreConditions(latency_ms=(100, 100)))
    old = store.door("one")
    batch = a_batch(Head())
    calls = [asyncio.create_task(call) for call in (old.append(Head(), batch), old.head(), old.get_chunk(1, "gone"))]
    await asyncio.sleep(0.050)
    new = store.door("one")
    assert await new.wait(Head(), 60_000) == head_at(batch)
    store.cut("one")
    await asyncio.sleep(3600)
    assert not any(call.done() for call in calls)
    assert store.happened["landed_after_death"] == store.happened["deaths"] == 1


def test_a_crash_of_the_machine_does_not_call_back_what_it_sent() -> None:
    loop = VirtualLoop()
    store = a_store(StoreConditions(latency_ms=(100, 100)))
    batch = a_batch(Head())

    async def program(incarnation: Incarnation) -> None:
        door = store.door("one")
        incarnation.on_death(door.die)
        await door.append(Head(), batch)

    async def story() -> None:
        track_incarnations(loop)
        machine = SimMachine(loop, "one", SimClock(loop), program)
        machine.start()
        await asyncio.sleep(0.050)
        await machine.crash()
        await asyncio.sleep(0.100)
        assert await store.door("other").head() == head_at(batch)

    run_virtual(story(), loop)


# The disk


@on_virtual_time
async def test_a_store_goes_five_batches_short_with_the_past_it_had() -> None:
    store = a_store()
    door = store.door("one")
    batches = await grow(door, 8)
    await door.put_chunk(2, "c", b"early")
    await door.put_manifest(2, b"m")
    await door.put_chunk(6, "c", b"late")
    await door.put_manifest(6, b"m")
    before = (await door.usage()).used
    waiting = asyncio.create_task(store.door("other").wait(await door.head(), 60_000))
    await asyncio.sleep(0)

    assert store.go_backwards(5) == 5
    assert await door.head() == head_at(batches[2])
    assert await door.read(1) == batches[:3]
    assert await door.manifests() == [(2, b"m")]
    assert (await door.usage()).used == before - len(b"late" + b"m") - sum(len(batch.raw) for batch in batches[3:])
    assert isinstance(await door.append(head_at(batches[-1]), a_batch(head_at(batches[-1]))), WriteConflict)
    assert (await grow(door, 1, "another future"))[0].seq == 4
    with pytest.raises(StoreError, match="started anew"):
        await waiting


@on_virtual_time
async def test_a_store_goes_back_no_further_than_what_it_still_has() -> None:
    store = a_store()
    door = store.door("one")
    batches = await grow(door, 4)
    written(await door.trim(LOG, 2))
    assert store.go_backwards(5) == 2
    assert await door.head() == head_at(batches[1], floor=2)
    assert await door.read(3) == []
    await grow(door, 1)


@on_virtual_time
async def test_a_power_cut_loses_or_tears_what_no_manifest_made_durable_and_nothing_else() -> None:
    raw, seen = bytes(range(100)), set()
    for seed in range(30):
        store = a_store(seed=seed)
        door = store.door("one")
        batches = await grow(door, 3)
        await door.put_chunk(2, "c", raw)
        await door.put_manifest(2, b"m")
        await door.put_chunk(2, "c", b"put again after the manifest")
        await door.put_chunk(3, "c", raw)
        store.power_cut()
        assert (await door.read(1), await door.manifests()) == (batches, [(2, b"m")])
        assert await door.get_chunk(2, "c") in (raw, b"put again after the manifest")
        try:
            left = await door.get_chunk(3, "c")
        except StoreCorrupt:
            assert await door.unfinished() == []
            seen.add("lost")
        else:
            assert raw.startswith(left)
            seen.add("stays" if left == raw else "torn")
        await door.drop_snapshot(2)
        await door.drop_snapshot(3)
        assert (await door.usage()).used == sum(len(batch.raw) for batch in batches)
    assert seen == {"stays", "torn", "lost"}


@on_virtual_time
async def test_a_power_cut_leaves_what_was_under_way_unknown() -> None:
    store = a_store(StoreConditions(latency_ms=(100, 100)))
    door = store.door("one")
    appending = asyncio.create_task(door.append(Head(), a_batch(Head())))
    await asyncio.sleep(0.050)
    store.power_cut()
    assert "started anew" in unknown(await appending)
    assert await door.head() == Head()


@on_virtual_time
async def test_a_late_append_does_not_outlive_the_service_that_held_it() -> None:
    store = a_store(StoreConditions(land_late=1))
    door = store.door("one")
    unknown(await door.append(Head(), a_batch(Head())))
    store.power_cut()
    await asyncio.sleep(3)
    assert await door.head() == Head()


@on_virtual_time
async def test_a_power_cut_finds_nothing_of_chunks_that_were_refused_dropped_or_taken_back() -> None:
    store = a_store()
    door = store.door("one")
    await grow(door, 3)
    await door.put_chunk(1, "dropped", b"raw")
    await door.drop_snapshot(1)
    await door.put_chunk(3, "taken back", b"raw")
    store.go_backwards(1)
    store.fill()
    with pytest.raises(StoreError, match="no room"):
        await door.put_chunk(2, "refused", b"raw")
    store.power_cut()
    assert not {"chunks_lost", "chunks_torn"} & store.happened.keys()
    assert await door.unfinished() == []


@on_virtual_time
async def test_a_full_disk_refuses_until_there_is_room_and_trimming_makes_some() -> None:
    store = a_store()
    door = store.door("one")
    batches = await grow(door, 3, size_bytes=MIB)
    store.fill()
    head = head_at(batches[-1])
    assert isinstance(await door.append(head, a_batch(head)), WriteFull)
    assert (await door.usage()).share() == 1
    written(await door.trim(LOG, 1))
    head = written(await door.append(head, a_batch(head)))
    store.fill()
    assert isinstance(await door.append(head, a_batch(head)), WriteFull)
    store.empty()
    written(await door.append(head, a_batch(head)))
    assert (await door.usage()).share() < 0.1


# The whole


async def settle(door: Store, after: Head, text: str) -> WriteOutcome:
    """As a leader does: the same bytes at the same place until the store answers plainly (RULES 2)."""
    batch, open_before = a_batch(after, text), False
    while True:
        outcome = await door.append(after, batch)
        if isinstance(outcome, WriteConflict) and outcome.head.same_place(head_at(batch)):
            return WriteOk(outcome.head)
        if isinstance(outcome, WriteOk | WriteConflict):
            return outcome
        if isinstance(outcome, WriteFull) and not open_before:
            return outcome
        open_before = True
        await asyncio.sleep(0.02)


def a_foul_day(seed: int) -> tuple[list[str], list[bytes], list[bytes], dict[str, int]]:
    """Two servers write in turns and at once: the trace, what was acknowledged, what is there, and what happened."""
    store, trace, acknowledged = a_store(FOUL, seed), list[str](), list[bytes]()

    async def server(host: str) -> None:
        door = store.door(host)
        for number in range(25):
            try:
                head = await door.head()
            except StoreError as error:
                trace.append(f"{now_ms()} {host} {error}")
                continue
            outcome = await settle(door, head, f"{host} {number}")
            trace.append(f"{now_ms()} {host} {type(outcome).__name__} {head.seq}")
            if isinstance(outcome, WriteOk):
                acknowledged.append(outcome.head.digest)

    async def day() -> list[bytes]:
        await asyncio.gather(server("one"), server("other"))
        store.set_weather(StoreConditions())
        return [batch.digest for batch in await store.door("reader").read(1)]

    there = run_virtual(day())
    return trace, acknowledged, there, store.happened


@pytest.mark.parametrize("seed", range(20))
def test_in_any_weather_what_is_acknowledged_is_in_the_log(seed: int) -> None:
    _, acknowledged, there, _ = a_foul_day(seed)
    assert acknowledged
    assert set(acknowledged) <= set(there)
    assert len(set(acknowledged)) == len(acknowledged)


def test_the_same_seed_is_the_same_day_and_another_seed_is_another() -> None:
    assert a_foul_day(7) == a_foul_day(7)
    assert a_foul_day(7)[0] != a_foul_day(8)[0]


def test_a_few_foul_days_have_seen_every_fault_of_the_weather() -> None:
    seen = set[str]().union(*(a_foul_day(seed)[3] for seed in range(5)))
    assert seen >= {
        "answers_lost", "append_unknown", "came_too_late", "full", "landed_late", "landed_unheard", "requests_lost"
    }  # fmt: skip


def test_what_one_server_does_never_changes_what_another_one_meets() -> None:
    async def meets(busy: int) -> list[int]:
        store, times = a_store(StoreConditions(latency_ms=(1, 1000))), []
        other = store.door("other")
        for _ in range(busy):
            await other.head()
        door = store.door("one")
        for _ in range(5):
            began = now_ms()
            await door.head()
            times.append(now_ms() - began)
        return times

    assert run_virtual(meets(0)) == run_virtual(meets(9))


@pytest.mark.parametrize("seed", range(4))
def test_ledgers_on_a_foul_store_keep_what_they_acknowledged(seed: int) -> None:
    store = a_store(seed=seed)

    async def story(world: World) -> None:
        servers = [world.server(store.door(name), name).start() for name in ("s1", "s2")]
        store.set_weather(FOUL)
        landed = 0
        for number in range(40):
            for server in servers:
                try:
                    landed += isinstance(await server.override(f"{server.name}-{number}"), Committed)
                except Unavailable:
                    await server.clock.sleep(200)
        store.set_weather(StoreConditions())
        assert landed > 10
        there = await keys_in(store.door("reader"))
        assert len(there) == len(set(there)) >= landed

    in_world(story)
    assert store.happened["append_unknown"] > 5
