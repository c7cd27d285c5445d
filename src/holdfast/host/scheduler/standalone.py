"""A scheduler in a process of its own: a mirror of the region's log to look at, a session to speak in.

    mirror loaded ──▶ open a session ──▶ the mirror shows it ──▶ schedule ──▶ the session is over
          ▲                                                                     │
          ├────── silent for too long, numbers used up, state over or wrong ◀───┤
                                                    somebody else has the name ─┴──▶ `Superseded`: stop, for good

Opening a session ends the one before it: nothing that was said in that one can land any more, and a view that shows the
new session shows all that did. So whatever nobody answered is settled when the next session begins to schedule, and
nothing has to be remembered across lives: neither by who lost a session, nor by who was killed and started again.

A name has one scheduler. Who is told that another session has its name leaves it: two that took it from each other in
turn would both schedule nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.values.structs import Revision
from holdfast.core.scheduling.cycle import SchedulerView
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.scheduler import WATCHES
from holdfast.host.errors import Failed
from holdfast.host.ports.clock import Clock
from holdfast.host.protocol.commands import CommandOutcome, CommandReply
from holdfast.host.protocol.session_client import SessionClient, SessionCommand, SessionLost, Superseded
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.loop import SchedulerLoop
from holdfast.host.scheduler.region_client import ProposalAnswer
from holdfast.host.streams.mirror import Mirror
from holdfast.host.watch.hub import KeyFeed

#: So many commands go in one round at most, so that none waits for the answers to a great many others.
COMMANDS_MAX = 100
#: A scheduler that the region does not take asks again after so long: a person has to do something first.
REJECTED_RETRY_MS = 5_000


class _StandaloneClient:
    """A region as a scheduler far away sees it, in one session: what was heard of, and how old that is."""

    def __init__(self, mirror: Mirror, session: SessionClient) -> None:
        self._mirror = mirror
        self._session = session
        # It moves on with the log. Should another one take its place, this session ends; until it has, what was heard
        # of the one is not looked up in the other.
        self._state = mirror.state
        self._waiting: deque[tuple[SessionCommand, asyncio.Future[ProposalAnswer]]] = deque()
        self._wake = asyncio.Event()

    def view(self) -> SchedulerView:
        return SchedulerView(self._state, self._mirror.now(), self._mirror.age_ms())

    def changes(self) -> KeyFeed:
        return self._mirror.changes(WATCHES)

    async def submit(self, command: Any, view: Revision, policy: Revision, evidence: bytes) -> ProposalAnswer:
        answer: asyncio.Future[ProposalAnswer] = asyncio.get_running_loop().create_future()
        self._waiting.append((SessionCommand(command, view, policy, evidence), answer))
        self._wake.set()
        return await answer

    async def speak(self) -> None:
        """Send what is said, in its order, a round at a time: what is said meanwhile goes in the next one."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                words = [self._waiting.popleft() for _ in range(min(COMMANDS_MAX, len(self._waiting)))]
                answers = await self._session.send_many([word for word, _ in words])
                for (_, answer), answered in zip(words, answers, strict=True):
                    _give(answer, answered)


def _give(answer: asyncio.Future[ProposalAnswer], answered: CommandReply) -> None:
    """Hand on what became of a command, unless whoever said it is gone."""
    if answer.done():
        return
    if answered.said is CommandOutcome.LANDED:
        answer.set_result(Committed(answered.revision, answered.answer))
        return
    try:
        answer.set_result(Refused(Code(answered.code), answered.message, answered.facts))
    except ValueError:  # a newer server's word: whatever it means, nothing is known to have landed
        answer.set_exception(Failed(f"refused with {answered.code}, which this version does not know"))


class StandaloneScheduler:
    """One scheduler by its name. `run` it for as long as it is to schedule."""

    def __init__(
        self, session: SessionClient, mirror: Mirror, plugins: Plugins, clock: Clock, metrics: Metrics
    ) -> None:
        self._session = session
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
                if over.successor:
                    raise Superseded(
                        f"{self._session.actor} has another session, {format_revision(over.successor)}"
                    ) from over
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
        """One session, to its end; or until its state is shown no more: another one knows nothing of this session."""
        region = _StandaloneClient(self.mirror, self._session)
        await run_until_first(
            self._session.keep_alive(), region.speak(), self._schedule(region), self.mirror.shown.over(times)
        )
        self._logger.warning("state-replaced", times=self.mirror.shown.times)

    async def _schedule(self, region: _StandaloneClient) -> None:
        await self.mirror.reach(self._session.session)
        await SchedulerLoop(region, self._plugins, self._clock, self._metrics, self._logger).run()
