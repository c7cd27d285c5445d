"""What every transport promises. One body for all of them; a new one joins by a line in `WIRES`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from random import Random
from typing import Any, Protocol

import pytest

from holdfast.host.clock import Clock
from holdfast.host.local import LocalNetwork
from holdfast.host.transport import NoAnswer, NoSuchMethod, Transport, TransportError, Unreachable
from holdfast.sim.links import CALM
from holdfast.sim.loop import VirtualClock, VirtualLoop, run_virtual
from holdfast.sim.network import SimNetwork


class Peer(Transport, Protocol):
    """A transport that a test can close."""

    async def close(self) -> None: ...


class Wire(Protocol):
    """How peers of one kind are made, and on which loop they live."""

    clock: Clock

    async def join(self, name: str) -> Peer: ...


class LocalWire:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop)
        self._network = LocalNetwork(self.clock, buffer=4)

    async def join(self, name: str) -> Peer:
        return self._network.join(name)


class SimulatedWire:
    """The simulated network in calm weather: its faults are in tests/sim."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock: Clock = VirtualClock(loop)
        self._network = SimNetwork(loop, Random(0), CALM, buffer=4)

    async def join(self, name: str) -> Peer:
        return self._network.join(name)


Running = Callable[[Any], Any]
WIRES: dict[str, tuple[Callable[[], Wire], Running]] = {
    "local": (LocalWire, run_virtual),
    "simulated": (SimulatedWire, run_virtual),
}


class Two:
    """Two peers: `b` serves, `a` asks."""

    def __init__(self, clock: Clock, a: Peer, b: Peer) -> None:
        self.clock = clock
        self.a = a
        self.b = b
        self.served: list[str] = []
        b.serve("echo", answer=self.echo)
        b.serve("slow", answer=self.slow)
        b.serve("break", answer=self.break_)
        b.serve("count", stream=self.count)
        b.serve("stall", stream=self.stall)
        b.serve("snap", stream=self.snap)

    async def echo(self, asker: str, body: bytes) -> bytes:
        self.served.append("echo")
        return asker.encode() + b":" + body

    async def slow(self, asker: str, body: bytes) -> bytes:
        await self.clock.sleep(int(body))
        self.served.append("slow")
        return b"at last"

    async def break_(self, asker: str, body: bytes) -> bytes:
        self.served.append("break")
        raise ValueError("a fault of the handler")

    async def count(self, asker: str, body: bytes) -> AsyncIterator[bytes]:
        try:
            for number in range(int(body)):
                self.served.append(f"sent {number}")
                yield str(number).encode()
        finally:
            self.served.append("ended")

    async def stall(self, asker: str, body: bytes) -> AsyncIterator[bytes]:
        yield b"one"
        await self.clock.sleep(int(body))
        yield b"two"

    async def snap(self, asker: str, body: bytes) -> AsyncIterator[bytes]:
        yield b"one"
        raise ValueError("a fault of the handler")

    async def read(self, method: str, body: bytes = b"", idle_ms: int = 1_000) -> tuple[list[bytes], str]:
        """What came, and how it ended."""
        came: list[bytes] = []
        try:
            async for message in self.a.stream("b", method, body, idle_ms):
                came.append(message)  # noqa: PERF401 - what came before it broke counts
        except TransportError as error:
            return came, type(error).__name__
        return came, "ended"


@asynccontextmanager
async def two_on(wire: Wire) -> AsyncIterator[Two]:
    two = Two(wire.clock, await wire.join("a"), await wire.join("b"))
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


