"""Computed reports of a server: status, identity, quota, audit, queue, decisions, repairs, schemas."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.client.requester import Document, Operation, Requester, decode_document, decode_reply, query_of
from holdfast.host.ports.transport import Reply


class AccessReview(Struct, frozen=True):
    """Whether an action is allowed, and the reason."""

    allowed: bool
    why: str = ""


class _Newest(Struct):
    items: list[dict[str, Any]]
    metadata: dict[str, Any] = {}


def status(caller: Requester) -> Operation[Document]:
    """Return the status of the server that answers: role, leader, token, conditions."""
    return decode_document((yield from caller.call(caller.request("GET", "/v1/status"))))


def whoami(caller: Requester) -> Operation[Document]:
    """Return the principal that this client acts as, with its permissions and scope."""
    return decode_document((yield from caller.read("GET", "/v1/whoami")))


def quota(caller: Requester, tenant: str = "") -> Operation[Document]:
    """Return quota, grants and usage, of one tenant or of all that this client may see."""
    if "/" in tenant or tenant in (".", ".."):
        raise ValueError(f"not a tenant name: {tenant!r}")
    return decode_document((yield from caller.read("GET", f"/v1/quota/{tenant}" if tenant else "/v1/quota")))


def can_i(
    caller: Requester, command: str = "", *, right: str = "", tenant: str = "", region: str = "", node: str = ""
) -> Operation[AccessReview]:
    """Check whether this client may send a command, or has a permission, in the given scope."""
    asked = {"command": command, "right": right, "tenant": tenant, "region": region, "node": node}
    body = msgspec.json.encode({name: value for name, value in asked.items() if value})
    return decode_reply((yield from caller.read("POST", "/v1/can-i", body=body)), AccessReview)


def audit(
    caller: Requester, *, since: str = "", actor: str = "", command: str = "", limit: int = 100
) -> Operation[tuple[Document, ...]]:
    """Return the newest `limit` audit entries, newest first, from as many pages as needed."""
    asked = (("since", since), ("actor", actor), ("command", command))
    found, _ = yield from _newest(caller, "/v1/audit", limit, *asked)
    return tuple(found[:limit])


def _newest(
    caller: Requester, path: str, limit: int, *asked: tuple[str, str]
) -> Operation[tuple[list[Document], Reply]]:
    """Return the newest `limit` items and the reply with the last of them.

    A server reads a part of its log per page, so a page may be empty without being the last.
    """
    found: list[Document] = []
    going_on = ""
    while True:
        query = query_of(*asked, ("limit", str(limit - len(found))), ("continue", going_on))
        reply = yield from caller.read("GET", path, query)
        page = decode_reply(reply, _Newest)
        found += page.items
        going_on = str(page.metadata.get("continue") or "")
        if not going_on or len(found) >= limit:
            return found, reply


def repairs(caller: Requester, *, tenant: str = "", limit: int = 0) -> Operation[Document]:
    """Return stuck operations and breaches, most urgent first; `metadata.total` is their number."""
    query = query_of(("tenant", tenant), ("limit", str(limit or "")))
    return decode_document((yield from caller.read("GET", "/v1/repairs", query)))


def queue(caller: Requester, *, workload: str = "", tenant: str = "", limit: int = 0) -> Operation[Document]:
    """Return the scheduling requests of a region in queue order; `metadata.total` is their number."""
    query = query_of(("workload", workload), ("tenant", tenant), ("limit", str(limit or "")))
    return decode_document((yield from caller.read("GET", "/v1/queue", query)))


def fairness(caller: Requester, *, tenant: str = "", limit: int = 0) -> Operation[Document]:
    """Return how tenants share a region, or all regions if the platform is asked; `metadata.total` is their number."""
    query = query_of(("tenant", tenant), ("limit", str(limit or "")))
    return decode_document((yield from caller.read("GET", "/v1/fairness", query)))


def decisions(caller: Requester, /, *, limit: int = 50, **asked: str) -> Operation[Document]:
    """Return the newest `limit` scheduler decisions of a region, newest first, from as many pages as needed.

    Filters: `workload`, `slot`, `node`, `tenant`, `since`, `until`, `outcome`. `metadata.continue` of the result means
    that there are more.
    """
    found, last = yield from _newest(caller, "/v1/decisions", limit, *asked.items())
    return {**decode_document(last), "items": found}


def schema(caller: Requester, kind: str) -> Operation[Document]:
    """Return the JSON Schema of a kind, named as in documents: `Workload`."""
    if not kind.isalnum():
        raise ValueError(f"not a kind: {kind!r}")
    return decode_document((yield from caller.call(caller.request("GET", f"/v1/schemas/{kind}"))))
