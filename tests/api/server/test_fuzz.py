"""Whatever is sent is answered with success or a 4xx: never with a stack trace, never with a fault of ours."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.api.server.objects.ledger_commands import tags
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.host.ports.transport import Reply, Request, StreamReply
from tests.support.api.api_cluster import OPERATOR, World, a_class, a_tenant, a_workload, bearer, in_world

words = st.sampled_from([
    "v1", "workloads", "tenants", "tokens", "principals", "nodes", "replicas", "requests", "audit", "batch", "commands",
    "in", "eu", "shop", "web", "status", "schemas", "Workload", "openapi.json", "healthz", "envelopes", "renewals",
    "shipments", "declare-lost", "open-override", "retire-region", "policies", "overrides", "breaches", "grants", "..",
    "", "%", "\x00",
])  # fmt: skip
paths = st.lists(words | st.text(max_size=8), max_size=6).map(lambda parts: "/" + "/".join(parts))
known_paths = st.sampled_from([
    "/v1/workloads", "/v1/workloads/shop/web", "/v1/tenants/shop", "/v1/priorityclasses/standard", "/v1/batch",
    "/v1/can-i",
    "/v1/commands/declare-lost", "/v1/commands/open-override", "/v1/commands/configure", "/v1/commands/publish-policy",
    "/v1/envelopes", "/v1/envelopes/batch", "/v1/renewals", "/v1/audit", "/v1/repairs", "/v1/status", "/v1/in/eu/nodes",
    "/v1/tokens/t",
    "/v1/regions/eu", "/v1/quotas/shop", "/v1/nodepools/p", "/v1/recoverybudgets/b", "/v1/principals/person/x",
])  # fmt: skip
names = st.sampled_from([
    "limit", "continue", "selector", "tenant", "watch", "since", "initial", "dryRun", "read", "actor", "command",
    "region",
])  # fmt: skip
values = st.sampled_from(
    ["", "1", "0", "-1", "true", "All", "x", "a=b", "any", "linear", "at-least=a:1:1:00"]
) | st.text(max_size=12)
headers = st.lists(
    st.tuples(
        st.sampled_from([
            "if-match", "if-none-match", "holdfast-read", "holdfast-timeout-ms", "holdfast-sent", "content-type",
            "holdfast-actor", "holdfast-forwarded", "accept", "idempotency-key",
        ]),
        values | st.sampled_from(["*", '"1.1"', "application/json", "text/plain", "2026-01-01T00:00:00.000Z", "60000"]),
    ),
    max_size=3,
)  # fmt: skip
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
fields = st.sampled_from(
    ["replicas", "template", "priorityClass", "placement", "failover", "need", "cpu", "command", "x"]
)


def _changed(document: Any, where: list[str], value: Any) -> Any:
    """The document with one part of it replaced by something else."""
    if not where or not isinstance(document, dict):
        return value
    found = dict(document)
    found[where[0]] = _changed(found.get(where[0], {}), where[1:], value)
    return found


documents = st.builds(
    _changed,
    st.sampled_from([a_workload(), a_tenant(), a_class()]),
    st.lists(st.sampled_from(["spec", "metadata", "template", "labels", "name", "kind", "need"]) | fields, max_size=4),
    trees,
)
bodies = (
    st.binary(max_size=40)
    | trees.map(msgspec.json.encode)
    | documents.map(msgspec.json.encode)
    | st.lists(documents, max_size=3).map(lambda items: msgspec.json.encode({"items": items}))
    | st.builds(lambda sent: encode(Envelope(OPERATOR, OpenSession(), sent, key="k")), st.integers(0, 2**62))
)
keyed = st.integers(0, 2**30).map(lambda number: ("idempotency-key", f"fuzz-{number}"))


def _request(
    verb: str, path: str, query: list[tuple[str, str]], key: tuple[str, str], more: Any, body: bytes
) -> Request:
    return Request(verb, path, tuple(query), (("authorization", bearer("operator")), key, *more), body)


few = st.lists(st.tuples(names, values), max_size=2)
some: st.SearchStrategy[list[tuple[str, str]]] = st.just([]) | headers
#: A document with one thing wrong, or nothing, where it belongs.
writes = st.builds(
    lambda document, key, query, more: _request(
        "PUT", _path(document), query, key, more, msgspec.json.encode(document)
    ),
    documents, keyed, st.just([]) | few, some,
)  # fmt: skip
reads = st.builds(_request, st.sampled_from(["GET", "HEAD"]), known_paths, few, keyed, some, st.just(b""))
commands = st.builds(
    lambda tag, body, key: _request("POST", f"/v1/commands/{tag}", [], key, [], body),
    st.sampled_from(tags("platform")),
    st.dictionaries(st.sampled_from(["region", "reason", "revision", "document", "settings", "ends", "action"]), trees)
    .map(msgspec.json.encode),
    keyed,
)  # fmt: skip
batches = st.builds(
    lambda items, key: _request("POST", "/v1/batch", [], key, [], msgspec.json.encode({"items": items})),
    st.lists(documents, min_size=1, max_size=4),
    keyed,
)
wild = st.builds(
    _request,
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH", ""]),
    paths | known_paths,
    few,
    keyed,
    some,
    bodies,
)
requests = st.one_of(writes, reads, commands, batches, wild)


def _path(document: Any) -> str:
    """Where a document belongs, as far as it still says so."""
    kind = document.get("kind") if isinstance(document, dict) else None
    return {"Tenant": "/v1/tenants/shop", "PriorityClass": "/v1/priorityclasses/standard"}.get(
        kind if isinstance(kind, str) else "", "/v1/workloads/shop/web"
    )


@given(st.lists(requests, min_size=5, max_size=20))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_no_request_is_answered_with_a_fault_of_ours(asked: list[Request]) -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        await world.ask("POST", "/v1/batch", {"items": [a_class(), a_tenant(), a_workload()]})
        for request in asked:
            found = await part.api.serve(request)
            if isinstance(found, StreamReply):
                await found.messages.aclose()  # type: ignore[attr-defined]
                continue
            _must_be_plain(request, found)

    in_world(story)


def _is_meant(request: Request, status: int) -> bool:
    """A region that has no server here; a place in the log that is never reached, or not in so short a time."""
    if status == 502:
        return request.path.startswith("/v1/in/")
    waits = any("at-least" in value for _, value in (*request.query, *request.headers))
    hurries = any(name == "holdfast-timeout-ms" for name, _ in request.headers)
    return status in (503, 504) and (waits or hurries)


def _must_be_plain(request: Request, reply: Reply) -> None:
    assert reply.status < 500 or _is_meant(request, reply.status), (request, reply)
    assert b"Traceback" not in reply.body
    if reply.status >= 400 and request.verb != "HEAD":
        problem = msgspec.json.decode(reply.body)
        assert problem["status"] == reply.status or "ready" in problem, (request, reply)


@given(st.lists(st.tuples(headers, bodies), min_size=1, max_size=10))
@settings(deadline=None, max_examples=50)
def test_no_token_however_it_looks_opens_anything(tried: list[tuple[list[tuple[str, str]], bytes]]) -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        for pairs, body in tried:
            spoken = ("authorization", "Bearer " + body[:60].decode("latin-1"))
            found = await part.api.serve(Request("GET", "/v1/tenants", (), (*pairs, spoken), b""))
            assert isinstance(found, Reply)
            assert found.status in (400, 401), found

    in_world(story)
