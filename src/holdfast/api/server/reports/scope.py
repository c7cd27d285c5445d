"""The common begin of reports that read one state: check access, take one of the server's slots for lists, and limit
the number of items."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from msgspec import Struct

from holdfast.api.server.context import ServerContext
from holdfast.api.server.request import ApiRequest
from holdfast.api.server.visibility import refuse_reading, refuse_tenant
from holdfast.core.model.values.structs import Instant
from holdfast.host.errors import NotReached
from holdfast.host.indexes.audit_index import AuditIndex
from holdfast.host.indexes.decision_index import DecisionIndex
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.runtime.deadlines import run_in_steps

#: Largest number of items, and the default.
ITEMS_MAX = 1_000
#: Longest wait of a read at level `any` for the newest commits.
FRESH_MS = 2_000

T = TypeVar("T")


class ReportScope(Struct, frozen=True):
    """The state of a report, its time, and the largest number of items."""

    state: Any
    now: Instant
    limit: int


@asynccontextmanager
async def report_scope(ctx: ServerContext, call: ApiRequest, plural: str, tenant: str) -> AsyncIterator[ReportScope]:
    """Yield the state at the requested read level, if the caller may read this report and this tenant, if any."""
    refused = refuse_reading(call.caller, ctx.state.info.ledger, plural) or refuse_tenant(call.caller, tenant)
    ctx.require(call, refused, tenant)
    limit = call.count("limit", ITEMS_MAX, ITEMS_MAX)
    with call.slot(ctx.lists):
        view = await ctx.view(call)
        yield ReportScope(view.state, ctx.now(), limit)


async def reach_index(ctx: ServerContext, call: ApiRequest, index: AuditIndex | DecisionIndex) -> None:
    """Wait until the index has what the requested read level contains."""
    view, (level, _) = await ctx.view(call), call.level()
    patience = call.timeout_ms * 4 // 5  # leaves time to report a failure
    try:
        await index.reach(view.token.seq, patience if level is not ReadLevel.ANY else min(FRESH_MS, patience))
    except NotReached:
        if level is not ReadLevel.ANY:
            raise


async def compute_in_parts(state: Any, work: Callable[[Any], Generator[None, None, T]]) -> T:
    """Compute a report step by step on a fork of the current state, so that other requests do not wait."""
    fork = state.fork()
    try:
        return await run_in_steps(work(fork))
    finally:
        for _ in fork.release():
            await asyncio.sleep(0)
