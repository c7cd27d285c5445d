"""Where a stream goes on: the place that a reader has come to is found in the log, or it is said what became of it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.revision import RevisionToken
from holdfast.host.errors import Diverged, Gone, NotLeading, NotReached
from holdfast.host.ports.store import StoredBatch, StoreError
from holdfast.host.storage import durable_state
from holdfast.host.streams.resume import proven_leader, resume_point
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.hosts.mirror_world import a_region, want


def told(story: Callable[[Part, list[RevisionToken]], Coroutine[None, None, None]]) -> None:
    """A story of a region, and of every place that its log was at lately."""

    async def main(world: World) -> None:
        region = await a_region(world)
        places = []
        for number in range(10, 16):
            await want(region, range(number, number + 1))
            places.append(region.ledger.durable.token())
        await story(region, places)

    in_world(main)


@pytest.fixture
def remembered(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(durable_state, "DIGESTS_KEPT", 1)


#: Whether what was is remembered, or has to be read from the store.
EITHER = pytest.mark.parametrize("remembered", [True, False], indirect=True)


@EITHER
def test_a_place_is_told_as_the_log_has_it_however_little_the_reader_names(remembered: None) -> None:
    async def story(region: Part, tokens: list[RevisionToken]) -> None:
        for place in tokens:
            assert await resume_point(region.ledger, place) == place
            assert await resume_point(region.ledger, RevisionToken(place.log_id, 0, place.seq, b"")) == place

    told(story)


@EITHER
def test_what_is_not_in_this_log_is_not_gone_on_from(remembered: None) -> None:
    async def story(region: Part, tokens: list[RevisionToken]) -> None:
        head = tokens[-1]
        others = replace(tokens[2], digest_start=b"\0" * 8), replace(head, log_id="log-us"), replace(head, seq=999)
        for other in others:
            with pytest.raises(Diverged):
                await resume_point(region.ledger, other)

    told(story)


@EITHER
def test_a_place_behind_which_the_log_is_trimmed_is_gone(remembered: None) -> None:
    async def story(region: Part, tokens: list[RevisionToken]) -> None:
        floor = tokens[3].seq
        await region.ledger.store.trim(tokens[0].log_id, floor)
        with pytest.raises(Gone):
            await resume_point(region.ledger, tokens[2])
        assert await resume_point(region.ledger, tokens[4]) == tokens[4]

    told(story)


@EITHER
def test_where_the_store_does_not_say_nothing_is_told(remembered: None) -> None:
    async def story(region: Part, tokens: list[RevisionToken]) -> None:
        async def fails(*_: object) -> list[StoredBatch]:
            raise StoreError("the disk is away")

        region.ledger.store.read = region.ledger.store.head = fails  # type: ignore[method-assign, assignment]
        with pytest.raises(NotReached, match="the disk is away"):
            await resume_point(region.ledger, tokens[2])

    told(story)


def test_only_who_leads_sends() -> None:
    async def story(region: Part, tokens: list[RevisionToken]) -> None:
        assert proven_leader(region.ledger) is region.ledger.leader
        await region.stop()
        with pytest.raises(NotLeading):
            proven_leader(region.ledger)

    told(story)
