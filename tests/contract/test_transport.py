"""What every transport promises. One body for all of them; a new one joins by a line in
`tests.support.api.transports`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress

import pytest

from holdfast.host.ports.transport import (
    Framing,
    NoAnswer,
    Pairs,
    Reply,
    Request,
    StreamDeclined,
    StreamReply,
    TransportError,
    Unreachable,
    first_value,
)
from tests.support.api.transports import WIRES, Peer, Wire

LINE_BYTES = 64 << 10


class Two:
    """Two peers: `b` serves, `a` asks."""

    def __init__(self, wire: Wire, a: tuple[str, Peer], b: tuple[str, Peer]) -> None:
        self.clock = wire.clock
        self.nobody = wire.nobody
        self.name_of_a, self.a = a
        self.name_of_b, self.b = b
        self.served: list[str] = []
        self.asked: list[Request] = []
        self.b.serve(self.serve)

    async def serve(self, request: Request) -> Reply | StreamReply:
        self.asked.append(request)
        framing = Framing(first_value(request.query, "framing", "lines"))
        match request.path:
            case "/slow":
                await self.clock.sleep(int(request.body))
                self.served.append("slow")
                return Reply(body=b"at last")
            case "/break":
                self.served.append("break")
                raise ValueError("a fault of the handler")
            case "/refuse":
                return Reply(410, (("content-type", "text/plain"),), b"gone for good")
            case "/count":
                return StreamReply(self.count(int(request.body), int(first_value(request.query, "size", "1"))), framing)
            case "/stall":
                return StreamReply(self.stall(int(request.body)), framing)
            case "/snap":
                return StreamReply(self.snap(), framing)
            case "/bytes":
                return StreamReply(each(b"\n", b"", b"\x00\xff" * 70_000, b"end"), Framing.FRAMES)
            case _:
                self.served.append("echo")
                return Reply(headers=request.headers, body=request.body)

    async def count(self, most: int, size: int) -> AsyncIterator[bytes]:
        try:
            for number in range(most):
                self.served.append(f"sent {number}")
                yield str(number).rjust(size, "0").encode()
        finally:
            self.served.append("ended")

    async def stall(self, ms: int) -> AsyncIterator[bytes]:
        yield b"one"
        await self.clock.sleep(ms)
        yield b"two"

    async def snap(self) -> AsyncIterator[bytes]:
        yield b"one"
        raise ValueError("a fault of the handler")

    async def ask(self, path: str, body: bytes = b"", timeout_ms: int = 2_000) -> Reply:
        return await self.a.call(self.name_of_b, Request("POST", path, body=body), timeout_ms)

    async def read(
        self, path: str, body: bytes = b"", idle_ms: int = 2_000, query: Pairs = ()
    ) -> tuple[list[bytes], str]:
        """What came, and how it ended."""
        came: list[bytes] = []
        try:
            async for message in self.a.stream(self.name_of_b, Request("GET", path, query, body=body), idle_ms):
                came.append(message)  # noqa: PERF401 - what came before it broke counts
        except TransportError as error:
            return came, type(error).__name__
        return came, "ended"


async def each(*messages: bytes) -> AsyncIterator[bytes]:
    for message in messages:
        yield message


@asynccontextmanager
async def two_on(wire: Wire) -> AsyncIterator[Two]:
    two = Two(wire, await wire.join("a"), await wire.join("b"))
    try:
        yield two
    finally:
        await two.a.close()
        await two.b.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"


Story = Callable[[Two], Awaitable[None]]
Tell = Callable[[Story], None]


@pytest.fixture(params=sorted(WIRES))
def tell(request: pytest.FixtureRequest) -> Tell:
    """Runs a story about two peers on the transport at hand."""
    make, run = WIRES[request.param]

    def telling(story: Story) -> None:
        async def main() -> None:
            async with two_on(make()) as two:
                await story(two)

        run(main())

    return telling


# Questions.


def test_an_answer_comes_from_the_peer_that_was_asked(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert (await two.ask("/echo", b"hello")).body == b"hello"
        mine = await two.b.call(two.name_of_b, Request("POST", "/echo", body=b"myself"), 2_000)
        assert (mine.status, mine.body) == (200, b"myself")

    tell(story)


def test_a_request_arrives_as_it_was_sent(tell: Tell) -> None:
    async def story(two: Two) -> None:
        sent = Request(
            "PUT",
            "/v1/name with space/größe/100%/a?b#c/日本/+",
            (("q", "a b&c=d"), ("q", "ü+%"), ("empty", ""), ("日", "本")),
            (("content-type", "application/json"), ("x-note", "naïve"), ("x-note", "twice")),
            b"\x00\xff\r\n",
        )
        await two.a.call(two.name_of_b, sent, 2_000)
        (came,) = two.asked
        assert (came.verb, came.path, came.query, came.body) == (sent.verb, sent.path, sent.query, sent.body)
        assert [pair for pair in came.headers if pair in sent.headers] == list(sent.headers)

    tell(story)


@pytest.mark.parametrize("path", ["/", "//", "//host/path", "/a//b/", "/../x", "/a/./b", "/%2F", "/;a=b"])
def test_a_path_is_what_it_was_and_nothing_that_it_could_stand_for(tell: Tell, path: str) -> None:
    async def story(two: Two) -> None:
        await two.ask(path)
        assert [request.path for request in two.asked] == [path]

    tell(story)


def test_a_reply_arrives_as_it_was_given(tell: Tell) -> None:
    async def story(two: Two) -> None:
        given = await two.ask("/refuse")
        assert given == Reply(410, (("content-type", "text/plain"),), b"gone for good")

    tell(story)


@pytest.mark.parametrize("size", [0, 1, 70_000, 1 << 20])
def test_a_body_of_any_size_up_to_a_mebibyte_is_carried_both_ways(tell: Tell, size: int) -> None:
    async def story(two: Two) -> None:
        body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
        assert (await two.ask("/echo", body)).body == body

    tell(story)


def test_nobody_proves_who_they_are_by_saying_so(tell: Tell) -> None:
    async def story(two: Two) -> None:
        await two.a.call(two.name_of_b, Request("GET", "/echo", proven="person/root"), 2_000)
        assert two.asked[0].proven == ""

    tell(story)


def test_questions_are_answered_side_by_side(tell: Tell) -> None:
    async def story(two: Two) -> None:
        slow = asyncio.create_task(two.ask("/slow", b"300"))
        await asyncio.sleep(0)
        assert (await two.ask("/echo")).status == 200
        assert not slow.done()
        assert (await slow).body == b"at last"

    tell(story)


def test_a_peer_that_serves_nothing_says_so(tell: Tell) -> None:
    async def story(two: Two) -> None:
        with pytest.raises(StreamDeclined) as declined:
            async for _ in two.b.stream(two.name_of_a, Request("GET", "/count"), 2_000):
                pass
        replies = [await two.b.call(two.name_of_a, Request("GET", "/echo"), 2_000), declined.value.reply]
        assert [reply.status for reply in replies] == [404, 404]

    tell(story)


def test_an_unknown_peer_is_unreachable(tell: Tell) -> None:
    async def story(two: Two) -> None:
        with pytest.raises(Unreachable):
            await two.a.call(two.nobody, Request("GET", "/echo"), 2_000)
        with pytest.raises(Unreachable):
            async for _ in two.a.stream(two.nobody, Request("GET", "/count"), 2_000):
                pass

    tell(story)


def test_a_late_answer_is_no_answer_and_what_was_asked_is_done_all_the_same(tell: Tell) -> None:
    async def story(two: Two) -> None:
        began = two.clock.boot()
        with pytest.raises(NoAnswer):
            await two.ask("/slow", b"3000", timeout_ms=200)
        assert 199 <= two.clock.boot() - began < 3_000
        assert two.served == []
        while not two.served:
            await two.clock.sleep(100)
        assert two.served == ["slow"]

    tell(story)


def test_an_asker_that_is_cancelled_does_not_stop_the_peer(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.ask("/slow", b"200"))
        await two.clock.sleep(100)
        asking.cancel()
        await two.clock.sleep(300)
        assert asking.cancelled()
        assert two.served == ["slow"]

    tell(story)


def test_a_handler_that_raises_gives_no_good_answer_and_others_are_still_answered(tell: Tell) -> None:
    async def story(two: Two) -> None:
        with suppress(NoAnswer):
            assert (await two.ask("/break")).status == 500
        assert two.served == ["break"]
        assert (await two.ask("/echo", b"still")).body == b"still"

    tell(story)


# Streams.


@pytest.mark.parametrize("framing", Framing)
def test_a_stream_gives_everything_once_and_in_order_and_ends(tell: Tell, framing: Framing) -> None:
    async def story(two: Two) -> None:
        query = (("framing", framing.value),)
        assert await two.read("/count", b"100", query=query) == ([b"%d" % number for number in range(100)], "ended")
        assert await two.read("/count", b"0", query=query) == ([], "ended")

    tell(story)


def test_frames_hold_anything(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert await two.read("/bytes") == ([b"\n", b"", b"\x00\xff" * 70_000, b"end"], "ended")

    tell(story)


def test_whoever_asks_for_a_stream_is_told_what_was_said_instead(tell: Tell) -> None:
    async def story(two: Two) -> None:
        with pytest.raises(StreamDeclined) as declined:
            async for _ in two.a.stream(two.name_of_b, Request("GET", "/refuse"), 2_000):
                pass
        assert declined.value.reply == Reply(410, (("content-type", "text/plain"),), b"gone for good")

    tell(story)


def test_whoever_asks_once_for_a_stream_is_declined_and_the_stream_ends(tell: Tell) -> None:
    async def story(two: Two) -> None:
        with pytest.raises(StreamDeclined) as declined:
            await two.ask("/count", b"100000")
        assert declined.value.reply.status == 406
        await two.clock.sleep(200)
        assert two.served[-1:] in ([], ["ended"])

    tell(story)


def test_a_stream_that_breaks_gives_what_came_before_and_then_no_answer(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert await two.read("/snap") == ([b"one"], "NoAnswer")

    tell(story)


def test_a_stream_is_idle_only_while_nothing_comes(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert await two.read("/stall", b"400", idle_ms=200) == ([b"one"], "NoAnswer")
        assert await two.read("/stall", b"100", idle_ms=300) == ([b"one", b"two"], "ended")

    tell(story)


def test_a_slow_reader_is_not_idle_slows_its_sender_down_and_loses_nothing(tell: Tell) -> None:
    async def story(two: Two) -> None:
        came = 0
        request = Request("GET", "/count", (("size", str(LINE_BYTES)),), body=b"1200")
        async for message in two.a.stream(two.name_of_b, request, 200):
            assert (int(message[-9:]), len(message)) == (came, LINE_BYTES)
            came += 1
            if came == 1:
                await two.clock.sleep(500)
                # More than what the sockets of a machine hold: tens of mebibytes are never in between.
                assert len(two.served) < 1_000
        assert came == 1_200

    tell(story)


def test_a_reader_that_has_enough_ends_the_stream_at_its_source(tell: Tell) -> None:
    async def story(two: Two) -> None:
        stream = two.a.stream(two.name_of_b, Request("GET", "/count", body=b"1000000"), 2_000)
        async with aclosing(stream):  # type: ignore[type-var]
            async for _ in stream:
                break
        await two.clock.sleep(200)
        assert two.served[-1] == "ended"

    tell(story)


# Ends.


def test_a_peer_that_closes_gives_no_answer_and_is_unreachable_from_then_on(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.ask("/slow", b"5000", timeout_ms=10_000))
        reading = asyncio.create_task(two.read("/stall", b"5000", idle_ms=10_000))
        await two.clock.sleep(100)
        began = two.clock.boot()
        await two.b.close()
        with pytest.raises(NoAnswer):
            await asking
        assert await reading == ([b"one"], "NoAnswer")
        assert two.clock.boot() - began < 2_000
        assert two.served == []
        with pytest.raises(Unreachable):
            await two.ask("/echo")

    tell(story)


def test_a_peer_that_closes_before_it_looked_at_a_question_gives_no_answer(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.ask("/slow", b"300"))
        await asyncio.sleep(0)
        await two.b.close()
        with pytest.raises((NoAnswer, Unreachable)):
            await asking

    tell(story)


def test_an_asker_that_closes_hears_nothing_more(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.ask("/slow", b"5000", timeout_ms=10_000))
        reading = asyncio.create_task(two.read("/stall", b"5000", idle_ms=10_000))
        await two.clock.sleep(100)
        await two.a.close()
        with pytest.raises(NoAnswer):
            await asking
        assert await reading == ([b"one"], "NoAnswer")
        with pytest.raises(Unreachable):
            await two.ask("/echo")

    tell(story)


@pytest.mark.parametrize("kind", sorted(WIRES))
def test_a_name_that_was_left_can_be_taken_again(kind: str) -> None:
    make, run = WIRES[kind]

    async def main() -> None:
        wire = make()
        name, first = await wire.join("b")
        (_, asker), question = await wire.join("a"), Request("GET", "/who")
        assert (await asker.call(name, question, 2_000)).status == 404
        await first.close()
        again, second = await wire.join("b")

        async def answer(request: Request) -> Reply:
            return Reply(body=b"second")

        second.serve(answer)
        await first.close()
        assert again == name
        assert (await asker.call(name, question, 2_000)).body == b"second"
        await asker.close()
        await second.close()

    run(main())