def test_an_answer_comes_from_the_peer_that_was_asked_and_it_knows_who_asked(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert await two.a.ask("b", "echo", b"hello", 1_000) == b"a:hello"
        assert await two.b.ask("b", "echo", b"myself", 1_000) == b"b:myself"

    tell(story)


def test_questions_are_answered_side_by_side(tell: Tell) -> None:
    async def story(two: Two) -> None:
        slow = asyncio.create_task(two.a.ask("b", "slow", b"300", 1_000))
        await asyncio.sleep(0)
        assert await two.a.ask("b", "echo", b"", 1_000) == b"a:"
        assert not slow.done()
        assert await slow == b"at last"

    tell(story)


def test_an_unknown_peer_is_unreachable(tell: Tell) -> None:
    async def story(two: Two) -> None:
        with pytest.raises(Unreachable):
            await two.a.ask("nobody", "echo", b"", 1_000)
        with pytest.raises(Unreachable):
            async for _ in two.a.stream("nobody", "count", b"1", 1_000):
                pass

    tell(story)


def test_a_method_is_known_only_in_the_way_in_which_it_is_served(tell: Tell) -> None:
    async def story(two: Two) -> None:
        for method in ("nothing", "count"):
            with pytest.raises(NoSuchMethod):
                await two.a.ask("b", method, b"1", 1_000)
        for method in ("nothing", "echo"):
            assert await two.read(method) == ([], "NoSuchMethod")
        assert two.served == []

    tell(story)


def test_a_late_answer_is_no_answer_and_what_was_asked_is_done_all_the_same(tell: Tell) -> None:
    async def story(two: Two) -> None:
        began = two.clock.boot()
        with pytest.raises(NoAnswer):
            await two.a.ask("b", "slow", b"400", 200)
        assert 200 <= two.clock.boot() - began < 400
        assert two.served == []
        await two.clock.sleep(400)
        assert two.served == ["slow"]

    tell(story)


def test_an_asker_that_is_cancelled_does_not_stop_the_peer(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.a.ask("b", "slow", b"200", 1_000))
        await two.clock.sleep(100)
        asking.cancel()
        await two.clock.sleep(300)
        assert asking.cancelled()
        assert two.served == ["slow"]

    tell(story)


def test_a_handler_that_raises_gives_no_answer_and_others_are_still_answered(tell: Tell) -> None:
    async def story(two: Two) -> None:
        with pytest.raises(NoAnswer):
            await two.a.ask("b", "break", b"", 1_000)
        assert two.served == ["break"]
        assert await two.a.ask("b", "echo", b"", 1_000) == b"a:"

    tell(story)


def test_a_stream_gives_everything_once_and_in_order_and_ends(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert await two.read("count", b"100") == ([str(number).encode() for number in range(100)], "ended")
        assert await two.read("count", b"0") == ([], "ended")

    tell(story)


def test_a_stream_that_breaks_gives_what_came_before_and_then_no_answer(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert await two.read("snap") == ([b"one"], "NoAnswer")

    tell(story)


def test_a_stream_is_idle_only_while_nothing_comes(tell: Tell) -> None:
    async def story(two: Two) -> None:
        assert await two.read("stall", b"300", idle_ms=200) == ([b"one"], "NoAnswer")
        assert await two.read("stall", b"150", idle_ms=200) == ([b"one", b"two"], "ended")

    tell(story)


def test_a_slow_reader_is_not_idle_slows_its_sender_down_and_loses_nothing(tell: Tell) -> None:
    async def story(two: Two) -> None:
        came = []
        async for message in two.a.stream("b", "count", b"2000", 200):
            came.append(message)
            if len(came) == 1:
                await two.clock.sleep(500)
                assert len(two.served) < 1_000
        assert len(came) == 2_000

    tell(story)


def test_a_reader_that_has_enough_ends_the_stream_at_its_source(tell: Tell) -> None:
    async def story(two: Two) -> None:
        stream = two.a.stream("b", "count", b"100000", 1_000)
        async with aclosing(stream):  # type: ignore[type-var]
            async for _ in stream:
                break
        await two.clock.sleep(200)
        assert two.served[-1] == "ended"

    tell(story)


def test_a_peer_that_closes_gives_no_answer_and_is_unreachable_from_then_on(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.a.ask("b", "slow", b"5000", 10_000))
        reading = asyncio.create_task(two.read("stall", b"5000", idle_ms=10_000))
        await two.clock.sleep(100)
        began = two.clock.boot()
        await two.b.close()
        with pytest.raises(NoAnswer):
            await asking
        assert await reading == ([b"one"], "NoAnswer")
        assert two.clock.boot() - began < 2_000
        assert two.served == []
        with pytest.raises(Unreachable):
            await two.a.ask("b", "echo", b"", 1_000)

    tell(story)


def test_a_peer_that_closes_before_it_looked_at_a_question_gives_no_answer(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.a.ask("b", "echo", b"", 1_000))
        await asyncio.sleep(0)
        await two.b.close()
        with pytest.raises((NoAnswer, Unreachable)):
            await asking

    tell(story)


def test_an_asker_that_closes_hears_nothing_more(tell: Tell) -> None:
    async def story(two: Two) -> None:
        asking = asyncio.create_task(two.a.ask("b", "slow", b"5000", 10_000))
        reading = asyncio.create_task(two.read("stall", b"5000", idle_ms=10_000))
        await two.clock.sleep(100)
        await two.a.close()
        with pytest.raises(NoAnswer):
            await asking
        assert await reading == ([b"one"], "NoAnswer")
        with pytest.raises(Unreachable):
            await two.a.ask("b", "echo", b"", 1_000)

    tell(story)


@pytest.mark.parametrize("kind", sorted(WIRES))
def test_a_name_that_was_left_can_be_taken_again(kind: str) -> None:
    make, run = WIRES[kind]

    async def main() -> None:
        wire = make()
        first = await wire.join("b")
        await first.close()
        asker, second = await wire.join("a"), await wire.join("b")

        async def answer(asker: str, body: bytes) -> bytes:
            return b"second"

        second.serve("who", answer=answer)
        await first.close()
        assert await asker.ask("b", "who", b"", 1_000) == b"second"
        await asker.close()
        await second.close()

    run(main())
