"""Stores that went backwards under the same log id, on both sides of the link (RULES 9).

Otherwise a region that lost the end of its log, or wrote another one, speaks for what it never did; and a platform that
lost its own gives out uids a second time. A platform restored into another log is in test_link.py: a full list.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import INDEX_MAX, format_revision, pack_revision, seq_of
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.region_reports import RegionSummary, Trouble
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.host.errors import StoreWentBackwards
from holdfast.host.ledger.ledger import Role
from holdfast.host.link.platform.server import serve_shipments
from holdfast.host.link.region.link import REJECTED_RETRY_MS
from holdfast.host.ports.transport import Reply, Request
from holdfast.host.protocol.commands import ENVELOPES, ENVELOPES_BATCH
from holdfast.host.protocol.problem import read_problem
from holdfast.host.protocol.shipments import SHIPMENTS, KnownPosition, read_message
from holdfast.host.storage import durable_state
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import as_it_was, until
from tests.support.hosts.link_world import LinkWorld, PlatformServer, RegionServer, linked
from tests.support.ledgers.platform import a_principal

HOUR = 3_600_000


async def acknowledged(world: LinkWorld) -> tuple[PlatformServer, RegionServer, int]:
    """Both, and the last batch of the region, which the platform knows of; the platform signs what it ships."""
    platform, region = await world.both()
    await platform.announced()
    for number in range(6):
        await platform.put(a_principal(f"person/p{number}"))
        await world.same(platform, region)

    def is_known() -> bool:
        return seq_of(platform.state.regions["eu"].status.position) == region.state.info.seq

    await until(is_known, world.clock)
    return platform, region, region.state.info.seq


async def write(region: RegionServer, batches: int) -> None:
    """What people do in the region itself, which the platform has no part in."""
    for number in range(batches):
        ends = region.clock.wall() + HOUR
        await region.accept(
            "person/root", OpenOverride(OverrideAction.PAUSE_AUTOSCALER, "eu", "", f"work {number}", ends)
        )


def said_by(region: RegionServer) -> set[str]:
    """What a server of the region has said at the platform: the names of its commands."""
    bodies: list[bytes] = [one.body for one in region.line.asked if one.path == ENVELOPES]
    for request in region.line.asked:
        if request.path == ENVELOPES_BATCH:
            bodies += map(bytes, msgspec.msgpack.decode(request.body, type=list[msgspec.Raw]))
    read = [PLATFORM.envelopes.read(body) for body in bodies]
    return {type(one.command).__name__ for one in read if isinstance(one, Envelope)}


async def is_left_alone(world: LinkWorld, platform: PlatformServer, region: RegionServer) -> None:
    """Nothing is taken from the platform, and nothing told, though it is tried again and again."""
    before = platform.state.regions["eu"].status
    cursor = region.state.region.cursor
    await platform.put(a_principal("person/late"))
    await world.clock.sleep(4 * REJECTED_RETRY_MS)
    after = platform.state.regions["eu"].status
    assert (after.position, after.digest, after.cursor) == (before.position, before.digest, before.cursor)
    assert region.state.region.cursor == cursor
    assert "person/late" not in region.state.principals
    assert said_by(region) == {"OpenSession", "JoinRegion"}
    assert 3 <= region.ledger.metrics.counted("link_went_back") <= 6
    assert region.ledger.role is Role.LEADING, "what runs there goes on"


@pytest.mark.parametrize("batches", [3, 5])
def test_a_region_that_lost_its_last_batches_is_recognised(batches: int) -> None:
    async def story(world: LinkWorld) -> None:
        platform, first, last = await acknowledged(world)
        digest = platform.state.regions["eu"].status.digest
        await first.stop()
        region = world.region("r2", store=await as_it_was(world.region_store, last - batches))
        await until(lambda: region.ledger.metrics.counted("link_went_back") == 1, world.clock)
        assert (
            f"it acknowledged batch {last} ({digest}), but ends at batch {last - batches + 1}"
            in region.link.degraded_reason()
        )
        assert "holdfast region forget eu" in region.link.degraded_reason()
        assert "holdfast region believe eu" in region.link.degraded_reason()
        await is_left_alone(world, platform, region)

    linked(story)


@pytest.mark.parametrize(("lost", "written"), [(1, 0), (3, 2), (3, 20)])
def test_a_region_that_lost_its_end_and_wrote_another_is_recognised_by_the_digest(lost: int, written: int) -> None:
    """As long as before, or longer: only the batch itself shows that it is another one."""

    async def story(world: LinkWorld) -> None:
        platform, first, last = await acknowledged(world)
        await first.stop()
        region = world.region("r2", store=await as_it_was(world.region_store, last - lost))
        region.line.is_cut = True
        await region.leads()
        await write(region, written)
        assert region.state.info.seq == last - lost + 1 + written >= last
        region.line.is_cut = False
        await until(lambda: region.ledger.metrics.counted("link_went_back") == 1, world.clock)
        assert f"it acknowledged batch {last} (" in region.link.degraded_reason()
        assert "has another batch there" in region.link.degraded_reason()
        await is_left_alone(world, platform, region)

    linked(story)


def test_a_region_whose_true_store_is_put_back_goes_on() -> None:
    async def story(world: LinkWorld) -> None:
        platform, first, last = await acknowledged(world)
        await first.stop()
        short = world.region("r2", store=await as_it_was(world.region_store, last - 3))
        await until(lambda: short.ledger.metrics.counted("link_went_back") == 1, world.clock)
        await short.stop()
        await platform.put(a_principal("person/late"))
        region = world.region("r3")
        await region.leads()
        await world.same(platform, region)
        assert region.ledger.metrics.counted("link_went_back") == 0
        await until(lambda: platform.state.regions["eu"].status.cursor == region.state.region.cursor, world.clock)
        assert region.link.degraded_reason() == ""

    linked(story)


def test_a_region_that_is_forgotten_while_its_log_is_wrong_stands_down() -> None:
    async def story(world: LinkWorld) -> None:
        platform, first, last = await acknowledged(world)
        await first.stop()
        region = world.region("r2", store=await as_it_was(world.region_store, last - 3))
        await until(lambda: region.ledger.metrics.counted("link_went_back") == 1, world.clock)
        await platform.accept("person/root", p.RetireRegion("eu", "its store is lost"))
        reason = "retired by the platform"
        await until(lambda: reason in region.link.degraded_reason(), world.clock, 2 * REJECTED_RETRY_MS)

    linked(story)


async def steal(platform: PlatformServer) -> None:
    """Somebody has the token of region eu and knows its log: it speaks for the region, from far beyond."""
    await platform.accept("region/eu", OpenSession())
    session, far = platform.state.session_of["region/eu"], pack_revision(10**9, INDEX_MAX)
    cursor = platform.state.regions["eu"].status.cursor
    said = (
        p.JoinRegion("eu", "log-eu"),
        p.Report("eu", far, (), RegionSummary(troubles=(Trouble("forged", 1, 0),))),
        p.Acknowledge("eu", "log-eu", far, cursor, "00" * 8),
    )
    for number, command in enumerate(said, 1):
        await platform.ledger.submit(Envelope("region/eu", command, platform.clock.wall(), session, number))
    assert platform.state.regions["eu"].status.position == far


def test_a_region_in_whose_name_somebody_else_spoke_goes_on_once_a_person_believes_its_log() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region, _ = await acknowledged(world)
        cursor = platform.state.regions["eu"].status.cursor
        await steal(platform)
        await until(lambda: region.ledger.metrics.counted("link_went_back") == 1, world.clock)
        assert "it acknowledged batch 1000000000 (" in region.link.degraded_reason()
        await platform.put(a_principal("person/late"))
        await platform.accept("person/root", p.BelieveRegion("eu", "its token was stolen, and is revoked"))
        await world.same(platform, region)

        def is_known() -> bool:
            return platform.state.regions["eu"].status.cursor > cursor

        await until(is_known, world.clock)
        status = platform.state.regions["eu"].status
        assert seq_of(status.position) <= region.state.info.seq
        assert seq_of(platform.state.summaries["eu"].position) <= region.state.info.seq, "its own word is heard again"
        assert region.ledger.metrics.counted("link_spoken_for") == 1
        assert region.link.degraded_reason() == ""

    linked(story)


def knowing(seq: int) -> Callable[[bytes], list[bytes]]:
    """The fate of messages from a platform that knows of a batch at that place which this region never had."""
    known = encode(KnownPosition(pack_revision(seq, INDEX_MAX), "00" * 8))
    return lambda message: [known if isinstance(read_message(message), KnownPosition) else message]


@pytest.mark.parametrize("is_trimmed", [True, False])
def test_a_batch_that_was_trimmed_cannot_be_compared_and_counts_as_the_same(
    monkeypatch: pytest.MonkeyPatch, is_trimmed: bool
) -> None:
    monkeypatch.setattr(durable_state, "DIGESTS_KEPT", 4)

    async def story(world: LinkWorld) -> None:
        platform, region, last = await acknowledged(world)
        region.line.is_cut, region.line.fate = True, knowing(last)
        await write(region, 5)
        if is_trimmed:
            await world.region_store.trim("log-eu", region.state.info.seq)
        await platform.put(a_principal("person/late"))
        await world.clock.sleep(5_000)
        region.line.is_cut = False
        await world.clock.sleep(10_000)
        assert (region.ledger.metrics.counted("link_went_back") > 0) is not is_trimmed
        assert ("person/late" in region.state.principals) is is_trimmed

    linked(story)


def test_nothing_is_taken_from_a_stream_that_does_not_say_what_is_known() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region, _ = await acknowledged(world)
        region.line.is_cut = True
        region.line.fate = lambda message: [] if isinstance(read_message(message), KnownPosition) else [message]
        await platform.put(a_principal("person/late"))
        await world.clock.sleep(5_000)
        region.line.is_cut = False
        heard = region.link.heard
        await world.clock.sleep(10_000)
        assert region.ledger.metrics.counted("link_breaks", why="nothing-known") >= 2
        assert "person/late" not in region.state.principals
        assert region.link.heard is heard
        region.line.fate = lambda message: [message]
        await world.same(platform, region)

    linked(story)


def test_a_deposed_leader_of_a_region_does_not_take_its_successors_log_for_what_it_lost() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        way = FaultyStore(world.region_store)
        region = world.region("r1", store=way)
        await region.leads()
        await world.same(platform, region)
        region.line.is_cut, region.line.fate = True, knowing(region.state.info.seq + 9)
        await world.clock.sleep(1_000)
        way.cut()
        region.line.is_cut = False
        await until(lambda: region.ledger.role is not Role.LEADING, world.clock)
        assert region.ledger.metrics.counted("link_went_back") == 0
        assert "not what the platform knows" not in region.link.degraded_reason()
        way.heal()
        await until(lambda: region.ledger.metrics.counted("link_went_back") == 1, world.clock)

    linked(story)


@pytest.mark.parametrize("batches", [1, 2, 5])
def test_a_platform_that_lost_its_last_batches_stops_and_the_region_goes_on(batches: int) -> None:
    async def story(world: LinkWorld) -> None:
        platform, region, _ = await acknowledged(world)
        await platform.put(a_principal("person/last"))
        await world.same(platform, region)
        cursor = region.state.region.cursor
        await platform.stop()
        short = world.platform(store=await as_it_was(world.platform_store, seq_of(cursor) - batches))
        error = await short.failure()
        assert isinstance(error, StoreWentBackwards)
        assert f"log-platform:1:{seq_of(cursor)}" in str(error)
        assert f"log-platform:2:{short.state.info.seq}:" in str(error)
        assert "hint:" in str(error)
        assert region.state.region.cursor == cursor
        assert "person/last" in region.state.principals
        assert region.ledger.role is Role.LEADING
        await short.stop()
        true = world.platform()
        await true.leads()
        await true.put(a_principal("person/late"))
        await world.same(true, region)
        assert region.ledger.metrics.counted("link_steps", kind="list") == 1

    linked(story)


def test_a_region_that_was_started_anew_still_shows_that_its_platform_lost_its_end() -> None:
    """Both were off together: what proves it lies in the region's log."""

    async def story(world: LinkWorld) -> None:
        platform, region, _ = await acknowledged(world)
        await region.stop()
        await platform.stop()
        short = world.platform(store=await as_it_was(world.platform_store, seq_of(region.state.region.cursor) - 2))
        await short.leads()
        world.region("r2")
        assert isinstance(await short.failure(), StoreWentBackwards)

    linked(story)


