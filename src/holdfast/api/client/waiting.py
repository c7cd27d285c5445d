"""Waiting for an object, on a watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.client.asking import Caller
from holdfast.api.client.known import BOOKMARK, DELETED
from holdfast.api.client.problems import NotInTime, Problem
from holdfast.api.client.steps import Call, Document, Emit, Event, Step, resume
from holdfast.api.client.watching import TimeIsUp, Watching
from holdfast.host.transport import TransportError

#: What is waited for. It is given the object, or None while there is none.
Predicate = Callable[[Document | None], bool]


def wait_for(
    caller: Caller, kind: str, name: str, predicate: Predicate, timeout_ms: int, tenant: str = ""
) -> Call[Document | None]:
    """The object as it is when the predicate first holds, None if it then does not exist. `NotInTime` otherwise."""
    until = caller.means.now() + timeout_ms
    hurried = caller.hurried(max(1, timeout_ms))
    watching = Watching(hurried, kind, tenant=tenant, name=name, initial=True, until=until).run()
    found: Document | None = None
    try:
        step = next(watching)
        while True:
            if isinstance(step, Emit):
                found = _after(step.event, found)
                if predicate(found):
                    return found
            step = yield from _relay(watching, step)
    except TimeIsUp:
        detail = f"{name} was not what was waited for within {timeout_ms} ms"
        raise NotInTime(Problem(code="not-in-time", detail=detail), found) from None
    finally:
        watching.close()


def _relay(watching: Call[None], step: Step) -> Call[Step]:
    """Have a step of the watch done, except that its events stay here. The watch's next step."""
    came: Any = None
    if not isinstance(step, Emit):
        try:
            came = yield step
        except TransportError as error:
            came = error
    return resume(watching, came)


def _after(event: Event, found: Document | None) -> Document | None:
    if event.type == BOOKMARK:
        return found
    return None if event.type == DELETED else event.object
