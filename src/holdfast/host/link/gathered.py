"""What a region's stream has heard of and not told yet: events in the order of the log, and what they touched."""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from holdfast.core.model.shapes import Revision
from holdfast.host.changes import Changes
from holdfast.host.link.content import Name, touched_by


class _Touching(Struct, frozen=True):
    revision: Revision
    term: int
    names: tuple[Name, ...]


class Cut(Struct, frozen=True):
    """Objects that changed in the first events, up to a revision, which is of this term."""

    names: tuple[Name, ...]
    to: Revision
    term: int
    events: int
    #: Whether nothing else was gathered.
    is_all: bool


class Gathered:
    """For one region. Whoever has told something drops it."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._events: deque[_Touching] = deque()
        self._names: dict[Name, None] = {}

    def __len__(self) -> int:
        """How many objects are to be told of."""
        return len(self._names)

    def hear(self, changes: Changes, after: Revision) -> None:
        """Take what a batch holds for the region, except up to `after`, which it has been told."""
        for change in changes.changes:
            names = tuple(touched_by(change.event, change.revision, self._region))
            if names and change.revision > after:
                self._events.append(_Touching(change.revision, changes.token.term, names))
                self._names.update(dict.fromkeys(names))

    def first(self, objects: int) -> Cut:
        """The events that came first, up to so many objects or the next one that touches more; at least one event."""
        names: dict[Name, None] = {}
        count, last = 0, self._events[0]
        for event in self._events:
            if count and len(names) + sum(name not in names for name in event.names) > objects:
                break
            names.update(dict.fromkeys(event.names))
            count, last = count + 1, event
        return Cut(tuple(names), last.revision, last.term, count, count == len(self._events))

    def drop(self, cut: Cut) -> None:
        """These are told."""
        for _ in range(cut.events):
            self._events.popleft()
        self._names = {name: None for event in self._events for name in event.names}
