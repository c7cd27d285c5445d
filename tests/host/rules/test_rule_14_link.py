"""RULES 14: the link is log shipping, and what is said upward is read from the log.

Otherwise a region acknowledges what it does not have: the platform counts a grant as settled, a right as given back or
an object as applied, and the region that comes back from its log has never heard of it.

Executions of this rule that are told elsewhere, in tests/host/link: a lost step is a gap and mended by a full list,
what comes twice is stored once, behind a trimmed log and in another log of the platform what is missing disappears
(test_link.py, test_lists.py); whatever breaks, all ends well (test_healing.py).
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import seq_of
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import GRANT, PLATFORM
from holdfast.core.region import events as e
from holdfast.host.ports.store import Store
from holdfast.host.protocol.commands import ENVELOPES_BATCH
from holdfast.host.protocol.shipments import Shipment, read_message
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import batches_in, until
from tests.support.hosts.link_actors import LinkActors, link_actors
from tests.support.hosts.link_world import LinkWorld, RegionServer, linked
from tests.support.ledgers.platform import a_class, a_principal, a_quota, a_tenant, a_workload, cpu


def said_by(server: RegionServer, *kinds: type) -> list[Any]:
    """Commands of these kinds that a server of the region has sent."""
    found: list[Any] = []
    for request in server.line.asked:
        if request.path == ENVELOPES_BATCH:
            bodies = msgspec.msgpack.decode(request.body, type=list[msgspec.Raw])
            read = [PLATFORM.envelopes.read(bytes(one)) for one in bodies]
            found += [one.command for one in read if isinstance(one, Envelope) and isinstance(one.command, kinds)]
    return found


async def events_in(store: Store, kind: type) -> list[Any]:
    """Events of a kind in the region's log, in order."""
    records = [record for batch in await batches_in(store) for record in batch.records]
    return [event for record in records for event in record.events if isinstance(event, kind)]


async def a_faulty_region(world: LinkWorld) -> tuple[LinkActors, FaultyStore]:
    """A region whose server reaches its store in a way of its own."""
    platform = await world.a_platform()
    store = FaultyStore(world.region_store)
    region = world.region("r1", store=store)
    await region.leads()
    await world.same(platform, region)
    return LinkActors(world, platform, region), store


def test_a_region_that_crashes_between_receiving_and_logging_acknowledges_nothing() -> None:
    async def story(world: LinkWorld) -> None:
        act, store = await a_faulty_region(world)
        await until(lambda: act.platform.state.regions["eu"].status.cursor, world.clock)
        logged = act.region.state.region.cursor
        store.append_hangs(lands=False)
        await act.platform.put(a_principal("person/new"))
        await world.clock.sleep(3_000)
        assert store.tried, "the step was received, and is on its way into the log"
        assert act.region.state.region.cursor == logged
        assert max(one.cursor for one in said_by(act.region, p.Acknowledge)) == logged
        assert act.platform.state.regions["eu"].status.cursor == logged
        await act.region.stop()
        second = world.region("r2")
        await second.leads()
        await world.same(act.platform, second)
        await until(lambda: act.platform.state.regions["eu"].status.cursor > logged, world.clock)
        moved = [event.cursor for event in await events_in(world.region_store, e.CursorMoved)]
        assert act.platform.state.regions["eu"].status.cursor in moved

    linked(story)


def test_a_grant_is_settled_from_the_log_and_not_from_what_was_received() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(2_000)
        await act.soon(lambda: act.settled() == (1, cpu(2_000)))
        world.region_store.limit_bytes = (await world.region_store.usage()).used
        await act.grant(1_000)
        await world.clock.sleep(5_000)
        assert act.settled() == (1, cpu(2_000))
        assert act.platform.state.grants["eu|quota/acme"].offered == cpu(2_000), "nothing of it can be lent again yet"
        world.region_store.limit_bytes = MemoryStore("fresh").limit_bytes
        await act.soon(lambda: act.settled() == (2, cpu(1_000)), 60_000)

    linked(story)


@pytest.mark.parametrize("lands", [True, False])
def test_a_step_that_was_under_way_when_the_regions_leader_changed_is_applied_once(lands: bool) -> None:
    async def story(world: LinkWorld) -> None:
        act, store = await a_faulty_region(world)
        second = world.region("r2")
        await world.same(act.platform, second)
        store.append_hangs(lands=lands)
        await act.platform.put(a_principal("person/new"))
        await until(lambda: store.injected, world.clock)
        await world.clock.sleep(200)
        await act.region.stop()
        await second.leads()
        await world.same(act.platform, second)
        stored = [event.principal.meta.name for event in await events_in(world.region_store, e.PrincipalReceived)]
        assert stored.count("person/new") == 1
        cursors = [event.cursor for event in await events_in(world.region_store, e.CursorMoved)]
        assert cursors == sorted(set(cursors))
        assert second.ledger.metrics.counted("link_steps", kind="list") == 0

    linked(story)


