"""How every list begins that is told from the state of one moment: who may read it, how much of it is told, and one of
the places that a server has for lists, for as long as it is made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.api.server.context import ServerContext
from holdfast.api.server.request import ApiError, ApiRequest
from holdfast.api.server.visibility import refuse_reading, refuse_tenant
from holdfast.core.model.values.structs import Instant
from holdfast.host.runtime.deadlines import run_in_steps

#: So many are told at once, unless fewer are asked for: the first ones.
ITEMS_MAX = 1_000


T = TypeVar("T")


class ReportScope(Struct, frozen=True):
    """The state that a list is told from, the time there, and how many items are told at most."""

    state: Any
    now: Instant
    limit: int


@asynccontextmanager
async def report_scope(ctx: ServerContext, call: ApiRequest, plural: str, tenant: str) -> AsyncIterator[ReportScope]:
    """The state, as fresh as the caller asks for, if it may read these, and those of this tenant where one is named."""
    refused = refuse_reading(call.caller, ctx.state.info.ledger, plural) or refuse_tenant(call.caller, tenant)
    if refused is not None:
        raise ApiError(ctx.deny(call, refused, tenant))
    limit = call.count("limit", ITEMS_MAX, ITEMS_MAX)
    full = ctx.lists.acquire(call.caller.actor)
    if full is not None:
        raise ApiError(full)
    try:
        view = await ctx.view(call)
        yield ReportScope(view.state, ctx.now(), limit)
    finally:
        ctx.lists.release(call.caller.actor)


async def compute_in_parts(state: Any, work: Callable[[Any], Generator[None, None, T]]) -> T:
    """What is told of a state as it is now, made bit by bit of a fork, so that nobody else waits for it."""
    fork = state.fork()
    try:
        return await run_in_steps(work(fork))
    finally:
        for _ in fork.release():
            await asyncio.sleep(0)
