"""Events of rights and leases.

Each right is a row, written when it is granted and dropped when it is free. Since level 2, a region's latest lease end
is one row for all its rights to a workload; at level 1 each right has it.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.ledger.state.sparse_rows import put_or_drop
from holdfast.core.model.records.assignments import Assignment, HeldRight
from holdfast.core.model.values.ranges import Ranges, numbers, ranges_of, with_numbers
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.platform import events as e
from holdfast.core.platform.state.indexes import index_rights
from holdfast.core.platform.state.lookups import held_in, latest_lease_end
from holdfast.core.platform.state.tables import PlatformState


def right_granted(state: PlatformState, event: e.RightGranted, stamp: Stamp) -> None:
    _grant_rights(state, event.workload, ((event.ordinal, event.ordinal + 1),), event.region, stamp)


def rights_granted(state: PlatformState, event: e.RightsGranted, stamp: Stamp) -> None:
    _grant_rights(state, event.workload, event.ordinals, event.region, stamp)


def _grant_rights(state: PlatformState, workload: Revision, ordinals: Ranges, region: str, stamp: Stamp) -> None:
    for ordinal in numbers(ordinals):
        state.rights.put((workload, ordinal), HeldRight(workload, ordinal, region, stamp.revision))
    index_rights(state, workload, region, come=ordinals)


def rights_released(state: PlatformState, event: e.RightsReleased, stamp: Stamp) -> None:
    gone: dict[tuple[Revision, str], list[int]] = {}
    for held in event.rights:
        state.rights.drop((held.workload, held.ordinal))
        gone.setdefault((held.workload, held.region), []).append(held.ordinal)
    for (workload, region), ordinals in gone.items():
        index_rights(state, workload, region, gone=ranges_of(ordinals))


def rights_freed(state: PlatformState, event: e.RightsFreed, stamp: Stamp) -> None:
    for ordinal in numbers(event.ordinals):
        state.rights.drop((event.workload, ordinal))
    index_rights(state, event.workload, event.region, gone=event.ordinals)
    if not held_in(state, event.workload, event.region):
        _put_lease(state, event.workload, event.region, 0)


def record_lease(state: PlatformState, assignment: Assignment) -> None:
    """Record the lease end that its region receives: on each right at level 1, on all of them since level 2."""
    workload, until = assignment.workload, assignment.right_until
    if state.info.level >= 2:
        if latest_lease_end(state, workload, assignment.region) < until:
            _put_lease(state, workload, assignment.region, until)
        return
    for ordinal in numbers(with_numbers(assignment.ordinals, assignment.returning)):
        held = state.rights[workload, ordinal]
        if held.latest_lease_end < until:
            state.rights.put((workload, ordinal), replace(held, latest_lease_end=until))


def _put_lease(state: PlatformState, workload: Revision, region: str, until: Instant) -> None:
    others = [one for one in state.leases.get(workload) or () if one[0] != region]
    left = sorted((*others, (region, until))) if until else others
    put_or_drop(state.leases, workload, tuple(left))


APPLY_RIGHTS: dict[type, Any] = {
    e.RightGranted: right_granted,
    e.RightsReleased: rights_released,
    e.RightsGranted: rights_granted,
    e.RightsFreed: rights_freed,
}
