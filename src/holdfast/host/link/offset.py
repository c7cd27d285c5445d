"""How far this region's ledger time is ahead of the platform's, and what ends when in our time.

A question and its answer give two bounds: the platform wrote its time after we asked and before we heard.

    asked ──────────▶ at ──────────▶ heard          asked - at  <=  ours - theirs  <=  heard - at

In doubt what permits ends early and what restricts ends late (RULES 19).
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.model.effects import is_permissive
from holdfast.core.model.shapes import Instant
from holdfast.core.region import commands as c
from holdfast.core.region.charging import is_emergency


class Offset:
    """Ours less theirs, between two bounds: of the last question and answer, and of everything heard since."""

    def __init__(self) -> None:
        self.least = self.most = 0
        self.is_measured = False

    def asked(self, asked: Instant, at: Instant, heard: Instant) -> None:
        """An answer was written at `at` of theirs, between these two times of ours."""
        self.least, self.most, self.is_measured = asked - at, heard - at, True

    def heard(self, at: Instant, now: Instant) -> None:
        """Something came that was written at `at`. Had their time jumped ahead since the last question, this shows."""
        self.most = min(self.most, now - at)
        self.least = min(self.least, self.most)

    def theirs(self, ours: Instant) -> Instant:
        """About what time it is there."""
        return ours - self._middle

    @property
    def _middle(self) -> int:
        return (self.least + self.most) // 2

    def in_our_time(self, put: c.Shipped) -> c.Shipped:
        """The object as it is to be kept here: the region judges ends by its own ledger time."""
        match put:
            case c.AssignmentShipped(assignment) if assignment.right_until:
                # A lease that ended later here than there would let two regions run one identity (RULES 6).
                return c.AssignmentShipped(replace(assignment, right_until=assignment.right_until + self.least))
            case c.AssignmentShipped(assignment) if assignment.deadline:
                # Nothing is unsafe about a deadline that is off by a message's way: the middle is the best guess. It is
                # converted at all since by a clock that is an hour ahead work would be given up an hour too soon.
                return c.AssignmentShipped(replace(assignment, deadline=assignment.deadline + self._middle))
            case c.OverrideShipped(override):
                by = self.least if is_permissive(override.action) else self.most
                return c.OverrideShipped(replace(override, ends=override.ends + by))
            case c.GrantShipped() if is_emergency(put.account):
                # Its end stops what it paid for. Other grants last a day, are renewed, and stop nothing.
                return replace(put, ends=put.ends + self.least)
            case _:
                return put
