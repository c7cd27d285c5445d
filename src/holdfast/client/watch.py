"""Watches that never end by themselves.

    list, or `since` ──▶ stream ──▶ ended, broken or silent ──▶ the next server, from the last token
                           ▲                                                        │
                           └── what changed, then a BOOKMARK ◀── list again ◀── 410: the token is gone

A watch that begins lists first, whether or not the caller wants what there is: only so does it have a token to resume
from before anything has changed, and something to compare with when it has to list again. Events that come of a list
have no token: whoever resumed between them would miss the rest. The BOOKMARK after them has it.

Waiting for an object, on a watch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.effects import (
    ClientEffect,
    Document,
    EmitEvent,
    OpenStream,
    Operation,
    ReadMessage,
    Sleep,
    WatchEvent,
    resume,
)
from holdfast.client.errors import (
    NotFoundError,
    ProblemReport,
    RevisionGoneError,
    UnavailableError,
    WaitTimeoutError,
    problem_from_transport,
    refused_error,
)
from holdfast.client.objects import ListResult, list_all, selection
from holdfast.client.paths import collection, single
from holdfast.client.requester import LINEAR, Requester, decode_document
from holdfast.client.retry import MAX_PAUSE_MS, RetryState
from holdfast.client.watch_cache import ADDED, BOOKMARK, DELETED, ERROR, MODIFIED, WatchCache
from holdfast.host.ports.transport import StreamDeclined, TransportError, first_value

#: What is waited for. It is given the object, or None while there is none.
Predicate = Callable[[Document | None], bool]


#: What is left of a wait when it is no longer worth a new stream.
SHORT_MS = 250


class WatchDeadline(Exception):
    """The watch had an end, and that has come."""


class _Line(Struct):
    type: str
    object: dict[str, Any] = {}
    token: str = ""


class WatchStream:
    """One watch. With `until`, an instant of the even clock, it ends with `WatchDeadline` then; otherwise never."""

    def __init__(
        self,
        caller: Requester,
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

    def run(self) -> Operation[None]:
        """Emit events. Raises a `RefusedError` when the server will not have it, and `UnavailableError` when no
        server could be asked in the beginning; later it goes on for as long as it takes."""
        if not self._token:
            yield from self._hand_out((yield from self._snapshot()), silent=not self._initial)
        tries = self._caller.tries(forever=True)
        while True:
            try:
                yield from self._stream(tries)
            except RevisionGoneError as gone:
                yield from self._list_again()
                tries.broke(gone.problem)
            yield from self._pause(tries.pause_ms())

    def _stream(self, tries: RetryState) -> Operation[None]:
        """One stream, until it ends or breaks; where to go on is then in `tries`."""
        opened, begun, idle_ms = self._caller.means.now(), False, self._idle_ms()
        request = self._caller.endless("GET", collection(self._kind), (*self._query, ("since", self._token)))
        try:
            yield OpenStream(tries.server, request, idle_ms)
            while (line := (yield ReadMessage())) is not None:
                begun = True
                if self._caller.means.now() - opened >= MAX_PAUSE_MS:
                    tries.worked()
                problem = yield from self._take(line)
                if problem is not None:
                    return tries.broke(problem)
                if self._left_ms() < idle_ms and self._idle_ms() < idle_ms:
                    return None  # Silence on this stream would outlast the wait: take one with less patience.
        except StreamDeclined as declined:
            return tries.answered(declined.reply)
        except TransportError as error:
            return tries.broke(problem_from_transport(tries.server, error)) if begun else tries.failed(error)
        finally:
            if self._caller.means.now() - opened >= MAX_PAUSE_MS:
                tries.forget()
        return tries.broke(ProblemReport(code="ended", detail=f"{tries.server} ended the stream"))

    def _take(self, line: bytes) -> Operation[ProblemReport | None]:
        """Hand out what a line says. The problem, if it ended the stream and the watch can go on after it."""
        try:
            said = msgspec.json.decode(line, type=_Line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            return ProblemReport(code="not-understood", detail=f"a line of the watch cannot be read: {error}")
        if said.type == ERROR:
            return _stream_error(said.object)
        if said.type in (ADDED, MODIFIED, DELETED):
            found = self._known.saw(said.type, said.object)
            self._token = said.token or self._token
            if found is not None:
                yield EmitEvent(WatchEvent(said.type, found, self._token))
        elif said.type == BOOKMARK:
            self._token = said.token or self._token
            yield EmitEvent(WatchEvent(BOOKMARK, {}, self._token))
        # Any other type is newer than this client, and not for it.
        return None

    def _list_again(self) -> Operation[None]:
        """The place to resume from is gone: hand out what changed since. Nothing older than what was seen is read."""
        while True:
            try:
                listed = yield from self._snapshot(LINEAR)
            except (UnavailableError, RevisionGoneError):
                yield from self._pause(MAX_PAUSE_MS)
            else:
                return (yield from self._hand_out(listed))

    def _snapshot(self, level: str = "") -> Operation[ListResult]:
        """What there is now: of a single object without listing the others."""
        caller = self._caller if self._until is None else self._caller.hurried(max(1, int(self._left_ms())))
        if self._name is not None and not self._selector:
            path = single(self._kind, self._name, self._tenant or caller.access.tenant)
            try:
                reply = yield from caller.read("GET", path, level=level)
                return ListResult((decode_document(reply),), first_value(reply.headers, "holdfast-token"))
            except NotFoundError as absent:
                if absent.token:
                    return ListResult((), absent.token)
        listing = list_all(caller, self._kind, tenant=self._tenant, selector=self._selector, read=level)
        return (yield from listing)

    def _hand_out(self, listed: ListResult, *, silent: bool = False) -> Operation[None]:
        for change, found in self._known.compare(listed.items):
            if not silent:
                yield EmitEvent(WatchEvent(change, found, ""))
        self._token = listed.token
        if not silent:
            yield EmitEvent(WatchEvent(BOOKMARK, {}, self._token))

    def _pause(self, wait_ms: int) -> Operation[None]:
        if wait_ms and self._left_ms() > 0:  # a stream may have lasted a little longer than the wait
            yield Sleep(int(min(wait_ms, self._left_ms())))
        if self._left_ms() <= 0:
            raise WatchDeadline

    def _left_ms(self) -> float:
        return float("inf") if self._until is None else self._until - self._caller.means.now()

    def _idle_ms(self) -> int:
        """How long a stream may be silent. Half of what is left of a wait: so it ends in time after a few streams."""
        return int(min(self._caller.access.idle_ms, max(SHORT_MS, self._left_ms() / 2)))


def _stream_error(said: dict[str, Any]) -> ProblemReport:
    """The problem in an ERROR. Raises it when the same request would only fail again."""
    try:
        problem = msgspec.convert(said, ProblemReport)
    except msgspec.ValidationError:
        return ProblemReport(code="not-understood", detail="the stream ended with an error that cannot be read")
    if problem.status == 410 or problem.code in ("gone", "diverged"):
        raise RevisionGoneError(problem)
    if 400 <= problem.status < 500 and problem.status != 429:
        raise refused_error(problem)
    return problem


def wait_for(
    caller: Requester, kind: str, name: str, predicate: Predicate, timeout_ms: int, tenant: str = ""
) -> Operation[Document | None]:
    """The object as it is when the predicate first holds, None if it then does not exist. `WaitTimeoutError`
    otherwise."""
    until = caller.means.now() + timeout_ms
    hurried = caller.hurried(max(1, timeout_ms))
    watching = WatchStream(hurried, kind, tenant=tenant, name=name, initial=True, until=until).run()
    found: Document | None = None
    try:
        step = next(watching)
        while True:
            if isinstance(step, EmitEvent):
                found = _apply_event(step.event, found)
                if predicate(found):
                    return found
            step = yield from _relay(watching, step)
    except WatchDeadline:
        detail = f"{name} was not what was waited for within {timeout_ms} ms"
        raise WaitTimeoutError(ProblemReport(code="not-in-time", detail=detail), found) from None
    finally:
        watching.close()


def _relay(watching: Operation[None], step: ClientEffect) -> Operation[ClientEffect]:
    """Have a step of the watch done, except that its events stay here. The watch's next step."""
    came: Any = None
    if not isinstance(step, EmitEvent):
        try:
            came = yield step
        except TransportError as error:
            came = error
    return resume(watching, came)


def _apply_event(event: WatchEvent, found: Document | None) -> Document | None:
    if event.type == BOOKMARK:
        return found
    return None if event.type == DELETED else event.object
