"""What a region tells the platform by itself: soon, once, from its own log, and again when the platform is another."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import Failing, TemplateCounts, Waiting
from holdfast.core.model.values.resources import ZERO
from holdfast.core.platform import commands as p
from holdfast.core.platform.decide import assignment_stages
from holdfast.core.platform.definition import ASSIGNMENT, GRANT, PLATFORM
from holdfast.core.region.decide import shipments
from holdfast.core.region.queries.workload_report import SLOW_MS, STEADY_MS, run_to_end, workload_report_steps
from holdfast.host.ledger.ledger import Role
from holdfast.host.link.region import reporter, reports
from holdfast.host.link.region.reporter import RESYNC_MS
from holdfast.host.link.region.reports import SUMMARY, Name, ReportedState, forget_deleted
from holdfast.host.protocol.commands import ENVELOPES_BATCH
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import until
from tests.support.hosts.link_actors import LinkActors, link_actors
from tests.support.hosts.link_world import LinkWorld, linked
from tests.support.ledgers.platform import ACME, HOUR, a_quota, a_template, a_tenant, a_workload, an_exclusive, cpu
from tests.support.ledgers.region import RegionBench

T = TypeVar("T")


def sent(act: LinkActors, *kinds: type) -> list[Any]:
    """Commands of these kinds that the region has sent, repeats included."""
    found: list[Any] = []
    for request in act.region.line.asked:
        if request.path == ENVELOPES_BATCH:
            bodies = msgspec.msgpack.decode(request.body, type=list[msgspec.Raw])
            read = [PLATFORM.envelopes.read(bytes(one)) for one in bodies]
            found += [one.command for one in read if isinstance(one, Envelope) and isinstance(one.command, kinds)]
    return found


# Many words


def test_more_words_than_a_session_may_refuse_are_all_said_and_none_of_them_again_and_again() -> None:
    """A new leader says what each account settled on, and is told that this is known: numbers run out on the way."""

    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        for number in range(300):
            await act.platform.put(a_tenant(f"t{number}", "normal"))
            await act.platform.put(a_quota(f"t{number}", cpu(10)))
            ends = world.clock.wall() + HOUR
            await act.platform.accept(GRANT, p.OfferGrant(f"quota/t{number}", "eu", cpu(10), ends))
        grants = act.platform.state.grants
        await act.soon(lambda: all(one.acknowledged == one.version for one in grants.values()), 20_000)
        await act.region.stop()
        act.region = world.region("r2")
        await act.region.leads()
        web = await act.put(a_workload())
        await act.assign(web, 1)
        await act.soon(lambda: act.seen(web) is not None, 10_000)
        assert len(sent(act, p.AcknowledgeGrant)) <= 600
        assert act.counted("link_sessions") <= 3

    linked(story)


# Workloads


def test_that_replicas_came_further_reaches_the_platform_at_once_and_why_others_wait_soon() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, web = await act.node("n1"), await act.put(a_workload())
        uid = await act.assign(web, 2)
        template = act.assignment(uid).shares[0].template
        await act.open(uid, 0, 1)
        at = act.region.state.requests[uid][0].since
        await act.soon(lambda: (seen := act.seen(web)) and seen.waiting == (Waiting("not-yet-examined", 2, at),), 150)
        await act.place(uid, node, 0, 1)
        await act.serve(web, 0, 1)
        await act.soon(lambda: (seen := act.seen(web)) and seen.counts == (TemplateCounts(template, 2, 2, 2),), 50)
        assert (seen := act.seen(web)) is not None
        assert (seen.waiting, seen.generation) == ((), 1)

    linked(story)


def test_how_something_began_holds_up_nothing_that_comes_of_it() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, web = await act.node("n1"), await act.put(a_workload())
        await world.clock.sleep(3_000)
        before = len(sent(act, p.Report))
        uid = await act.assign(web, 1)
        await act.open(uid, 0)
        await world.clock.sleep(5)
        await act.place(uid, node, 0)
        await world.clock.sleep(3)
        (told,) = sent(act, p.Report)[before:]
        assert [count.bound for seen in told.seen for count in seen.counts] == [1]

    linked(story)


async def placed(world: LinkWorld, **fields: Any) -> tuple[LinkActors, int]:
    """A workload of one replica, which has a node and is not started yet."""
    act = await link_actors(world)
    await act.grant(5_000)
    node, web = await act.node("n1"), await act.put(a_workload(replicas=1, **fields))
    uid = await act.assign(web, 1)
    await act.open(uid, 0)
    await act.place(uid, node, 0)
    return act, web


def failing(act: LinkActors, web: int) -> tuple[Failing, ...]:
    seen = act.seen(web)
    return seen.failing if seen is not None else ()


def test_that_a_replica_cannot_start_reaches_the_platform_with_its_node_and_the_words_of_its_agent() -> None:
    async def story(world: LinkWorld) -> None:
        act, web = await placed(world)
        await act.says(web, 0, Phase.STARTING, "started")
        await act.says(web, 0, Phase.FAILED, "cannot-start", "no such file: /opt/x")
        told = (Failing("cannot-start", 1, "n1", "no such file: /opt/x"),)
        await act.soon(lambda: failing(act, web) == told, 200)

    linked(story)


def test_no_more_than_half_of_the_time_goes_into_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    async def story(world: LinkWorld) -> None:
        async def slowly(work: Generator[None, None, T]) -> T:
            nonlocal looks
            looks += 1
            await world.clock.sleep(50)
            return run_to_end(work)

        act = await link_actors(world)
        web = await act.put(a_workload(replicas=200))
        uid = await act.assign(web, 200)
        await world.clock.sleep(2_000)
        monkeypatch.setattr(reporter, "run_in_steps", slowly)
        for ordinal in range(200):
            await act.open(uid, ordinal)
            await world.clock.sleep(5)
        assert 5 <= looks <= 12  # summaries are looked for, too

    linked(story)


def test_a_crash_loop_is_told_a_few_times_and_then_twice_a_minute() -> None:
    async def story(world: LinkWorld) -> None:
        act, web = await placed(world, template=replace(a_template(), restarts_max=1_000))
        await act.serve(web, 0)
        await act.soon(lambda: (seen := act.seen(web)) and seen.counts[0].serving)
        before, batches = act.counted("link_reported"), act.platform.state.info.seq
        for number in range(80):
            await act.says(web, 0, Phase.FAILED, "exit", f"exit code {number}")
            await world.clock.sleep(300)
            await act.says(web, 0, Phase.STARTING, "restarted")
            await act.says(web, 0, Phase.RUNNING, "running")
            await act.says(web, 0, Phase.READY, "probe-passed")
            await world.clock.sleep(700)
        assert failing(act, web)[0].code == "exit"
        assert act.counted("link_reported") - before <= 8, "80 crashes in 80 seconds"
        # Beside these there are acknowledgements, every five seconds, and summaries, every second.
        assert act.platform.state.info.seq - batches <= 8 + 80 // 5 + 80 + 5
        await world.clock.sleep(2 * STEADY_MS)
        assert failing(act, web) == (), "and in the end that it is well"

    linked(story)


def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The workloads that are looked at from here on."""
    found: list[int] = []

    def counted(state: Any, workload: int, at: int) -> Any:
        found.append(workload)
        return workload_report_steps(state, workload, at)

    monkeypatch.setattr(reporter, "workload_report_steps", counted)
    return found


