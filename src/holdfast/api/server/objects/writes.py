"""Handlers that write: PUT and DELETE of objects, and commands by name.

A document becomes a command in an envelope, and the ledger decides it. The sender names its precondition (`If-Match`)
and a key that makes a retry harmless (`Idempotency-Key`). So a write that timed out can be sent again unchanged, and
gets its first answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from holdfast.api.kinds import API_VERSION, ResourceKind
from holdfast.api.problems import InvalidField, Problem, from_refusal, problem
from holdfast.api.resources.lookup import find_row
from holdfast.api.resources.schemas import parse_object
from holdfast.api.resources.tables import KeyedRow
from holdfast.api.serialization.field_errors import FieldError, InvalidDocument
from holdfast.api.serialization.scalars import KEY_PATTERN, parse_instant
from holdfast.api.server.context import ServerContext, check_rate
from holdfast.api.server.objects.ledger_commands import command_of, delete_command, put_command
from holdfast.api.server.redaction import Redaction, by_number
from holdfast.api.server.request import ApiError, ApiRequest, json_reply
from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.ledger.revision import format_revision as show_revision
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.values.structs import Revision
from holdfast.host.ports.transport import Pairs, Reply

_KEY = re.compile(KEY_PATTERN)
SubmitResult = Committed | Repeated | Refused


def invalid_problem(faults: Sequence[FieldError]) -> Problem:
    """Return the problem of an invalid document, with every field error."""
    details = [InvalidField(fault.pointer, fault.message, fault.hint) for fault in faults]
    first = faults[0]
    return problem("invalid", f"{first.pointer or '/'}: {first.message}", errors=details)


def make_envelope(ctx: ServerContext, call: ApiRequest, command: Any, key: str, expect: Revision) -> Envelope[Any]:
    """Return the command in an envelope of its sender, with the sender's precondition."""
    sent = call.header("holdfast-sent")
    at = ctx.now()
    if sent:
        said = parse_instant(sent)
        if said is None:
            raise ApiError(problem("unreadable", f"Holdfast-Sent: {sent[:40]!r} is not a time in RFC 3339"))
        at = said
    # A dry run has keys of its own: the answer to an earlier command does not tell what would happen now.
    own = f"dry-run/{key}" if call.is_dry_run() else key
    return Envelope(call.caller.actor, command, at, key=own, expect=expect, via=call.caller.via)


def require_idempotency_key(call: ApiRequest) -> str:
    """Return the idempotency key of a user's write."""
    key = call.header("idempotency-key")
    if _KEY.fullmatch(key) is None:
        raise ApiError(problem("no-key", "send an Idempotency-Key of 1 to 200 ASCII characters, without spaces"))
    return key


async def put(ctx: ServerContext, call: ApiRequest, kind: ResourceKind) -> Reply:
    """Create or change one object."""
    key = require_idempotency_key(call)
    check_rate(ctx, call, key)
    try:
        sent = parse_object(apply_path_identity(call, kind, call.json()))
    except InvalidDocument as error:
        raise ApiError(invalid_problem(error.faults)) from None
    name = "/".join(call.rest)
    expect, conditional = preconditions(call, sent)
    command = put_command(Redaction(call.caller, ctx.state), ctx.state, kind, sent)
    made = make_envelope(ctx, call, command, key, expect)
    found, state = await _decided(ctx, call, made)
    tree, outcome, headers = write_outcome(call, kind, state, name, found, conditional=conditional)
    return json_reply(tree, (("holdfast-outcome", outcome), *headers), 201 if outcome == "created" else 200)


async def _decided(ctx: ServerContext, call: ApiRequest, made: Envelope[Any]) -> tuple[SubmitResult, Any]:
    """Return the answer to the command or to its dry run, and the state after it."""
    if call.is_dry_run():
        tried = ctx.ledger.dry_run(made)
        return tried.answers[0], tried.state
    return await ctx.ledger.submit(made), ctx.state


def apply_path_identity(call: ApiRequest, kind: ResourceKind, tree: Any) -> Any:
    """Return the document with the name of its path: missing fields are filled in, different ones are rejected."""
    if not isinstance(tree, dict) or not isinstance(tree.get("metadata", {}), dict):
        return tree
    metadata = dict(tree.get("metadata", {}))
    tenant, name = ("", call.rest) if not kind.tenanted else (call.rest[0], call.rest[1:])
    for field, said in (("kind", kind.name), ("apiVersion", "holdfast/v1")):
        tree = {field: said} | tree
    for field, said in (("name", "/".join(name)), ("tenant", tenant)):
        if said and metadata.setdefault(field, said) != said:
            fault = FieldError(f"/metadata/{field}", f"the path has {said!r}, the document {metadata[field]!r}")
            raise ApiError(invalid_problem([fault]))
    if tree["kind"] != kind.name:
        raise ApiError(
            invalid_problem([FieldError("/kind", f"the path has {kind.name}, the document {tree['kind']!r}")])
        )
    return tree | {"metadata": metadata}


