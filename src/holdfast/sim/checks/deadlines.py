"""How long each condition that should clear has lasted: what an event triggers must not wait for a resync.

    examine every two seconds ──▶ open conditions, by property ──▶ since when without a break? ──▶ over its limit: late

A resync finds everything in the end, so without a limit a lost wake-up stays unnoticed. Consequences of an event have a
limit below every resync. Slow steps, such as a stopping process or a fence, have none: they must end before the run
does.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

#: Limit for consequences of an event. Resyncs run every 30 s in a run, and every 60 s in production.
PROMPT_MS = 20_000


class Unconverged(Struct, frozen=True):
    """A condition that has not converged: property, subject and detail.

    `within_ms` is how long it may last without a break; 0: until the run ends.
    """

    promise: str
    subject: str
    detail: str
    within_ms: int = 0

    def __str__(self) -> str:
        return f"{self.promise}: {self.subject} {self.detail}"


class ConvergenceDeadlines:
    """How long each open condition has lasted."""

    def __init__(self) -> None:
        #: By property with a limit: the longest time, in milliseconds, that a condition of it lasted.
        self.longest: dict[str, int] = {}
        self._since: dict[tuple[str, str], int] = {}
        self._late: dict[tuple[str, str], str] = {}

    def look(self, now: int, left: Iterable[Unconverged]) -> None:
        """Record the open conditions. A condition that cleared restarts from zero."""
        since: dict[tuple[str, str], int] = {}
        for one in left:
            if not one.within_ms:
                continue
            key = one.promise, one.subject
            since[key] = self._since.get(key, now)
            waits = now - since[key]
            self.longest[one.promise] = max(self.longest.get(one.promise, 0), waits)
            if waits > one.within_ms:
                self._late.setdefault(key, f"{one}: for {waits} ms, at most {one.within_ms} ms allowed")
        self._since = since

    def late(self) -> list[str]:
        """Return what took too long, each condition once, in order of discovery."""
        return list(self._late.values())
