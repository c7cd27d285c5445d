"""What a region does after the platform has retired it: the platform accepts nothing from this log any more.

    StandDown, until nothing is assigned or granted ──▶ slots are stopped and released, as always ──▶ each is forgotten

All of it goes through the region's own ledger. The platform ships no removals any more, so the link removes each
assignment once it has nothing left.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.region.commands import ForgetAssignment, StandDown
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.link.region.follower import ACTOR
from holdfast.host.link.region.reports import is_over
from holdfast.host.runtime.telemetry import Logger

#: Wait between two checks of what is left, and before a retry.
RETRY_MS = 1_000
REASON_MAX = 200


async def stand_down(leader: Leader[RegionState], reason: str, logger: Logger) -> None:
    """Return once nothing is assigned or granted here, and ended assignments are forgotten."""
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
    """Return the answer of the region's own ledger; None if it has none now."""
    try:
        return await leader.submit_as(ACTOR, command)
    except Unavailable as error:
        logger.warning("not-done", command=type(command).__name__, why=error)
        return None
