"""A server's part in a ledger: load, follow, stand, lead, step down."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.answers import Repeated
from holdfast.core.ledger.draft import Landed
from holdfast.host.errors import NotLeading
from holdfast.host.ledger import Role
from tests.support.host import MemoryStore, World, batches_in, in_world, keys_in, until


def test_a_server_on_an_empty_store_starts_the_log_and_leads() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        assert server.state.facts.log_id == "log-eu"
        assert server.state.facts.term == 1
        assert isinstance(await server.override("a"), Landed)
        assert len(await keys_in(store)) == 1

    in_world(story)


def test_what_was_acknowledged_is_there_after_a_restart_and_a_repeat_is_answered_the_same() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        first = await world.server(store).start().leads()
        sent = first.clock.wall()
        landed = await first.override("a", sent=sent)
        command_time = sent
        await first.stop()
        second = await world.server(store, "s2").start().leads()
        assert second.state.facts.term == 2
        from tests.support.host import an_override
        from tests.support.region import ROOT

        again = await second.send(ROOT, an_override(command_time, "a"), key="a", sent=sent)
        assert isinstance(landed, Landed)
        assert again == Repeated(landed.revision, landed.answer)
        assert len(await keys_in(store)) == 1

    in_world(story)


def test_a_second_server_follows_and_refuses_commands() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = await world.server(store).start().leads()
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        await leader.override("a")
        await until(lambda: follower.state.facts.seq == leader.state.facts.seq, follower.clock)
        with pytest.raises(NotLeading):
            await follower.override("b")
        await follower.clock.sleep(600_000)
        assert leader.ledger.role is Role.LEADING
        assert follower.ledger.role is Role.FOLLOWING
        assert len(await batches_in(store)) == leader.state.facts.seq

    in_world(story)
