"""The difference of this region's ledger time and the platform's, and how it converts ends.

A request and its reply give two bounds, because the platform wrote its time between the two:

    asked ──────────▶ at ──────────▶ heard          asked - at  <=  ours - theirs  <=  heard - at

In doubt a permission ends early and a restriction ends late (RULES 19).

The platform's time never goes back in one leader's term, but the next leader begins at the last stamp in its log, which
may be much older. So bounds are valid in one term only, and messages of a deposed leader are ignored.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.model.objects.override_effects import is_permissive
from holdfast.core.model.values.structs import Instant
from holdfast.core.region import commands as c
from holdfast.core.region.queries.accounts import is_emergency

#: A leader: a log, and a term in it.
LeaderKey = tuple[str, int]


class TimeOffset:
    """Our time less theirs, between two bounds from the last reply, narrowed by every message since."""

    def __init__(self) -> None:
        self.low = self.high = 0
        self.is_measured = False
        self._led: LeaderKey = ("", 0)
        #: When that leader was first seen, in our time, and whether it has replied since.
        self._since: Instant = 0
        self._has_answered = True

    def measure(self, asked: Instant, at: Instant, heard: Instant, led: LeaderKey | None = None) -> None:
        """Set the bounds from a reply that was written at `at`, between these two times of ours.

        The leader that wrote it is in `led`, if known. A reply to a request from before the present leader was seen is
        ignored.
        """
        if led is not None:
            if self._is_over(led):
                return
            if led != self._led:
                self._led, self._since = led, asked
        if asked >= self._since:
            self.low, self.high, self.is_measured = asked - at, heard - at, True
            self._has_answered = True

    def observe(self, at: Instant, now: Instant, led: LeaderKey) -> None:
        """Narrow the bounds with a message that this leader wrote at `at`.

        The upper bound shows if their time has jumped ahead. A new leader's time may be lower, with unknown delay; the
        old lower bound still holds.
        """
        if self._is_over(led):
            return
        if led != self._led:
            self._led, self._since, self._has_answered = led, now, False
            self.high = now - at
        self.high = min(self.high, now - at)
        self.low = min(self.low, self.high)

    def _is_over(self, led: LeaderKey) -> bool:
        """Whether this leader was deposed."""
        return led[0] == self._led[0] and led[1] < self._led[1]

    def to_remote(self, ours: Instant) -> Instant:
        """Return their approximate time."""
        return ours - self._middle

    @property
    def _middle(self) -> int:
        """The best estimate. Before a leader's first reply only the upper bound is known."""
        return (self.low + self.high) // 2 if self._has_answered else self.high

    def in_our_time(self, put: c.ShippedItem) -> c.ShippedItem:
        """Return the object with its end in our time, as the region compares it."""
        match put:
            case c.ShippedAssignment(assignment) if assignment.right_until:
                # A right that ended later here than there would let two regions run one identity (RULES 6).
                return c.ShippedAssignment(replace(assignment, right_until=assignment.right_until + self.low))
            case c.ShippedAssignment(assignment) if assignment.deadline:
                # A deadline that is off by a message's delay does no harm: the middle is the best estimate. Without it,
                # a clock that is an hour ahead would end the work an hour too soon.
                return c.ShippedAssignment(replace(assignment, deadline=assignment.deadline + self._middle))
            case c.ShippedOverride(override):
                by = self.low if is_permissive(override.action) else self.high
                return c.ShippedOverride(replace(override, ends=override.ends + by))
            case c.ShippedGrant() if is_emergency(put.account):
                # An emergency grant's end stops what it paid for. Other grants last a day, are renewed, and stop
                # nothing.
                return replace(put, ends=put.ends + self.low)
            case _:
                return put
