"""Endpoints beside a region's leader: what is ready is asked, and serves once it has answered.

    batches ──▶ which slots are ready ──▶ asked, and again soon ──▶ answered: published
            └─▶ which serve ──▶ asked every few seconds ──▶ failed several times in a row: withdrawn, unless most fail

The one idea: the agent says that a process is ready, and somebody else finds out whether it can be reached. Nothing
that was learned outlives the term: a new leader asks before it publishes, and leaves what serves as it is until it has
asked itself. When most of what it asks fails at once it is more likely cut off itself: then nothing is withdrawn.

    ledger.beside["endpoints"] = Endpoints(ledger, asker).run
"""

from __future__ import annotations

import asyncio

from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import NODE
from holdfast.host.controllers.endpoint_checks import NAME, EndpointChecks
from holdfast.host.controllers.leader_controllers import LeaderClient
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.endpoint_prober import EndpointOptions, EndpointProber
from holdfast.host.runtime.supervisor import Supervisor
from holdfast.host.runtime.telemetry import Logger


class EndpointController:
    """The endpoints of a region, on whichever server leads it."""

    def __init__(
        self,
        ledger: Ledger[RegionState],
        asker: EndpointProber,
        *,
        seed: int = 0,
        habits: EndpointOptions | None = None,
    ) -> None:
        self._ledger = ledger
        self._asker = asker
        self._seed = seed
        self._habits = habits or EndpointOptions()

    async def run(self, leader: Leader[RegionState]) -> None:
        """Ask and publish until the term is over. Raises when one of its tasks has to be given up."""
        given_up: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()

        def give_up(_name: str, error: BaseException) -> None:
            if not given_up.done():
                given_up.set_result(error)

        ledger, logger = self._ledger, Logger(NAME, server=self._ledger.identity.server)
        asking = EndpointChecks(
            LeaderClient(leader, ledger.hub, (NODE,)), ledger, self._asker, self._seed, self._habits, logger
        )
        supervisor = Supervisor(ledger.clock, ledger.metrics, logger, on_give_up=give_up)
        supervisor.start("endpoints/listen", asking.listen)
        supervisor.start("endpoints/patrol", asking.patrol)
        supervisor.start("endpoints/send", asking.send)
        supervisor.start("endpoints/first", asking.work_first)
        supervisor.start("endpoints/again", asking.work_again)
        try:
            raise await given_up
        finally:
            await supervisor.stop()
