"""Controllers beside a leader, through the whole host: watch, queue, reconcile, submit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.core.ledger.builtin.overrides import EndOverride
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.region.state.tables import RegionState
from holdfast.host.controllers.leader_controllers import LeaderControllers
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.ledger_world import Server, World, in_world, until


class EndsOverrides:
    """Ends what has passed its end: a controller as small as they come."""

    name = "override"
    watches: tuple[str, ...] = ("override",)

    def __init__(self, *, raises_for: int = 0) -> None:
        self.raises_for = raises_for

    def keys(self, state: RegionState) -> Iterable[ReconcileKey]:
        return [uid for uid, _ in state.overrides.items()]

    def wake(self, state: RegionState, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]]

    def reconcile(self, state: RegionState, key: Any, now: int) -> ReconcileResult:
        override = state.overrides.get(key)
        if override is None:
            return NO_CHANGES
        if key == self.raises_for:
            raise ValueError("this one cannot be looked at")
        if now < override.ends:
            return ReconcileResult(requeue_at=override.ends)
        return ReconcileResult((ProposedCommand(EndOverride(key, "its time has passed"), cause=key),))


def with_controllers(server: Server, *reconcilers: EndsOverrides) -> LeaderControllers[RegionState]:
    controllers = LeaderControllers(server.ledger, reconcilers)
    server.ledger.leader_tasks["controllers"] = controllers.run
    return controllers


def test_a_controller_acts_on_what_it_hears_and_when_it_is_time() -> None:
    async def story(world: World) -> None:
        server = world.server(MemoryStore())
        with_controllers(server, EndsOverrides())
        await server.start().leads()
        await server.override("a")
        assert len(server.state.overrides) == 1
        await server.clock.sleep(3_500_000)
        assert len(server.state.overrides) == 1
        await until(lambda: server.state.overrides.is_empty(), server.clock, 200_000)
        assert server.ledger.metrics.counted("reconcile_caught", controller="override") == 0

    in_world(story)


def test_what_the_last_leader_left_is_taken_up_by_the_controllers_of_the_next() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        first = await world.server(store).start().leads()
        await first.override("a")
        await first.stop()
        second = world.server(store, "s2")
        with_controllers(second, EndsOverrides())
        await second.start().leads()
        await until(lambda: second.state.overrides.is_empty(), second.clock, 3_700_000)

    in_world(story)


def test_a_controller_that_raises_for_one_object_is_named_and_does_its_work_for_the_others() -> None:
    async def story(world: World) -> None:
        server = world.server(MemoryStore())
        controller = EndsOverrides()
        controllers = with_controllers(server, controller)
        await server.start().leads()
        landed = await server.override("a")
        assert isinstance(landed, Committed)
        controller.raises_for = landed.revision
        await server.override("b")
        await until(lambda: len(server.state.overrides) == 1, server.clock, 3_700_000)
        (failing,) = controllers.failing()
        assert (failing.controller, failing.key) == ("override", landed.revision)
        assert "cannot be looked at" in failing.error
        controller.raises_for = 0
        await until(lambda: server.state.overrides.is_empty(), server.clock, 3_700_000)
        assert controllers.failing() == []

    in_world(story)


def test_controllers_end_with_the_term_and_nothing_of_theirs_runs_on_a_follower() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        servers = [world.server(store, name) for name in ("s1", "s2")]
        runners = [with_controllers(server, EndsOverrides()) for server in servers]
        await servers[0].start().leads()
        servers[1].start()
        await servers[0].override("a")
        await servers[1].clock.sleep(60_000)
        assert servers[1].ledger.metrics.counted("reconcile_total", controller="override", result="quiet") == 0
        await servers[0].stop()
        await servers[1].leads()
        await until(lambda: servers[1].state.overrides.is_empty(), servers[1].clock, 3_700_000)
        assert runners[1].failing() == []

    in_world(story)
