"""The agent of one node: one session after another at its region, in each of which it runs what is bound to its node.

    open a session ──▶ register the node ──▶ heartbeats: extend the lease of leased work
                                         ──▶ the stream: what is bound here
                                         ──▶ plan, start and stop, report ──▶ again after each change
                                         ──▶ node load
    the session is lost ──▶ runs go on; guards end leased ones at their deadline ──▶ another session

Runs outlive the agent: their guards supervise them, and the next agent process adopts them.
"""

from __future__ import annotations

import asyncio
from functools import partial

from msgspec.structs import replace

from holdfast.agent.admission import BindingAdmission
from holdfast.agent.bindings_watch import BindingsWatch
from holdfast.agent.drivers.driver import Capabilities, Driver, enforced_capabilities
from holdfast.agent.lease_times import AgentLeaseTimes
from holdfast.agent.node_load import NodeLoadSource, report_node_load
from holdfast.agent.probe_manager import ProbeManager
from holdfast.agent.prober import Prober
from holdfast.agent.sync_loop import SyncLoop
from holdfast.agent.term_fence import TermFence
from holdfast.core.agent.plan import RunKey
from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.values.settings import AgentTimes
from holdfast.core.region.commands import RegisterNode
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Transport
from holdfast.host.protocol.commands import Renewed
from holdfast.host.protocol.session_client import SessionClient, SessionLost
from holdfast.host.runtime.deadlines import ClockEvent, run_until_first
from holdfast.host.runtime.telemetry import Logger, Metrics

#: An agent that its region refuses retries after this time: an operator has to act first.
REJECTED_RETRY_MS = 2_000
#: If the region refuses the node, the agent stays without a session this long: longer than a lease and the fence. Each
#: new session would restart the fence and delay a replacement.
NOT_REGISTERED_RETRY_MS = 60_000
#: The reason for a missing connection is logged after this time; shorter interruptions are not logged.
WARN_EVERY_MS = 5_000


class Agent:
    """The agent of one node. `run` it for as long as the node is to work."""

    def __init__(
        self,
        node: RegisterNode,
        session: SessionClient,
        transport: Transport,
        driver: Driver,
        asking: Prober,
        terms: TermFence,
        clock: Clock,
        metrics: Metrics,
        faring: NodeLoadSource | None = None,
        times: AgentLeaseTimes | None = None,
    ) -> None:
        #: The region's durations, which decide the `overrun` that the node registers with.
        self._times = times or AgentLeaseTimes()
        self._node = replace(node, overrun=driver.keep(self._times.now))
        self._retold = asyncio.Event()
        self._session = session
        self._transport = transport
        self._driver = driver
        self._terms = terms
        self._clock = clock
        self._metrics = metrics
        #: The source of the node load; None: it is not reported.
        self._load_source = faring
        self._refusing = BindingAdmission(node, driver.kinds)
        self._logger = Logger("agent", node=node.name)
        self._wake = ClockEvent()
        self._probing = ProbeManager(asking, clock, metrics, self._wake.set)
        #: Starts in progress. They outlive the session that planned them, since a driver finishes each start.
        self._starting: dict[RunKey, asyncio.Task[None]] = {}
        #: End of the session's lease, on the node's boot clock.
        self._lease = 0
        self.is_registered = asyncio.Event()

    async def run(self) -> None:
        """Run as this node's agent until `Superseded`."""
        await self._driver.open()
        self._enforce(self._driver.capabilities())
        try:
            await run_until_first(self._lives(), self._complain())
        finally:
            for task in self._starting.values():
                task.cancel()
            await asyncio.gather(*self._starting.values(), return_exceptions=True)
            await self._probing.close()
            await self._driver.close()

    def _enforce(self, can: Capabilities) -> None:
        """Register with the capabilities that the driver enforces, refuse bindings that need more, and warn of each
        missing one."""
        self._node = self._refusing.node = replace(self._node, capabilities=enforced_capabilities(can))
        self._logger.info("enforces", capabilities=",".join(self._node.capabilities))
        for why in can.missing:
            self._logger.warning("not-enforced", why=why)
        if self._node.shares_user and not can.users:
            why = "all tenants run as the agent's user (--share-user): they can read and end one another's work"
            self._logger.warning("not-enforced", why=why)

    async def _lives(self) -> None:
        while True:
            try:
                if await self._register():
                    await self._live()
            except SessionLost as over:
                self._lease = 0
                self._session.raise_if_superseded(over)
                self._metrics.count("agent_sessions_over")
                self._logger.warning("session-over", why=over)
            await self._session.back_off(1)

    async def _complain(self) -> None:
        """Log why the agent is not connected, each reason once. Its region only sees that the node is silent."""
        said = ""
        while True:
            await self._session.turned.wait()
            await self._clock.sleep(WARN_EVERY_MS)
            self._session.turned.clear()
            if self._session.last_error != said:
                said = self._session.last_error
                if said:
                    self._logger.warning("not-heard", why=said)

    async def _register(self) -> bool:
        """Open a session and register the node; whether the region accepts both."""
        answered = await self._session.open()
        if self._session.session:
            self._metrics.count("agent_sessions")
            answered = await self._session.send(self._node)
        if answered.code not in ("", Code.ALREADY):
            self._logger.warning("not-taken", code=answered.code, why=answered.message)
            not_taken_ms = max(NOT_REGISTERED_RETRY_MS, 2 * self._times.now.fence)
            await self._clock.sleep(not_taken_ms if self._session.session else REJECTED_RETRY_MS)
            return False
        self.is_registered.set()
        self._logger.info("registered", session=format_revision(self._session.session), server=self._session.server)
        return True

    async def _live(self) -> None:
        """Run one session to its end."""
        wake = self._wake
        listening = BindingsWatch(self._session, self._transport, self._terms, self._metrics, wake.set)
        working = SyncLoop(
            self._session, self._driver, listening, self._probing, self._refusing, self._clock, self._metrics, wake,
            self._starting, self._times,
        )  # fmt: skip
        alive = self._session.keep_alive(partial(self._renewed, working))
        tasks = [alive, listening.run(), working.run(), self._tell_anew()]
        if self._load_source is not None:
            tasks.append(report_node_load(self._session, self._clock, self._node.name, self._load_source))
        await run_until_first(*tasks)

    def _renewed(self, working: SyncLoop, renewed: Renewed, sent: int) -> int | None:
        """Extend the lease, which counts from before its heartbeat was sent (RULES 3)."""
        if not self._terms.heard(renewed.log_id, renewed.term):
            self._session.try_another_server(self._session.server)
            return None
        self._keep(renewed.times)
        self._lease = max(self._lease, sent + renewed.worth_ms)
        self._driver.extend(self._lease)
        working.leased_until(self._lease)
        return renewed.worth_ms

    def _keep(self, times: AgentTimes | None) -> None:
        """Use the region's durations, before any lease is extended by them (RULES 24)."""
        if not self._times.told(times):
            return
        now = self._times.now
        self._node = replace(self._node, overrun=self._driver.keep(now))
        told = {"lease": now.lease, "grace": now.grace, "kill_margin": now.kill_margin, "fence": now.fence}
        self._logger.info("times-told", **told, overrun=self._node.overrun)
        self._retold.set()

    async def _tell_anew(self) -> None:
        """Register again whenever new durations of the region have changed how long exclusive work may run on
        (`overrun`)."""
        while True:
            await self._retold.wait()
            self._retold.clear()
            await self._session.send(self._node)
