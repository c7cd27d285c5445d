"""Open repairs of a region: breaches, ended assignments, replicas that do not end.

Phase counts show which assignments have such replicas; the slots of others are not read.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.breaches import Breach, Repair, breach_repair, by_urgency
from holdfast.core.model.records.lifecycle import PHASES, Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values import bitsets
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.queries.fence import fenced_at
from holdfast.core.region.state.lookups import phase_count
from holdfast.core.region.state.slot_kinds import kinds_in
from holdfast.core.region.state.tables import RegionState

_STUCK = (Phase.UNKNOWN, Phase.TERMINATING)


def repairs(state: RegionState, now: Instant) -> list[Repair]:
    """Return all open repairs, the most urgent first."""
    return by_urgency(repair_steps(state, now))


def repair_steps(state: RegionState, now: Instant) -> Iterator[Repair | None]:
    """Yield all open repairs, in no order, and None for each object without one."""
    yield from _breaches(state, now)
    yield from _assignments(state)
    yield from _replicas(state, now)


def _breaches(state: RegionState, now: Instant) -> Iterator[Repair]:
    for _, breach in state.breaches.unordered():
        yield breach_repair(breach, *_subject_of(state, breach), now, state.region.name)


def _subject_of(state: RegionState, breach: Breach) -> tuple[str, str]:
    """Return the name of a breach's object, and its tenant."""
    kind, _, rest = breach.key.partition("/")
    uid, slash, tail = rest.partition("/")
    if kind == "node" and uid.isdigit() and (node := state.nodes.get(int(uid))) is not None:
        return f"node/{node.name}{slash}{tail}", ""
    if kind == "assignment" and uid.isdigit() and (one := state.assignments.get(int(uid))) is not None:
        return f"assignment/{one.tenant}/{one.workload_name}{slash}{tail}", one.tenant
    return breach.key, ""


def _assignments(state: RegionState) -> Iterator[Repair | None]:
    for _, one in state.assignments.unordered():
        if one.stage is not AssignmentStage.ENDED:
            yield None
        else:
            left = sum(phase_count(state, one.uid, phase) for phase in PHASES)
            yield Repair(
                what="assignment",
                key=f"assignment/{one.tenant}/{one.workload_name}/{one.region}/{one.purpose}",
                owner="controller/replica" if left else "platform",
                waits_for=f"{left} replicas to end" if left else "the platform to remove it: nothing of it is left",
                todo=f"`holdfast get replicas --region {one.region} --tenant {one.tenant}`" if left else "",
                tenant=one.tenant,
            )


def _replicas(state: RegionState, now: Instant) -> Iterator[Repair | None]:
    for uid, one in state.assignments.unordered():
        yield None
        if any(phase_count(state, uid, phase) for phase in _STUCK):
            stuck = [ordinals for kind, ordinals in kinds_in(state, uid).items() if Phase(kind[0]) in _STUCK]
            for ordinal in bitsets.each(bitsets.union(stuck)):
                yield _replica(state, one, state.slots[one.workload, ordinal], now)


def _replica(state: RegionState, assignment: Assignment, slot: Slot, now: Instant) -> Repair:
    """Return the repair of a replica. Its deadline: by then its agent has ended it, or it is fenced."""
    settings, node = state.info.settings, state.nodes.get(slot.node)
    name = node.name if node is not None else "a deleted node"
    is_silent = node is not None and not node.session
    if is_silent or slot.phase is Phase.UNKNOWN:
        deadline = fenced_at(state, node) if node is not None else slot.since + settings.fence_time
        owner, waits_for = "controller/repair", f"{name}, which is silent, to come back or to be fenced"
    else:
        deadline = slot.since + settings.grace + settings.kill_margin
        owner, waits_for = f"agent/{name}", f"{name} to end it ({slot.cause})"
    return Repair(
        what="replica",
        key=f"replica/{assignment.tenant}/{assignment.workload_name}/{state.region.name}/{slot.ordinal}",
        owner=owner,
        since=slot.since,
        deadline=deadline,
        overdue=now >= deadline,
        waits_for=waits_for,
        todo=f"`holdfast describe node {name} --region {state.region.name}`" if node is not None else "",
        tenant=assignment.tenant,
    )
