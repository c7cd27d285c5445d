"""The async face, over a network within this process, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.client.async_client import AsyncClient
from holdfast.client.config import ClientConfig
from holdfast.client.errors import NotFoundError, OutcomeUnknownError, RefusedError, UnavailableError, WaitTimeoutError
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.host.ports.transport import Reply, Request, RequestHandler, StreamReply
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop, run_virtual
from tests.support.api.document_server import DocumentServer
from tests.support.api.scripted_servers import ok, says, thing
from tests.support.hosts.local_network import LocalNetwork, LocalTransport


class Stage:
    """A network with an asker, and servers that join it as a test needs them."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = VirtualClock(loop)
        self.network = LocalNetwork(self.clock)
        self.asker = self.network.join("asker")
        self._keys = iter(range(10**6))

    def serve(self, name: str, serving: RequestHandler) -> LocalTransport:
        peer = self.network.join(name)
        peer.serve(serving)
        return peer

    def client(self, *servers: str, **access: Any) -> AsyncClient:
        return AsyncClient(
            self.asker,
            self.clock,
            ClientConfig(servers=servers or ("a",), **access),
            keys=lambda: f"key{next(self._keys)}",
            jitter=lambda: 0.0,
        )


Story = Callable[[Stage], Awaitable[None]]


def tell(story: Story) -> None:
    """Run a story, and see that it leaves no task behind."""

    async def main() -> None:
        stage = Stage()
        await story(stage)
        for peer in list(stage.network.peers.values()):
            await peer.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    run_virtual(main())


def test_what_is_put_can_be_read_listed_edited_and_deleted() -> None:
    async def story(stage: Stage) -> None:
        stage.serve("a", DocumentServer().serve)
        client = stage.client()
        assert (await client.put(thing("shop", tier=1))).outcome == "created"
        assert (await client.get("Tenant", "shop"))["spec"] == {"tier": 1}
        edited = await client.edit("Tenant", "shop", lambda found: {**found, "spec": {"tier": 2}})
        assert edited.outcome == "configured"
        assert [item["spec"] for item in (await client.list("tenants")).items] == [{"tier": 2}]
        assert (await client.delete("Tenant", "shop")).outcome == "deleted"
        with pytest.raises(NotFoundError):
            await client.get("Tenant", "shop")

    tell(story)


def test_a_list_joins_all_pages() -> None:
    async def story(stage: Stage) -> None:
        stage.serve("a", DocumentServer().serve)
        client = stage.client()
        applied = await client.batch([thing(f"t{number:03}") for number in range(450)])
        assert {item.outcome for item in applied} == {"created"}
        found = await client.list("tenants", limit=100)
        assert [item["metadata"]["name"] for item in found.items] == [f"t{number:03}" for number in range(450)]

    tell(story)


def test_commands_and_questions_are_answered() -> None:
    async def story(stage: Stage) -> None:
        stage.serve("a", DocumentServer().serve)
        client = stage.client()
        assert (await client.command("declare-lost", region="eu")).revision == "2.0"
        assert (await client.status())["role"] == "leading"
        assert (await client.whoami())["principal"] == "person/operator"
        assert (await client.can_i("put-workload", tenant="shop")).allowed
        assert len(await client.audit()) == 1
        assert (await client.schema("Workload"))["title"] == "Workload"

    tell(story)


def test_a_region_is_the_same_client_through_the_platform() -> None:
    async def story(stage: Stage) -> None:
        answers = DocumentServer()
        stage.serve("a", answers.serve)
        client = stage.client()
        await client.region("eu").put(thing("n1", kind="Node"))
        assert list(answers.regions["eu"].objects) == ["nodes/n1"]
        assert (await client.region("eu").get("Node", "n1"))["kind"] == "Node"
        with pytest.raises(NotFoundError):
            await client.get("Node", "n1")

    tell(story)


def test_a_server_that_closes_while_it_writes_is_followed_by_the_next_with_the_same_key() -> None:
    async def story(stage: Stage) -> None:
        answers, began = DocumentServer(), asyncio.Event()

        async def hang(request: Request) -> Reply | StreamReply:
            answers.answer(request)
            began.set()
            await asyncio.sleep(3600)
            raise AssertionError("nobody waits so long")

        first = stage.serve("a", hang)
        stage.serve("b", answers.serve)
        writing = asyncio.create_task(stage.client("a", "b").put(thing("shop")))
        await began.wait()
        await first.close()
        assert (await writing).outcome == "created"
        assert len(answers.log) == 1, "the second attempt was given the first answer"

    tell(story)


