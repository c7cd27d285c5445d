"""Whether a server takes commands, as people and probes read it."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus
from holdfast.host.errors import ReadOnly
from holdfast.host.ledger.health import writable
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.store import StoreUsage
from holdfast.host.storage.space import HARD, SOFT
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, in_world, until


def seen(server: Server) -> tuple[ConditionStatus, ConditionReason]:
    condition: Condition = writable(server.ledger)
    assert condition.type == "Writable"
    return condition.status, condition.reason


def test_a_leader_is_writable_and_a_follower_is_not() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader = await world.server(store).start().leads()
        follower = world.server(store, "s2").start()
        await until(lambda: follower.ledger.role is Role.FOLLOWING, follower.clock)
        assert seen(leader) == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED)
        assert seen(follower) == (ConditionStatus.FALSE, ConditionReason.NOT_LEADING)
        assert "following" in writable(follower.ledger).message

    in_world(story)


def test_a_full_store_is_said_with_what_to_do_and_is_over_when_there_is_room() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()
        before, store.limit_bytes = store.limit_bytes, 1
        with pytest.raises(ReadOnly, match="hint:"):
            await server.override("a")
        assert seen(server) == (ConditionStatus.FALSE, ConditionReason.STORE_FULL)
        assert "hint:" in writable(server.ledger).message
        store.limit_bytes = before
        await until(lambda: seen(server) == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED), server.clock)
        assert isinstance(await server.override("a"), Committed)

    in_world(story)


@pytest.mark.parametrize("share", [SOFT, HARD])
def test_a_store_that_fills_up_is_still_writable_and_says_so(share: float) -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server = await world.server(store).start().leads()

        async def usage() -> StoreUsage:
            return StoreUsage(round(share * 1_000) + 1, 1_000)

        store.usage = usage  # type: ignore[method-assign]
        await until(lambda: seen(server) == (ConditionStatus.TRUE, ConditionReason.STORE_FILLING), server.clock)
        assert "full" in writable(server.ledger).message

    in_world(story)


def test_a_store_that_does_not_answer_leaves_it_unknown_and_then_nobody_leads() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        store.cut()
        await until(lambda: seen(server) == (ConditionStatus.UNKNOWN, ConditionReason.STORE_SILENT), server.clock)
        await until(lambda: seen(server) == (ConditionStatus.FALSE, ConditionReason.STORE_SILENT), server.clock)
        store.heal()
        await until(lambda: seen(server) == (ConditionStatus.TRUE, ConditionReason.AS_DESIRED), server.clock)

    in_world(story)


def test_a_server_that_stopped_says_why() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server = await world.server(store).start().leads()
        await server.override("a")
        await store.go_beside()
        await until(lambda: server.ledger.role is Role.STOPPED, server.clock)
        assert seen(server) == (ConditionStatus.FALSE, ConditionReason.STOPPED)
        assert "hint:" in writable(server.ledger).message

    in_world(story)
