"""The embedded schedulers, leader tasks: no session, no connection. The term fences them, as it fences a controller.

ledger.leader_tasks["scheduler"] = EmbeddedScheduler(ledger, plugins).run
ledger.leader_tasks["scheduler-2"] = EmbeddedScheduler(ledger, plugins, 2).run

Each has a name, a view and proposals of its own, and takes its own part of the queue first. They follow one state, the
leader's, and share its thread: more of them do not place more. They find what another one has to wait for, such as the
answer to its proposals.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import scheduler_principal
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.queue.peers import ALONE, peers_of
from holdfast.core.scheduling.scheduler import WATCHES
from holdfast.core.scheduling.view import SchedulerView
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.protocol.commands import SchedulerVitals
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.scheduler.loop import SchedulerLoop
from holdfast.host.watch.hub import KeyFeed, WatchHub


class _EmbeddedClient:
    """A leader as a scheduler of its term sees it. The view is the durable state and is never stale."""

    def __init__(self, actor: str, leader: Leader[RegionState], hub: WatchHub) -> None:
        self._actor = actor
        self._leader = leader
        self._hub = hub
        self._live: tuple[str, ...] = ()
        self._peers = ALONE

    def view(self) -> SchedulerView:
        term = self._leader.term
        live = term.schedulers.live()
        if live is not self._live:
            self._live, self._peers = live, peers_of(self._actor, live)
        return SchedulerView(term.durable.state, term.now(), peers=self._peers)

    def changes(self) -> KeyFeed:
        return self._hub.touched(WATCHES)

    async def submit(self, command: Any, view: Revision, policy: Revision, evidence: bytes) -> CommandAnswer:
        term = self._leader.term
        envelope = Envelope(self._actor, command, term.now(), view=view, policy=policy, evidence=evidence)
        answer = await self._leader.submit(envelope)
        term.schedulers.answered(envelope, answer)
        return answer


class EmbeddedScheduler:
    """One of the schedulers of the current leader, by its number from 1."""

    def __init__(self, ledger: Ledger[RegionState], plugins: Plugins, number: int = 1) -> None:
        self._ledger = ledger
        self._plugins = plugins
        self._actor = scheduler_principal(number)

    async def run(self, leader: Leader[RegionState]) -> None:
        """Schedule until the term ends."""
        server, board = self._ledger.identity.server, leader.term.schedulers
        logger = Logger("scheduler", server=server, actor=self._actor)
        region = _EmbeddedClient(self._actor, leader, self._ledger.hub)
        loop = SchedulerLoop(region, self._plugins, self._ledger.clock, self._ledger.metrics, logger)
        board.enter(self._actor, lambda: SchedulerVitals(server, loop.cycle_ms(), 0))
        try:
            await loop.run()
        finally:
            board.leave(self._actor)