def test_that_a_replica_is_not_ready_for_long_is_told_though_nothing_happens_in_the_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: LinkWorld) -> None:
        act, web = await placed(world)
        await act.says(web, 0, Phase.STARTING, "started")
        await act.says(web, 0, Phase.RUNNING, "running", "GET /health: connection refused")
        seq = act.region.state.info.seq
        await world.clock.sleep(500)
        looks = looked(monkeypatch)
        await world.clock.sleep(SLOW_MS - 1_000)
        assert failing(act, web) == ()
        assert looks == [], "until it is due nothing is looked at"
        told = (Failing("probe-not-passed", 1, "n1", "GET /health: connection refused"),)
        await act.soon(lambda: failing(act, web) == told, 1_000)
        assert act.region.state.info.seq == seq
        await act.says(web, 0, Phase.READY, "probe-passed")
        await act.soon(lambda: failing(act, web) == (), 200)

    linked(story)


def test_changes_of_one_workload_are_told_fifty_times_a_second_at_most() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        web = await act.put(a_workload(replicas=90))
        uid = await act.assign(web, 90)
        await world.clock.sleep(2_000)
        before = act.counted("link_reports")
        for ordinal in range(90):
            await act.open(uid, ordinal)
            await world.clock.sleep(5)
        await act.soon(lambda: (seen := act.seen(web)) and seen.waiting and seen.waiting[0].count == 90)
        assert act.counted("link_reports") - before <= 30

    linked(story)


