"""Watches: a stream of lines, each with the token to resume from.

    GET ...?watch=true ──▶ BOOKMARK ──▶ ADDED, MODIFIED, DELETED ... BOOKMARK now and then ──▶ ERROR, if it must end

A line shows the current object, which may be newer than the change of the line; the later change then has a line, too.
No change is lost: a slow watcher is served from the log, and one that resumes too late must list again.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.problems import from_error, problem
from holdfast.api.resources.lookup import find_row
from holdfast.api.server.context import ServerContext
from holdfast.api.server.objects import pagination, watch_events
from holdfast.api.server.objects.reads import list_scope, require_read_access
from holdfast.api.server.objects.watch_scope import WatchScope
from holdfast.api.server.request import ApiError, ApiRequest
from holdfast.api.server.streams import error_event, person_stream
from holdfast.api.server.visibility import refuse_tenant
from holdfast.host.errors import ListAgain, Unavailable
from holdfast.host.ports.store import StoreError
from holdfast.host.ports.transport import StreamReply
from holdfast.host.watch.changes import ChangeBatch, ChangeEvent, WatchFilter, filter_for
from holdfast.host.watch.subscription import Subscription

RETRY_MS = 200


def watch_interest(kind: ResourceKind, call: ApiRequest, state: Any, kinds: Mapping[str, str]) -> WatchFilter:
    """Return the narrowest filter that the index supports for this watch."""
    found = find_row(kind, state, "/".join(call.rest)) if call.rest else None
    if found is not None and watch_events.is_by_id(kind, state):
        return filter_for((kind.key, found[0]))
    tenant, _ = list_scope(call, kind)
    if kind.name == "Workload" and tenant:
        return filter_for(("tenant", tenant))
    return filter_for(*(word for word in (kind.key, *kind.also) if word in kinds))


async def watch(
    ctx: ServerContext, call: ApiRequest, kind: ResourceKind, lines: watch_events.WatchEventCache
) -> StreamReply:
    """Open the stream of changes of one kind."""
    require_read_access(ctx, call, kind)
    tenant, _ = list_scope(call, kind)
    ctx.require(call, refuse_tenant(call.caller, tenant), tenant)
    chosen = WatchScope(call, kind)
    call.count("limit", 1, 1)  # not used by a watch, but checked
    if call.since() is not None and call.flag("initial"):
        raise ApiError(problem("unreadable", "initial lists the current objects and excludes since"))
    return await person_stream(ctx.watches, call, ctx.no_longer, _open_watch(ctx, call, chosen, lines))


async def _open_watch(
    ctx: ServerContext, call: ApiRequest, chosen: WatchScope, lines: watch_events.WatchEventCache
) -> StreamReply:
    since = call.since()
    await ctx.view(call)
    wanted = watch_interest(chosen.kind, call, ctx.state, ctx.ledger.definition.kinds)
    subscription = await ctx.ledger.watch(wanted, since, call.timeout_ms)
    try:
        chosen.begin(ctx.state, resumes=since is not None)
        beginning = InitialObjects(ctx, call, chosen)
    except BaseException:
        subscription.close()
        raise
    ctx.watchers.add(subscription)
    messages = _stream_events(ctx, chosen, subscription, beginning, lines)
    await anext(messages)  # started: closing an unread stream also ends its subscription
    return StreamReply(messages)


class InitialObjects:
    """The objects at the position where a stream begins: read in the same turn, so that none is missing or sent twice.

    A large table is read from a fork while the stream is read; changes wait meanwhile. Until then the watch holds one
    of the slots for lists, since a fork keeps what has changed since.
    """

    def __init__(self, ctx: ServerContext, call: ApiRequest, chosen: WatchScope) -> None:
        self._chosen = chosen
        self._initial = initial = call.flag("initial")
        self._fork: Any = None
        self._leave: Callable[[], None] | None = None
        self._ready: list[Any] = []
        state, kind = ctx.state, chosen.kind
        if not chosen.needs_rows(initial=initial):
            found = chosen.named(state)
        elif pagination.is_large(kind, state):
            full = ctx.lists.acquire(call.caller.actor)
            if full is not None:
                raise ApiError(full)
            self._leave = lambda: ctx.lists.release(call.caller.actor)
            self._fork = state.fork()
            return
        else:
            found = pagination.scan_at_once(kind, state, chosen.shows)
        redaction = chosen.redaction(state)
        self._ready = [redaction.tree(kind, key, one) for key, one in found] if initial else []

    async def objects(self) -> AsyncGenerator[Any, None]:
        """Yield the initial objects, if they were requested."""
        for one in self._ready:
            yield one
        fork, self._fork, self._ready = self._fork, None, []
        if fork is not None:
            kind = self._chosen.kind
            found = await pagination.scan_in_parts(kind, fork, self._chosen.shows)
            if self._initial:
                redaction = self._chosen.redaction(fork)
                async for one in pagination.render_in_parts(found, lambda key, row: redaction.tree(kind, key, row)):
                    yield one
            await pagination.release_fork(fork)
            self.close()

    def close(self) -> None:
        """Release the slot for lists."""
        leave, self._leave, self._fork = self._leave, None, None
        if leave is not None:
            leave()


async def _stream_events(
    ctx: ServerContext,
    chosen: WatchScope,
    subscription: Subscription,
    beginning: InitialObjects,
    lines: watch_events.WatchEventCache,
) -> AsyncGenerator[bytes, None]:
    """Yield the lines, after an empty first message that the creator of the stream takes."""
    try:
        yield b""
        begun_at = subscription.token
        async for one in beginning.objects():
            yield watch_events.added_event(one, begun_at)
        yield watch_events.bookmark_event(subscription.token)
        while True:
            try:
                changes = await anext(subscription)
            except StopAsyncIteration:
                return
            except StoreError:
                await ctx.clock.sleep(RETRY_MS)
                continue
            for line in _batch_events(ctx, chosen, changes, lines):
                yield line
    except (ListAgain, Unavailable) as error:
        yield error_event(from_error(error))
    finally:
        beginning.close()
        ctx.watchers.leave(subscription)
        subscription.close()


def _batch_events(
    ctx: ServerContext, chosen: WatchScope, changes: ChangeBatch, lines: watch_events.WatchEventCache
) -> list[bytes]:
    """Return the lines of one batch, each object once at its last change; or a bookmark."""
    kind, state, token, definition = chosen.kind, ctx.state, changes.token, ctx.ledger.definition
    known = lines.told(chosen.asked, state, token)
    if known is not None and chosen.has(known[0]):
        return known[1]
    by_key: dict[Any, list[ChangeEvent]] = {}
    for change in changes.changes:
        for key in watch_events.affected_keys(kind, definition, state, change):
            by_key.setdefault(key, []).append(change)
    if kind.name == "SchedulingRequest" and changes.changes:
        for key in chosen.gone(state):
            by_key.setdefault(key, []).append(changes.changes[-1])
    found, redaction = [], chosen.redaction(state)
    for key, several in by_key.items():
        row_now = watch_events.row_at(kind, state, key)
        if row_now is not None and chosen.shows(state, key, row_now):
            found.append(lines.of(redaction, kind, key, row_now, token, several[-1].revision))
            continue
        name = chosen.loses(state, key, row_now, several)
        if name is not None:
            found.append(watch_events.deleted_event(kind, key, name, token))
    if found and chosen.has(tuple(by_key)):
        lines.tell(chosen.asked, state, token, tuple(by_key), found)
    return found or [watch_events.bookmark_event(token)]
