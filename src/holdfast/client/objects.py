"""Reading and writing objects: get, list, put, delete, batch, edit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.errors import ConflictError, HoldfastError, ProblemReport, RevisionGoneError, etag_of
from holdfast.client.paths import ALL_TENANTS, TENANTED, collection, plural, single
from holdfast.client.requester import (
    LINEAR,
    Document,
    Operation,
    Requester,
    decode_document,
    decode_reply,
    if_match_header,
    query_of,
)
from holdfast.host.ports.transport import Pairs, Reply, first_value

PAGE = 500
#: Documents and bytes per slice of a batch: half of what a server accepts by default.
SLICE = 200
SLICE_BYTES = 512 << 10
#: How often a list restarts because its pages expired before all were read.
LIST_STARTS = 5
#: How often an edit reads again because another client changed the object.
EDITS = 8


class ListResult(Struct, frozen=True):
    """All objects of a list at one log position. A watch since `token` continues from it."""

    items: tuple[Document, ...]
    token: str


class WriteResult(Struct, frozen=True):
    """The result of a write. `outcome`: created, configured, unchanged. For a delete: deleted, or deleting while
    finalizers hold the object."""

    object: Document
    outcome: str
    revision: str


class BatchItemResult(Struct, frozen=True):
    """The result of one document of a batch: created, configured or unchanged. With a problem: refused, or unknown if
    it may have been executed."""

    outcome: str
    object: Document = {}
    problem: ProblemReport | None = None


class _PageMeta(Struct, rename={"going_on": "continue"}):
    token: str = ""
    going_on: str = ""


class _Page(Struct):
    items: list[dict[str, Any]]
    metadata: _PageMeta


class _Batch(Struct):
    items: list[BatchItemResult]


def get(caller: Requester, kind: str, name: str, tenant: str = "", *, read: str = "") -> Operation[Document]:
    """Return one object. Raises `NotFoundError` if there is none."""
    path = single(kind, name, tenant or caller.access.tenant)
    return decode_document((yield from caller.read("GET", path, level=read)))


def list_all(
    caller: Requester, kind: str, *, tenant: str = "", selector: str = "", limit: int = PAGE, read: str = ""
) -> Operation[ListResult]:
    """Return all objects at one log position, read in pages of `limit`. Raises `RevisionGoneError` if that position was
    trimmed too often."""
    path, query = collection(kind), (*selection(caller, kind, tenant, selector), ("limit", str(limit)))
    for start in range(LIST_STARTS):
        first = yield from caller.read("GET", path, query, level=read)
        try:
            return (yield from _join(caller, path, query, first))
        except RevisionGoneError:
            if start == LIST_STARTS - 1:
                raise
    raise AssertionError("a list is returned or raises")


def selection(caller: Requester, kind: str, tenant: str, selector: str) -> Pairs:
    """Return the query parameters that select the objects of a list or watch."""
    if not tenant and plural(kind) in TENANTED:
        tenant = caller.access.tenant
    return query_of(("tenant", "" if tenant == ALL_TENANTS else tenant), ("selector", selector))


def _join(caller: Requester, path: str, query: Pairs, first: Reply) -> Operation[ListResult]:
    """Return the first page and all that follow. Its position holds for the others, so they name no read level."""
    page = decode_reply(first, _Page)
    items, token = page.items, page.metadata.token or first_value(first.headers, "holdfast-token")
    while page.metadata.going_on:
        further = (*query, ("continue", page.metadata.going_on))
        page = decode_reply((yield from caller.call(caller.request("GET", path, further))), _Page)
        items += page.items
    return ListResult(tuple(items), token)


def put(
    caller: Requester,
    document: Document,
    *,
    if_match: str | None = None,
    create_only: bool = False,
    dry_run: bool = False,
    idempotency_key: str = "",
) -> Operation[WriteResult]:
    """Create or change an object to match the document. Raises `ConflictError` if it is not at `if_match`, or exists
    and `create_only` is set."""
    document = owned(caller, document)
    metadata = document["metadata"]
    path = single(document["kind"], metadata["name"], metadata.get("tenant", ""))
    headers = (*if_match_header(if_match), *((("if-none-match", "*"),) if create_only else ()))
    request = caller.request("PUT", path, _dry(dry_run), headers, msgspec.json.encode(document))
    key = caller.key(idempotency_key)
    reply = yield from caller.write(request, key, changes=not dry_run)
    return _write_result(reply, None if dry_run else key, "")


def delete(
    caller: Requester,
    kind: str,
    name: str,
    tenant: str = "",
    *,
    if_match: str | None = None,
    dry_run: bool = False,
    idempotency_key: str = "",
) -> Operation[WriteResult]:
    """Delete an object. Raises `NotFoundError` if there is none."""
    path = single(kind, name, tenant or caller.access.tenant)
    key = caller.key(idempotency_key)
    request = caller.request("DELETE", path, _dry(dry_run), if_match_header(if_match))
    reply = yield from caller.write(request, key, changes=not dry_run)
    return _write_result(reply, None if dry_run else key, "deleted")


def batch(
    caller: Requester, documents: Iterable[Document], *, dry_run: bool = False, idempotency_key: str = ""
) -> Operation[tuple[BatchItemResult, ...]]:
    """Put many documents in order, each decided by itself. A raised error lists earlier results in `done`."""
    whole = [owned(caller, document) for document in documents]
    key = caller.key(idempotency_key)
    done: list[BatchItemResult] = []
    slices = list(_slices([msgspec.json.encode(document) for document in whole]))
    for number, items in enumerate(slices):
        # A single slice uses the key itself: the server numbers its items KEY.0, KEY.1 and so on.
        slice_key = f"{key}-{number}" if len(slices) > 1 else key
        body = b'{"items":[' + b",".join(items) + b"]}"
        request = caller.request("POST", "/v1/batch", _dry(dry_run), body=body)
        try:
            reply = yield from caller.write(request, slice_key, changes=not dry_run)
            done += decode_reply(reply, _Batch, wrote=None if dry_run else slice_key).items
        except HoldfastError as error:
            error.done = tuple(done)
            raise
    return tuple(done)


def _slices(documents: list[bytes]) -> Iterator[list[bytes]]:
    """Yield the documents in order, as many per slice as a request may contain. An oversized one is sent alone."""
    items: list[bytes] = []
    for document in documents:
        if items and (len(items) == SLICE or sum(map(len, items)) + len(document) > SLICE_BYTES):
            yield items
            items = []
        items.append(document)
    if items:
        yield items


def edit(
    caller: Requester, kind: str, name: str, change: Callable[[Document], Document | None], tenant: str = ""
) -> Operation[WriteResult]:
    """Get, change and put an object; retry with the newest revision after a conflict. `change` returns the document to
    put, or None to leave the object as it is. Raises the last `ConflictError` if every attempt conflicts."""
    level = ""
    for attempt in range(EDITS):
        found = yield from get(caller, kind, name, tenant, read=level)
        revision = revision_of(found)
        wanted = change(found)
        if wanted is None:
            return WriteResult(found, "unchanged", revision)
        try:
            return (yield from put(caller, wanted, if_match=revision))
        except ConflictError as conflict:
            if not conflict.is_stale or attempt == EDITS - 1:
                raise
        level = LINEAR
    raise AssertionError("an edit is returned or raises")


def revision_of(document: Document) -> str:
    """Return the revision at which an object was read; empty if it has none."""
    metadata = document.get("metadata")
    return str(metadata.get("revision", "")) if isinstance(metadata, dict) else ""


def owned(caller: Requester, document: Document) -> Document:
    """Return the document with the default tenant if it needs one and names none. Raises `ValueError` if kind or name
    is missing."""
    metadata = document.get("metadata")
    if not document.get("kind") or not isinstance(metadata, dict) or not metadata.get("name"):
        raise ValueError("a document needs `kind` and `metadata.name`")
    if plural(document["kind"]) in TENANTED and not metadata.get("tenant") and caller.access.tenant:
        return {**document, "metadata": {**metadata, "tenant": caller.access.tenant}}
    return document


def _dry(dry_run: bool) -> Pairs:
    return (("dryRun", "All"),) if dry_run else ()


def _write_result(reply: Reply, wrote: str | None, otherwise: str) -> WriteResult:
    found = decode_document(reply, wrote=wrote)
    metadata = found.get("metadata")
    if otherwise and isinstance(metadata, dict) and metadata.get("deletion"):
        otherwise = "deleting"
    outcome = first_value(reply.headers, "holdfast-outcome") or otherwise
    return WriteResult(found, outcome, etag_of(reply) or revision_of(found))
