"""What is not yet as it should be, and for how long: what somebody is woken for may not wait for a resync.

    look every two seconds ──▶ what is left, by promise ──▶ since when without a break? ──▶ longer than it may: late

Whoever patrols finds everything in the end, and with that patience a lost wake-up is never seen. So what follows from
an event has a bound below every resync. What takes its time, a process that stops or a fence that falls, has none here:
it must end before the run does.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

#: What wakes by an event is seen to within this. Resyncs come after 30 s here, and after 60 s in production.
PROMPT_MS = 20_000


class Unconverged(Struct, frozen=True):
    """Something that is not as it should be: the promise, of what, and what is wrong with it.

    `within_ms`: it may be so for so long without a break; 0: as long as the run has patience.
    """

    promise: str
    subject: str
    detail: str
    within_ms: int = 0

    def __str__(self) -> str:
        return f"{self.promise}: {self.subject} {self.detail}"


class ConvergenceDeadlines:
    """Since when what is left has been left."""

    def __init__(self) -> None:
        #: The longest that anything of a promise with a bound was left, in milliseconds.
        self.longest: dict[str, int] = {}
        self._since: dict[tuple[str, str], int] = {}
        self._late: dict[tuple[str, str], str] = {}

    def look(self, now: int, left: Iterable[Unconverged]) -> None:
        """What is left now; what was left before and is not any more begins anew."""
        since: dict[tuple[str, str], int] = {}
        for one in left:
            if not one.within_ms:
                continue
            key = one.promise, one.subject
            since[key] = self._since.get(key, now)
            waits = now - since[key]
            self.longest[one.promise] = max(self.longest.get(one.promise, 0), waits)
            if waits > one.within_ms:
                self._late.setdefault(key, f"{one}: for {waits} ms, and {one.within_ms} ms are the most")
        self._since = since

    def late(self) -> list[str]:
        """What took too long, each once, in the order in which that was seen."""
        return list(self._late.values())
