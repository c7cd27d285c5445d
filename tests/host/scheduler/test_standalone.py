"""A scheduler in a process of its own: it binds, survives what is lost on the way, and yields its name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.model.objects.policies import EVERYWHERE, PolicyDocument, PolicyStage, SchedulerPolicy, Validity
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.host.ports.transport import NoAnswer
from holdfast.host.protocol.log_stream import LogBatch, read_message
from holdfast.host.protocol.session_client import Superseded
from holdfast.host.storage import digests
from holdfast.sim.world.virtual_loop import VirtualClock
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.hosts.mirror_world import (
    LINK,
    MirrorWorld,
    a_node,
    a_region,
    bound,
    keep_nodes,
    placed_in_log,
    replaced_by_one_whose_time_is_lower,
    want,
)

#: How far the first leader's clock is ahead.
AHEAD_MS = 100_000

Story = Callable[[World, Part, MirrorWorld], Coroutine[Any, Any, None]]


def told(story: Story) -> None:
    """A story of a region with two nodes and four slots that wait, and of a scheduler apart from it."""

    async def main(world: World) -> None:
        region = await a_region(world)
        nodes = asyncio.create_task(keep_nodes(world, region))
        far = MirrorWorld(world, "far", (region.name,)).schedule()
        try:
            await story(world, region, far)
        finally:
            nodes.cancel()
            await far.end()

    in_world(main)


def session_of(region: Part) -> int:
    found: int = region.state.session_of.get("scheduler/far") or 0
    return found


async def all_bound(world: World, region: Part, count: int) -> None:
    await world.until(lambda: bound(region) == list(range(count)))
    assert sorted(await placed_in_log(region)) == list(range(count)), "each was placed once"


def deaf(message: bytes) -> list[bytes]:
    raise NoAnswer("nothing of the log comes through")


def until_batch(last: int) -> Callable[[bytes], list[bytes]]:
    """The log comes through up to this batch."""

    def fate(message: bytes) -> list[bytes]:
        found = read_message(message)
        return [message] if isinstance(found, LogBatch) and REGION.batches.header(found.raw).seq <= last else []

    return fate


def refused(far: MirrorWorld) -> int:
    """How much of what it proposed was refused."""
    return sum(count for (name, _), count in far.metrics.counts.items() if name == "scheduler_refused")


def test_it_binds_what_waits_and_what_comes_later() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        await want(region, range(4, 40))
        await all_bound(world, region, 40)
        slot = region.state.slots[1, 39]
        assert slot.by == "scheduler/far"
        assert refused(far) == 0

    told(story)


def test_answers_that_are_lost_bind_nothing_twice() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        far.line.loses_answers = True
        await want(region, range(4, 12))
        await world.until(lambda: len(bound(region)) == 12)
        await world.clock.sleep(1_000)
        far.line.loses_answers = False
        await want(region, range(12, 20))
        await all_bound(world, region, 20)

    told(story)


def test_a_session_that_was_lost_in_silence_is_followed_by_another() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        first = session_of(region)
        far.line.is_cut = True
        await want(region, range(4, 12))
        await world.until(lambda: session_of(region) == 0)
        far.line.is_cut = False
        await all_bound(world, region, 12)
        assert session_of(region) > first
        assert far.task is not None
        assert not far.task.done()

    told(story)


def test_of_two_with_one_name_the_later_one_schedules_and_the_earlier_one_stops() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        second = MirrorWorld(world, "far", (region.name,), host="second").schedule()
        assert far.task is not None
        with pytest.raises(Superseded, match="scheduler/far has another session"):
            await far.task
        theirs = session_of(region)
        await want(region, range(4, 12))
        await all_bound(world, region, 12)
        await world.clock.sleep(30_000)
        assert session_of(region) == theirs, "nobody took the name back"
        await second.end()

    told(story)


def test_one_that_is_told_so_by_a_proposal_stops_as_well() -> None:
    """The answer to a command comes before the next heartbeat."""

    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        await region.submit("scheduler/far", OpenSession())
        await want(region, range(4, 5))
        assert far.task is not None
        with pytest.raises(Superseded):
            await far.task
        assert bound(region) == [0, 1, 2, 3]

    told(story)


def test_the_next_life_under_a_name_goes_on_where_the_killed_one_was() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        far.line.loses_answers = True
        await want(region, range(4, 12))
        await world.until(lambda: len(bound(region)) > 4)
        await far.end()
        again = MirrorWorld(world, "far", (region.name,)).schedule()
        await want(region, range(12, 20))
        await all_bound(world, region, 20)
        assert refused(again) == 0, "it began with a view that shows what the one before had bound"
        await again.end()

    told(story)


def test_a_new_session_proposes_nothing_before_its_view_shows_what_the_last_one_bound() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        first, asked = session_of(region), region.state.info.seq + 1
        far.line.fate = until_batch(asked)
        far.line.loses_answers = True
        await want(region, range(4, 12))
        assert region.state.info.seq == asked
        await world.until(lambda: len(bound(region)) == 12)
        await region.submit("controller/sessions", EndSession(first, "a test"))
        far.line.loses_answers = False
        await world.until(lambda: session_of(region) > first)
        await world.clock.sleep(2_000)
        far.line.fate = lambda message: [message]
        await want(region, range(12, 14))
        await all_bound(world, region, 14)
        assert refused(far) == 0

    told(story)


def test_a_state_that_takes_the_place_of_another_is_scheduled_in_a_session_of_its_own() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        first = session_of(region)
        far.line.fate = deaf
        for number in (4, 5, 6):
            await region.ledger.snapshots.take()
            await want(region, range(number, number + 1))
        head = await region.ledger.store.head()
        await region.ledger.store.trim(head.log_id, head.seq - 1)
        far.line.fate = lambda message: [message]
        await world.until(lambda: bound(region) == list(range(7)))
        assert (far.mirror.shown.times, session_of(region) > first) == (2, True)

    told(story)


def test_a_state_that_differs_from_the_log_is_scheduled_by_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "EVERY_BATCHES", 10)

    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        first = session_of(region)
        far.mirror.state.pool_costs.put("never-heard-of", 7)
        number = 4
        while not far.metrics.counted("mirror_differed"):
            await want(region, range(number, number + 1))
            number += 1
            await world.clock.sleep(2_000)
        await all_bound(world, region, number)
        await want(region, range(number, number + 4))
        await all_bound(world, region, number + 4)
        assert (far.mirror.shown.times, session_of(region) > first) == (2, True)
        assert "never-heard-of" not in far.mirror.state.pool_costs

    told(story)


def test_a_new_leader_is_found_and_nothing_is_forgotten() -> None:
    async def story(world: World, region: Part, far: MirrorWorld) -> None:
        await all_bound(world, region, 4)
        await region.stop()
        start = region.ledger.identity.start
        assert start is not None
        again = world.part(region.name, region.ledger.definition, region.ledger.store, start)
        nodes = asyncio.create_task(keep_nodes(world, again))
        await again.start().leads()
        await want(again, range(4, 12))
        await all_bound(world, again, 12)
        assert far.mirror.shown.times == 1
        nodes.cancel()

    told(story)


def test_it_goes_on_at_once_under_a_leader_whose_time_is_lower() -> None:
    """Found by the simulator, `machine-replaced` 1472: nothing was placed for as long as the last leader was idle."""

    async def main(world: World) -> None:
        assert isinstance(world.clock, VirtualClock)
        world.clock.wrong_by = AHEAD_MS
        region = await a_region(world)
        nodes = asyncio.create_task(keep_nodes(world, region))
        far = MirrorWorld(world, "far", (region.name,)).schedule()
        await all_bound(world, region, 4)
        again = await replaced_by_one_whose_time_is_lower(world, region)
        nodes.cancel()
        nodes = asyncio.create_task(keep_nodes(world, again))
        await want(again, range(4, 12))
        await world.until(lambda: len(bound(again)) == 12, 5_000)
        assert far.metrics.counted("scheduler_refused", code="expired") == 0
        nodes.cancel()
        await far.end()

    in_world(main)


async def with_freshness(region: Part, limit_ms: int) -> None:
    """From now on no view that is older than this may propose."""
    document = PolicyDocument(freshness=(("", limit_ms),))
    policy = SchedulerPolicy(
        revision=900, name="fresh", document=document, stage=PolicyStage.ACTIVE, author="person/a", at=0
    )
    puts = (c.ShippedPolicy(policy), c.ShippedValidity(Validity("eu", EVERYWHERE, 900)))
    await region.submit(LINK, c.Ship("log-platform", 1, 2, 3, puts))


def reasons(region: Part) -> list[str]:
    requests = [one for several in region.state.requests.values() for one in several]
    return [reason.code for request in requests for reason in request.reasons]


def test_a_view_that_is_older_than_the_policy_allows_proposes_nothing_until_it_is_young_again() -> None:
    async def main(world: World) -> None:
        region = await a_region(world, nodes=0)
        far = MirrorWorld(world, "far", (region.name,)).schedule()
        await with_freshness(region, 1_000)
        await world.until(lambda: far.metrics.counted("scheduler_reports", result="told") > 0)
        hears, far.line.fate = far.line.fate, deaf
        await world.until(lambda: reasons(region) == ["stale-view"], 120_000)
        assert region.state.session_of["scheduler/far"], "it is still heard itself"
        await a_node(region, "n0")
        await world.clock.sleep(5_000)
        assert bound(region) == []
        far.line.fate = hears
        await world.until(lambda: len(bound(region)) == 4)
        await far.end()

    in_world(main)
