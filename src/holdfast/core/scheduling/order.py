"""In which order requests are looked at: priority class, then deadline, then the tenant's share, then age.

A tenant's share is the part of the region that it has of the resource of which it has most (dominant resource): whoever
has least of theirs comes first. In parts of a million, so that every machine says the same. A deadline that has passed
hurries nobody any more: such work comes after all that can still be in time. Nor does one that is far away: else one in
ten years would come before everybody who has none, whatever they have and however long they wait.
"""

from __future__ import annotations

from holdfast.core.model.allotment import Assignment
from holdfast.core.model.placement import Sums, Use
from holdfast.core.model.resources import NOTHING, Resources, add, amount_of
from holdfast.core.model.shapes import Instant
from holdfast.core.region.assigned import is_late
from holdfast.core.region.state import RegionState

#: After every deadline that there is.
NEVER = 1 << 62
WHOLE = 1_000_000
#: So long before it a deadline begins to hurry.
HURRY_MS = 3_600_000


def urgency(state: RegionState, assignment: int, now: Instant) -> tuple[int, Instant]:
    """What of the order does not depend on others: the priority, highest first, and the deadline, if one is near."""
    known = state.assignments[assignment]
    cls = state.classes.get(known.priority_class)
    hurries = known.deadline and known.deadline - HURRY_MS <= now and not is_late(known, now)
    return -(cls.spec.priority if cls is not None else 0), known.deadline if hurries else NEVER


def turns_at(known: Assignment, now: Instant) -> Instant | None:
    """When its deadline next begins to hurry, or passes; None: neither is ahead."""
    return (
        next((at for at in (known.deadline - HURRY_MS, known.deadline) if now < at), None) if known.deadline else None
    )


def share(sums: Sums, used: Resources) -> int:
    """The dominant share that so much is of the region."""
    has, most = sums.capacity, 0
    plain = (used.cpu, has.cpu), (used.memory, has.memory), (used.disk, has.disk), (used.gpu, has.gpu)
    extended = [(amount, amount_of(has, name)) for name, amount in used.extended] if used.extended else ()
    for amount, all_ in (*plain, *extended):
        if all_ and amount * WHOLE // all_ > most:
            most = amount * WHOLE // all_
    return most


def used_by(state: RegionState, tenant: str, more: Resources = NOTHING) -> Resources:
    """What a tenant is charged here on its own account, and what is on its way."""
    use: Use | None = state.uses.get(f"quota/{tenant}")
    return add(use.charged, more) if use is not None else more
