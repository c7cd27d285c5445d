"""Replicas: an assignment's slots are what it asks for. Opened, retargeted, withdrawn, stopped; never restarted.

`wanted` says which ordinals there should be; here the difference to what is becomes commands. An ordinal that waits
under a template that is over is withdrawn first and opened again at the next look: a slot that waits has one template.
So is what waits with a charge to an emergency that has ended.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.reconciler import NOTHING, Key, Outcome, Wanted
from holdfast.core.model.allotment import Assignment, Stage
from holdfast.core.model.lifecycle import PENDING, RESERVED, STOPPABLE, Phase
from holdfast.core.model.placement import Slot
from holdfast.core.model.shapes import Instant
from holdfast.core.reconcilers.assigned import OfAssignments, has_lapsed, in_chunks, lapses_at
from holdfast.core.reconcilers.wanted import Plan, future, plan
from holdfast.core.region import commands as c
from holdfast.core.region.assigned import is_given_up
from holdfast.core.region.charging import paid_until
from holdfast.core.region.state import RegionState


class Replicas(OfAssignments):
    """Looks at one assignment at a time, by uid."""

    name = "replica"

    def reconcile(self, state: RegionState, key: Key, now: Instant) -> Outcome:
        assignment = state.assignments.get(key)  # type: ignore[arg-type]
        if assignment is None:
            return NOTHING
        found = plan(state, assignment, now)
        commands = [*_withdrawn(state, assignment, found, now), *_opened(state, assignment, found)]
        if not has_lapsed(state, assignment, now):  # what lapsed is stopped for that, and not because fewer are wanted
            commands += _stopped(assignment, found, now)
        sent = tuple(Wanted(command, assignment.revision) for command in commands)
        paid = [paid_until(state, slot.account) for slot in _waiting(state, assignment, found)]
        ends = [lapses_at(state, assignment, now), *paid]
        return Outcome(sent, min((at for at in ends if at is not None and at > now), default=None))


def _waiting(state: RegionState, assignment: Assignment, found: Plan) -> list[Slot]:
    """Of what is wanted, that which does not run."""
    slots = [state.slots.get((assignment.workload, ordinal)) for ordinal in found.templates]
    return [slot for slot in slots if slot is not None and slot.phase in (PENDING, RESERVED)]


def _opened(state: RegionState, assignment: Assignment, found: Plan) -> list[Any]:
    """New ordinals, and those that are to become something else than they are to become now."""
    named: dict[str, list[int]] = {}
    for ordinal, template in sorted(found.templates.items()):
        slot = state.slots.get((assignment.workload, ordinal))
        if slot is None or (slot.next_template != template and slot.phase not in (PENDING, Phase.SUCCEEDED)):
            named.setdefault(template, []).append(ordinal)
    return [
        c.OpenSlots(assignment.uid, template, chunk)
        for template, ordinals in named.items()
        for chunk in in_chunks(ordinals)
    ]


def _withdrawn(state: RegionState, assignment: Assignment, found: Plan, now: Instant) -> list[Any]:
    """Of what goes, that which does not run; and what waits under a template that it is not to have, or with a charge
    to what has ended."""
    misfits = [slot.ordinal for slot in _waiting(state, assignment, found) if _is_misfit(state, found, slot, now)]
    going = [slot.ordinal for slot in found.surplus if _is_withdrawn(slot)]
    return [c.WithdrawSlots(assignment.uid, chunk) for chunk in in_chunks(sorted((*going, *misfits)))]


def _is_misfit(state: RegionState, found: Plan, slot: Slot, now: Instant) -> bool:
    until = paid_until(state, slot.account)
    is_unpaid = until is not None and until <= now
    return is_unpaid or (slot.phase is PENDING and slot.template != found.templates[slot.ordinal])


def _is_withdrawn(slot: Slot) -> bool:
    return slot.phase in (PENDING, RESERVED) or (slot.phase is Phase.TERMINATING and bool(slot.next_template))


def _stopped(assignment: Assignment, found: Plan, now: Instant) -> list[Any]:
    named: dict[str, list[tuple[int, int]]] = {}
    for slot in found.surplus:
        if slot.phase in STOPPABLE:
            named.setdefault(_cause(assignment, found, slot, now), []).append((slot.workload, slot.ordinal))
    return [c.Stop(chunk, cause) for cause, slots in named.items() for chunk in in_chunks(slots)]


def _cause(assignment: Assignment, found: Plan, slot: Slot, now: Instant) -> str:
    """Why it goes. Where all that stays is what it should be, and this one is of a template that nobody asks for any
    more, it is not that fewer are wanted: the others do its work. Nobody does that of an identity, or of a batch."""
    if assignment.stage is Stage.ENDED:
        return "deadline-missed" if is_given_up(assignment, now) else "deleted"
    templates = [share.template for share in assignment.shares if share.count]
    leftover = slot.template not in templates and future(slot) not in templates
    if leftover and templates and not (found.old or assignment.exclusive or assignment.batch):
        return "superseded"
    return "scaled-down"
