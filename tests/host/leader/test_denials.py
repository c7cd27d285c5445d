"""Denials on record: added up, written at most once a second, and not lost while the server leads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.audit import DenialsRecorded
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.values.limits import DENIALS_MAX
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.host.leader.denials import (
    CODES_MAX,
    KINDS_MAX,
    NOBODY,
    OTHERS,
    STRANGERS_MAX,
    STRANGERS_MS,
    STRANGERS_RECORDS,
)
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.store import Store
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, an_override, batches_in, in_world, until
from tests.support.ledgers.region import SCHEDULER

CLERK = "person/clerk"


async def on_record(store: Store) -> list[tuple[int, tuple[Denial, ...]]]:
    """When and what, for each record of denials in the log."""
    return [
        (record.at, event.denials)
        for batch in await batches_in(store)
        for record in batch.records
        for event in record.events
        if isinstance(event, DenialsRecorded)
    ]


async def deny(server: Server, key: str, **fields: Any) -> None:
    answer = await server.send(CLERK, an_override(server.clock.wall(), key), key=key, **fields)
    assert isinstance(answer, Refused)
    assert answer.code is Code.NO_RIGHT


def test_a_person_who_has_no_right_is_on_record_without_anybody_asking_for_it() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        began = server.clock.wall()
        await deny(server, "a")
        await server.clock.sleep(100)
        ((_, (denial,)),) = await on_record(store)
        assert (denial.actor, denial.what, denial.code, denial.count) == (CLERK, "open-override", "no-right", 1)
        assert began <= denial.first == denial.last <= server.clock.wall()
        assert server.ledger.metrics.counted("denials", code="no-right") == 1
        assert server.ledger.metrics.counted("denials_recorded") == 1

    in_world(story)


def test_equal_denials_are_added_up_and_written_once_a_second() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        for number in range(30):
            await deny(server, f"k{number}")
            await server.clock.sleep(100)
        await server.clock.sleep(2_000)
        records = await on_record(store)
        assert sum(denial.count for _, denials in records for denial in denials) == 30
        assert all(len(denials) == 1 for _, denials in records)
        times = [at for at, _ in records]
        assert all(later - earlier >= 990 for earlier, later in pairwise(times))
        assert 3 <= len(records) <= 5

    in_world(story)


def test_what_strangers_go_on_to_be_denied_is_on_record_once_a_minute_and_hides_nobody_who_is_known() -> None:
    seconds = 240

    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        for number in range(seconds):
            for kind in range(KINDS_MAX):
                server.ledger.denials.note(NOBODY, f"GET /v1/{kind}", "unauthenticated")
            server.ledger.denials.note(CLERK, f"GET /v1/{number}", "no-right")
            await server.clock.sleep(1_000)
        await server.clock.sleep(STRANGERS_MS)
        records = await on_record(store)
        of_strangers = [(at, [one for one in denials if one.actor == NOBODY]) for at, denials in records]
        written = [(at, some) for at, some in of_strangers if some]
        assert {len(some) for _, some in written} == {STRANGERS_MAX + 1}
        times = [at for at, _ in written]
        assert STRANGERS_RECORDS < len(written) <= STRANGERS_RECORDS + (seconds * 1_000) // STRANGERS_MS + 2
        later = list(pairwise(times[STRANGERS_RECORDS:]))
        assert all(second - first >= STRANGERS_MS - 1_000 for first, second in later), later
        assert sum(one.count for _, some in written for one in some) == seconds * KINDS_MAX
        mine = [one for _, denials in records for one in denials if one.actor == CLERK]
        assert sorted(one.what for one in mine) == sorted(f"GET /v1/{number}" for number in range(seconds))

    in_world(story)


def test_what_machines_are_refused_and_what_is_no_question_of_rights_is_not_noted() -> None:
    async def story(world: World) -> None:
        server = await world.server(MemoryStore()).start().leads()
        await server.send(SCHEDULER, Configure(DEFAULTS), session=7, sequence=1)
        await server.send("person/root", Configure(DEFAULTS), key="a")
        assert server.ledger.denials.waiting() == ()

    in_world(story)


def test_a_flood_of_kinds_is_summed_up_under_others() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        for number in range(1_000):
            server.ledger.denials.note(f"person/p{number}", "GET /v1/nodes Node", "no-right")
            server.ledger.denials.note("person/p1", "GET /v1/nodes Node", f"code-{number}")
        waiting = server.ledger.denials.waiting()
        assert len(waiting) <= KINDS_MAX + CODES_MAX + 1 <= DENIALS_MAX
        assert sum(denial.count for denial in waiting) == 2_000
        assert sum(denial.actor != OTHERS for denial in waiting) == KINDS_MAX
        await server.clock.sleep(100)
        assert [denials for _, denials in await on_record(store)] == [waiting]

    in_world(story)


def test_long_texts_are_cut_so_that_they_can_be_recorded() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        server.ledger.denials.note("x" * 9_000, "y" * 9_000, "unauthenticated", "z" * 9_000)
        await server.clock.sleep(100)
        ((_, (denial,)),) = await on_record(store)
        assert (denial.actor, denial.what, denial.tenant) == ("x" * 256, "y" * 256, "z" * 256)

    in_world(story)


def test_what_cannot_be_written_is_kept_and_written_later() -> None:
    async def story(world: World) -> None:
        inner = MemoryStore()
        store = FaultyStore(inner)
        server = await world.server(store).start().leads()
        store.is_full = True
        server.ledger.denials.note(CLERK, "GET /v1/nodes Node", "no-right")
        await server.clock.sleep(3_000)
        assert await on_record(inner) == []
        server.ledger.denials.note(CLERK, "GET /v1/nodes Node", "no-right")
        store.is_full = False
        await until(lambda: not server.ledger.denials.waiting(), server.clock)
        await server.clock.sleep(100)
        assert sum(denial.count for _, denials in await on_record(inner) for denial in denials) == 2

    in_world(story)


def test_what_a_follower_denies_waits_until_it_leads() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = await world.server(store).start().leads()
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        follower.ledger.denials.note("tenant/beta", "GET /v1/workloads Workload", "wrong-scope", "acme")
        await follower.clock.sleep(5_000)
        assert await on_record(store) == []
        await leader.stop()
        await follower.leads()
        await follower.clock.sleep(100)
        ((_, (denial,)),) = await on_record(store)
        assert (denial.actor, denial.tenant) == ("tenant/beta", "acme")

    in_world(story)


def test_a_leader_that_steps_down_keeps_what_it_could_not_write() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        store.cut()
        server.ledger.denials.note(CLERK, "GET /v1/nodes Node", "no-right")
        await until(lambda: server.ledger.role is Role.FOLLOWING, server.clock)
        assert [denial.count for denial in server.ledger.denials.waiting()] == [1]
        store.heal()
        await server.leads()
        await until(lambda: not server.ledger.denials.waiting(), server.clock)

    in_world(story)


def test_nothing_is_written_where_nothing_was_denied() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        before = len(await batches_in(store))
        await server.clock.sleep(60_000)
        assert len(await batches_in(store)) == before

    in_world(story)
