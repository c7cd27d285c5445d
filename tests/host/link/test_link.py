"""The link as a whole: what the platform has for a region arrives there, whatever happens on the way (RULES 14)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.revision import seq_of
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.topology import RegionHealth, RegionStatus
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.reconcilers.platform.region_health import RegionHealthReconciler
from holdfast.core.reconcilers.region.expiry import RightsReconciler
from holdfast.core.region import events as e
from holdfast.host.controllers.leader_controllers import LeaderControllers
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.transport import first_value
from holdfast.host.protocol.shipments import SHIPMENTS, Shipment, read_message
from holdfast.sim.world.virtual_loop import VirtualClock
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import batches_in, until
from tests.support.hosts.link_actors import link_actors
from tests.support.hosts.link_world import ROOT, LinkWorld, PlatformServer, RegionServer, linked
from tests.support.ledgers.platform import a_class, a_principal, a_region, a_token, an_exclusive


async def stored_in(region: RegionServer) -> Counter[str]:
    """How often each principal and token was stored in the region, by its log."""
    found: Counter[str] = Counter()
    for batch in await batches_in(region.world.region_store):
        for record in batch.records:
            for event in record.events:
                if isinstance(event, e.PrincipalReceived):
                    found[event.principal.meta.name] += 1
                elif isinstance(event, e.TokenReceived):
                    found[event.token.meta.name] += 1
    return found


async def put_people(platform: PlatformServer, *names: str) -> None:
    for name in names:
        await platform.put(a_principal(f"person/{name}"))


def steps(region: RegionServer, kind: str) -> int:
    return region.ledger.metrics.counted("link_steps", kind=kind)


def test_a_principal_and_a_token_put_at_the_platform_arrive_in_the_region_at_once() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await put_people(platform, "ops")
        await platform.put(a_token("t1", "person/ops", expires=world.clock.wall() + 3_600_000))
        await world.same(platform, region, 100)
        assert region.state.tokens["t1"].spec.principal == "person/ops"

    linked(story)


def test_a_token_revoked_at_the_platform_is_revoked_in_the_region() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        token = a_token("t1", "person/root", expires=world.clock.wall() + 3_600_000)
        await platform.put(token)
        await world.same(platform, region, 100)
        await platform.put(replace(token, spec=replace(token.spec, revoked=True)))
        await world.same(platform, region, 100)
        assert region.state.tokens["t1"].spec.revoked

    linked(story)


def test_what_came_and_what_went_is_counted() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        metrics, ends = region.ledger.metrics, world.clock.wall() + 3_600_000
        counted = []
        uid = await platform.accept("person/root", OpenOverride(OverrideAction.PAUSE_AUTOSCALER, "eu", "", "a", ends))
        for _ in range(2):
            before = metrics.counted("link_objects")
            await world.same(platform, region)
            counted.append(metrics.counted("link_objects") - before)
            if uid in platform.state.overrides:
                await platform.accept("person/root", EndOverride(uid, "it is over"))
        assert counted == [1, 1]

    linked(story)


def test_the_operator_that_a_log_begins_with_stays_its_own() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        root = platform.state.principals["person/root"]
        await platform.put(replace(root, spec=replace(root.spec, rights=(Permission.OPERATE,))))
        await put_people(platform, "ops")
        await world.same(platform, region, 100)
        assert region.state.principals["person/root"].spec.rights == tuple(Permission)

    linked(story)


def test_the_platform_hears_how_far_the_region_is() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await put_people(platform, "ops")
        await world.same(platform, region)

        def is_acknowledged() -> bool:
            status = platform.state.regions["eu"].status
            return status.cursor == region.state.region.cursor and seq_of(status.position) == region.state.info.seq

        await until(is_acknowledged, world.clock, 1_000)

    linked(story)


def test_a_link_with_nothing_to_ship_falls_silent_in_both_logs() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await world.clock.sleep(10_000)
        before = platform.state.info.seq, region.state.info.seq
        await world.clock.sleep(60_000)
        assert (platform.state.info.seq, region.state.info.seq) == before
        assert (region.link.age_ms() or 0) <= 1_000
        assert region.link.degraded_reason() == ""

    linked(story)


def test_acknowledgements_of_a_busy_link_come_ten_times_a_second_at_most() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        before = region.ledger.metrics.counted("link_acknowledged")
        for number in range(200):
            await put_people(platform, f"p{number}")
            await world.clock.sleep(10)
        await world.same(platform, region)
        assert 15 <= region.ledger.metrics.counted("link_acknowledged") - before <= 21

    linked(story)


def test_a_region_cut_off_for_long_goes_on_from_its_cursor_with_what_it_missed() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await put_people(platform, "before")
        await world.same(platform, region)
        region.line.is_cut = True
        await put_people(platform, "missed")
        await world.clock.sleep(600_000)
        assert "person/missed" not in region.state.principals
        assert (region.link.age_ms() or 0) > 590_000
        assert region.link.degraded_reason() != ""
        region.line.is_cut = False
        await world.same(platform, region)
        assert (steps(region, "list"), region.ledger.metrics.counted("link_sessions")) == (1, 2)
        assert await stored_in(region) == Counter(["region/*", "person/before", "person/missed"])

    linked(story)


def test_an_hour_of_changes_to_one_object_is_one_step_for_who_missed_it() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        region.line.is_cut = True
        for priority in range(50):
            await platform.put(a_class("normal", priority))
            await world.clock.sleep(1_000)
        before = steps(region, "step")
        region.line.is_cut = False
        await world.same(platform, region)
        assert steps(region, "step") == before + 1

    linked(story)


def test_streams_that_break_and_messages_that_come_twice_store_nothing_twice() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        region.line.fate = lambda message: [message, message]
        names = [f"p{number}" for number in range(30)]
        for number, name in enumerate(names):
            await put_people(platform, name)
            region.line.is_cut = number % 7 == 3
            await world.clock.sleep(400)
        region.line.is_cut = False
        await world.same(platform, region)
        stored = await stored_in(region)
        assert stored == Counter(["region/*", *(f"person/{name}" for name in names)])
        assert steps(region, "list") <= 2  # the first one came twice

    linked(story)


def test_a_step_that_is_lost_on_the_way_is_a_gap_and_mended_by_a_full_list() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        lost: list[bytes] = []

        def lose_one(message: bytes) -> list[bytes]:
            if not lost and isinstance(read_message(message), Shipment):
                lost.append(message)
                return []
            return [message]

        region.line.fate = lose_one
        await put_people(platform, "lost")
        await world.clock.sleep(100)
        await put_people(platform, "after")
        await world.same(platform, region)
        assert lost
        assert region.ledger.metrics.counted("link_refused", code="gap") == 1
        assert steps(region, "list") == 2

    linked(story)


async def trim(platform: PlatformServer) -> None:
    head = await platform.world.platform_store.head()
    await platform.world.platform_store.trim(head.log_id, head.seq)


def test_behind_a_trimmed_log_a_full_list_is_shipped_and_what_is_gone_disappears() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await put_people(platform, "going", "staying")
        await world.same(platform, region)
        region.line.is_cut = True
        await platform.accept("person/root", p.Delete("Principal", "person/going"))
        await put_people(platform, "new")
        await trim(platform)
        await world.clock.sleep(5_000)
        region.line.is_cut = False
        await world.same(platform, region)
        assert "person/going" not in region.state.principals
        assert steps(region, "list") == 2

    linked(story)


def test_a_cursor_is_moved_on_while_nothing_is_shipped_so_that_trimming_costs_no_list() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        before = region.state.region.cursor
        for number in range(1_100):
            await platform.put(a_region("us", str(number)))  # another region's business
        await world.clock.sleep(1_000)
        assert seq_of(region.state.region.cursor) > seq_of(before) + 1_000
        assert steps(region, "list") == 1

    linked(story)


def test_a_platform_that_is_started_again_ships_on_from_the_cursor() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await put_people(platform, "before")
        await world.same(platform, region)
        await platform.stop()
        await world.clock.sleep(5_000)
        platform = world.platform()
        await platform.leads()
        await put_people(platform, "after")
        await world.same(platform, region)
        assert steps(region, "list") == 1
        assert region.state.region.platform_term == platform.state.info.term

    linked(story)


def test_another_log_of_the_platform_is_taken_by_a_full_list() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await put_people(platform, *(f"old{number}" for number in range(20)))
        await world.same(platform, region)
        await platform.stop()
        other = await world.a_platform(log_id="log-restored", store=MemoryStore("restored"))
        await put_people(other, "new")
        await world.same(other, region)
        assert region.state.region.platform_log == "log-restored"
        assert "person/old1" not in region.state.principals
        await until(lambda: other.state.regions["eu"].status.cursor == region.state.region.cursor, world.clock)

    linked(story)


def test_the_next_leader_of_a_region_goes_on_from_the_logged_cursor() -> None:
    async def story(world: LinkWorld) -> None:
        platform, first = await world.both()
        second = world.region("r2")
        await put_people(platform, "before")
        await world.same(platform, first)
        await world.same(platform, second)
        await first.stop()
        await put_people(platform, "meanwhile")
        await second.leads()
        await world.same(platform, second)
        asked = second.line.streams()[0]
        assert first_value(asked.query, "log") == "log-platform"
        assert steps(second, "list") == 0
        assert (await stored_in(second))["person/before"] == 1

    linked(story)


def test_the_next_leader_of_a_region_is_told_leases_again_at_once_and_stops_nothing() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        second = world.region("r2")
        await act.grant(5_000)
        node, db = await act.node("n1"), await act.put(an_exclusive(leased=True))
        await act.platform.accept(ASSIGNMENT, p.GrantRight(db, 0, "eu"))
        uid = await act.assign(db, ordinals=(0,))
        await act.open(uid, 0)
        await act.place(uid, node, 0)
        await act.serve(db, 0)
        await until(lambda: second.state.info.seq == act.region.state.info.seq, world.clock)
        until_then = act.region.state.assignments[uid].right_until
        await act.region.stop()
        await second.leads()

        def told() -> Assignment:
            return second.state.assignments[uid]

        await until(lambda: told().right_term == second.state.info.term, world.clock, DEFAULTS.session_lease // 2)
        assert abs(told().right_until - until_then) < 1_000
        assert RightsReconciler().reconcile(second.state, uid, second.state.info.at).commands == ()
        await world.clock.sleep(DEFAULTS.session_lease)
        assert (
            RightsReconciler().reconcile(second.state, uid, second.state.info.term_at + DEFAULTS.session_lease).commands
            == ()
        )
        assert steps(second, "list") == 1

    linked(story)


def test_a_deposed_leader_of_a_region_does_not_end_its_successors_session() -> None:
    async def story(world: LinkWorld) -> None:
        platform, first = await world.both()
        second = world.region("r2")
        await world.same(platform, second)
        leader = first.ledger.leader
        assert leader is not None
        lingering = asyncio.create_task(first.link.run(leader))  # a task that has not noticed yet
        await first.stop()
        await second.leads()
        await world.same(platform, second)
        await until(lambda: second.ledger.metrics.counted("link_sessions") == 1, world.clock)
        await world.clock.sleep(60_000)
        assert second.ledger.metrics.counted("link_sessions") == 1
        lingering.cancel()
        await asyncio.wait({lingering})

    linked(story)


def test_a_link_follows_the_leader_of_the_platform() -> None:
    async def story(world: LinkWorld) -> None:
        one = await world.a_platform()
        two = world.platform("p2")
        region = world.region(servers=("p2", "p1"))
        await region.leads()
        await world.same(one, region)
        await one.stop()
        await two.leads()
        await put_people(two, "after")
        await world.same(two, region)
        assert region.link.heard is not None
        assert region.link.heard.server == "p2"
        assert steps(region, "list") == 1

    linked(story)


def test_a_leader_of_the_platform_that_is_deposed_says_so_and_is_left() -> None:
    async def story(world: LinkWorld) -> None:
        one = await world.a_platform()
        region = world.region(servers=("p1", "p2"))
        await region.leads()
        await world.same(one, region)
        two = world.platform("p2")
        await until(lambda: two.ledger.role is Role.FOLLOWING, world.clock)
        leader = one.ledger.leader
        assert leader is not None
        leader.term.is_over = True  # it steps down, and does not know it yet
        await until(lambda: region.ledger.metrics.counted("link_breaks", why="not-leading") >= 1, world.clock, 5_000)

    linked(story)


def test_a_retired_region_is_told_to_stop_and_stops() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await platform.accept("person/root", p.RetireRegion("eu", "its machines are switched off"))
        await until(lambda: "retired by the platform" in region.link.degraded_reason(), world.clock, 10_000)
        asked = len(region.line.asked)
        await put_people(platform, "after")
        await world.clock.sleep(60_000)
        assert len(region.line.asked) == asked
        assert "person/after" not in region.state.principals
        assert region.ledger.role is Role.LEADING  # the region itself goes on: what it runs is not the link's to end

    linked(story)


def test_a_region_that_the_platform_does_not_know_says_so_and_joins_once_it_does() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = world.platform(), world.region()
        await platform.leads()
        await platform.put(a_principal("region/*"))
        await until(lambda: "there is no Region eu" in region.link.degraded_reason(), world.clock, 20_000)
        await platform.put(a_region("eu", "EU"))
        await world.same(platform, region)
        await until(lambda: region.link.degraded_reason() == "", world.clock, 5_000)

    linked(story)


def test_commands_whose_answers_are_lost_count_once() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        region.line.loses_answers = True
        await put_people(platform, "ops")
        await world.same(platform, region)
        await world.clock.sleep(2_000)
        region.line.loses_answers = False

        def is_acknowledged() -> bool:
            return platform.state.regions["eu"].status.cursor == region.state.region.cursor

        await until(is_acknowledged, world.clock)
        await world.clock.sleep(1_000)
        assert region.link.degraded_reason() == ""

    linked(story)


def test_a_region_whose_session_was_ended_opens_another_and_joins_again() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        session = platform.state.regions["eu"].status.session
        await platform.accept("ledger", EndSession(session, "silent"))
        await until(lambda: platform.state.regions["eu"].status.session > session, world.clock, 5_000)
        await put_people(platform, "after")
        await world.same(platform, region)
        assert steps(region, "list") == 1

    linked(story)


def test_a_region_that_is_declared_lost_and_heard_all_the_time_comes_back_though_nothing_changes_there() -> None:
    """Its log stands still, so it has nothing to acknowledge: it has to be asked for a sign of life."""

    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        assert platform.ledger.leader is not None
        health = asyncio.create_task(
            LeaderControllers(platform.ledger, [RegionHealthReconciler()]).run(platform.ledger.leader)
        )
        await world.clock.sleep(60_000)
        before = region.state.info.seq
        await platform.accept("person/root", p.DeclareLost("eu", "taken for another one"))
        await until(lambda: platform.state.regions["eu"].status.health is RegionHealth.HEALTHY, world.clock, 30_000)
        written = platform.state.info.seq
        await world.clock.sleep(60_000)
        assert (platform.state.info.seq, region.state.info.seq) == (written, before)
        health.cancel()

    linked(story)


def test_a_region_that_a_person_holds_to_be_lost_joins_once_more_and_not_again_and_again() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        session = platform.state.regions["eu"].status.session
        ends = world.clock.wall() + 3_600_000
        await platform.accept("person/root", OpenOverride(OverrideAction.DECLARE_LOST, "eu", "eu", "a drill", ends))
        await platform.accept("person/root", p.DeclareLost("eu", "a drill"))
        await until(lambda: platform.state.regions["eu"].status.session > session, world.clock, 10_000)
        session = platform.state.regions["eu"].status.session
        await put_people(platform, "after")
        await world.same(platform, region)
        await world.clock.sleep(60_000)
        assert platform.state.regions["eu"].status.session == session

    linked(story)


def test_every_stream_names_the_session_the_cursor_and_who_asks() -> None:
    async def story(world: LinkWorld) -> None:
        _, region = await world.both()
        asked = region.line.streams()[0]
        assert (asked.verb, asked.path) == ("GET", SHIPMENTS)
        assert [name for name, _ in asked.query] == ["region", "log", "term", "cursor", "session"]
        assert first_value(asked.headers, "authorization") == "region/eu"

    linked(story)


def test_between_clocks_an_hour_apart_the_region_joins_and_what_ends_there_ends_here_at_the_same_time() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        region = world.region(clock=VirtualClock(world.loop, wrong_by=3_600_000))
        await region.leads()
        ends = world.clock.wall() + 60_000
        uid = await platform.accept(
            "person/root", OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "", "work", ends)
        )
        await until(lambda: uid in region.state.platform_overrides, world.clock, 20_000)
        assert region.state.platform_overrides[uid].ends == ends + 3_600_000
        await until(lambda: platform.state.regions["eu"].status.cursor == region.state.region.cursor, world.clock)

    linked(story)


def test_a_pause_that_a_leader_with_a_lower_time_ships_first_of_all_does_not_end_early() -> None:
    """Nobody has answered a question yet: what is known of its time is what it ships (RULES 19)."""

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform(clock=VirtualClock(world.loop, wrong_by=100_000))
        region = world.region()
        await region.leads()
        await world.same(platform, region)
        await world.clock.sleep(40_000)
        assert platform.ledger.leader is not None
        told = platform.ledger.leader.term.now()
        await platform.stop()
        region.line.loses_answers = True
        after = world.platform()
        await after.leads()
        assert after.ledger.leader is not None
        now = after.ledger.leader.term.now()
        assert told - now > 20_000, "its time is lower"
        pause = OpenOverride(OverrideAction.PAUSE_SCHEDULING, "eu", "", "work", now + 60_000)
        uid = await after.accept("person/root", pause)
        await until(lambda: uid in region.state.platform_overrides, world.clock, 5_000)
        assert region.ledger.leader is not None
        left = region.state.platform_overrides[uid].ends - region.ledger.leader.term.now()
        assert now + 60_000 - after.ledger.leader.term.now() <= left <= 60_000

    linked(story)


@pytest.mark.parametrize("frame", [b"\x93\xa6parade\x01\x02", b"\x92\xa1\xff\x01"])
def test_what_this_version_cannot_read_is_named_and_stops_nothing_else(frame: bytes) -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        region.line.fate = lambda message: [frame]
        await put_people(platform, "ops")
        await until(lambda: "cannot read" in region.link.degraded_reason(), world.clock, 5_000)
        await world.clock.sleep(20_000)
        assert region.ledger.metrics.counted("link_sessions") == 1
        region.line.fate = lambda message: [message]
        await world.same(platform, region)
        assert region.link.degraded_reason() == ""

    linked(story)


def test_a_region_that_cannot_write_now_applies_it_later() -> None:
    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        limit = world.region_store.limit_bytes
        world.region_store.limit_bytes = (await world.region_store.usage()).used
        await put_people(platform, "ops")
        await until(lambda: "cannot apply" in region.link.degraded_reason(), world.clock, 10_000)
        assert "person/ops" not in region.state.principals
        world.region_store.limit_bytes = limit
        await world.same(platform, region, 60_000)
        assert (await stored_in(region))["person/ops"] == 1

    linked(story)


def test_a_platform_waits_for_the_longest_fence_that_still_runs_in_a_region_whose_times_were_lowered() -> None:
    """Its agents were told a grace of ten minutes, and may be cut off before they hear of another."""

    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await platform.put(a_principal("agent/*"))
        await world.same(platform, region)
        long = replace(DEFAULTS, grace=600_000, fence_time=620_000)
        await region.accept(ROOT, Configure(long))
        await region.accept("agent/n1", OpenSession())

        def status() -> RegionStatus:
            return platform.state.regions["eu"].status

        await until(lambda: status().grace == long.grace, world.clock)
        await region.accept(ROOT, Configure(DEFAULTS))
        await until(lambda: status().grace == DEFAULTS.grace, world.clock)
        assert status().fence_time == long.fence_time

    linked(story)


def test_a_region_whose_times_were_raised_takes_nothing_before_it_has_told_them() -> None:
    """A lease could be among it, for which the platform waits by the times that it was told."""

    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await world.same(platform, region)
        long = replace(DEFAULTS, session_lease=300_000, fence_time=320_000)
        told: list[int] = []
        await region.accept(ROOT, Configure(long))
        await platform.put(a_principal("person/new"))
        while "person/new" not in region.state.principals:
            told.append(platform.state.regions["eu"].status.session_lease)
            await world.clock.sleep(10)
        assert platform.state.regions["eu"].status.session_lease == long.session_lease
        assert told[0] == DEFAULTS.session_lease

    linked(story)


def test_a_region_is_told_the_platforms_grace_when_it_joins_and_when_that_changes() -> None:
    """It may not lower its own below that: work was admitted with it."""

    async def story(world: LinkWorld) -> None:
        platform, region = await world.both()
        await world.same(platform, region)
        assert region.state.region.grace == DEFAULTS.grace
        await platform.accept(ROOT, Configure(replace(DEFAULTS, grace=DEFAULTS.grace - 1_000)))
        await until(lambda: region.state.region.grace == DEFAULTS.grace - 1_000, world.clock)

    linked(story)
