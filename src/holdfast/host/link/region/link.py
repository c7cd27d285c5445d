"""A region's link to the platform, a leader task of the region's ledger.

leads, proven ──▶ open a session ──▶ join ──▶ heartbeats | the stream of shipments | the region's reports
   ▲                                             │
   ├── the session has ended ◀───────────────────┤  tombstoned ──▶ stand down, for good
   └── a while later ── the log does not match ◀─┘  and nothing was applied or reported

After the platform has retired the region, it accepts nothing from this log any more:

    StandDown, until nothing is assigned or granted ──▶ slots are stopped and released, as always ──▶ each is forgotten

All of it goes through the region's own ledger. The platform ships no removals any more, so the link removes each
assignment once it has nothing left.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.revision import format_revision, parse_revision
from holdfast.core.model.values.settings import agent_times
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.commands import ForgetAssignment, StandDown
from holdfast.core.region.queries.fence import longest
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.link.region.follower import ACTOR, OTHER_TIMES, PlatformContact, PlatformView, ShipmentFollower
from holdfast.host.link.region.report_sender import ReportSender
from holdfast.host.link.region.reporter import Reporter
from holdfast.host.link.region.reports import ReportedState, is_over
from holdfast.host.link.region.session import PlatformTarget, RegionLogMismatch, RegionSession, RetiredByPlatform
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Transport
from holdfast.host.protocol.commands import CommandOutcome, CommandReply, Renewed
from holdfast.host.protocol.session_client import SessionLost
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Logger

#: Wait before a region that the platform does not accept tries again: an operator has to act first.
REJECTED_RETRY_MS = 5_000
#: Wait before a server without a fresh proof that it leads its region tries again.
RETRY_MS = 500
#: Largest number of own sessions that a server remembers; most of them were opened and could not join.
OWN_SESSIONS = 64
#: Wait between two checks of what is left, and before a retry.
STAND_DOWN_RETRY_MS = 1_000
REASON_MAX = 200


class Link:
    """The link of one server: run it as the leader task `ledger.beside["link"]`."""

    def __init__(
        self, ledger: Ledger[RegionState], transport: Transport, clock: Clock, platform: PlatformTarget
    ) -> None:
        self._ledger = ledger
        self._transport = transport
        self._clock = clock
        self._platform = platform
        self._outlook = PlatformView()
        self._speaker: RegionSession | None = None
        #: The last sessions that this leader opened for the region.
        self._own: deque[Revision] = deque(maxlen=OWN_SESSIONS)
        self._logger = Logger("link", server=ledger.identity.server, region=platform.region)

    @property
    def heard(self) -> PlatformContact | None:
        """Return the last message of the platform; None: none was received since this server started."""
        return self._outlook.last_contact

    def age_ms(self) -> int | None:
        """Return the age of this region's view of the platform: the time since it was last complete. None: it never
        was."""
        whole = self.heard.complete if self.heard is not None else None
        return None if whole is None else self._clock.boot() - whole

    def degraded_reason(self) -> str:
        """Return why this region cannot follow the platform; empty if it can, or has not tried yet."""
        return self._outlook.last_error or (self._speaker.last_error if self._speaker is not None else "")

    async def run(self, leader: Leader[RegionState]) -> None:
        """Keep the region up to date for as long as this server leads it."""
        self._speaker = speaker = RegionSession(self._transport, self._clock, self._platform, leader.term.now)
        reported = ReportedState()
        self._own.clear()
        while True:
            try:
                if await self._join(leader, speaker):
                    reported = ReportedState()
                following = ShipmentFollower(leader, speaker, self._transport, self._outlook, self._logger)
                saying = ReportSender(leader, speaker, self._logger)
                reporting = Reporter(leader, self._ledger.hub, self._outlook, reported, saying, self._platform.region)
                alive = speaker.keep_alive(partial(self._renewed, leader, speaker))
                await run_until_first(alive, following.run(), reporting.listen(), reporting.speak())
            except SessionLost as error:
                self._logger.info("session-over", why=error)
                await speaker.back_off(1)
            except RegionLogMismatch as error:
                await self._went_back(leader, error)
            except RetiredByPlatform as error:
                self._outlook.last_error = f"retired by the platform: {error}"
                self._logger.error("told-to-stop", why=error)
                await stand_down(leader, str(error), self._logger)
                await asyncio.Event().wait()

    async def _went_back(self, leader: Leader[RegionState], error: RegionLogMismatch) -> None:
        """Record the mismatch, and return when it is time to try again. A deposed leader merely lacks what its
        successor acknowledged: it does not get past the proof."""
        await self._must_lead(leader)
        why = f"this region's log does not match the platform's record: {error}"
        self._outlook.last_error = (
            f"{why}; nothing is applied from the platform, and nothing reported. hint: restore its store, or "
            f"`holdfast region forget {self._platform.region}` and start a new log. If its log is "
            f"intact, another sender used its token: revoke it, then `holdfast region believe {self._platform.region}`"
        )
        self._ledger.metrics.count("link_went_back")
        self._logger.error("went-back", why=why)
        await self._clock.sleep(REJECTED_RETRY_MS)

    async def _join(self, leader: Leader[RegionState], speaker: RegionSession) -> bool:
        """Return once this region has a session that has joined with its log. True if another process had joined for it
        before: then the platform's reports of it may not be this leader's."""
        is_other = False
        while True:
            await self._must_lead(leader)
            answered = await speaker.open()
            if speaker.session:
                state, now = leader.term.durable.state, leader.term.now()
                answered = await speaker.join(state.info.log_id, state.info.settings, longest(state, now))
                if answered.said is CommandOutcome.LANDED or answered.code == Code.ALREADY:
                    is_other = self._is_others(answered)
                    self._own.append(speaker.session)
                    break
                self._own.append(speaker.session)
            self._outlook.last_error = f"the platform does not accept this region: {answered.message} ({answered.code})"
            self._logger.warning("not-joined", code=answered.code, why=answered.message)
            await self._clock.sleep(REJECTED_RETRY_MS)
        self._ledger.metrics.count("link_sessions")
        self._logger.info("joined", session=format_revision(speaker.session), platform=speaker.server)
        if is_other:
            self._ledger.metrics.count("link_spoken_for")
            self._logger.warning("spoken-for", why="another process joined for this region; all is reported again")
        return is_other

    def _is_others(self, joined: CommandReply) -> bool:
        """Return whether the session that joined for this region before is not one of this leader's, if it had any."""
        before = parse_revision(joined.answer.decode(errors="replace"))
        return before is not None and bool(self._own) and before not in self._own

    async def _must_lead(self, leader: Leader[RegionState]) -> None:
        """Return once a new proof shows that this server leads. A deposed leader that opened a session would end the
        one of its successor."""
        while True:
            try:
                await self._ledger.read(ReadLevel.LINEAR)
                if self._ledger.leader is leader:
                    return
            except Unavailable as error:
                self._outlook.last_error = str(error)
            await self._clock.sleep(RETRY_MS)

    def _renewed(self, leader: Leader[RegionState], speaker: RegionSession, renewed: Renewed, _sent: int) -> int:
        """Return the shorter lease of the two ledgers, after a heartbeat."""
        self._ledger.metrics.gauge("link_offset_ms", speaker.offset.high)
        settings = leader.term.durable.state.info.settings
        if agent_times(settings) != speaker.times:
            raise SessionLost(OTHER_TIMES)
        return min(settings.session_lease, renewed.worth_ms)