def test_a_call_ends_with_its_patience() -> None:
    async def story(stage: Stage) -> None:
        began = stage.clock.boot()
        with pytest.raises(UnavailableError):
            await stage.client("nobody", retry_for_ms=5_000).get("Tenant", "shop")
        assert 2_000 < stage.clock.boot() - began <= 5_000

        async def hang(request: Request) -> Reply | StreamReply:
            await asyncio.sleep(3600)
            return Reply()

        stage.serve("a", hang)
        began = stage.clock.boot()
        with pytest.raises(OutcomeUnknownError):
            await stage.client(retry_for_ms=5_000, timeout_ms=2_000).put(thing("shop"))
        assert stage.clock.boot() - began <= 7_000

    tell(story)


def test_a_call_that_is_cancelled_leaves_nothing_behind() -> None:
    async def story(stage: Stage) -> None:
        client = stage.client("nobody", retry_for_ms=10**9)
        calling = asyncio.create_task(client.get("Tenant", "shop"))
        await stage.clock.sleep(60_000)
        calling.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await calling
        assert calling.cancelled()

    tell(story)


def test_a_stream_where_one_answer_was_expected_is_a_refusal() -> None:
    async def story(stage: Stage) -> None:
        async def nothing() -> AsyncIterator[bytes]:
            yield b"{}"

        async def flow(request: Request) -> Reply | StreamReply:
            return StreamReply(nothing())

        stage.serve("a", flow)
        with pytest.raises(RefusedError, match="answered with a stream"):
            await stage.client().status()

    tell(story)


def test_a_watch_sees_changes_as_they_come_and_ends_its_stream_when_closed() -> None:
    async def story(stage: Stage) -> None:
        answers = DocumentServer()
        stage.serve("a", answers.serve)
        client = stage.client()
        await client.put(thing("old"))
        seen = []
        async with aclosing(client.watch("tenants", initial=True)) as events:
            async for event in events:
                seen.append((event.type, event.object.get("metadata", {}).get("name")))
                if event.type == "BOOKMARK":
                    await client.put(thing("new"))
                    await client.put(thing("new", note="changed"))
                    await client.delete("Tenant", "old")
                if len(seen) == 5:
                    break
        assert seen == [("ADDED", "old"), ("BOOKMARK", None), ("ADDED", "new"), ("MODIFIED", "new"), ("DELETED", "old")]

    tell(story)


def test_a_watch_outlives_the_server_that_it_began_with() -> None:
    async def story(stage: Stage) -> None:
        answers = DocumentServer()
        first = stage.serve("a", answers.serve)
        stage.serve("b", answers.serve)
        writer = stage.client("b")
        async with aclosing(stage.client("a", "b").watch("tenants")) as events:
            waiting = asyncio.ensure_future(anext(events))
            await stage.clock.sleep(1_000)
            await writer.put(thing("one"))
            assert (await waiting).object["metadata"]["name"] == "one"
            await writer.put(thing("two"))
            await first.close()
            await writer.put(thing("three"))
            assert [(await anext(events)).object["metadata"]["name"] for _ in range(2)] == ["two", "three"]

    tell(story)


def test_a_wait_ends_when_it_holds_or_in_time() -> None:
    async def story(stage: Stage) -> None:
        stage.serve("a", DocumentServer().serve)
        client = stage.client()

        def is_there(found: dict[str, Any] | None) -> bool:
            return found is not None

        waiting = asyncio.create_task(client.wait_for("Tenant", "shop", is_there, 60_000))
        await stage.clock.sleep(10_000)
        await client.put(thing("shop"))
        found = await waiting
        assert found is not None
        assert found["metadata"]["name"] == "shop"
        began = stage.clock.boot()
        with pytest.raises(WaitTimeoutError):
            await client.wait_for("Tenant", "never", is_there, 60_000)
        assert 60_000 <= stage.clock.boot() - began <= 60_500

    tell(story)


def test_a_machine_speaks_through_the_client() -> None:
    async def story(stage: Stage) -> None:
        replies = [ok({"revision": "7.0", "session": "7.1"}), ok({"worthMs": 900}), ok({"revision": "8.0"})]

        async def serving(request: Request) -> Reply | StreamReply:
            return replies.pop(0) if replies else says(409, "no-session")

        stage.serve("a", serving)
        client = stage.client()
        machine = client.speaker("agent/n1")
        assert await machine.open() == machine.session == "7.1"
        assert (await machine.renew()).worth_ms == 900
        assert (await machine.send(EndSession(1, "done"))).revision == "8.0"
        for call in (client.open_session("agent/n1"), client.renew("7.1"), client.send(b"x")):
            with pytest.raises(RefusedError):
                await call

    tell(story)
