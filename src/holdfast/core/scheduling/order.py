"""In which order requests are looked at: priority class, then deadline, then the tenant's share, then age.

A tenant's share is the part of the region that it has of the resource of which it has most (dominant resource): whoever
has least of theirs comes first. In parts of a million, so that every machine says the same. A deadline that has passed
hurries nobody any more: such work comes after all that can still be in time.
"""

from __future__ import annotations

from holdfast.core.model.placement import Sums, Use
from holdfast.core.model.resources import NOTHING, Resources, add, amount_of, names_in
from holdfast.core.model.shapes import Instant
from holdfast.core.region.assigned import is_late
from holdfast.core.region.state import RegionState

#: After every deadline that there is.
NEVER = 1 << 62
WHOLE = 1_000_000


def urgency(state: RegionState, assignment: int, now: Instant) -> tuple[int, Instant]:
    """What of the order does not depend on others: the priority, highest first, and the deadline, if one is ahead."""
    known = state.assignments[assignment]
    cls = state.classes.get(known.priority_class)
    deadline = NEVER if is_late(known, now) else known.deadline or NEVER
    return -(cls.spec.priority if cls is not None else 0), deadline


def share(sums: Sums, used: Resources) -> int:
    """The dominant share that so much is of the region."""
    most = 0
    for name in names_in(used):
        has = amount_of(sums.capacity, name)
        most = max(most, amount_of(used, name) * WHOLE // has if has else 0)
    return most


def used_by(state: RegionState, tenant: str, more: Resources = NOTHING) -> Resources:
    """What a tenant is charged here on its own account, and what is on its way."""
    use: Use | None = state.uses.get(f"quota/{tenant}")
    return add(use.charged, more) if use is not None else more
