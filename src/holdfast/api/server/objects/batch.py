"""Many objects in one request: judged in order, each by itself, most of them in one commit."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.api.kinds import Kind
from holdfast.api.problems import Problem, of_error, problem
from holdfast.api.resources.writable import read_object
from holdfast.api.serialization.field_errors import Fault, Faulty
from holdfast.api.server.context import Desk, must_pace
from holdfast.api.server.objects.ledger_commands import kind_of, storage
from holdfast.api.server.objects.writes import Answered, envelope, invalid, must_name_key, outcome_of
from holdfast.api.server.redaction import Redaction
from holdfast.api.server.request import Call, Trouble, answer
from holdfast.core.ledger.envelope import Envelope
from holdfast.host.errors import OutcomeUnknown, Unavailable
from holdfast.host.ports.transport import Reply


async def batch(desk: Desk, call: Call) -> Reply:
    """Many objects, judged in order, each by itself."""
    key = must_name_key(call)
    if call.header("if-match") or call.header("if-none-match"):
        raise Trouble(problem("unreadable", "a batch has no condition: each document names its metadata.revision"))
    body = call.json()
    items = body.get("items") if isinstance(body, dict) and set(body) <= {"items"} else None
    most = desk.limits.batch_items
    if not isinstance(items, list) or not 1 <= len(items) <= most:
        raise Trouble(invalid([Fault("/items", f"a batch is {{items: [...]}} with 1 to {most} documents")]))
    keys = [f"{key}.{number}" for number in range(len(items))]
    must_pace(desk, call, *keys)
    made = [_prepared(desk, call, item, one) for item, one in zip(items, keys, strict=True)]
    if call.is_dry_run():
        return answer({"items": _tried(desk, call, made)})
    # All of them wait in one lane, in this order, so they are judged in this order, most of them in one commit.
    return answer({"items": list(await asyncio.gather(*[_submitted(desk, call, one) for one in made]))})


_Prepared = tuple[Kind, str, Envelope[Any]] | Problem


def _prepared(desk: Desk, call: Call, item: Any, key: str) -> _Prepared:
    try:
        sent = read_object(item)
        kind, name = kind_of(sent)
        command = storage(Redaction(call.caller, desk.state), desk.state, kind, sent)
        return kind, name, envelope(desk, call, command, key, sent.meta.revision)
    except Faulty as error:
        return invalid(error.faults)
    except Trouble as error:
        return error.problem


def _tried(desk: Desk, call: Call, made: list[_Prepared]) -> list[Any]:
    """What would become of them, each judged on top of those before it."""
    tried = desk.ledger.try_out(*[one[2] for one in made if not isinstance(one, Problem)])
    answers = iter(tried.answers)
    return [
        _refused(one) if isinstance(one, Problem) else _told(call, one[0], tried.state, one[1], next(answers))
        for one in made
    ]


async def _submitted(desk: Desk, call: Call, one: _Prepared) -> Any:
    if isinstance(one, Problem):
        return _refused(one)
    kind, name, made = one
    try:
        found = await desk.ledger.submit(made)
    except OutcomeUnknown as error:
        return {"outcome": "unknown", "problem": of_error(error, lane="operators")}
    except Unavailable as error:
        return _refused(of_error(error, lane="operators"))
    return _told(call, kind, desk.state, name, found)


def _told(call: Call, kind: Kind, state: Any, name: str, found: Answered) -> Any:
    try:
        tree, outcome, _ = outcome_of(call, kind, state, name, found, conditional=False)
    except Trouble as error:
        return _refused(error.problem)
    return {"outcome": outcome, "object": tree}


def _refused(found: Problem) -> Any:
    return {"outcome": "refused", "problem": found}
