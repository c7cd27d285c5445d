"""StandDown: the platform has retired this region, so everything here ends (RULES 8).

The link sends it when the platform says that the region's log is tombstoned. Assignments end as if they had been ended
one by one, so that what runs is stopped and released by whoever does that always; grants pay for nothing new.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.registry import Case
from holdfast.core.model.allotment import Stage
from holdfast.core.model.resources import NOTHING
from holdfast.core.region import events as e
from holdfast.core.region.charging import charged
from holdfast.core.region.commands import NAMED_MAX, StandDown
from holdfast.core.region.state import RegionState


def stand_down(state: RegionState, command: StandDown, case: Case) -> Accepted | Refused:
    """End what is assigned and granted here, as much as one record holds: sent again until nothing is left."""
    events: list[object] = []
    for assignment in state.assignments.values():
        if assignment.stage is not Stage.ENDED and len(events) < NAMED_MAX:
            events.append(e.AssignmentStored(replace(assignment, stage=Stage.ENDED, shares=(), disruption=0)))
    for account, allowance in state.allowances.items():
        if (allowance.ends > case.at or allowance.target != NOTHING) and len(events) < NAMED_MAX:
            left = charged(state, account)
            paid = replace(allowance, target=NOTHING, limit=left, ends=min(allowance.ends, case.at), protected=NOTHING)
            events.append(e.AllowanceStored(paid))
    if not events:
        return Refused(Code.ALREADY, "nothing is assigned or granted here", {})
    return Accepted(tuple(events))