def test_a_platform_goes_on_without_a_region_that_cannot_prove_what_it_says() -> None:
    """Its cursor is beyond the log, and no server of that log has signed it."""

    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        cursor = region.state.region.cursor
        await platform.stop()
        short = world.platform(store=await as_it_was(world.platform_store, seq_of(cursor) - 1))
        await until(lambda: short.ledger.metrics.counted("shipping_unproven") >= 3, world.clock, 60_000)
        await short.put(a_principal("person/late"))
        assert short.ledger.role is Role.LEADING
        assert "region eu requests what follows log-platform:1:" in short.evidence.warnings(short.state)[0]
        assert "no server of it has signed" in region.link.degraded_reason()
        assert region.ledger.role is Role.LEADING
        assert region.state.region.cursor == cursor

    linked(story)


@pytest.mark.parametrize("is_reached", [True, False])
def test_a_deposed_leader_of_the_platform_with_a_shorter_log_does_not_stop_for_that(is_reached: bool) -> None:
    async def story(world: LinkWorld) -> None:
        way = FaultyStore(world.platform_store)
        one = await world.a_platform(store=way)
        await one.accept("region/eu", OpenSession())
        session = one.state.session_of["region/eu"]
        await one.ledger.submit(Envelope("region/eu", p.JoinRegion("eu", "log-eu"), one.clock.wall(), session, 1))
        two = world.platform("p2")
        await two.ledger.durable.wait_for(one.state.info.seq, 5_000)
        way.cut()
        await two.leads()
        await two.put(a_principal("person/new"))
        assert one.ledger.leader is not None
        one.ledger.leader.term.must_be_proven()  # by its last proof; it has not heard of the other yet
        if is_reached:
            way.heal()
        facts = two.state.info
        fields = {
            "log": facts.log_id,
            "term": facts.term,
            "cursor": f"{facts.seq}.{INDEX_MAX}",
            "session": format_revision(session),
        }
        query = tuple((name, str(value)) for name, value in fields.items())
        reply = await serve_shipments(one.ledger, Request("GET", SHIPMENTS, query), "eu", one.evidence)
        assert isinstance(reply, Reply)
        assert (reply.status, read_problem(reply).code) in ((503, "not-leading"), (503, "not-proven"))
        way.heal()
        await until(lambda: one.state.info.seq == two.state.info.seq, world.clock)
        assert one.ledger.role is Role.FOLLOWING

    linked(story)
