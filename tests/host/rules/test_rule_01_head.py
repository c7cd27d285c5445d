"""RULES 1: the condition is on the head, not on a key.

Otherwise a leader that slept inserts a batch at a place that was written and trimmed meanwhile: absent, so accepted,
acknowledged, and in no state.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.host.ports.store import Head, WriteConflict
from tests.support.event_loop import in_a_loop
from tests.support.hosts.stores import LOG, Opening, a_batch, grow, head_at, memory_opening, sqlite_opening, written


@pytest.fixture(params=["memory", "sqlite"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    return memory_opening() if request.param == "memory" else sqlite_opening(tmp_path / "store")


@in_a_loop
async def test_a_leader_that_slept_while_its_place_was_written_and_trimmed_is_refused(opening: Opening) -> None:
    async with opening() as store:
        *_, fourth = await grow(store, 4)
        of_the_sleeper = a_batch(head_at(fourth), "decided before it fell asleep")
        later = await grow(store, 100, "of the next leader")
        written(await store.trim(LOG, 90))
        await store.reclaim()

        answer = await store.append(head_at(fourth), of_the_sleeper)

        assert answer == WriteConflict(head_at(later[-1], floor=90))
        assert await store.read(91) == later[86:]


@in_a_loop
async def test_a_leader_that_slept_while_everything_was_trimmed_is_refused(opening: Opening) -> None:
    async with opening() as store:
        *_, fourth = await grow(store, 4)
        later = await grow(store, 3, "of the next leader")
        written(await store.trim(LOG, 7))
        await store.reclaim()
        answer = await store.append(head_at(fourth), a_batch(head_at(fourth), "of the sleeper"))
        assert answer == WriteConflict(head_at(later[-1], floor=7))


@in_a_loop
async def test_a_batch_past_a_gap_is_refused_although_nobody_wrote_there(opening: Opening) -> None:
    async with opening() as store:
        (first,) = await grow(store, 1)
        lost = a_batch(head_at(first), "never written")
        assert await store.append(head_at(lost), a_batch(head_at(lost))) == WriteConflict(head_at(first))
        assert await store.read(1) == [first]


@in_a_loop
async def test_a_batch_that_names_another_past_is_refused_although_the_number_fits(opening: Opening) -> None:
    async with opening() as store:
        (first,) = await grow(store, 1)
        beside = head_at(a_batch(Head(), "what another server took for the first batch"))
        assert await store.append(beside, a_batch(beside)) == WriteConflict(head_at(first))


@in_a_loop
async def test_trimming_goes_through_the_head_cell_and_never_passes_the_head(opening: Opening) -> None:
    async with opening() as store:
        batches = await grow(store, 3)
        head = head_at(batches[-1])
        assert await store.trim(LOG, 4) == WriteConflict(head)
        assert await store.trim("the log before a restore", 2) == WriteConflict(head)
        assert written(await store.trim(LOG, 2)).floor == 2
        assert await store.trim(LOG, 1) == WriteConflict(head_at(batches[-1], floor=2))
