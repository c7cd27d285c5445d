"""An agent: one life after another at its region, in each of which it makes true what is bound to its node.

    open a session ──▶ register the node ──▶ heartbeats: until when leased work may live
                                         ──▶ the stream: what stands here
                                         ──▶ plan, do, tell ──▶ again whenever something changed
                                         ──▶ how the node fares
    the session is over ──▶ what runs goes on ──▶ another session

What it started outlives it: guards hold it, and its next life adopts it.
"""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from holdfast.agent.admission import BindingAdmission
from holdfast.agent.bindings_watch import BindingsWatch
from holdfast.agent.drivers.driver import Capabilities, Driver
from holdfast.agent.drivers.isolation import enforced_capabilities
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
from holdfast.host.protocol.session_client import SessionClient, SessionLost
from holdfast.host.runtime.clock_event import ClockEvent
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Logger, Metrics

#: An agent that its region does not take asks again after so long: a person has to do something first.
REJECTED_RETRY_MS = 2_000
#: One that may speak, and whose node is not taken, is silent for so long: longer than a lease and the fence. Each
#: session begins the fence of what stands there anew, and nobody could replace it.
NOT_REGISTERED_RETRY_MS = 60_000
#: Why nobody hears it is told after so long: what passes sooner is not worth a word.
WARN_EVERY_MS = 5_000


class AgentSuperseded(Exception):
    """Another agent speaks for this node: this one must not go on."""


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
        #: The region's numbers that it acts by, and what it says of its node by them.
        self._times = times or AgentLeaseTimes()
        self._node = replace(node, overrun=driver.keep(self._times.now))
        self._retold = asyncio.Event()
        self._session = session
        self._transport = transport
        self._driver = driver
        self._terms = terms
        self._clock = clock
        self._metrics = metrics
        #: How the node fares; None: it is not told.
        self._load_source = faring
        self._refusing = BindingAdmission(node, driver.kinds)
        self._logger = Logger("agent", node=node.name)
        self._wake = ClockEvent()
        self._probing = ProbeManager(asking, clock, metrics, self._wake.set)
        #: What is being started. It outlives the session that began it: a driver sees starts to their end.
        self._starting: dict[RunKey, asyncio.Task[None]] = {}
        #: Until when, on the node's even clock, its session is sure to live.
        self._lease = 0
        self.is_registered = asyncio.Event()

    async def run(self) -> None:
        """Be this node's agent until `AgentSuperseded`."""
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
        """Register with what the driver can enforce here, and refuse what takes more. What it cannot is a warning:
        whoever started it may not have meant that."""
        self._node = self._refusing.node = replace(self._node, capabilities=enforced_capabilities(can))
        self._logger.info("enforces", capabilities=",".join(self._node.capabilities))
        for why in can.missing:
            self._logger.warning("not-enforced", why=why)
        if self._node.shares_user and not can.users:
            why = "tenants run as one user here, and can read and end one another's work: it was told to share its user"
            self._logger.warning("not-enforced", why=why)

    async def _lives(self) -> None:
        while True:
            try:
                if await self._register():
                    await self._live()
            except SessionLost as over:
                self._lease = 0
                if over.successor:
                    raise AgentSuperseded(
                        f"{self._session.actor} has another session, {format_revision(over.successor)}"
                    ) from over
                self._metrics.count("agent_sessions_over")
                self._logger.warning("session-over", why=over)
            await self._session.back_off(1)

    async def _complain(self) -> None:
        """Say why nobody hears it, each reason once: its region knows only that it is silent."""
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
        """Begin a life, and say what the node is; whether the region takes it."""
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
        """One session, to its end."""
        wake = self._wake
        listening = BindingsWatch(self._session, self._transport, self._terms, self._metrics, wake.set)
        working = SyncLoop(
            self._session, self._driver, listening, self._probing, self._refusing, self._clock, self._metrics, wake,
            self._starting, self._times,
        )  # fmt: skip
        tasks = [self._renew(working), listening.run(), working.run(), self._tell_anew()]
        if self._load_source is not None:
            tasks.append(report_node_load(self._session, self._clock, self._node.name, self._load_source))
        await run_until_first(*tasks)

    async def _renew(self, working: SyncLoop) -> None:
        """Heartbeats, four in each lease. What one is worth counts from before it was sent (RULES 3)."""
        attempt = 0
        while True:
            sent = self._clock.boot()
            renewed = await self._session.renew()
            if renewed is not None and self._terms.heard(renewed.log_id, renewed.term):
                attempt = 0
                self._keep(renewed.times)
                self._lease = max(self._lease, sent + renewed.worth_ms)
                self._driver.extend(self._lease)
                working.leased_until(self._lease)
                await self._clock.sleep(renewed.worth_ms // 4)
                continue
            if renewed is not None:
                self._session.try_another_server(self._session.server)
            attempt += 1
            await self._session.back_off(attempt)

    def _keep(self, times: AgentTimes | None) -> None:
        """Act by the region's numbers, from before anything is extended by them (RULES 24)."""
        if not self._times.told(times):
            return
        now = self._times.now
        self._node = replace(self._node, overrun=self._driver.keep(now))
        told = {"lease": now.lease, "grace": now.grace, "kill_margin": now.kill_margin, "fence": now.fence}
        self._logger.info("times-told", **told, overrun=self._node.overrun)
        self._retold.set()

    async def _tell_anew(self) -> None:
        """Say how long exclusive work lives on here, whenever the region's numbers have made that something else."""
        while True:
            await self._retold.wait()
            self._retold.clear()
            await self._session.send(self._node)
