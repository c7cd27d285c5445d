"""The embedded scheduler, a leader task: no session, no connection. The term fences it, as it fences a controller.

ledger.leader_tasks["scheduler"] = EmbeddedScheduler(ledger, plugins).run
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import principal
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.cycle import SchedulerView
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.scheduler import WATCHES
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.scheduler.loop import SchedulerLoop
from holdfast.host.watch.hub import KeyFeed, WatchHub

ACTOR = principal("scheduler")


class _EmbeddedClient:
    """A leader as the scheduler of its term sees it. The view is the durable state and is never stale."""

    def __init__(self, leader: Leader[RegionState], hub: WatchHub) -> None:
        self._leader = leader
        self._hub = hub

    def view(self) -> SchedulerView:
        term = self._leader.term
        return SchedulerView(term.durable.state, term.now())

    def changes(self) -> KeyFeed:
        return self._hub.touched(WATCHES)

    async def submit(self, command: Any, view: Revision, policy: Revision, evidence: bytes) -> CommandAnswer:
        envelope = Envelope(ACTOR, command, self._leader.term.now(), view=view, policy=policy, evidence=evidence)
        return await self._leader.submit(envelope)


class EmbeddedScheduler:
    """The scheduler of the current leader."""

    def __init__(self, ledger: Ledger[RegionState], plugins: Plugins) -> None:
        self._ledger = ledger
        self._plugins = plugins

    async def run(self, leader: Leader[RegionState]) -> None:
        """Schedule until the term ends."""
        logger = Logger("scheduler", server=self._ledger.identity.server)
        region = _EmbeddedClient(leader, self._ledger.hub)
        await SchedulerLoop(region, self._plugins, self._ledger.clock, self._ledger.metrics, logger).run()
