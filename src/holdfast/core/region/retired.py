"""StandDown: the platform has retired this region, so everything here ends (RULES 8).

The link sends it when the platform says that the region's log is tombstoned. Assignments end as if they had been ended
one by one, so that what runs is stopped and released by whoever does that always; grants pay for nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Stage
from holdfast.core.model.resources import NOTHING
from holdfast.core.region import events as e
from holdfast.core.region.charging import charged
from holdfast.core.region.commands import NAMED_MAX, StandDown
from holdfast.core.region.state import RegionState

#: So much ends in one record, or one assignment, however large it is.
ENDED_BYTES = 512 << 10


def stand_down(state: RegionState, command: StandDown, case: Case) -> Accepted | Refused:
    """End what is assigned and granted here, as much as one record holds: sent again until nothing is left."""
    events: list[object] = []
    left = ENDED_BYTES
    for event in _endings(state, case):
        left -= len(encode(event))
        if events and (left < 0 or len(events) == NAMED_MAX):
            break
        events.append(event)
    if not events:
        return Refused(Code.ALREADY, "nothing is assigned or granted here", {})
    return Accepted(tuple(events))


def _endings(state: RegionState, case: Case) -> Iterator[object]:
    for uid in state.unended:
        yield e.AssignmentStored(replace(state.assignments[uid], stage=Stage.ENDED, shares=(), disruption=0))
    for account, allowance in state.allowances.items():
        if allowance.ends > case.at or allowance.target != NOTHING:
            left = charged(state, account)
            paid = replace(allowance, target=NOTHING, limit=left, ends=min(allowance.ends, case.at), protected=NOTHING)
            yield e.AllowanceStored(paid)
