"""Watches that resume until they are closed.

    list, or `since` ──▶ stream ──▶ ended, broken or silent ──▶ the next server, from the last token
                           ▲                                                        │
                           └── the changes, then a BOOKMARK ◀── list again ◀── 410: the token is trimmed

A new watch lists first, even if the caller wants no initial objects. The list provides the token to resume from before
the first change, and the objects to compare with when the watch must list again. Events from a list have no token,
because a watch resumed between them would miss the rest. The BOOKMARK after them has it.

`wait_for` waits for an object on a watch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client import errors, requester
from holdfast.client.objects import ListResult, list_all, selection
from holdfast.client.paths import collection, single
from holdfast.client.retry import MAX_PAUSE_MS, RetryState
from holdfast.client.watch_cache import ADDED, BOOKMARK, DELETED, ERROR, MODIFIED, WatchCache
from holdfast.host.ports.transport import StreamDeclined, TransportError, first_value

#: The awaited condition. Its argument is the object, or None while there is none.
Predicate = Callable[[requester.Document | None], bool]

#: Shortest silence limit of a stream in a `wait_for`, whatever time is left.
SHORT_MS = 250


class WatchDeadline(Exception):
    """The watch has reached its deadline."""


class _Line(Struct):
    type: str
    object: dict[str, Any] = {}
    token: str = ""


class WatchStream:
    """One watch. With `until`, an instant of the monotonic clock, it raises `WatchDeadline` then; otherwise it never
    ends."""

    def __init__(
        self,
        caller: requester.Requester,
        kind: str,
        *,
        tenant: str = "",
        selector: str = "",
        name: str | None = None,
        since: str | None = None,
        initial: bool = False,
        until: int | None = None,
    ) -> None:
        self._caller = caller
        self._kind, self._tenant, self._selector, self._name = kind, tenant, selector, name
        self._query = (*selection(caller, kind, tenant, selector), ("watch", "true"))
        self._token = since or ""
        self._initial = initial
        self._until = until
        self._known = WatchCache(name)

    def run(self) -> requester.Operation[None]:
        """Emit events. Raises a `RefusedError` if the server refuses the watch. Raises `UnavailableError` if no server
        answers the first list; later failures are retried without end."""
        if not self._token:
            yield from self._hand_out((yield from self._snapshot()), silent=not self._initial)
        tries = self._caller.tries(forever=True)
        while True:
            try:
                yield from self._stream(tries)
            except errors.RevisionGoneError as gone:
                yield from self._list_again()
                tries.broke(gone.problem)
            yield from self._pause(tries.pause_ms())

    def _stream(self, tries: RetryState) -> requester.Operation[None]:
        """Read one stream until it ends or breaks. `tries` then holds the next server."""
        opened, begun, idle_ms = self._caller.means.now(), False, self._idle_ms()
        request = self._caller.endless("GET", collection(self._kind), (*self._query, ("since", self._token)))
        try:
            yield requester.OpenStream(tries.server, request, idle_ms)
            while (line := (yield requester.ReadMessage())) is not None:
                begun = True
                if self._caller.means.now() - opened >= MAX_PAUSE_MS:
                    tries.worked()
                problem = yield from self._take(line)
                if problem is not None:
                    return tries.broke(problem)
                if self._left_ms() < idle_ms and self._idle_ms() < idle_ms:
                    return None  # Less time is left than this stream may be silent: reopen with a shorter limit.
        except StreamDeclined as declined:
            return tries.answered(declined.reply)
        except TransportError as error:
            return tries.broke(errors.problem_from_transport(tries.server, error)) if begun else tries.failed(error)
        finally:
            if self._caller.means.now() - opened >= MAX_PAUSE_MS:
                tries.forget()
        return tries.broke(errors.ProblemReport(code="ended", detail=f"{tries.server} ended the stream"))

    def _take(self, line: bytes) -> requester.Operation[errors.ProblemReport | None]:
        """Emit the event of one line. Returns the problem if it ended the stream and the watch can continue."""
        try:
            said = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return errors.ProblemReport(code="not-understood", detail=f"a line of the watch cannot be read: {error}")
        if said.type == ERROR:
            return _stream_error(said.object)
        if said.type in (ADDED, MODIFIED, DELETED):
            found = self._known.saw(said.type, said.object)
            self._token = said.token or self._token
            if found is not None:
                yield requester.EmitEvent(requester.WatchEvent(said.type, found, self._token))
        elif said.type == BOOKMARK:
            self._token = said.token or self._token
            yield requester.EmitEvent(requester.WatchEvent(BOOKMARK, {}, self._token))
        # Other types are newer than this client, which ignores them.
        return None

    def _list_again(self) -> requester.Operation[None]:
        """Emit what changed since a trimmed token. The linearizable list is never older than what was emitted."""
        while True:
            try:
                listed = yield from self._snapshot(requester.LINEAR)
            except (errors.UnavailableError, errors.RevisionGoneError):
                yield from self._pause(MAX_PAUSE_MS)
            else:
                return (yield from self._hand_out(listed))

    def _snapshot(self, level: str = "") -> requester.Operation[ListResult]:
        """Return the current objects. A watch of a single object reads that object only."""
        caller = self._caller if self._until is None else self._caller.hurried(max(1, int(self._left_ms())))
        if self._name is not None and not self._selector:
            path = single(self._kind, self._name, self._tenant or caller.access.tenant)
            try:
                reply = yield from caller.read("GET", path, level=level)
                return ListResult((requester.decode_document(reply),), first_value(reply.headers, "holdfast-token"))
            except errors.NotFoundError as absent:
                if absent.token:
                    return ListResult((), absent.token)
        listing = list_all(caller, self._kind, tenant=self._tenant, selector=self._selector, read=level)
        return (yield from listing)

    def _hand_out(self, listed: ListResult, *, silent: bool = False) -> requester.Operation[None]:
        for change, found in self._known.compare(listed.items):
            if not silent:
                yield requester.EmitEvent(requester.WatchEvent(change, found, ""))
        self._token = listed.token
        if not silent:
            yield requester.EmitEvent(requester.WatchEvent(BOOKMARK, {}, self._token))

    def _pause(self, wait_ms: int) -> requester.Operation[None]:
        if wait_ms and self._left_ms() > 0:  # A stream may have outlasted the deadline.
            yield requester.Sleep(int(min(wait_ms, self._left_ms())))
        if self._left_ms() <= 0:
            raise WatchDeadline

    def _left_ms(self) -> float:
        return float("inf") if self._until is None else self._until - self._caller.means.now()

    def _idle_ms(self) -> int:
        """Return how long a stream may be silent. Half of the time left: a wait ends in time after a few streams."""
        return int(min(self._caller.access.idle_ms, max(SHORT_MS, self._left_ms() / 2)))


def _stream_error(said: dict[str, Any]) -> errors.ProblemReport:
    """Return the problem of an ERROR event. Raises it if a retry would fail in the same way."""
    try:
        problem = msgspec.convert(said, errors.ProblemReport)
    except msgspec.ValidationError:
        return errors.ProblemReport(code="not-understood", detail="the stream ended with an error that cannot be read")
    if problem.status == 410 or problem.code in ("gone", "diverged"):
        raise errors.RevisionGoneError(problem)
    if 400 <= problem.status < 500 and problem.status != 429:
        raise errors.refused_error(problem)
    return problem


def wait_for(
    caller: requester.Requester, kind: str, name: str, predicate: Predicate, timeout_ms: int, tenant: str = ""
) -> requester.Operation[requester.Document | None]:
    """Wait until the predicate holds and return the object, None if it does not exist then. Raises `WaitTimeoutError`
    otherwise."""
    until = caller.means.now() + timeout_ms
    hurried = caller.hurried(max(1, timeout_ms))
    watching = WatchStream(hurried, kind, tenant=tenant, name=name, initial=True, until=until).run()
    found: requester.Document | None = None
    try:
        step = next(watching)
        while True:
            if isinstance(step, requester.EmitEvent):
                found = _apply_event(step.event, found)
                if predicate(found):
                    return found
            step = yield from _relay(watching, step)
    except WatchDeadline:
        detail = f"{name} did not meet the condition within {timeout_ms} ms"
        raise errors.WaitTimeoutError(errors.ProblemReport(code="not-in-time", detail=detail), found) from None
    finally:
        watching.close()


def _relay(
    watching: requester.Operation[None], step: requester.ClientEffect
) -> requester.Operation[requester.ClientEffect]:
    """Pass an effect of the watch on to the caller, except its events, and return the watch's next effect."""
    came: Any = None
    if not isinstance(step, requester.EmitEvent):
        try:
            came = yield step
        except TransportError as error:
            came = error
    return requester.resume(watching, came)


def _apply_event(event: requester.WatchEvent, found: requester.Document | None) -> requester.Document | None:
    if event.type == BOOKMARK:
        return found
    return None if event.type == DELETED else event.object
