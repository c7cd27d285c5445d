"""What a region does that is told to stop: the platform has retired it, and hears nothing of this log any more.

StandDown, until nothing is assigned or granted ──▶ what ran is stopped and released, as always ──▶ each is forgotten

Everything here goes through the region's own ledger. Nobody will ever ship that an assignment is gone, so the link
takes each away once nothing of it is left.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.region.commands import ForgetAssignment, StandDown
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.leader.group_commit import CommandAnswer
from holdfast.host.leader.leader import Leader
from holdfast.host.link.region.follower import ACTOR
from holdfast.host.link.region.reports import is_over
from holdfast.host.runtime.telemetry import Logger

#: Between two looks at what is left, and before something is tried again.
RETRY_MS = 1_000
REASON_MAX = 200


async def stand_down(leader: Leader[RegionState], reason: str, logger: Logger) -> None:
    """Return when nothing is assigned or granted here any more, and of what was, nothing is left."""
    while True:
        answer = await _submit(leader, StandDown(reason[:REASON_MAX]), logger)
        if isinstance(answer, Refused) and answer.code is Code.ALREADY:
            break
        if answer is None or isinstance(answer, Refused):
            await leader.term.clock.sleep(RETRY_MS)
    leader.term.metrics.count("link_stood_down")
    logger.warning("stood-down", why=reason)
    while not leader.term.durable.state.assignments.is_empty():
        state = leader.term.durable.state
        for uid in [one.uid for one in state.assignments.values() if is_over(state, one)]:
            answer = await _submit(leader, ForgetAssignment(uid), logger)
            if answer is not None and not isinstance(answer, Refused):
                leader.term.metrics.count("link_forgotten")
        await leader.term.clock.sleep(RETRY_MS)


async def _submit(leader: Leader[RegionState], command: Any, logger: Logger) -> CommandAnswer | None:
    """What the region's own ledger answers; None when it cannot now."""
    try:
        return await leader.submit(Envelope(ACTOR, command, leader.term.now()))
    except Unavailable as error:
        logger.warning("not-done", command=type(command).__name__, why=error)
        return None
