"""A region's voice at the platform: in a session that has joined with the region's log.

open ──▶ join with the region's log ──▶ commands and heartbeats ──▶ `SessionLost`: open another one, and join again
                      └── tombstoned ──▶ `RetiredByPlatform`: nothing that this log says will ever be heard again
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
    """The region is retired: its log is tombstoned and will not be heard again (RULES 8)."""


class RegionLogMismatch(Exception):
    """This region's log is not the one that the platform was told of: it lost its end, or has another (RULES 9)."""


class PlatformTarget(Struct, frozen=True):
    """Where the platform is, and who asks it: servers by name, of which one leads; this region, the address under
    which it can be reached, and the headers that prove who it is, asked for with every request."""

    servers: tuple[str, ...]
    region: str
    address: str = ""
    credentials: Callable[[], Pairs] = tuple


class RegionSession(SessionClient):
    """One life of a region's link. `now` is the region's ledger time."""

    def __init__(
        self, transport: Transport, clock: Clock, platform: PlatformTarget, now: Callable[[], Instant]
    ) -> None:
        sender = SessionConfig(f"region/{platform.region}", platform.servers, platform.credentials)
        super().__init__(transport, clock, sender, now)
        self.region = platform.region
        self._address = platform.address
        #: The numbers that it has joined with.
        self.times = DEFAULT_TIMES

    async def join(self, log_id: str, settings: Settings, fence: Duration = 0) -> CommandReply:
        """Speak for the region with its log, from now on, in this session, and say by which numbers it fences; `fence`
        is a longer fence time than that of the settings which still counts."""
        self.times = agent_times(settings)
        times = settings.session_lease, settings.grace, max(settings.fence_time, fence)
        return await self.send(JoinRegion(self.region, log_id, self._address, *times))

    def _judged(self, answers: list[CommandReply]) -> list[CommandReply]:
        for answered in answers:
            if answered.code == Code.TOMBSTONED:
                raise RetiredByPlatform(answered.message)
        return super()._judged(answers)
