"""A region's session with the platform, which has joined with the region's log.

open ──▶ join with the region's log ──▶ commands and heartbeats ──▶ `SessionLost`: open another one, and join again
         └── tombstoned ──▶ `RetiredByPlatform`: no message of this log is accepted again
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.model.values.settings import DEFAULT_TIMES, Settings, agent_times
from holdfast.core.model.values.structs import Duration, Instant
from holdfast.core.platform.commands import JoinRegion
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Pairs, Transport
from holdfast.host.protocol.commands import CommandReply
from holdfast.host.protocol.session_client import SessionClient, SessionConfig


class RetiredByPlatform(Exception):
    """The region is retired: its log is tombstoned and is not accepted again (RULES 8)."""


class RegionLogMismatch(Exception):
    """This region's log is not the one that it acknowledged: it lost its end, or is another (RULES 9)."""


class PlatformTarget(Struct, frozen=True):
    """The platform as a region's link calls it: its servers, of which one leads, this region and its address, and the
    credentials for every request."""

    servers: tuple[str, ...]
    region: str
    address: str = ""
    credentials: Callable[[], Pairs] = tuple


class RegionSession(SessionClient):
    """One session of a region's link. `now` is the region's ledger time."""

    def __init__(
        self, transport: Transport, clock: Clock, platform: PlatformTarget, now: Callable[[], Instant]
    ) -> None:
        sender = SessionConfig(f"region/{platform.region}", platform.servers, platform.credentials)
        super().__init__(transport, clock, sender, now)
        self.region = platform.region
        self._address = platform.address
        #: The times with which it has joined.
        self.times = DEFAULT_TIMES

    async def join(self, log_id: str, settings: Settings, fence: Duration = 0) -> CommandReply:
        """Join for the region with its log in this session, and report its times. `fence` is a longer fence time than
        that of the settings, if one is still in force."""
        self.times = agent_times(settings)
        times = settings.session_lease, settings.grace, max(settings.fence_time, fence)
        return await self.send(JoinRegion(self.region, log_id, self._address, *times))

    def _judged(self, answers: list[CommandReply]) -> list[CommandReply]:
        for answered in answers:
            if answered.code == Code.TOMBSTONED:
                raise RetiredByPlatform(answered.message)
        return super()._judged(answers)