def test_changes_of_many_workloads_are_told_together_once_a_second() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        uids = []
        await act.platform.put(a_tenant("acme", "normal", most=200))
        for number in range(105):
            web = await act.put(a_workload(f"w{number}", replicas=20, template=a_template(command=str(number))))
            uids.append(await act.assign(web, 20))
        await world.clock.sleep(3_000)
        before = act.counted("link_reports")
        for ordinal in range(20):
            for uid in uids:
                await act.open(uid, ordinal)
            await world.clock.sleep(100)
        assert act.counted("link_reports") - before <= 3 + 3  # as many summaries

    linked(story)


def test_another_assignment_of_a_workload_is_told_of_though_it_looks_like_the_last_one() -> None:
    """The platform forgets what it was told with the assignment: what is as it was before is news to it."""

    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        web = await act.put(a_workload())
        uid = await act.assign(web, 0)
        await act.soon(lambda: act.seen(web))
        await act.platform.accept(ASSIGNMENT, p.EndAssignment(uid))
        await act.soon(lambda: uid not in act.region.state.assignments)
        assert act.seen(web) is None
        await act.assign(web, 0)
        await act.soon(lambda: act.seen(web))

    linked(story)


def test_a_change_that_was_not_heard_of_is_found_by_looking_at_everything() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        web = await act.put(a_workload())
        uid = await act.assign(web, 1)
        await act.soon(lambda: act.seen(web) is not None, 150)
        hub = act.region.ledger.hub
        for touches in list(hub._touches.values()):
            touches.touch = lambda keys: None  # type: ignore[method-assign]
        await act.open(uid, 0)
        await world.clock.sleep(5_000)
        assert (seen := act.seen(web)) is not None
        assert seen.waiting == ()
        await act.soon(lambda: (seen := act.seen(web)) and seen.waiting, 70_000)
        assert act.counted("reporting_caught") == 0, "it may be heard of yet"
        await world.clock.sleep(10_000)
        assert act.counted("reporting_caught") == 1

    linked(story)


def test_where_every_change_is_heard_of_looking_at_everything_catches_nothing() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        web = await act.put(a_workload(replicas=9))
        uid = await act.assign(web, 9)
        await world.clock.sleep(RESYNC_MS - 4_000)
        for ordinal in range(9):
            await world.clock.sleep(997)
            await act.open(uid, ordinal)
        await world.clock.sleep(2 * RESYNC_MS)
        assert (seen := act.seen(web)) is not None
        assert sum(one.count for one in seen.waiting) == 9
        assert act.counted("reporting_caught") == 0

    linked(story)


def test_when_changes_had_to_be_left_out_everything_is_looked_at() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        web = await act.put(a_workload())
        uid = await act.assign(web, 1)
        for touches in list(act.region.ledger.hub._touches.values()):
            touches.close()
        await act.open(uid, 0)
        await act.soon(lambda: (seen := act.seen(web)) and seen.waiting)

    linked(story)


# The region as a whole


def test_the_first_summary_comes_at_once_and_then_one_a_second_at_most() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.soon(lambda: act.summary() is not None)
        before = act.counted("link_summaries")
        for number in range(30):
            await act.node(f"n{number}")
            await world.clock.sleep(100)
        await act.soon(lambda: (summary := act.summary()) and summary.nodes and summary.nodes[0].count == 30, 1_100)
        assert act.counted("link_summaries") - before <= 4

    linked(story)


