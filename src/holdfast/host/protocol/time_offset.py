"""How far this region's ledger time is ahead of the platform's, and what ends when in our time.

A question and its answer give two bounds: the platform wrote its time after we asked and before we heard.

    asked ──────────▶ at ──────────▶ heard          asked - at  <=  ours - theirs  <=  heard - at

In doubt what permits ends early and what restricts ends late (RULES 19).

Their time never goes back while one leader tells it. The next one begins at the last stamp in its log, which may lie
long before what the last one told: bounds hold in one term only, and a deposed leader says nothing of the time.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.model.objects.override_effects import is_permissive
from holdfast.core.model.values.structs import Instant
from holdfast.core.region import commands as c
from holdfast.core.region.queries.accounts import is_emergency

#: Whose time it is: a log, and a term in it.
LeaderKey = tuple[str, int]


class TimeOffset:
    """Ours less theirs, between two bounds: of the last question and answer, and of everything heard since."""

    def __init__(self) -> None:
        self.low = self.high = 0
        self.is_measured = False
        self._led: LeaderKey = ("", 0)
        #: Since when, in our time, that one is known to lead, and whether it has answered a question since.
        self._since: Instant = 0
        self._has_answered = True

    def measure(self, asked: Instant, at: Instant, heard: Instant, led: LeaderKey | None = None) -> None:
        """An answer was written at `at` of theirs, between these two times of ours; by whom, if that is known. One to
        a question from before the present leader was heard may be the last one's."""
        if led is not None:
            if self._is_over(led):
                return
            if led != self._led:
                self._led, self._since = led, asked
        if asked >= self._since:
            self.low, self.high, self.is_measured = asked - at, heard - at, True
            self._has_answered = True

    def observe(self, at: Instant, now: Instant, led: LeaderKey) -> None:
        """Something came that this leader wrote at `at`. Had their time jumped ahead since the last question, this
        shows; that it is lower shows when another leads. Nobody knows then how long the word was on its way: what
        was the least is still not more than it is."""
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
        """About what time it is there."""
        return ours - self._middle

    @property
    def _middle(self) -> int:
        """The best guess. A leader that was not asked anything yet has told its time and nothing more."""
        return (self.low + self.high) // 2 if self._has_answered else self.high

    def in_our_time(self, put: c.ShippedItem) -> c.ShippedItem:
        """The object as it is to be kept here: the region judges ends by its own ledger time."""
        match put:
            case c.ShippedAssignment(assignment) if assignment.right_until:
                # A lease that ended later here than there would let two regions run one identity (RULES 6).
                return c.ShippedAssignment(replace(assignment, right_until=assignment.right_until + self.low))
            case c.ShippedAssignment(assignment) if assignment.deadline:
                # Nothing is unsafe about a deadline that is off by a message's way: the middle is the best guess. It is
                # converted at all since by a clock that is an hour ahead work would be given up an hour too soon.
                return c.ShippedAssignment(replace(assignment, deadline=assignment.deadline + self._middle))
            case c.ShippedOverride(override):
                by = self.low if is_permissive(override.action) else self.high
                return c.ShippedOverride(replace(override, ends=override.ends + by))
            case c.ShippedGrant() if is_emergency(put.account):
                # Its end stops what it paid for. Other grants last a day, are renewed, and stop nothing.
                return replace(put, ends=put.ends + self.low)
            case _:
                return put
