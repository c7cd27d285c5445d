"""Replicas: an assignment's slots match its request. They are opened, retargeted, withdrawn, stopped, never restarted.

The module `replica_plan` computes the ordinals; this one makes commands of the difference. A slot that waits under an
old template, or with a charge to an ended emergency, is withdrawn first and opened again in the next cycle.

A gang that has had too few members for the time that its spec allows is stopped as a whole, and waits again as a whole.
If a member has failed for good, the others are stopped for good, too.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.reconciler import NO_CHANGES, ProposedCommand, ReconcileKey, ReconcileResult, chunked
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import PENDING, RESERVED, STOPPABLE, Phase
from holdfast.core.model.values.bitsets import Bitset, each, minus, shared, union
from holdfast.core.model.values.structs import Instant
from holdfast.core.reconcilers.region.keyed import PerAssignment
from holdfast.core.reconcilers.region.replica_plan import ReplicaPlan, replica_plan
from holdfast.core.reconcilers.region.slot_groups import SlotGroup
from holdfast.core.region import commands as c
from holdfast.core.region.queries.accounts import is_emergency, paid_until
from holdfast.core.region.queries.assignments import has_lapsed, is_abandoned, may_run_until
from holdfast.core.region.state.gangs import broken_gangs
from holdfast.core.region.state.slot_kinds import kinds_in
from holdfast.core.region.state.tables import RegionState


class ReplicaReconciler(PerAssignment):
    """The replica controller, keyed by assignment uid."""

    name = "replica"

    def reconcile(self, state: RegionState, key: ReconcileKey, now: Instant) -> ReconcileResult:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None:
            return NO_CHANGES
        found = replica_plan(state, assignment, now)
        commands = [*_withdrawn(state, assignment, found, now), *_opened(assignment, found)]
        if not has_lapsed(state, assignment, now):  # lapsed slots are stopped by `rights`, for that reason
            commands += _stopped(assignment, found, now)
        broken = [*broken_gangs(state, assignment, now)] if assignment.stage is AssignmentStage.ACTIVE else []
        commands += _broken(assignment, found, [one.standing for one in broken if one.ends <= now])
        sent = tuple(ProposedCommand(command, assignment.revision, expect=assignment.revision) for command in commands)
        paid = [until for _, until in _lent(state, assignment, found)]
        ends = [may_run_until(state, assignment), *paid, *(one.ends for one in broken)]
        return ReconcileResult(sent, min((at for at in ends if at is not None and at > now), default=None))


def _lent(state: RegionState, assignment: Assignment, found: ReplicaPlan) -> list[tuple[Bitset, Instant]]:
    """Return the waiting slots that an emergency quota pays for, and until when."""
    waiting = union(one.ordinals for one in found.staying if one.kind.phase in (PENDING, RESERVED))
    ends: list[tuple[Bitset, Instant]] = []
    for (*_, account), ordinals in kinds_in(state, assignment.uid).items():
        until = paid_until(state, account) if is_emergency(account) else None
        if until is not None:
            ends.append((shared(ordinals, waiting), until))
    return [(ordinals, until) for ordinals, until in ends if ordinals]


def _opened(assignment: Assignment, found: ReplicaPlan) -> list[Any]:
    """Open new ordinals, and retarget those that are to become another template than planned so far."""
    named = dict(found.new)
    for kind, template, ordinals in found.staying:
        if kind.next_template != template and kind.phase not in (PENDING, Phase.SUCCEEDED):
            named[template] = union((named.get(template, {}), ordinals))
    return [
        c.OpenSlots(assignment.uid, template, part)
        for template, ordinals in sorted(named.items(), key=_lowest)
        for part in chunked([*each(ordinals)])
    ]


def _withdrawn(state: RegionState, assignment: Assignment, found: ReplicaPlan, now: Instant) -> list[Any]:
    """Withdraw surplus slots that do not run, and those that wait under a wrong template or with an ended charge."""
    misfits = [one.ordinals for one in found.staying if one.kind.phase is PENDING and one.kind.template != one.template]
    going = [ordinals for kind, ordinals in found.surplus if _is_withdrawn(kind)]
    unpaid = [ordinals for ordinals, until in _lent(state, assignment, found) if until <= now]
    named = [*each(union((*misfits, *going, *unpaid)))]
    return [c.WithdrawSlots(assignment.uid, part) for part in chunked(named)]


def _is_withdrawn(kind: SlotGroup) -> bool:
    return kind.phase in (PENDING, RESERVED) or (kind.phase is Phase.TERMINATING and bool(kind.next_template))


def _stopped(assignment: Assignment, found: ReplicaPlan, now: Instant) -> list[Any]:
    named: dict[str, Bitset] = {}
    for kind, ordinals in found.surplus:
        if kind.phase in STOPPABLE:
            cause = _cause(assignment, found, kind, now)
            for why, some in ((cause, minus(ordinals, found.failed)), ("gang-failed", shared(ordinals, found.failed))):
                if some:
                    named[why] = union((named.get(why, {}), some))
    return [
        c.Stop(part, cause)
        for cause, ordinals in sorted(named.items(), key=_lowest)
        for part in chunked([(assignment.workload, ordinal) for ordinal in each(ordinals)])
    ]


def _broken(assignment: Assignment, found: ReplicaPlan, broken: list[Bitset]) -> list[Any]:
    """Stop what stands of broken gangs that are to end."""
    running = union(one.ordinals for one in found.staying if one.kind.phase in STOPPABLE)
    stopped = shared(union(broken), running)
    return [c.Stop(part, "gang-broken") for part in chunked([(assignment.workload, n) for n in each(stopped)])]


def _lowest(named: tuple[str, Bitset]) -> int:
    return next(each(named[1]))


def _cause(assignment: Assignment, found: ReplicaPlan, kind: SlotGroup, now: Instant) -> str:
    """Return why a slot ends.

    A slot of a template that is no longer requested is superseded, not scaled down, if all others are as they should
    be. Others do its work then; that is never so for identities or batch work.
    """
    if assignment.stage is AssignmentStage.ENDED:
        return "deadline-missed" if is_abandoned(assignment, now) else "deleted"
    templates = [share.template for share in assignment.shares if share.count]
    leftover = kind.template not in templates and kind.future not in templates
    if leftover and templates and not (found.old or assignment.exclusive or assignment.batch):
        return "superseded"
    return "scaled-down"
