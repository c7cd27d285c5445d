"""The standalone scheduler, in its own process: a mirror of the region's log as view, and a session for commands.

    mirror loaded ──▶ open a session ──▶ the mirror shows it ──▶ schedule ──▶ the session ends
          ▲                                                                     │
          ├─── expired, numbers used up, mirror replaced or damaged ◀───────────┤
                                                    superseded by its name ─────┴──▶ `Superseded`: stop for good

A new session ends the one before it: commands of the old session can no longer commit, and a view that shows the new
session shows all that did. So unknown outcomes are settled before a new session schedules, and nothing must be
remembered between sessions or across a restart.

Each name has one scheduler. A process that learns of another session under its name stops: if two replaced each other
in turn, neither would schedule.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import CommandAnswer, Committed
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.values.structs import Revision
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.queue.peers import ALONE, peers_of
from holdfast.core.scheduling.scheduler import WATCHES
from holdfast.core.scheduling.view import SchedulerView
from holdfast.host.errors import Failed
from holdfast.host.ports.clock import Clock
from holdfast.host.protocol.commands import CommandOutcome, CommandReply, SchedulerVitals
from holdfast.host.protocol.session_client import SessionClient, SessionCommand, SessionLost
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.loop import SchedulerLoop
from holdfast.host.streams.mirror import Mirror
from holdfast.host.watch.hub import KeyFeed

#: Commands per request at most, so that none waits for many others.
COMMANDS_MAX = 100
#: Retry period after a rejected session: an operator has to act first.
REJECTED_RETRY_MS = 5_000


class _StandaloneClient:
    """A remote region in one session: the mirrored state and its age."""

    def __init__(self, mirror: Mirror, session: SessionClient) -> None:
        self._mirror = mirror
        self._session = session
        # The state follows the log. If the mirror replaces it, this session ends: observed changes of one state must
        # not be applied to another.
        self._state = mirror.state
        self._live: tuple[str, ...] = ()
        self._peers = ALONE
        self._waiting: deque[tuple[SessionCommand, asyncio.Future[CommandAnswer]]] = deque()
        self._wake = asyncio.Event()

    def view(self) -> SchedulerView:
        live = self._session.schedulers
        if live is not self._live:
            self._live, self._peers = live, peers_of(self._session.actor, live)
        return SchedulerView(self._state, self._mirror.now(), self._mirror.age_ms(), self._peers)

    def changes(self) -> KeyFeed:
        return self._mirror.changes(WATCHES)

    async def submit(self, command: Any, view: Revision, policy: Revision, evidence: bytes) -> CommandAnswer:
        answer: asyncio.Future[CommandAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((SessionCommand(command, view, policy, evidence), answer))
        self._wake.set()
        return await answer

    async def speak(self) -> None:
        """Send submitted commands in order, in rounds."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                words = [self._waiting.popleft() for _ in range(min(COMMANDS_MAX, len(self._waiting)))]
                answers = await self._session.send_many([word for word, _ in words])
                for (_, answer), answered in zip(words, answers, strict=True):
                    _give(answer, answered)


def _give(answer: asyncio.Future[CommandAnswer], answered: CommandReply) -> None:
    """Pass the outcome of a command to its caller, unless that was cancelled."""
    if answer.done():
        return
    if answered.said is CommandOutcome.LANDED:
        answer.set_result(Committed(answered.revision, answered.answer))
        return
    try:
        answer.set_result(Refused(Code(answered.code), answered.message, answered.facts))
    except ValueError:  # a code of a newer server: the command is not known to be committed
        answer.set_exception(Failed(f"refused with {answered.code}, which this version does not support"))


class StandaloneScheduler:
    """One scheduler by its name. `run` it while it is to schedule."""

    def __init__(
        self,
        session: SessionClient,
        mirror: Mirror,
        plugins: Plugins,
        clock: Clock,
        metrics: Metrics,
        where: str = "",
    ) -> None:
        self._session = session
        self._where = where
        self._loop: SchedulerLoop | None = None
        session.vitals = self._vitals
        self.mirror = mirror
        self._plugins = plugins
        self._clock = clock
        self._metrics = metrics
        self._logger = Logger("scheduler", actor=session.actor)

    async def run(self) -> None:
        """Schedule until `Superseded`, or `UpgradeNeeded`."""
        await run_until_first(self.mirror.run(), self._lives())

    async def _lives(self) -> None:
        while True:
            times = await self.mirror.shown.there()
            await self._open()
            try:
                await self._live(times)
            except SessionLost as over:
                self._session.raise_if_superseded(over)
                self._logger.warning("session-over", why=over)
                await self._session.back_off(1)

    async def _open(self) -> None:
        while True:
            answered = await self._session.open()
            if self._session.session:
                break
            self._logger.warning("not-taken", code=answered.code, why=answered.message)
            await self._clock.sleep(REJECTED_RETRY_MS)
        self._metrics.count("scheduler_sessions")
        self._logger.info("session", session=format_revision(self._session.session), server=self._session.server)

    async def _live(self, times: int) -> None:
        """Run one session until it ends or the mirror replaces its state, which may then lack the session."""
        region = _StandaloneClient(self.mirror, self._session)
        await run_until_first(
            self._session.keep_alive(), region.speak(), self._schedule(region), self.mirror.shown.over(times)
        )
        self._logger.warning("state-replaced", times=self.mirror.shown.times)

    async def _schedule(self, region: _StandaloneClient) -> None:
        await self.mirror.reach(self._session.session)
        self._loop = SchedulerLoop(region, self._plugins, self._clock, self._metrics, self._logger)
        await self._loop.run()

    def _vitals(self) -> SchedulerVitals:
        """Return what heartbeats report, from the first one on: others then leave it its part."""
        cycle_ms = self._loop.cycle_ms() if self._loop is not None else 0
        return SchedulerVitals(self._where, cycle_ms, self.mirror.age_ms())
