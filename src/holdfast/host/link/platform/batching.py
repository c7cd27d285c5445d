"""Cuts what is shipped to a region: unsent changes into steps, in log order, and a full list into parts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.codec import encode
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.commands import Ship, ShippedItem
from holdfast.host.link.platform.content import Name, touched_by
from holdfast.host.watch.changes import ChangeBatch


class _Touching(Struct, frozen=True):
    revision: Revision
    term: int
    names: tuple[Name, ...]


class StepCut(Struct, frozen=True):
    """Objects that changed in the first events, up to a revision, with the term of that revision."""

    names: tuple[Name, ...]
    to: Revision
    term: int
    events: int
    #: Whether the buffer contains no further events.
    is_all: bool


class ChangeBuffer:
    """Changes for one region. The caller drops the ones it has sent."""

    def __init__(self, region: str) -> None:
        self._region = region
        self._events: deque[_Touching] = deque()
        self._names: dict[Name, None] = {}

    def __len__(self) -> int:
        """Return the number of objects to send."""
        return len(self._names)

    def on_change(self, changes: ChangeBatch, after: Revision) -> None:
        """Add a batch's changes for the region, except those up to `after`, which were sent before."""
        for change in changes.changes:
            names = tuple(touched_by(change.event, change.revision, self._region))
            if names and change.revision > after:
                self._events.append(_Touching(change.revision, changes.token.term, names))
                self._names.update(dict.fromkeys(names))

    def first(self, objects: int) -> StepCut:
        """Return the first events with at most `objects` objects together; at least one event."""
        names: dict[Name, None] = {}
        count, last = 0, self._events[0]
        for event in self._events:
            if count and len(names) + sum(name not in names for name in event.names) > objects:
                break
            names.update(dict.fromkeys(event.names))
            count, last = count + 1, event
        return StepCut(tuple(names), last.revision, last.term, count, count == len(self._events))

    def drop(self, cut: StepCut) -> None:
        """Drop the events of a cut that is sent."""
        for _ in range(cut.events):
            self._events.popleft()
        self._names = {name: None for event in self._events for name in event.names}


def list_parts(whole: Ship, puts: Iterable[ShippedItem | None], objects: int, size_bytes: int) -> Iterator[Ship | None]:
    """Yield the list in shipments within both limits, each with at least one object; the last one is marked.

    Each part is cut when it is requested, so sending starts before all of a large list is read. A None is passed on:
    other tasks may run then.
    """
    part: list[ShippedItem] = []
    number, size = 0, 0
    for put in puts:
        if put is None:
            yield None
            continue
        more = len(encode(put))
        if part and (len(part) == objects or size + more > size_bytes):
            yield replace(whole, puts=tuple(part), part=number, last=False)
            part, number, size = [], number + 1, 0
        part.append(put)
        size += more
    yield replace(whole, puts=tuple(part), part=number, last=True)