def test_a_region_in_which_nothing_changes_says_nothing() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        uid = await act.assign(await act.put(a_workload()), 1)
        await act.open(uid, 0)
        await world.clock.sleep(10_000)
        told, seq = len(sent(act, object)), act.platform.state.info.seq
        await world.clock.sleep(200_000)  # more than once everything is looked at again
        assert (len(sent(act, object)), act.platform.state.info.seq) == (told, seq)

    linked(story)


# Grants


def test_a_grant_is_settled_as_soon_as_it_is_logged() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        await act.soon(lambda: act.settled() == (1, cpu(5_000)), 50)
        await act.grant(2_000)
        await act.soon(lambda: act.settled() == (2, cpu(2_000)), 50)

    linked(story)


def test_a_grant_lowered_below_what_is_charged_is_settled_at_that_and_lower_when_charges_fall() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, web = await act.node("n1"), await act.put(a_workload(template=a_template(1_000)))
        uid = await act.assign(web, 3)
        await act.open(uid, 0, 1, 2)
        await act.place(uid, node, 0, 1, 2)
        await act.serve(web, 0, 1, 2)
        await act.grant(1_000)
        await act.soon(lambda: act.settled() == (2, cpu(3_000)))
        await act.end(web, 2)
        await act.soon(lambda: act.settled() == (2, cpu(2_000)))
        await act.end(web, 1)
        await act.soon(lambda: act.settled() == (2, cpu(1_000)))
        await act.end(web, 0)
        await world.clock.sleep(1_000)
        assert act.settled() == (2, cpu(1_000)), "never below the target"

    linked(story)


# Identities and assignments


def test_a_right_is_given_back_when_nothing_of_its_identity_is_left_and_not_before() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, db = await act.node("n1"), await act.put(an_exclusive(replicas=2))
        for ordinal in (0, 1):
            await act.platform.accept(ASSIGNMENT, p.GrantRight(db, ordinal, "eu"))
        uid = await act.assign(db, ordinals=(0, 1))
        await act.open(uid, 0, 1)
        await act.place(uid, node, 0, 1)
        await act.serve(db, 0, 1)
        await act.assign(db, ordinals=(0,))
        assert act.assignment(uid).returning == ((1, 2),)
        await world.clock.sleep(5_000)
        assert act.platform.state.rights[db, 1].region == "eu"
        assert sent(act, p.ReleaseRights) == []
        await act.end(db, 1)
        await act.soon(lambda: (db, 1) not in act.platform.state.rights)
        await act.soon(lambda: act.assignment(uid).returning == ())
        assert (act.counted("link_released"), len(sent(act, p.ReleaseRights))) == (1, 1)

    linked(story)


def test_all_rights_that_a_list_asks_for_are_given_back_in_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        db = await act.put(an_exclusive(replicas=5))
        for ordinal in range(5):
            await act.platform.accept(ASSIGNMENT, p.GrantRight(db, ordinal, "eu"))
        await act.assign(db, ordinals=(0, 1, 2, 3, 4))
        await act.assign(db, ordinals=(0,))
        await act.soon(lambda: act.platform.state.rights_of[db] == (("eu", ((0, 1),)),), 500)
        assert [word.ordinals for word in sent(act, p.ReleaseRights)] == [((1, 4),), ((4, 5),)]

    monkeypatch.setattr(reports, "RIGHTS_MAX", 3)  # of more, the rest waits for the list that the first ones make
    linked(story)