def test_steps_that_overtake_one_another_move_no_cursor_back() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        held: list[bytes] = []

        def overtaken(message: bytes) -> list[bytes]:
            """Every second step comes after the one that follows it, and once more after that."""
            if not isinstance(read_message(message), Shipment):
                return [message]
            if not held:
                held.append(message)
                return []
            late = held.pop()
            return [message, late, late]

        region.line.fate = overtaken
        for number in range(12):
            await platform.put(a_principal(f"person/p{number}"))
            await world.clock.sleep(700)
        region.line.fate = lambda message: [message]
        await world.same(platform, region)
        assert region.ledger.metrics.counted("link_refused", code="gap") >= 1
        cursors = [event.cursor for event in await events_in(world.region_store, e.CursorMoved)]
        assert cursors == sorted(cursors)

    linked(story)


def test_a_step_at_or_before_the_cursor_is_dropped_though_its_stream_goes_on() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        seen: list[bytes] = []

        def again(message: bytes) -> list[bytes]:
            """Every step comes with all that came before it."""
            if isinstance(read_message(message), Shipment):
                seen.append(message)
                return seen[:]
            return [message]

        region.line.fate = again
        for number in range(5):
            await platform.put(a_principal(f"person/p{number}"))
            await world.clock.sleep(100)
        await world.same(platform, region)
        assert region.ledger.metrics.counted("link_steps", kind="step") > 5
        stored = [event.principal.meta.name for event in await events_in(world.region_store, e.PrincipalReceived)]
        assert [stored.count(f"person/p{number}") for number in range(5)] == [1] * 5
        assert len(region.line.streams()) == 1, "it was no reason to begin another stream"

    linked(story)


def test_a_platform_whose_store_went_backwards_is_told_again_what_it_has_lost() -> None:
    """Restored from a copy, it begins another log (RULES 9), without what was acknowledged since."""

    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(2_000)
        await act.soon(lambda: act.settled() == (1, cpu(2_000)))
        await act.platform.stop()
        store = MemoryStore("restored")
        act.platform = restored = await world.a_platform(log_id="log-restored", store=store)
        await until(lambda: act.region.state.region.platform_log == "log-restored", world.clock)
        assert "quota/acme" not in act.region.state.accepted_grants, "what the new log does not know is gone"
        await until(lambda: restored.state.summaries.get("eu"), world.clock)
        status = restored.state.regions["eu"].status
        assert (status.log_id, seq_of(status.cursor) <= restored.state.info.seq) == ("log-eu", True)

    linked(story)


def test_what_a_region_says_of_a_grant_is_said_of_the_log_that_offered_it() -> None:
    """A version of another log says nothing about this one's: it is acknowledged when this log's list is applied."""

    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        for milli in (5_000, 4_000, 3_000):
            await act.grant(milli)
        await act.soon(lambda: act.settled() == (3, cpu(3_000)))
        await act.platform.stop()
        before = len(said_by(act.region, p.AcknowledgeGrant))
        act.platform = restored = await world.a_platform(log_id="log-restored", store=MemoryStore("restored"))
        for thing in (a_class("normal"), a_tenant("acme", "normal"), a_quota("acme", cpu(9_000))):
            await restored.put(thing)
        ends = world.clock.wall() + 3_600_000
        await restored.accept(GRANT, p.OfferGrant("quota/acme", "eu", cpu(7_000), ends))
        await act.soon(lambda: act.settled() == (1, cpu(7_000)), 30_000)
        said = said_by(act.region, p.AcknowledgeGrant)[before:]
        assert {(one.version, one.settled) for one in said} == {(1, cpu(7_000))}

    linked(story)


def test_what_a_region_holds_is_said_to_a_restored_platform_that_never_heard_of_it() -> None:
    """The list of the new log does not name the grant; what is charged to it is told all the same, and called back."""

    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, web = await act.node("n1"), await act.put(a_workload())
        uid = await act.assign(web, 2)
        await act.open(uid, 0, 1)
        await act.place(uid, node, 0, 1)
        await act.platform.stop()
        act.platform = restored = await world.a_platform(log_id="log-restored", store=MemoryStore("restored"))
        for thing in (a_class("normal"), a_tenant("acme", "normal"), a_quota("acme", cpu(9_000))):
            await restored.put(thing)
        await act.soon(lambda: "eu|quota/acme" in restored.state.grants, 30_000)
        await act.soon(lambda: act.settled() == (2, cpu(1_000)))
        grant = restored.state.grants["eu|quota/acme"]
        assert (grant.version, grant.target, grant.offered) == (2, cpu(0), cpu(1_000))

    linked(story)
