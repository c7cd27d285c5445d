"""The blocking face, over a fake blocking transport; and what importing it costs."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from holdfast.client.async_client import AsyncClient
from holdfast.client.async_client import AsyncMachineSession as AsyncSpeaker
from holdfast.client.blocking_client import BlockingMachineSession, Client
from holdfast.client.config import ClientConfig
from holdfast.client.errors import NotFoundError, OutcomeUnknownError, RefusedError, UnavailableError, WaitTimeoutError
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.host.ports.transport import NoAnswer, Reply, Request, Unreachable
from tests.support.api.document_server import BlockingDocumentServer, DocumentServer
from tests.support.api.scripted_servers import counting, ok, says, thing


class Hands:
    """Time that moves when somebody sleeps, and a client on it."""

    def __init__(self, transport: Any, **access: Any) -> None:
        self.now = 5_000
        self.client = Client(
            transport,
            ClientConfig(servers=("a", "b"), **access),
            now=lambda: self.now,
            wall=lambda: self.now,
            sleep=self.sleep,
            keys=counting(f"key{number}" for number in range(100)),
            jitter=lambda: 0.0,
        )

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * 1000)


class Replies:
    """A blocking transport that gives one reply after the other, and then fails in one way."""

    def __init__(self, *replies: Reply, then: Exception | None = None) -> None:
        self.replies = list(replies)
        self.then = then or Unreachable("refused")
        self.asked: list[tuple[str, Request]] = []

    def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
        self.asked.append((peer, request))
        if self.replies:
            return self.replies.pop(0)
        raise self.then

    def stream(self, peer: str, request: Request, idle_ms: int) -> Iterator[bytes]:
        raise self.then


def test_what_is_put_can_be_read_listed_edited_and_deleted() -> None:
    client = Hands(BlockingDocumentServer(DocumentServer())).client
    assert client.put(thing("shop", tier=1)).outcome == "created"
    assert client.get("Tenant", "shop")["spec"] == {"tier": 1}
    assert client.edit("Tenant", "shop", lambda found: {**found, "spec": {"tier": 2}}).outcome == "configured"
    assert [item["spec"] for item in client.list("tenants").items] == [{"tier": 2}]
    assert [item.outcome for item in client.batch([thing("lab")])] == ["created"]
    assert client.delete("Tenant", "shop").outcome == "deleted"
    with pytest.raises(NotFoundError):
        client.get("Tenant", "shop")


def test_commands_and_questions_are_answered_at_the_platform_and_at_a_region() -> None:
    for client in (
        Hands(BlockingDocumentServer(DocumentServer())).client,
        Hands(BlockingDocumentServer(DocumentServer())).client.region("eu"),
    ):
        assert client.command("declare-lost", region="eu").revision == "2.0"
        assert client.status()["role"] == "leading"
        assert client.whoami()["principal"] == "person/operator"
        assert client.can_i("put-workload").allowed
        assert len(client.audit()) == 1
        assert client.schema("Workload")["title"] == "Workload"


def test_pauses_are_slept_and_patience_ends() -> None:
    hands = Hands(Replies())
    with pytest.raises(UnavailableError):
        hands.client.get("Tenant", "shop")
    assert 20_000 < hands.now - 5_000 <= 30_000
    silent = Replies(then=NoAnswer("silence"))
    with pytest.raises(OutcomeUnknownError) as raised:
        Hands(silent).client.put(thing("shop"))
    assert raised.value.key == "key0"
    assert {peer for peer, _ in silent.asked} == {"a", "b"}


def test_a_watch_is_an_iterator_that_closes_its_stream() -> None:
    transport = BlockingDocumentServer(DocumentServer())
    client = Hands(transport).client
    client.put(thing("one"))
    events = client.watch("tenants", initial=True)
    first = list(islice(events, 2))
    client.put(thing("two"))
    assert [event.type for event in first] == ["ADDED", "BOOKMARK"]
    assert next(events).object["metadata"]["name"] == "two"
    client.put(thing("three"))
    assert next(events).object["metadata"]["name"] == "three"
    before = transport.closed
    events.close()
    assert transport.closed == before + 1


def test_a_wait_ends_when_it_holds_or_in_time() -> None:
    hands = Hands(BlockingDocumentServer(DocumentServer()))
    hands.client.put(thing("shop"))
    found = hands.client.wait_for("Tenant", "shop", lambda found: found is not None, 1_000)
    assert found is not None
    with pytest.raises(WaitTimeoutError):
        hands.client.wait_for("Tenant", "never", lambda found: found is not None, 1_000)
    assert hands.now <= 5_000 + 1_300


def test_a_stream_where_one_answer_was_expected_is_a_refusal() -> None:
    class Streams(BlockingDocumentServer):
        def call(self, peer: str, request: Request, timeout_ms: int) -> Reply:
            return super().call(peer, Request("GET", "/v1/tenants", (("watch", "true"),)), timeout_ms)

    with pytest.raises(RefusedError, match="answered with a stream"):
        Hands(Streams(DocumentServer())).client.status()


def test_a_machine_speaks_through_the_client() -> None:
    replies = [ok({"revision": "7.0", "session": "7.1"}), ok({"worthMs": 900}), ok({"revision": "8.0"})]
    client = Hands(Replies(*replies, *[says(409, "no-session")] * 3)).client
    machine = client.speaker("agent/n1")
    assert machine.open() == machine.session == "7.1"
    assert machine.renew().worth_ms == 900
    assert machine.send(EndSession(1, "done")).revision == "8.0"
    for call in (
        lambda: client.open_session("agent/n1"),
        lambda: client.renew("7.1"),
        lambda: client.send(b"x"),
    ):
        with pytest.raises(RefusedError):
            call()


def test_the_clocks_of_a_machine_are_the_default() -> None:
    client = Client(Replies(ok({"role": "leading"})), ClientConfig(servers=("a",)))
    assert client.status() == {"role": "leading"}
    means = client._caller.means
    assert means.wall() > 1_700_000_000_000
    assert means.now() >= 0


@pytest.mark.parametrize(("one", "other"), [(AsyncClient, Client), (AsyncSpeaker, BlockingMachineSession)])
def test_both_faces_have_the_same_methods_with_the_same_parameters(one: type, other: type) -> None:
    def methods(face: type) -> dict[str, list[str]]:
        found = inspect.getmembers(face, inspect.isfunction)
        return {
            name: [str(parameter) for parameter in inspect.signature(method).parameters.values()]
            for name, method in found
            if not name.startswith("_")
        }

    assert methods(one) == methods(other)


def test_importing_the_blocking_face_imports_no_event_loop_no_server_and_no_ledger() -> None:
    """A command has a quarter of a second in all."""
    script = "import sys, holdfast.client.blocking_client; print('\\n'.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = set(run.stdout.split())
    heavy = {"asyncio", "aiohttp", "uvicorn", "numpy", "random", "secrets", "ssl", "http.client", "email"}
    assert imported & heavy == set()
    ours = {name for name in imported if name.startswith("holdfast.")}
    assert {name for name in ours if name.startswith(("holdfast.core.platform", "holdfast.core.region"))} == set()
    assert {name for name in ours if name.startswith("holdfast.host.")} == {
        "holdfast.host.ports",
        "holdfast.host.ports.transport",
        "holdfast.host.protocol",
        "holdfast.host.protocol.commands",
        "holdfast.host.protocol.problem",
    }