def test_an_ended_assignment_that_is_too_much_for_one_word_is_given_back_in_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, db = await act.node("n1"), await act.put(an_exclusive(replicas=5))
        await act.platform.accept(ASSIGNMENT, p.GrantRight(db, ((0, 5),), "eu"))
        uid = await act.assign(db, ordinals=(0, 1, 2, 3, 4))
        await act.open(uid, 0, 1)
        await act.place(uid, node, 0, 1)
        await act.serve(db, 0, 1)
        await act.platform.accept(ACME, p.DeleteWorkload("acme", "db"))
        await act.soon(lambda: act.platform.state.assignments[uid].ordinals == ((0, 2),), 500)
        await world.clock.sleep(5_000)
        assert act.platform.state.rights_of[db] == (("eu", ((0, 2),)),), "what has not ended is not given back"
        await act.end(db, 0)
        await act.end(db, 1)
        await act.soon(lambda: db not in act.platform.state.workloads, 500)
        assert act.platform.state.rights.is_empty()
        assert [word.ordinals for word in sent(act, p.ReleaseRights)] == [((2, 4),), ((4, 5),)]

    for module in (reports, assignment_stages):
        monkeypatch.setattr(module, "RIGHTS_MAX", 2)
    linked(story)


def test_an_ended_assignment_is_removed_once_it_is_empty_and_its_workload_goes_with_it() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, web = await act.node("n1"), await act.put(a_workload())
        uid = await act.assign(web, 1)
        await act.open(uid, 0)
        await act.place(uid, node, 0)
        await act.serve(web, 0)
        await act.platform.accept("tenant/acme", p.DeleteWorkload("acme", "web"))
        await act.soon(lambda: act.assignment(uid).stage is AssignmentStage.ENDED)
        await world.clock.sleep(2_000)
        assert web in act.platform.state.workloads
        await act.end(web, 0)
        await act.soon(lambda: web not in act.platform.state.workloads)
        await act.soon(lambda: uid not in act.region.state.assignments)
        assert (act.counted("link_removed"), act.counted("link_forgotten")) == (1, 0)

    linked(story)


def test_an_ended_assignment_that_the_platform_does_not_know_is_forgotten_here() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, web = await act.node("n1"), await act.put(a_workload())
        uid = await act.assign(web, 1)
        await act.open(uid, 0)
        await act.place(uid, node, 0)
        await act.platform.accept(ASSIGNMENT, p.EndAssignment(uid))
        session, at = act.platform.state.regions["eu"].status.session, world.clock.wall()
        removed = Envelope("region/eu", p.RemoveAssignment(uid), at, session=session, sequence=200)  # as if it had
        await act.platform.ledger.submit(removed)
        await world.clock.sleep(2_000)
        assert act.assignment(uid).stage is AssignmentStage.ENDED
        await act.end(web, 0)
        await act.soon(lambda: uid not in act.region.state.assignments)
        assert act.counted("link_forgotten") == 1
        assert act.counted("link_removed") == 0

    linked(story)


# Offers back


async def a_crowded_region(world: LinkWorld, code: str) -> tuple[LinkActors, int, int]:
    act = await link_actors(world)
    web = await act.put(a_workload(replicas=4))
    uid = await act.assign(web, 4)
    await act.open(uid, 0, 1, 2)
    await act.wait_in_vain(uid, code)
    return act, web, uid


def test_what_waits_for_room_for_long_is_offered_back_once_in_a_window() -> None:
    async def story(world: LinkWorld) -> None:
        act, web, _ = await a_crowded_region(world, "capacity")
        await world.clock.sleep(29_000)
        assert web not in act.platform.state.overflows
        await act.soon(lambda: web in act.platform.state.overflows, 3_000)
        (overflow,) = act.platform.state.overflows[web]
        assert (overflow.most, overflow.moved) == (1, 3)
        await world.clock.sleep(50_000)
        assert len(sent(act, p.OfferBack)) == 1
        await world.clock.sleep(20_000)
        assert len(sent(act, p.OfferBack)) == 2

    linked(story)


def test_what_waits_for_something_else_than_room_is_not_offered_back() -> None:
    async def story(world: LinkWorld) -> None:
        act, _, _ = await a_crowded_region(world, "over-grant")
        await world.clock.sleep(60_000)
        assert sent(act, p.OfferBack) == []

    linked(story)


