"""Full lists in parts: any size arrives; whatever breaks in the middle, nothing is lost, and nothing gone too early."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.core.ledger.codec import RECORD_BYTES_MAX, encode
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from holdfast.core.region import limits
from holdfast.core.region.decide import full_list as decide_full_list
from holdfast.core.region.state.shipped_objects import shipped_name
from holdfast.host.link.platform import server
from holdfast.host.link.platform.batching import list_parts
from holdfast.host.ports.transport import first_value
from holdfast.host.protocol.shipments import Shipment, read_message
from holdfast.stores.memory import MemoryStore
from tests.host.link.test_link import put_people, steps, trim
from tests.support.hosts.ledger_world import batches_in, until
from tests.support.hosts.link_world import LinkWorld, PlatformServer, RegionServer, full_list, linked
from tests.support.ledgers.platform import a_full_platform, a_principal

OLD = tuple(f"old{number}" for number in range(7))
GOING = OLD[:3]
NEW = tuple(f"new{number}" for number in range(4))


def in_small_parts(monkeypatch: pytest.MonkeyPatch, objects: int = 2, gone: int = 2) -> None:
    monkeypatch.setattr(server, "PART_OBJECTS", objects)
    monkeypatch.setattr(decide_full_list, "REMOVED_MAX", gone)


# Cutting


def a_list(puts: tuple[c.ShippedItem, ...]) -> c.Ship:
    return c.Ship("log-platform", 1, 0, 99 << 20, puts, full=True)


@pytest.mark.parametrize(("objects", "size_bytes"), [(1, 1 << 20), (3, 1 << 20), (500, 1), (500, 400), (500, 1 << 20)])
def test_parts_hold_the_whole_list_in_its_order_and_keep_to_their_limits(objects: int, size_bytes: int) -> None:
    whole = a_list(full_list(a_full_platform().state, "eu"))
    parts = [part for part in list_parts(whole, whole.puts, objects, size_bytes) if part is not None]
    assert tuple(put for part in parts for put in part.puts) == whole.puts
    assert [part.part for part in parts] == list(range(len(parts)))
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]
    assert {(part.log_id, part.term, part.to, part.full) for part in parts} == {("log-platform", 1, 99 << 20, True)}
    for part in parts:
        assert 1 <= len(part.puts) <= objects
        assert len(part.puts) == 1 or sum(len(encode(put)) for put in part.puts) <= size_bytes


def test_an_empty_list_is_one_part() -> None:
    assert list(list_parts(a_list(()), (), 500, 1 << 20)) == [a_list(())]


def test_what_an_object_needs_comes_before_it_in_a_list() -> None:
    puts = full_list(a_full_platform().state, "eu")
    place = {shipped_name(put): number for number, put in enumerate(puts)}
    needed = 0
    for number, put in enumerate(puts):
        needs = []
        if isinstance(put, c.ShippedAssignment):
            needs = [("template", share.template) for share in put.assignment.shares]
            needs += [("priority-class", put.assignment.priority_class)]
            needs += [("grant", account) for account in put.assignment.accounts if ("grant", account) in place]
        elif isinstance(put, c.ShippedValidity) and put.validity.revision:
            needs = [("policy", str(put.validity.revision))]
        elif isinstance(put, c.ShippedToken) and ("principal", put.token.spec.principal) in place:
            needs = [("principal", put.token.spec.principal)]
        needed += len(needs)
        assert all(place[need] < number for need in needs)
    assert needed > 3


# Arriving


@pytest.mark.timeout(60)
def test_a_region_catches_up_with_five_thousand_principals() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        long = "x" * 120  # with their names they make more than one record may have
        names = [f"person/{long}{number}" for number in range(5_000)]
        for first in range(0, len(names), 500):
            await asyncio.gather(*(platform.put(a_principal(name)) for name in names[first : first + 500]))
        whole = full_list(platform.state, "eu")
        assert len(encode(a_list(whole))) > RECORD_BYTES_MAX
        region = world.region()
        await region.leads()
        began = world.clock.wall()
        await world.same(platform, region)
        assert world.clock.wall() - began < 10_000
        assert steps(region, "list") == -(-len(whole) // server.PART_OBJECTS)
        assert region.state.region.listing is None
        assert region.state.listed_names.is_empty()
        await until(lambda: platform.state.regions["eu"].status.cursor == region.state.region.cursor, world.clock)

    linked(story)


@pytest.mark.timeout(60)
def test_more_may_be_gone_than_one_record_holds() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        many = [f"person/{number}" for number in range(3 * limits.REMOVED_MAX)]
        await asyncio.gather(*(platform.put(a_principal(name)) for name in many))
        await world.same(platform, region)
        await platform.stop()
        other = await world.a_platform(log_id="log-restored", store=MemoryStore("restored"))
        await world.same(other, region)
        sizes = [len(record.events) for batch in await batches_in(world.region_store) for record in batch.records]
        assert max(sizes[-6:]) <= limits.REMOVED_MAX + server.PART_OBJECTS + 2
        assert region.state.region.listing is None

    linked(story)


# Interrupted


class Watched:
    """A region that has missed much, and that is told it by a list, which is cut off after so many parts."""

    def __init__(self, world: LinkWorld, after: int = 99) -> None:
        self.world = world
        self.after = after
        self.parts: list[c.Ship] = []
        self.is_cut_off = False

    async def miss_much(self) -> None:
        self.platform = await self.world.a_platform()
        self.other = self.world.platform("p2")
        self.region = self.world.region(servers=("p1", "p2"))
        await put_people(self.platform, *OLD)
        await self.world.same(self.platform, self.region)
        self.region.line.is_cut = True
        for name in GOING:
            await self.platform.accept("person/root", p.Delete("Principal", f"person/{name}"))
        await put_people(self.platform, *NEW)
        await trim(self.platform)
        await self.world.clock.sleep(5_000)

    async def begin(self) -> None:
        """The list comes, up to where it is cut off."""
        self.region.line.fate = self._fate
        self.region.line.is_cut = False
        await until(lambda: self.is_cut_off, self.world.clock)
        await self.world.clock.sleep(50)

    def _fate(self, message: bytes) -> list[bytes]:
        read = read_message(message)
        if isinstance(read, Shipment) and read.ship.full:
            self.must_have_all_of_old()
            if read.ship.part == self.after and not self.is_cut_off:
                self.is_cut_off = self.region.line.is_cut = True
                return []
            self.parts.append(read.ship)
        return [message]

    def must_have_all_of_old(self) -> None:
        missing = [name for name in OLD if f"person/{name}" not in self.region.state.principals]
        assert not missing, f"{missing} were gone before the last part came"

    async def must_end_right(self, platform: PlatformServer, region: RegionServer) -> None:
        self.region.line.is_cut = region.line.is_cut = False
        await self.world.same(platform, region)
        await until(lambda: region.state.region.listing is None, self.world.clock)
        assert region.state.listed_names.is_empty()
        await put_people(platform, "last")
        await self.world.same(platform, region, 1_000)
        assert not [name for name in GOING if f"person/{name}" in region.state.principals]


Interruption = Callable[[Watched], Awaitable[tuple[PlatformServer, RegionServer]]]


async def reconnected(story: Watched) -> tuple[PlatformServer, RegionServer]:
    return story.platform, story.region


async def changed_meanwhile(story: Watched) -> tuple[PlatformServer, RegionServer]:
    await put_people(story.platform, "meanwhile")
    return story.platform, story.region


async def another_leads_the_region(story: Watched) -> tuple[PlatformServer, RegionServer]:
    second = story.world.region("r2")
    await story.region.stop()
    await second.leads()
    return story.platform, second


async def another_leads_the_platform(story: Watched) -> tuple[PlatformServer, RegionServer]:
    await story.platform.stop()
    await story.other.leads()
    return story.other, story.region


async def another_log_leads(story: Watched) -> tuple[PlatformServer, RegionServer]:
    await story.other.stop()
    await story.platform.stop()
    other = await story.world.a_platform(log_id="log-restored", store=MemoryStore("restored"))
    await put_people(other, *OLD[3:], "restored")
    return other, story.region


@pytest.mark.parametrize("after", range(1, 5))
@pytest.mark.parametrize(
    "interruption",
    [reconnected, changed_meanwhile, another_leads_the_region, another_leads_the_platform, another_log_leads],
)
def test_a_list_cut_off_after_any_part_ends_right(
    after: int, interruption: Interruption, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_parts(monkeypatch)

    async def tell(world: LinkWorld) -> None:
        story = Watched(world, after)
        await story.miss_much()
        cursor = story.region.state.region.cursor
        await story.begin()
        place = story.region.state.region
        assert place.cursor == cursor, "the cursor stays until the list has ended"
        assert place.listing is not None
        assert place.listing.parts == after
        story.must_have_all_of_old()
        await story.must_end_right(*await interruption(story))

    linked(tell)


@pytest.mark.parametrize("lost", range(5))
def test_a_part_that_is_lost_on_the_way_is_mended_by_another_list(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_parts(monkeypatch)

    async def tell(world: LinkWorld) -> None:
        story = Watched(world)
        await story.miss_much()
        dropped: list[bytes] = []

        def lose_one(message: bytes) -> list[bytes]:
            read = read_message(message)
            if isinstance(read, Shipment) and read.ship.full and read.ship.part == lost and not dropped:
                dropped.append(message)
                return []
            return [message]

        story.region.line.fate = lose_one
        await story.must_end_right(story.platform, story.region)
        assert dropped

    linked(tell)


def test_a_list_of_which_every_part_comes_twice_is_applied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_parts(monkeypatch)

    async def tell(world: LinkWorld) -> None:
        story = Watched(world)
        await story.miss_much()
        story.region.line.fate = lambda message: [message, message]
        streams = len(story.region.line.streams())
        await story.must_end_right(story.platform, story.region)
        assert len([one for one in story.region.line.streams()[streams:] if first_value(one.query, "list")]) <= 1

    linked(tell)