def preconditions(call: ApiRequest, sent: Any) -> tuple[Revision, bool]:
    """Return the revision that the sender read, and whether it is a precondition of the request."""
    match, none = _condition(call, "if-match"), _condition(call, "if-none-match")
    if match and none:
        raise ApiError(problem("unreadable", "If-Match and If-None-Match contradict each other"))
    if none:
        if none != "*":
            raise ApiError(problem("unreadable", "If-None-Match supports only *: it must not exist"))
        return ABSENT, True
    if not match:
        return sent.meta.revision if sent is not None and hasattr(sent, "meta") else 0, False
    return PRESENT if match == "*" else parse_etag(match), True


def _condition(call: ApiRequest, name: str) -> str:
    """Return a precondition header; empty if it is missing. An empty one is rejected: it would not be enforced."""
    said = call.header(name)
    if not said and any(one == name for one, _ in call.request.headers):
        raise ApiError(problem("unreadable", f"{name} is empty: send a value, or leave it out"))
    return said


def parse_etag(text: str) -> Revision:
    """Parse the revision of an ETag, `"41.3"`."""
    found = parse_revision(text.strip().removeprefix("W/").strip('"'))
    if not found:  # revision 0 would be no precondition
        raise ApiError(problem("unreadable", f"{text[:80]!r} is not an ETag of this server"))
    return found


ObjectOutcome = tuple[dict[str, Any], str, Pairs]


def write_outcome(
    call: ApiRequest, kind: ResourceKind, state: Any, name: str, found: SubmitResult, *, conditional: bool
) -> ObjectOutcome:
    """Return the object, and whether it was created, configured or unchanged; raise the problem of a refusal."""
    redaction = Redaction(call.caller, state)
    if isinstance(found, Refused) and found.code is not Code.ALREADY:
        refused = redaction.refused(found, by_number=kind.name == "Node")
        raise ApiError(from_refusal(refused, lane="operators", conditional=conditional))
    stored = find_row(kind, state, name)
    repeated: Pairs = (("holdfast-repeated", "true"),) if isinstance(found, Repeated) else ()
    if stored is None or not redaction.shows(kind, *stored):  # accepted, and deleted since, or not visible
        return _deleted_object(kind, name), "configured", repeated
    tree = redaction.tree(kind, *stored)
    headers: Pairs = (("etag", f'"{tree["metadata"].get("revision", "")}"'), *repeated)
    if isinstance(found, Refused):
        return tree, "unchanged", headers
    created = show_revision(found.revision) == tree["metadata"].get("uid")
    return tree, "created" if created else "configured", headers


def _deleted_object(kind: ResourceKind, path: str) -> dict[str, Any]:
    """Return kind and name of an object that is deleted."""
    tenant, _, name = path.partition("/") if kind.tenanted else ("", "", path)
    metadata = {"name": name, "tenant": tenant} if kind.tenanted else {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind.name, "metadata": metadata}


async def delete(ctx: ServerContext, call: ApiRequest, kind: ResourceKind) -> Reply:
    """Delete one object. The reply shows its state then: deleted, or waiting for its finalizers."""
    key = require_idempotency_key(call)
    check_rate(ctx, call, key)
    name = "/".join(call.rest)
    before = find_row(kind, ctx.state, name)
    expect, conditional = preconditions(call, None)
    made = make_envelope(ctx, call, delete_command(kind, call.rest), key, expect)
    tree = _visible_object(Redaction(call.caller, ctx.state), kind, before)
    found, state = await _decided(ctx, call, made)
    redaction = Redaction(call.caller, state)
    if isinstance(found, Refused):
        refused = redaction.refused(found, by_number=False)
        raise ApiError(from_refusal(refused, lane="operators", conditional=conditional))
    if before is not None and before[1].meta.uid > found.revision:
        before = tree = None  # a retry; the name now belongs to another object
    held = state.workloads.get(before[0]) if before is not None and kind.name == "Workload" else None
    if held is not None:
        tree = _visible_object(redaction, kind, (held.meta.uid, held))
    headers: Pairs = (("holdfast-outcome", "deleting" if held is not None else "deleted"),)
    if isinstance(found, Repeated):
        headers = (*headers, ("holdfast-repeated", "true"))
    return json_reply(tree or _deleted_object(kind, name), headers)


def _visible_object(redaction: Redaction, kind: ResourceKind, found: KeyedRow | None) -> dict[str, Any] | None:
    """Return the object as the caller sees it; None: it does not exist, or the caller may delete but not see it."""
    return redaction.tree(kind, *found) if found is not None and redaction.shows(kind, *found) else None


async def command(ctx: ServerContext, call: ApiRequest) -> Reply:
    """Execute a command by its name, with its fields as the body."""
    key = require_idempotency_key(call)
    check_rate(ctx, call, key)
    tag = "/".join(call.rest)
    expect, conditional = preconditions(call, None)
    try:
        tree = call.json() if call.request.body else {}
        made = make_envelope(ctx, call, command_of(ctx.ledger.definition.name, tag, tree), key, expect)
    except InvalidDocument as error:
        raise ApiError(invalid_problem(error.faults)) from None
    found, _ = await _decided(ctx, call, made)
    if isinstance(found, Refused):
        refused = Redaction(call.caller, ctx.state).refused(found, by_number=by_number(made.command))
        raise ApiError(from_refusal(refused, lane="operators", conditional=conditional))
    repeated = isinstance(found, Repeated)
    headers: Pairs = (("holdfast-repeated", "true"),) if repeated else ()
    return json_reply({"command": tag, "revision": show_revision(found.revision), "repeated": repeated}, headers)
