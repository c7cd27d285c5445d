"""What every store promises of its log: the head, appending, reading, waiting, trimming."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.host.ports.store import (
    ANNOUNCEMENT_BYTES,
    ANNOUNCEMENTS,
    Head,
    LogTrimmed,
    StoreError,
    WriteConflict,
    WriteFull,
    WriteOk,
)
from tests.support.event_loop import in_a_loop
from tests.support.hosts.stores import LOG, MIB, Opening, a_batch, conflicting, fill, grow, head_at, written


@in_a_loop
async def test_an_empty_store_has_no_log_id_and_no_batches(opening: Opening) -> None:
    async with opening() as store:
        assert await store.head() == Head()
        assert await store.read(1) == []


@in_a_loop
async def test_the_first_batch_gives_the_store_its_log_id(opening: Opening) -> None:
    async with opening() as store:
        batch = a_batch(Head(), log_id="log-of-its-own")
        assert await store.append(Head(), batch) == WriteOk(head_at(batch))
        assert (await store.head()).log_id == "log-of-its-own"


@in_a_loop
async def test_a_batch_after_the_head_moves_the_head(opening: Opening) -> None:
    async with opening() as store:
        first, second = await grow(store, 2)
        assert await store.head() == head_at(second)
        assert await store.read(1) == [first, second]


@in_a_loop
async def test_a_first_batch_is_refused_when_there_is_a_log(opening: Opening) -> None:
    async with opening() as store:
        (first,) = await grow(store, 1)
        assert conflicting(await store.append(Head(), a_batch(Head(), "late", log_id="log-b"))) == head_at(first)
        assert await store.read(1) == [first]


@in_a_loop
async def test_a_batch_beside_another_is_refused_and_the_head_is_told(opening: Opening) -> None:
    async with opening() as store:
        first, second = await grow(store, 2)
        assert conflicting(await store.append(head_at(first), a_batch(head_at(first), "beside"))) == head_at(second)
        assert await store.read(1) == [first, second]


@in_a_loop
async def test_a_batch_past_a_gap_is_refused(opening: Opening) -> None:
    async with opening() as store:
        (first,) = await grow(store, 1)
        never_written = head_at(a_batch(head_at(first)))
        assert conflicting(await store.append(never_written, a_batch(never_written))) == head_at(first)
        assert await store.read(1) == [first]


@in_a_loop
async def test_a_batch_with_another_past_is_refused_although_its_place_is_free(opening: Opening) -> None:
    async with opening() as store:
        (first,) = await grow(store, 1)
        other_past = head_at(a_batch(Head(), "another past"))
        assert conflicting(await store.append(other_past, a_batch(other_past))) == head_at(first)


@in_a_loop
async def test_a_batch_of_another_log_is_refused(opening: Opening) -> None:
    async with opening() as store:
        (first,) = await grow(store, 1)
        elsewhere = Head("log-b", first.seq, first.digest)
        assert conflicting(await store.append(elsewhere, a_batch(elsewhere))) == head_at(first)


@in_a_loop
async def test_the_same_bytes_twice_conflict_with_their_own_digest(opening: Opening) -> None:
    async with opening() as store:
        batch = a_batch(Head())
        assert isinstance(await store.append(Head(), batch), WriteOk)
        again = conflicting(await store.append(Head(), batch))
        assert (again.seq, again.digest) == (batch.seq, batch.digest)
        assert await store.read(1) == [batch]


@in_a_loop
async def test_of_many_appends_after_the_same_head_one_is_written(opening: Opening) -> None:
    async with opening() as store:
        batches = [a_batch(Head(), f"writer {number}") for number in range(8)]
        outcomes = await asyncio.gather(*(store.append(Head(), batch) for batch in batches))
        winners = [batch for batch, outcome in zip(batches, outcomes, strict=True) if isinstance(outcome, WriteOk)]
        assert await store.read(1) == winners
        assert [outcome for outcome in outcomes if not isinstance(outcome, WriteOk)] == [
            WriteConflict(head_at(winners[0]))
        ] * 7


def test_a_batch_that_cannot_follow_what_it_names_is_our_own_mistake(opening: Opening) -> None:
    @in_a_loop
    async def mistaken(after: Head, batch_after: Head) -> None:
        async with opening() as store:
            await store.append(after, a_batch(batch_after))

    for after, batch_after in ((Head(), Head(LOG, 3, b"d")), (Head(LOG, 3, b"d"), Head("log-b", 3, b"d"))):
        with pytest.raises(AssertionError):
            mistaken(after, batch_after)


@in_a_loop
async def test_an_append_that_is_cancelled_still_lands_and_the_next_one_waits_its_turn(opening: Opening) -> None:
    async with opening() as store:
        first = a_batch(Head(), size_bytes=MIB)
        appending = asyncio.create_task(store.append(Head(), first))
        await asyncio.sleep(0)
        appending.cancel()
        second = a_batch(head_at(first))
        assert await store.append(head_at(first), second) == WriteOk(head_at(second))
        assert appending.cancelled()
        assert await store.read(1, 2 * MIB) == [first, second]


@in_a_loop
async def test_what_was_written_is_there_after_closing_and_opening(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 5)
        await store.trim(LOG, 2)
    async with opening() as store:
        assert await store.head() == head_at(batches[-1], floor=2)
        assert await store.read(3) == batches[2:]


@in_a_loop
async def test_closing_twice_does_nothing(opening: Opening) -> None:
    async with opening() as store:
        await store.close()


@in_a_loop
async def test_reading_stops_before_the_size_is_passed(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 5, size_bytes=1000)
        assert await store.read(1, 3000) == batches[:3]
        assert await store.read(2, 2999) == batches[1:3]


@in_a_loop
async def test_reading_gives_at_least_one_batch_however_large(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 2, size_bytes=5000)
        assert await store.read(1, 10) == batches[:1]


@in_a_loop
async def test_reading_past_the_head_gives_nothing(opening: Opening) -> None:
    async with opening() as store:
        await grow(store, 2)
        assert await store.read(3) == []
        assert await store.read(40) == []


@in_a_loop
async def test_what_is_read_is_what_was_written_byte_for_byte(opening: Opening) -> None:
    async with opening() as store:
        (batch,) = await grow(store, 1, "\x00\n\u00fc" + "x" * 300_000)
        (read,) = await store.read(1)
        assert read == batch
        assert type(read.raw) is bytes


@in_a_loop
async def test_reading_behind_the_floor_says_that_it_is_trimmed(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 5)
        await store.trim(LOG, 3)
        with pytest.raises(LogTrimmed, match=r"batch 3 is trimmed, the floor is 3\nhint: load the newest snapshot"):
            await store.read(3)
        assert await store.read(4) == batches[3:]


@in_a_loop
async def test_trimming_through_the_head_cell_keeps_the_place(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 5)
        assert written(await store.trim(LOG, 4)) == head_at(batches[-1], floor=4)
        assert await store.head() == head_at(batches[-1], floor=4)
        (sixth,) = await grow(store, 1)
        assert await store.head() == head_at(sixth, floor=4)


@in_a_loop
async def test_a_log_can_be_trimmed_up_to_its_head_and_goes_on(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 3)
        assert written(await store.trim(LOG, 3)) == head_at(batches[-1], floor=3)
        await store.reclaim()
    async with opening() as store:
        assert await store.read(4) == []
        more = await grow(store, 1)
        assert await store.read(4) == more


@pytest.mark.parametrize(
    ("log_id", "floor"), [(LOG, 2), (LOG, 6), ("log-b", 4)], ids=["backwards", "past the head", "another log"]
)
def test_a_floor_only_grows_up_to_the_head_of_its_own_log(opening: Opening, log_id: str, floor: int) -> None:
    @in_a_loop
    async def refused() -> None:
        async with opening() as store:
            batches = await grow(store, 5)
            await store.trim(LOG, 3)
            assert conflicting(await store.trim(log_id, floor)) == head_at(batches[-1], floor=3)
            assert await store.read(4) == batches[3:]

    refused()


@in_a_loop
async def test_trimming_again_to_the_same_floor_is_the_same_answer(opening: Opening) -> None:
    async with opening() as store:
        await grow(store, 5)
        assert await store.trim(LOG, 3) == await store.trim(LOG, 3)


@in_a_loop
async def test_a_touch_counts_a_sign_of_life_and_adds_no_batch(opening: Opening) -> None:
    async with opening() as store:
        (batch,) = await grow(store, 1)
        before = await store.head()
        after = written(await store.touch(before))
        assert after.touch == before.touch + 1
        assert after.same_place(before)
        assert await store.head() == after
        assert await store.read(1) == [batch]


@in_a_loop
async def test_a_touch_by_one_who_was_overtaken_is_refused(opening: Opening) -> None:
    async with opening() as store:
        first, second = await grow(store, 2)
        assert conflicting(await store.touch(head_at(first))) == head_at(second)
        assert (await store.head()).touch == 0


@in_a_loop
async def test_an_append_names_a_place_and_not_how_often_it_was_touched_or_trimmed(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 3)
        touched = written(await store.touch(head_at(batches[-1])))
        await store.trim(LOG, 1)
        head = written(await store.append(head_at(batches[-1]), a_batch(head_at(batches[-1]))))
        assert (head.floor, head.touch) == (1, touched.touch)


@in_a_loop
async def test_a_waiter_wakes_when_a_batch_is_appended(opening: Opening) -> None:
    async with opening() as store:
        waiting = asyncio.create_task(store.wait(Head(), 60_000))
        await asyncio.sleep(0.01)
        (batch,) = await grow(store, 1)
        assert await waiting == head_at(batch)


@in_a_loop
async def test_a_waiter_wakes_when_the_head_is_touched(opening: Opening) -> None:
    async with opening() as store:
        await grow(store, 1)
        seen = await store.head()
        waiting = [asyncio.create_task(store.wait(seen, 60_000)) for _ in range(3)]
        await asyncio.sleep(0.01)
        touched = written(await store.touch(seen))
        assert await asyncio.gather(*waiting) == [touched] * 3


@in_a_loop
async def test_a_waiter_who_has_not_seen_the_head_does_not_wait(opening: Opening) -> None:
    async with opening() as store:
        first, second = await grow(store, 2)
        assert await store.wait(head_at(first), 60_000) == head_at(second)


@in_a_loop
async def test_a_waiter_gets_the_head_as_it_is_after_the_timeout(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 3)
        await store.trim(LOG, 2)
        assert await store.wait(head_at(batches[-1]), 5) == head_at(batches[-1], floor=2)


@in_a_loop
async def test_a_full_store_writes_nothing_of_a_batch_and_works_again_once_there_is_room(opening: Opening) -> None:
    async with opening(limit_bytes=2 * MIB) as store:
        batch, outcome = await fill(store, size_bytes=256 << 10)
        assert isinstance(outcome, WriteFull), outcome
        head = await store.head()
        assert head.seq == batch.seq - 1
        assert isinstance(await store.append(head, batch), WriteFull)  # and again, without wearing anything out

        written(await store.trim(LOG, head.seq - 1))
        await store.reclaim()
        assert written(await store.append(head, batch)).seq == head.seq + 1
    async with opening(limit_bytes=2 * MIB) as store:
        assert (await store.read(head.seq + 1)) == [batch]


@in_a_loop
async def test_usage_grows_with_the_log_and_shrinks_when_trimmed_room_is_reclaimed(opening: Opening) -> None:
    async with opening() as store:
        empty = await store.usage()
        await grow(store, 8, size_bytes=256 << 10)
        grown = await store.usage()
        assert grown.used >= empty.used + 2 * MIB
        assert 0 <= empty.share() < grown.share() < 1
        await store.trim(LOG, 7)
        await store.reclaim()
        assert (await store.usage()).used <= empty.used + MIB


@in_a_loop
async def test_what_is_announced_is_there_by_name_until_it_is_taken_away(opening: Opening) -> None:
    async with opening() as store:
        assert await store.announced() == []
        await store.announce("s2", b"two")
        await store.announce("s1", b"one")
        await store.announce("s2", b"\xff\x00 again")
        assert await store.announced() == [("s1", b"one"), ("s2", b"\xff\x00 again")]
        await store.announce("s1", b"")
        await store.announce("nobody", b"")
        assert await store.announced() == [("s2", b"\xff\x00 again")]
        assert (await store.head()) == Head()


@in_a_loop
async def test_announcements_are_bounded_in_size_and_number_and_one_that_is_there_can_still_change(
    opening: Opening,
) -> None:
    async with opening() as store:
        with pytest.raises(StoreError):
            await store.announce("large", b"." * (ANNOUNCEMENT_BYTES + 1))
        for number in range(ANNOUNCEMENTS):
            await store.announce(f"s{number}", b".")
        with pytest.raises(StoreError):
            await store.announce("one-more", b".")
        await store.announce("s0", b"changed")
        await store.announce("s1", b"")
        await store.announce("one-more", b".")
        assert len(await store.announced()) == ANNOUNCEMENTS