def test_identities_are_not_offered_back() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        db = await act.put(an_exclusive(replicas=1))
        await act.platform.accept(ASSIGNMENT, p.GrantRight(db, 0, "eu"))
        uid = await act.assign(db, ordinals=(0,))
        await act.open(uid, 0)
        await act.wait_in_vain(uid)
        await world.clock.sleep(60_000)
        assert sent(act, p.OfferBack) == []

    linked(story)


def test_an_offer_that_comes_too_early_is_made_again_when_it_is_not() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        uids, webs = [], []
        for number in range(2):
            webs.append(await act.put(a_workload(f"w{number}", replicas=100, template=a_template(1, str(number)))))
            uids.append(await act.assign(webs[-1], 100))
        for uid in uids:
            await act.open(uid, *range(100))
            await act.wait_in_vain(uid)
        await act.soon(lambda: webs[0] in act.platform.state.overflows, 40_000)
        await world.clock.sleep(5_000)
        assert act.counted("link_words_refused", code="too-early") == 1
        assert webs[1] not in act.platform.state.overflows
        await act.soon(lambda: webs[1] in act.platform.state.overflows, 70_000)

    linked(story)


# What is remembered


def test_in_the_next_session_only_what_has_changed_is_told() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        webs = [await act.put(a_workload(f"w{number}")) for number in range(3)]
        uids = [await act.assign(web, 1) for web in webs]
        await act.soon(lambda: all(act.seen(web) for web in webs))
        await world.clock.sleep(2_000)
        told = len(sent(act, p.Report)), len(sent(act, p.AcknowledgeGrant))
        session = act.platform.state.regions["eu"].status.session
        act.region.line.is_cut = True
        await act.platform.accept("ledger", EndSession(session, "silent"))
        await act.open(uids[0], 0)
        act.region.line.is_cut = False
        await act.soon(lambda: (seen := act.seen(webs[0])) and seen.waiting, 20_000)
        await world.clock.sleep(5_000)
        assert act.counted("link_sessions") == 2
        later = [one for one in sent(act, p.Report)[told[0] :] if isinstance(one, p.Report)]
        assert {seen.workload for one in later for seen in one.seen} == {webs[0]}
        assert len(sent(act, p.AcknowledgeGrant)) == told[1]

    linked(story)


def test_another_log_of_the_platform_is_told_everything_again() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.node("n1")
        await act.soon(lambda: (summary := act.summary()) and summary.nodes, 1_500)
        await act.platform.stop()
        act.platform = await world.a_platform(log_id="log-restored", store=MemoryStore("restored"))
        await act.soon(lambda: (summary := act.summary()) and summary.nodes, 30_000)

    linked(story)


def test_what_was_told_is_forgotten_when_the_platforms_log_is_another_or_lost_its_end() -> None:
    def at(log_id: str, seq: int) -> RevisionToken:
        return RevisionToken(log_id, 1, seq, b"digest")

    told = ReportedState()
    assert told.on_change(at("a", 5))
    told.of["summary",] = "something"
    assert not told.on_change(at("a", 5))
    assert not told.on_change(at("a", 9))
    assert told.of
    kept = told.of
    assert told.on_change(at("a", 8))
    assert not told.of
    kept["late",] = "an answer to what was said before"
    assert not told.of
    told.of["summary",] = "something"
    assert told.on_change(at("b", 20))
    assert not told.of


def test_what_was_told_of_workloads_and_assignments_that_are_gone_is_dropped() -> None:
    bench = RegionBench()
    web = bench.a_workload(count=0, ordinals=0)
    gone = {("seen", 77): 1, ("rights", 78): 1, ("removed", 78): 1, ("offer", 78): 1}
    kept = {("seen", 1): 1, ("rights", web.uid): 1, ("removed", web.uid): 1, ("grant", "quota/acme"): 1, SUMMARY: 1}
    told: dict[Name, Any] = {**gone, **kept}
    run_to_end(forget_deleted(bench.state, told))
    assert told == kept


