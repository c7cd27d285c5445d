"""The runner of controllers: they hear the same changes, and share nothing else.

    changes ──▶ listener ──▶ controller: queue ──▶ workers ──▶ ledger
                        └──▶ controller: queue ──▶ workers ──▶ ledger

A runner lives for one term, beside the leader, whose term is the fence of what its controllers send: when leadership is
lost it is stopped, and the next leader makes another. It keeps nothing that a new one would miss: a listing of
everything comes first, after the subscription to changes, so that nothing falls between the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import Generic, TypeVar

from holdfast.core.ledger.reconciler import Reconciler
from holdfast.host.controllers.controller import Controller, ControllerOptions, FailingKey
from holdfast.host.controllers.ledger_client import LedgerClient
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.supervisor import OnGiveUp, Supervisor
from holdfast.host.runtime.telemetry import Logger, Metrics

S = TypeVar("S")


class ControllerManager(Generic[S]):
    """Keeps reconcilers going from `start` to `stop`, once."""

    def __init__(
        self,
        reconcilers: Sequence[Reconciler[S]],
        ledger: LedgerClient[S],
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
        """Begin: everything is looked at once, then what changes."""
        self._supervisor.start("reconcile", self._listen)
        self._supervisor.start("reconcile/measure", self._measure)
        for controller in self._controllers:
            self._supervisor.start(f"reconcile/{controller.name}", controller.work)

    async def stop(self) -> None:
        """End all of it. Nothing is sent after this; what was sent and not answered may still land."""
        await self._supervisor.stop()

    def failing(self) -> list[FailingKey]:
        """The keys that are not well, of all controllers, the longest so first."""
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
