"""Controllers as a leader task: a controller manager is created for each term and stopped at its end.

ledger.leader_tasks["controllers"] = LeaderControllers(ledger, [ReplicaReconciler(), ...], seed).run
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import Reconciler
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.controllers.controller import ControllerOptions, FailingKey
from holdfast.host.controllers.ledger_client import LedgerView
from holdfast.host.controllers.manager import ControllerManager
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.watch.hub import KeyFeed, WatchHub

S = TypeVar("S", bound=LedgerState)


class LeaderClient(Generic[S]):
    """A leader's ledger, as the controllers of its term use it."""

    def __init__(self, leader: Leader[S], hub: WatchHub, kinds: tuple[str, ...]) -> None:
        self._leader = leader
        self._hub = hub
        self._kinds = kinds

    @property
    def state(self) -> S:
        """Return the durable state."""
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
