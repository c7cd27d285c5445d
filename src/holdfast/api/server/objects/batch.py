"""Many documents in one request: each is decided by itself, in order, most of them in one commit."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.api.problems import Problem, from_error, problem
from holdfast.api.resources.schemas import parse_object
from holdfast.api.serialization.field_errors import FieldError, InvalidDocument
from holdfast.api.server.context import ServerContext, check_rate
from holdfast.api.server.objects import writes
from holdfast.api.server.objects.ledger_commands import kind_of_object, put_command
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.request import ApiError, ApiRequest, json_reply
from holdfast.core.ledger.envelope import Envelope
from holdfast.host.errors import OutcomeUnknown, Unavailable
from holdfast.host.ports.transport import Reply


async def batch(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Store many documents; each is decided by itself, in order."""
    key = writes.require_idempotency_key(call)
    if call.header("if-match") or call.header("if-none-match"):
        raise ApiError(problem("unreadable", "a batch has no precondition: set metadata.revision in each document"))
    body = call.json()
    items = body.get("items") if isinstance(body, dict) and set(body) <= {"items"} else None
    most = ctx.limits.batch_items
    if not isinstance(items, list) or not 1 <= len(items) <= most:
        raise ApiError(
            writes.invalid_problem(
                [FieldError("/items", f"a batch must be {{items: [...]}} with 1 to {most} documents")]
            )
        )
    keys = [f"{key}.{number}" for number in range(len(items))]
    check_rate(ctx, call, *keys)
    made = [_prepare(ctx, call, item, one) for item, one in zip(items, keys, strict=True)]
    if call.is_dry_run():
        return json_reply({"items": _dry_run(ctx, call, made)})
    # All of them wait in one lane in this order, so they are decided in this order, most of them in one commit.
    return json_reply({"items": list(await asyncio.gather(*[_submit(ctx, call, one) for one in made]))})


_Prepared = tuple[ResourceKind, str, Envelope[Any]] | Problem


def _prepare(ctx: ServerContext, call: ApiRequest, item: Any, key: str) -> _Prepared:
    try:
        sent = parse_object(item)
        kind, name = kind_of_object(sent)
        command = put_command(Redaction(call.caller, ctx.state), ctx.state, kind, sent)
        return kind, name, writes.make_envelope(ctx, call, command, key, sent.meta.revision)
    except InvalidDocument as error:
        return writes.invalid_problem(error.faults)
    except ApiError as error:
        return error.problem


def _dry_run(ctx: ServerContext, call: ApiRequest, made: list[_Prepared]) -> list[Any]:
    """Return the outcomes of a dry run; each document is decided after those before it."""
    tried = ctx.ledger.dry_run(*[one[2] for one in made if not isinstance(one, Problem)])
    answers = iter(tried.answers)
    return [
        _render_refusal(one)
        if isinstance(one, Problem)
        else _render_outcome(call, one[0], tried.state, one[1], next(answers))
        for one in made
    ]


async def _submit(ctx: ServerContext, call: ApiRequest, one: _Prepared) -> Any:
    if isinstance(one, Problem):
        return _render_refusal(one)
    kind, name, made = one
    try:
        found = await ctx.ledger.submit(made)
    except OutcomeUnknown as error:
        return {"outcome": "unknown", "problem": from_error(error, lane="operators")}
    except Unavailable as error:
        return _render_refusal(from_error(error, lane="operators"))
    return _render_outcome(call, kind, ctx.state, name, found)


def _render_outcome(call: ApiRequest, kind: ResourceKind, state: Any, name: str, found: writes.SubmitResult) -> Any:
    try:
        tree, outcome, _ = writes.write_outcome(call, kind, state, name, found, conditional=False)
    except ApiError as error:
        return _render_refusal(error.problem)
    return {"outcome": outcome, "object": tree}


def _render_refusal(found: Problem) -> Any:
    return {"outcome": "refused", "problem": found}
