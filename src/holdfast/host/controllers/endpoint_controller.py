"""Endpoints of a region, as a leader task: probes ready replicas and publishes those that answer.

    batches ──▶ ready slots ──▶ probed, and soon again ──▶ success: published
            └─▶ serving slots ──▶ probed every few seconds ──▶ several failures in a row: withdrawn, unless most fail

The agent reports that a process is ready; this controller verifies that it can be reached. A new leader probes before
it publishes or withdraws. If most probes fail, the leader itself is probably disconnected and withdraws nothing.

    ledger.leader_tasks["endpoints"] = EndpointController(ledger, prober).run
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
    """The endpoints of a region, on the server that leads it."""

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
        """Probe and publish until the term ends. Raises if one of its tasks is given up."""
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