async def stand_down(leader: Leader[RegionState], reason: str, logger: Logger) -> None:
    """Return once nothing is assigned or granted here, and ended assignments are forgotten."""
    while True:
        answer = await _submit(leader, StandDown(reason[:REASON_MAX]), logger)
        if isinstance(answer, Refused) and answer.code is Code.ALREADY:
            break
        if answer is None or isinstance(answer, Refused):
            await leader.term.clock.sleep(STAND_DOWN_RETRY_MS)
    leader.term.metrics.count("link_stood_down")
    logger.warning("stood-down", why=reason)
    while not leader.term.durable.state.assignments.is_empty():
        state = leader.term.durable.state
        for uid in [one.uid for one in state.assignments.values() if is_over(state, one)]:
            answer = await _submit(leader, ForgetAssignment(uid), logger)
            if answer is not None and not isinstance(answer, Refused):
                leader.term.metrics.count("link_forgotten")
        await leader.term.clock.sleep(STAND_DOWN_RETRY_MS)


async def _submit(leader: Leader[RegionState], command: Any, logger: Logger) -> CommandAnswer | None:
    """Return the answer of the region's own ledger; None if it has none now."""
    try:
        return await leader.submit_as(ACTOR, command)
    except Unavailable as error:
        logger.warning("not-done", command=type(command).__name__, why=error)
        return None