def test_the_next_leader_of_a_region_tells_everything_and_changes_nothing_by_it() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        web = await act.put(a_workload())
        uid = await act.assign(web, 1)
        await act.open(uid, 0)
        await act.soon(lambda: (seen := act.seen(web)) and seen.waiting)
        await act.soon(lambda: act.settled() == (1, cpu(5_000)))
        before = act.seen(web)
        second = world.region("r2")
        await act.region.stop()
        await second.leads()
        act.region = second
        await until(lambda: len(sent(act, p.Report)) >= 1, world.clock)
        await world.clock.sleep(2_000)
        assert (act.seen(web), act.settled()) == (before, (1, cpu(5_000)))

    linked(story)


def test_nothing_is_said_before_the_platform_was_heard_in_this_session() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        act.region.line.fate = lambda message: []
        session = act.platform.state.regions["eu"].status.session
        await act.platform.accept("ledger", EndSession(session, "silent"))
        await until(lambda: act.counted("link_sessions") == 2, world.clock)
        said = len(sent(act, object))
        await act.node("n1")
        await world.clock.sleep(8_000)
        assert len(sent(act, object)) == said
        act.region.line.fate = lambda message: [message]
        await act.soon(lambda: (summary := act.summary()) and summary.nodes, 10_000)

    linked(story)


def test_what_the_platform_could_not_judge_is_said_again_later() -> None:
    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        web = await act.put(a_workload())
        uid = await act.assign(web, 1)
        region = act.platform.state.principals["region/*"]
        disabled = msgspec.structs.replace(region, spec=msgspec.structs.replace(region.spec, disabled=True))
        await act.platform.put(disabled)
        await act.open(uid, 0)
        await act.soon(lambda: act.counted("link_words_refused", code="no-right") >= 1, 3_000)
        await world.clock.sleep(20_000)
        assert len(sent(act, p.Report)) <= 10, "and not all the time"
        await act.platform.put(region)
        await act.soon(lambda: (seen := act.seen(web)) and seen.waiting, 6_000)

    linked(story)


# The end


def test_a_retired_region_ends_everything_and_forgets_it_once_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipments, "PARTS_MAX", 1)  # more than one record holds

    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        await act.grant(5_000)
        node, web = await act.node("n1"), await act.put(a_workload())
        uid, other = await act.assign(web, 1), await act.assign(await act.put(a_workload("other")), 0)
        await act.open(uid, 0)
        await act.place(uid, node, 0)
        await act.serve(web, 0)
        act.region.line.is_cut = True
        await act.platform.accept("person/root", p.RetireRegion("eu", "its machines are sold"))
        await world.clock.sleep(200)
        act.region.line.is_cut = False
        await act.soon(
            lambda: act.counted("link_stood_down") and act.assignment(uid).stage is AssignmentStage.ENDED, 20_000
        )
        assert act.region.state.accepted_grants["quota/acme"].target == ZERO
        await act.soon(lambda: other not in act.region.state.assignments, 3_000)
        asked = len(act.region.line.asked)
        await world.clock.sleep(2_000)
        assert uid in act.region.state.assignments, "its replica still runs"
        await act.end(web, 0)
        await act.soon(lambda: uid not in act.region.state.assignments, 3_000)
        assert len(act.region.line.asked) == asked, "nothing is said upward any more"
        assert (act.region.ledger.role, act.counted("link_stood_down")) == (Role.LEADING, 1)

    linked(story)


def test_a_retired_region_forgets_an_assignment_with_more_rights_than_one_record_gives_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reports, "RIGHTS_MAX", 1)

    async def story(world: LinkWorld) -> None:
        act = await link_actors(world)
        db = await act.put(an_exclusive(replicas=2))
        await act.platform.accept(ASSIGNMENT, p.GrantRight(db, ((0, 2),), "eu"))
        uid = await act.assign(db, ordinals=(0, 1))
        act.region.line.is_cut = True
        await act.platform.accept("person/root", p.RetireRegion("eu", "its machines are sold"))
        await world.clock.sleep(200)
        act.region.line.is_cut = False
        await act.soon(lambda: uid not in act.region.state.assignments, 20_000)

    linked(story)
