"""The controller manager: all controllers of a ledger receive the same changes and share nothing else.

    changes ──▶ listener ──▶ controller: queue ──▶ workers ──▶ ledger
                        └──▶ controller: queue ──▶ workers ──▶ ledger

A manager is a leader task for one term, which fences what its controllers send. The next leader creates another, which
needs no state of this one. The subscription to changes starts before the first listing of all keys, so nothing is
missed.
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
    """Runs reconcilers from `start` to `stop`, once."""

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
