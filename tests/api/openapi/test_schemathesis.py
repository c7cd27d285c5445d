"""The servers against their own description, over HTTP: what it allows is taken, what it forbids is refused, and every
answer is one that it tells of, in the form that it tells of.

What is fixed: one seed, and a few examples of each operation. `make soak` draws new ones, and many.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import count
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import Case, CheckContext, GenerationMode, Response
from schemathesis.core.result import Ok
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi import checks

from holdfast.api.kinds import KINDS, ResourceKind
from holdfast.api.openapi.document import description
from holdfast.api.resources.schemas import kind_schema
from holdfast.api.serialization.json_schema import DIALECT
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from tests.support.api.api_cluster import OPERATOR, bearer
from tests.support.api.loopback_cluster import loopback

Operation = APIOperation[Any, Any, Any, Any]
Asked = Case[Any]
LEDGERS = ("platform", "region")
EXAMPLES = 6
SOAK_EXAMPLES = 50
#: Objects that are there, by the path that names them.
THERE: dict[str, dict[str, str]] = {
    "/v1/workloads/{tenant}/{name}": {"tenant": "shop", "name": "api"},
    "/v1/tenants/{name}": {"name": "shop"},
    "/v1/priorityclasses/{name}": {"name": "standard"},
    "/v1/principals/{name}": {"name": "person/spare"},
    "/v1/regions/{name}": {"name": "eu"},
    "/v1/nodes/{name}": {"name": "n1"},
    "/v1/sessions/{name}": {"name": "agent/n1"},
    "/v1/grants/{name}": {"name": "eu/quota/shop"},
    "/v1/assignments/{tenant}/{workload}/{region}/{purpose}": {
        "tenant": "shop", "workload": "web", "region": "eu", "purpose": "serving",
    },
    "/v1/replicas/{tenant}/{workload}/{region}/{ordinal}": {
        "tenant": "shop", "workload": "web", "region": "eu", "ordinal": "1",
    },
    "/v1/in/{region}/{rest}": {"region": "eu", "rest": "nodes"},
}  # fmt: skip

envelopes = st.builds(
    lambda sent, key: encode(Envelope(OPERATOR, OpenSession(), sent, key=key)), st.integers(0, 2**62), st.text()
)
schemathesis.openapi.media_type("application/msgpack", st.binary(max_size=40) | envelopes)


@cache
def described(ledger: str) -> dict[str, Operation]:
    """By verb and path: the operations of a server."""
    schema = schemathesis.openapi.from_dict(description(ledger))
    schema.config.generation.update(with_security_parameters=False, allow_extra_parameters=False)
    statuses = [400, 403, 404, 405, 406, 409, 410, 412, 413, 415, 422, 428, 429]
    schema.config.checks.negative_data_rejection.expected_statuses = [str(status) for status in statuses]
    found = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    assert len(found) == sum(len(verbs) for verbs in description(ledger)["paths"].values())
    return {operation.label: operation for operation in found}


def operations() -> list[Any]:
    return [pytest.param(ledger, label, id=f"{ledger}-{label}") for ledger in LEDGERS for label in described(ledger)]


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, str]]:
    with loopback() as urls:
        yield urls


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


numbers = count()
#: A text can be a number that is too large, which no pattern says.
BEYOND = "expected a number of at most 63 bits"


def possible(case: Asked, known: bool) -> Asked:
    """The same, without what the description cannot say: which parts of one request contradict one another."""
    headers, query, path = case.headers, case.query, case.path_parameters
    query.pop("watch", None)  # streams are another test's
    if case.operation.path in THERE and (known or case.operation.path == "/v1/principals/{name}"):
        path.update(THERE[case.operation.path])
    if case.meta is not None and case.meta.generation.mode.is_negative:
        return case
    if known:  # not as it was at a place in another log
        for name in ("Holdfast-Read", "If-Match"):
            headers.pop(name, None)
        query.pop("read", None)
    if "If-Match" in headers:
        headers.pop("If-None-Match", None)
    if "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = f"{case.operation.label.partition(' ')[0]}-{next(numbers)}"
    if "since" in query:
        query.pop("initial", None)
    if case.media_type == "application/json":
        case.body = whole(case.body)
    metadata = case.body.get("metadata") if case.method == "PUT" and isinstance(case.body, dict) else None
    if isinstance(metadata, dict):
        metadata.update({part: unquote(path[part]) for part in ("tenant", "name") if part in path})
    return case


def whole(tree: Any) -> Any:
    """The same with 3 for 3.0: JSON Schema takes both for whole numbers, and documents take the one only."""
    if isinstance(tree, dict):
        return {name: whole(item) for name, item in tree.items()}
    if isinstance(tree, list):
        return [whole(item) for item in tree]
    return int(tree) if isinstance(tree, float) and tree.is_integer() else tree


def taken(ctx: CheckContext, response: Response, case: Asked) -> bool | None:
    """What was read is not complained of: whoever is refused then is refused by the ledger."""
    meta = case.meta
    if meta is None or meta.generation.mode.is_negative or response.status_code < 400:
        return None
    if case.operation.path in ("/v1/envelopes", "/v1/envelopes/batch", "/v1/in/{region}/{rest}"):
        return None  # what is in an envelope, or answered in a region, is not said there
    found = msgspec.json.decode(response.content)
    if found["code"] == "invalid" and all(BEYOND in error["detail"] for error in found["errors"]):
        return None
    assert found["code"] not in ("unreadable", "invalid", "no-key", "wrong-media-type", "wrong-verb"), found
    return None


def refused(ctx: CheckContext, response: Response, case: Asked) -> bool | None:
    """Wrong data is refused; in a batch, which is judged piece by piece, at least one piece of it is. What was not
    answered in the time that it gave was not judged."""
    if response.status_code >= 500:
        return None
    if case.operation.path == "/v1/batch" and response.status_code == 200:
        found = msgspec.json.decode(response.content)
        if any(item["outcome"] == "refused" for item in found["items"]):
            return None
    if case.method == "PUT" and response.status_code < 300 and is_complete_with_its_path(case):
        return None
    return checks.negative_data_rejection(ctx, response, case)


def is_complete_with_its_path(case: Asked) -> bool:
    """Whether a document lacks nothing but what its path says."""
    kind = KINDS.get(case.operation.path.split("/")[2])
    body: Any = case.body
    if kind is None or not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        return False
    named = {part: unquote(case.path_parameters[part]) for part in ("tenant", "name") if part in case.path_parameters}
    tree = {"apiVersion": "holdfast/v1", "kind": kind.name, **body, "metadata": {**named, **body.get("metadata", {})}}
    return jsonschema_rs.is_valid(kind_schema(kind.name), tree)


def is_meant(response: Any) -> bool:
    """A region that has no server here; a place in the log that is never reached, or not in so short a time.

    That something was not answered in time is a plain answer, too: this machine may be busy.
    """
    asked = response.request
    if response.status_code == 502:
        return "/v1/in/" in asked.path_url
    if response.status_code == 504:
        return '"code":"deadline"' in response.text
    said = f"{asked.path_url} {asked.headers}"
    return response.status_code == 503 and ("at-least" in said or "Holdfast-Timeout-Ms" in said)


CHECKS = [
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    taken,
    refused,
]


def fuzz(url: str, session: requests.Session, operation: Operation, mode: GenerationMode, examples: int) -> None:
    @given(case=operation.as_strategy(mode), known=st.booleans())
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples == EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Asked, known: bool) -> None:
        case = possible(case, known)
        response = case.call(url, session, {"Authorization": bearer("operator")})
        assert response.status_code < 500 or is_meant(response), response.text
        case.validate_response(response, CHECKS)

    ask()


MODES = pytest.mark.parametrize(
    "mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE], ids=["allowed", "forbidden"]
)


@pytest.mark.parametrize(("ledger", "label"), operations())
@MODES
def test_a_server_is_what_it_says_that_it_is(
    servers: dict[str, str], session: requests.Session, ledger: str, label: str, mode: GenerationMode
) -> None:
    fuzz(servers[ledger], session, described(ledger)[label], mode, EXAMPLES)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("ledger", "label"), operations())
@MODES
def test_a_server_is_what_it_says_that_it_is_for_long(
    servers: dict[str, str], session: requests.Session, ledger: str, label: str, mode: GenerationMode
) -> None:
    fuzz(servers[ledger], session, described(ledger)[label], mode, SOAK_EXAMPLES)


@pytest.mark.parametrize("ledger", LEDGERS)
def test_what_a_server_publishes_is_valid_openapi_and_json_schema(
    servers: dict[str, str], session: requests.Session, ledger: str
) -> None:
    published = session.get(f"{servers[ledger]}/openapi.json", timeout=10).json()
    assert published == msgspec.json.decode(msgspec.json.encode(description(ledger)))
    assert published["openapi"] == "3.1.0"
    schemathesis.openapi.from_dict(published).validate()
    for schema in published["components"]["schemas"].values():
        jsonschema_rs.meta.validate({"$schema": DIALECT, **schema})
    for name in session.get(f"{servers[ledger]}/v1/schemas", timeout=10).json()["kinds"]:
        jsonschema_rs.meta.validate(session.get(f"{servers[ledger]}/v1/schemas/{name}", timeout=10).json())


@pytest.mark.parametrize(
    ("ledger", "kind"),
    [
        pytest.param(ledger, kind, id=f"{ledger}-{kind.plural}")
        for ledger in LEDGERS
        for kind in KINDS.values()
        if ledger in kind.ledger
    ],
)
def test_a_watch_streams_lines_with_objects_of_their_kind(
    servers: dict[str, str], session: requests.Session, ledger: str, kind: ResourceKind
) -> None:
    url, headers = f"{servers[ledger]}/v1/{kind.plural}", {"Authorization": bearer("operator")}
    query = {"watch": "true", "initial": "true"}
    with session.get(url, params=query, headers=headers, stream=True, timeout=10) as response:
        told = description(ledger)["paths"][f"/v1/{kind.plural}"]["get"]["responses"]["200"]["content"]
        assert response.headers["content-type"] in told
        for line in response.iter_lines():
            event = msgspec.json.decode(line)
            assert set(event) <= {"type", "token", "object"}
            if event["type"] == "BOOKMARK":
                break
            jsonschema_rs.validate(kind_schema(kind.name, shown=True), event["object"])
