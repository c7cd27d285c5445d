"""Controllers as a leader task: a controller manager is created for each term and stopped at its end.

ledger.leader_tasks["controllers"] = LeaderControllers(ledger, [ReplicaReconciler(), ...], seed).run

The controller manager: all controllers of a ledger receive the same changes and share nothing else.

    changes ──▶ listener ──▶ controller: queue ──▶ workers ──▶ ledger
                        └──▶ controller: queue ──▶ workers ──▶ ledger

A manager is a leader task for one term, which fences what its controllers send. The next leader creates another, which
needs no state of this one. The subscription to changes starts before the first listing of all keys, so nothing is
missed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import closing
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import Reconciler
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.controllers.controller import Controller, ControllerOptions, FailingKey
from holdfast.host.controllers.ledger_client import LedgerClient, LedgerView
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.supervisor import OnGiveUp, Supervisor
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.watch.hub import KeyFeed, WatchHub

T = TypeVar("T")


class LeaderClient(Generic[S]):
    """A leader's ledger, as the controllers of its term use it."""

    def __init__(self, leader: Leader[S], hub: WatchHub, kinds: tuple[str, ...]) -> None:
        self._leader = leader
        self._hub = hub
        self._kinds = kinds

    @property
    def state(self) -> S:
        return self._leader.term.durable.state

    def view(self) -> LedgerView[S]:
        term = self._leader.term
        state = term.durable.state
        return LedgerView(state, term.now(), pack_revision(state.info.seq, INDEX_MAX))

    async def submit(self, envelope: Envelope[Any]) -> CommandAnswer:
        return await self._leader.submit(envelope)

    def changes(self) -> KeyFeed:
        return self._hub.touched(self._kinds)


class LeaderControllers(Generic[S]):
    """The controllers of one ledger, on the server that leads it."""

    def __init__(
        self,
        ledger: Ledger[S],
        reconcilers: Sequence[Reconciler[S]],
        seed: int = 0,
        options: ControllerOptions | None = None,
    ) -> None:
        self._ledger = ledger
        self._reconcilers = reconcilers
        self._seed = seed
        self._options = options
        self._runner: ControllerManager[S] | None = None

    async def run(self, leader: Leader[S]) -> None:
        """Run them until the term ends. Raises if one of their tasks is given up."""
        kinds = tuple(sorted({kind for one in self._reconcilers for kind in one.watches}))
        given_up: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        def give_up(_name: str, error: BaseException) -> None:
            if not given_up.done():
                given_up.set_result(error)

        self._runner = ControllerManager(
            self._reconcilers,
            LeaderClient(leader, self._ledger.hub, kinds),
            self._ledger.clock,
            self._ledger.metrics,
            on_give_up=give_up,
            seed=self._seed,
            options=self._options,
        )
        self._runner.start()
        try:
            raise await given_up
        finally:
            await self._runner.stop()

    def failing(self) -> list[FailingKey]:
        """Return the failing keys of all controllers; none unless this server leads."""
        return self._runner.failing() if self._runner is not None and self._ledger.leader is not None else []


class ControllerManager(Generic[T]):
    """Runs reconcilers from `start` to `stop`, once."""

    def __init__(
        self,
        reconcilers: Sequence[Reconciler[T]],
        ledger: LedgerClient[T],
        clock: Clock,
        metrics: Metrics,
        *,
        on_give_up: OnGiveUp,
        seed: int = 0,
        options: ControllerOptions | None = None,
    ) -> None:
        names = [reconciler.name for reconciler in reconcilers]
        assert len(set(names)) == len(names), f"two reconcilers of one name: {names}"
        self._ledger = ledger
        self._clock = clock
        self._metrics = metrics
        self._logger = Logger("reconcile")
        self._options = options or ControllerOptions()
        self._controllers = [Controller(one, ledger, clock, metrics, seed, self._options) for one in reconcilers]
        self._supervisor = Supervisor(clock, metrics, self._logger, on_give_up=on_give_up)

    def start(self) -> None:
        """Start: list everything once, then follow changes."""
        self._supervisor.start("reconcile", self._listen)
        self._supervisor.start("reconcile/measure", self._measure)
        for controller in self._controllers:
            self._supervisor.start(f"reconcile/{controller.name}", controller.work)

    async def stop(self) -> None:
        """Stop all controllers. Commands in flight may still be committed."""
        await self._supervisor.stop()

    def failing(self) -> list[FailingKey]:
        """Return the failing keys of all controllers, the longest failing first."""
        failing = [one for controller in self._controllers for one in controller.failing()]
        return sorted(failing, key=lambda one: (one.since, one.controller, repr(one.key)))

    async def _listen(self) -> None:
        while True:
            with closing(self._ledger.changes()) as changes:
                heard = self._ledger.view().revision
                for controller in self._controllers:
                    controller.start_over(heard)
                async for change in changes:
                    state = self._ledger.view().state
                    for controller in self._controllers:
                        controller.on_change(state, change)
            self._metrics.count("reconcile_listened_anew")
            self._logger.warning("changes-left-out")
            await self._clock.sleep(self._options.queue.backoff_first_ms)

    async def _measure(self) -> None:
        while True:
            for controller in self._controllers:
                controller.measure()
            await self._clock.sleep(self._options.measure_ms)
