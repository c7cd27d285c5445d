"""What the simulated network does to those who use it: each fault and each verb, one claim at a time.

That it is a transport in calm weather is told in tests/contract/test_transport.py.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from contextvars import ContextVar
from random import Random

import pytest

from holdfast.host.ports.transport import NoAnswer, Reply, Request, StreamReply, Transport, TransportError, Unreachable
from holdfast.sim.world.links import CALM, NetworkConditions
from holdfast.sim.world.network import SimNetwork, SimTransport
from holdfast.sim.world.virtual_loop import VirtualLoop, run_virtual

ROUGH = NetworkConditions(latency_ms=(1, 50), loss=0.03, duplication=0.03, answer_loss=0.03, slow=0.02, slow_ms=5_000)


def get(path: str, body: bytes = b"") -> Request:
    return Request("GET", path, body=body)


class World:
    """A network in which `b` serves and `a` asks."""

    def __init__(self, weather: NetworkConditions = CALM, seed: int = 1) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.network = SimNetwork(loop, Random(seed), weather)
        self.served: list[str] = []
        self.a = self.network.join("a")
        self.b = self.join("b")

    def join(self, name: str) -> SimTransport:
        peer = self.network.join(name)

        def echo(body: bytes) -> Reply:
            self.served.append(body.decode())
            return Reply(body=b"%s.%d:%s" % (name.encode(), peer.incarnation, body))

        async def tick(count: int) -> AsyncIterator[bytes]:
            try:
                for number in range(count):
                    yield b"%d" % number
                    await asyncio.sleep(0.1)
            finally:
                self.served.append("tick ended")

        async def serve(request: Request) -> Reply | StreamReply:
            if request.path == "/tick":
                return StreamReply(tick(int(request.body)))
            if request.path == "/slow":
                await asyncio.sleep(int(request.body) / 1000)
                return echo(b"slow")
            return echo(request.body)

        peer.serve(serve)
        return peer

    @property
    def now_ms(self) -> int:
        return round(self.network.loop.time() * 1000)

    async def outcome(self, body: str = "x", *, by: Transport | None = None, to: str = "b", ms: int = 1_000) -> str:
        """What came of a question: the answer, or the name of what was raised."""
        try:
            return (await (by or self.a).call(to, get("/echo", body.encode()), ms)).body.decode()
        except TransportError as error:
            return type(error).__name__

    async def read(self, count: int, idle_ms: int = 1_000) -> tuple[list[int], str]:
        """What came of a stream, and how it ended."""
        came: list[int] = []
        try:
            async for item in self.a.stream("b", get("/tick", b"%d" % count), idle_ms):
                came.append(int(item))  # noqa: PERF401 - what came before it broke counts
        except TransportError as error:
            return came, type(error).__name__
        return came, "ended"


def tell(story: Callable[[World], Awaitable[None]], weather: NetworkConditions = CALM, seed: int = 1) -> World:
    """Run a story to its end, and give the world it left."""

    async def main() -> World:
        world = World(weather, seed)
        await story(world)
        return world

    return run_virtual(main())


async def after(ms: int) -> None:
    await asyncio.sleep(ms / 1000)


# Weather.


def test_a_lost_question_is_no_answer_at_the_deadline_and_nobody_acted() -> None:
    async def story(world: World) -> None:
        assert await world.outcome(ms=700) == "NoAnswer"
        assert world.now_ms == 700
        assert world.served == []

    assert tell(story, NetworkConditions(loss=1.0)).network.tally["lost"] == 1


def test_a_lost_answer_leaves_an_asker_that_does_not_know_that_the_other_side_acted() -> None:
    async def story(world: World) -> None:
        assert await world.outcome() == "NoAnswer"
        assert world.served == ["x"]

    assert tell(story, NetworkConditions(answer_loss=1.0)).network.tally["answers_lost"] == 1


def test_a_question_that_arrives_twice_is_acted_on_twice_and_answered_once() -> None:
    async def story(world: World) -> None:
        assert await world.outcome() == "b.1:x"
        await after(100)
        assert world.served == ["x", "x"]

    assert tell(story, NetworkConditions(latency_ms=(1, 20), duplication=1.0)).network.tally["duplicated"] == 1


def test_questions_overtake_one_another() -> None:
    async def story(world: World) -> None:
        await asyncio.gather(*(world.outcome(str(number)) for number in range(20)))
        assert sorted(world.served, key=int) == [str(number) for number in range(20)] != world.served

    assert tell(story, NetworkConditions(latency_ms=(1, 50))).network.tally["reordered"] > 0


def test_an_answer_after_the_deadline_is_counted_as_late_and_heard_by_nobody() -> None:
    async def story(world: World) -> None:
        assert await world.outcome(ms=30) == "NoAnswer"
        await after(100)
        assert world.served == ["x"]

    assert tell(story, NetworkConditions(latency_ms=(20, 20))).network.tally["late"] == 1


def test_a_slow_packet_takes_longer_than_the_others() -> None:
    async def story(world: World) -> None:
        assert await world.outcome(ms=60_000) == "b.1:x"
        assert world.now_ms > 2

    assert tell(story, NetworkConditions(slow=1.0, slow_ms=10_000)).network.tally["slowed"] == 2


def test_a_stream_stays_in_order_however_uneven_the_latency() -> None:
    async def story(world: World) -> None:
        assert await world.read(50, idle_ms=5_000) == (list(range(50)), "ended")

    tell(story, NetworkConditions(latency_ms=(1, 900)))


def test_an_item_that_is_late_holds_up_those_behind_it() -> None:
    async def story(world: World) -> None:
        reading = asyncio.create_task(world.read(10, idle_ms=2_000))
        await after(250)
        world.network.clog("a", "b", 1_500)
        await after(100)
        world.network.heal()
        await after(1_400)
        assert world.network.tally["delivered"] == 1 + 3
        assert await reading == (list(range(10)), "ended")

    tell(story)


def test_a_stream_that_lost_an_item_breaks_there_and_its_source_ends() -> None:
    async def story(world: World) -> None:
        reading = asyncio.create_task(world.read(10))
        await after(250)
        world.network.weather = NetworkConditions(loss=1.0)
        await after(100)
        world.network.weather = CALM
        assert await reading == ([0, 1, 2], "NoAnswer")
        assert world.now_ms < 500
        await after(10)
        assert world.served == ["tick ended"]

    assert tell(story).network.tally["broken"] == 1


def test_a_peer_that_asks_itself_knows_no_weather() -> None:
    async def story(world: World) -> None:
        world.network.isolate("b")
        assert await world.outcome(by=world.b) == "b.1:x"
        assert world.now_ms == 0

    tell(story, NetworkConditions(latency_ms=(50, 50), loss=1.0, duplication=1.0, answer_loss=1.0))


# Verbs.


def test_a_partition_cuts_two_peers_and_no_others_until_it_heals() -> None:
    async def story(world: World) -> None:
        c = world.join("c")
        world.network.partition("a", "b")
        assert await world.outcome() == "NoAnswer"
        assert await world.outcome(by=c) == "b.1:x"
        assert await world.outcome(to="c") == "c.1:x"
        world.network.heal("a", "b")
        assert await world.outcome() == "b.1:x"

    assert tell(story).network.tally["cut"] == 1


@pytest.mark.parametrize(("cut", "acted"), [(("a", "b"), []), (("b", "a"), ["x"])])
def test_a_partition_one_way_loses_the_question_or_the_answer(cut: tuple[str, str], acted: list[str]) -> None:
    async def story(world: World) -> None:
        world.network.partition(*cut, one_way=True)
        assert await world.outcome() == "NoAnswer"
        assert world.served == acted

    tell(story)


def test_a_partition_takes_what_is_under_way() -> None:
    async def story(world: World) -> None:
        asking = asyncio.create_task(world.outcome())
        await after(50)
        world.network.partition("a", "b")
        await after(100)
        world.network.heal()
        assert await asking == "NoAnswer"
        assert world.served == []

    tell(story, NetworkConditions(latency_ms=(100, 100)))


def test_an_isolated_peer_reaches_nobody_not_even_who_comes_later() -> None:
    async def story(world: World) -> None:
        world.network.isolate("b")
        world.network.heal("a", "b")
        c = world.join("c")
        assert [await world.outcome(), await world.outcome(by=c), await world.outcome(by=world.b, to="c")] == [
            "NoAnswer"
        ] * 3
        world.network.heal("b")
        assert await world.outcome(by=c) == "b.1:x"

    tell(story)


def test_healing_two_peers_leaves_the_cuts_of_others() -> None:
    async def story(world: World) -> None:
        c = world.join("c")
        world.network.partition("a", "b")
        world.network.partition("c", "b")
        world.network.heal("b", "a")
        assert [await world.outcome(), await world.outcome(by=c)] == ["b.1:x", "NoAnswer"]
        world.network.heal()
        assert await world.outcome(by=c) == "b.1:x"

    tell(story)


def test_a_clogged_link_delays_both_ways_until_it_heals() -> None:
    async def story(world: World) -> None:
        world.network.clog("a", "b", 100)
        assert await world.outcome() == "b.1:x"
        assert world.now_ms == 202
        world.network.heal("a", "b")
        await world.outcome()
        assert world.now_ms == 204

    tell(story)


def test_what_lags_at_a_peer_comes_late_and_all_else_in_time() -> None:
    async def story(world: World) -> None:
        world.network.lag("a", "answer", 100)
        assert await world.outcome() == "b.1:x"
        assert world.now_ms == 102
        world.network.lag("a", "something else", 100)
        await world.outcome()
        assert world.now_ms == 104
        world.network.lag("a", "answer", 100)
        world.network.heal("a")
        await world.outcome()
        assert world.now_ms == 206, "another fault's end does not end this one"
        world.network.keep_up("a")
        await world.outcome()
        assert world.now_ms == 208

    tell(story)


def test_what_is_sent_to_a_paused_peer_waits_for_it() -> None:
    async def story(world: World) -> None:
        world.network.pause("b")
        assert await world.outcome("early") == "NoAnswer"
        asking = asyncio.create_task(world.outcome("later"))
        await after(500)
        assert world.served == []
        world.network.resume("b")
        assert await asking == "b.1:later"
        assert world.served == ["early", "later"]

    assert tell(story).network.tally["held"] > 0


def test_what_reached_a_paused_peer_before_a_partition_is_read_when_it_goes_on() -> None:
    async def story(world: World) -> None:
        world.network.pause("b")
        assert await world.outcome() == "NoAnswer"
        world.network.isolate("b")
        world.network.resume("b")
        await after(10)
        assert world.served == ["x"]

    tell(story)


def test_a_paused_asker_finds_the_answer_that_came_before_its_deadline() -> None:
    async def story(world: World) -> None:
        asking = asyncio.create_task(world.outcome(ms=100))
        await after(0)
        world.network.pause("a")
        await after(5_000)
        assert not asking.done()
        world.network.resume("a")
        assert await asking == "b.1:x"

    tell(story)


def test_a_paused_stream_goes_on_without_loss() -> None:
    async def story(world: World) -> None:
        reading = asyncio.create_task(world.read(10, idle_ms=500))
        await after(250)
        world.network.pause("a")
        await after(5_000)
        world.network.resume("a")
        assert await reading == (list(range(10)), "ended")

    tell(story)


# Lives.


def test_a_dead_peer_refuses_connections_until_its_next_life() -> None:
    async def story(world: World) -> None:
        world.b.die()
        assert await world.outcome() == "Unreachable"
        world.join("b")
        assert await world.outcome() == "b.2:x"

    tell(story)


def test_a_peer_that_does_not_listen_yet_refuses_connections_until_it_has_started() -> None:
    async def story(world: World) -> None:
        world.b.is_listening = False
        assert await world.outcome() == "Unreachable"
        await world.b.start()
        assert await world.outcome() == "b.1:x"

    tell(story)


def test_what_a_dying_peer_was_asked_is_not_answered_nor_done_by_its_next_life() -> None:
    async def story(world: World) -> None:
        serving = asyncio.create_task(world.a.call("b", get("/slow", b"5000"), 60_000))
        reading = asyncio.create_task(world.read(100))
        await after(150)
        under_way = asyncio.create_task(world.outcome(ms=60_000))
        await asyncio.sleep(0)
        world.b.die()
        world.join("b")
        assert await under_way == "NoAnswer"
        with pytest.raises(NoAnswer):
            await serving
        assert await reading == ([0, 1], "NoAnswer")
        await after(10_000)
        assert world.served == ["tick ended"]
        assert world.now_ms < 11_000

    assert tell(story).network.tally["reset"] == 3


def test_a_call_of_a_dead_life_never_resumes_not_even_at_its_deadline() -> None:
    async def story(world: World) -> None:
        asking = asyncio.create_task(world.outcome(ms=100))
        reading = asyncio.create_task(world.read(3, idle_ms=100))
        await after(5)
        slow = asyncio.create_task(world.a.call("b", get("/slow", b"50"), 100))
        await asyncio.sleep(0)
        world.a.die()
        again = asyncio.create_task(world.outcome())
        next_life = world.network.join("a")
        assert await world.outcome(by=next_life) == "b.1:x"
        await after(10_000)
        assert asking.done()
        assert [task.done() for task in (reading, slow, again)] == [False] * 3
        assert "tick ended" in world.served

    tell(story)


def test_an_answer_that_came_in_the_moment_of_death_is_not_heard() -> None:
    async def story(world: World) -> None:
        asking = asyncio.create_task(world.outcome(ms=100))
        await after(0)
        world.network.pause("a")
        await after(10)
        world.network.resume("a")
        world.a.die()
        await after(1_000)
        assert world.network.tally["delivered"] == 2
        assert not asking.done()

    tell(story)


def test_a_machine_that_was_isolated_before_it_died_tells_nobody() -> None:
    async def story(world: World) -> None:
        asking = asyncio.create_task(world.a.call("b", get("/slow", b"5000"), 700))
        await after(100)
        world.network.isolate("b")
        world.b.die()
        with pytest.raises(NoAnswer):
            await asking
        assert world.now_ms == 700
        assert await world.outcome() == "NoAnswer"

    tell(story)


def test_a_pause_ends_with_the_life_and_what_it_had_to_say_is_never_said() -> None:
    async def story(world: World) -> None:
        asking = asyncio.create_task(world.a.call("b", get("/slow", b"100"), 60_000))
        await after(50)
        world.network.pause("b")
        await after(100)
        assert world.served == ["slow"]
        waiting = asyncio.create_task(world.outcome("waits", ms=500))
        await after(100)
        world.b.die()
        world.join("b")
        assert await world.outcome("y") == "b.2:y"
        assert await waiting == "NoAnswer"
        assert world.served == ["slow", "y"]
        await after(10_000)
        # It had answered, as far as it knew: there is no connection left to reset, and only the deadline tells.
        assert not asking.done()

    tell(story)


def test_unreachable_stays_a_promise_when_the_second_copy_finds_a_new_life() -> None:
    async def story(world: World) -> None:
        world.b.die()
        for number in range(200):
            asking = asyncio.create_task(world.outcome(str(number), ms=500))
            await after(10)
            life = world.join("b")
            outcome = await asking
            await after(100)
            assert outcome != "Unreachable" or str(number) not in world.served
            life.die()

    network = tell(story, NetworkConditions(latency_ms=(1, 20), duplication=0.7, loss=0.1)).network
    assert min(network.tally["refused"], network.tally["duplicated"]) > 0


def test_a_stream_that_nobody_reads_ends_at_its_source_once_the_partition_heals() -> None:
    async def story(world: World) -> None:
        stream = world.a.stream("b", get("/tick", b"100000"), 1_000)
        async with aclosing(stream):  # type: ignore[type-var]
            async for _ in stream:
                world.network.partition("a", "b")
                break
        await after(5_000)
        assert world.served == []
        world.network.heal()
        await after(2_000)
        assert world.served == ["tick ended"]

    tell(story)


def test_what_is_served_runs_in_the_context_of_the_server_and_not_of_the_asker() -> None:
    whose: ContextVar[str] = ContextVar("whose", default="nobody")

    async def story(world: World) -> None:
        async def who(request: Request) -> Reply:
            return Reply(body=whose.get().encode())

        whose.set("server")
        world.b.serve(who)
        whose.set("asker")
        assert (await world.a.call("b", get("/who"), 100)).body == b"server"

    tell(story)


# The same again.


def a_rough_hour(seed: int) -> World:
    """Everybody asks and reads while links are cut and lives end."""

    async def story(world: World) -> None:
        chance = Random(seed)
        peers = {"a": world.a, "b": world.b, **{name: world.join(name) for name in ("c", "d")}}

        async def chatter(name: str) -> None:
            for number in range(150):
                await world.outcome(f"{name}{number}", by=peers[name], to=chance.choice("bcd"), ms=200)

        talking = [asyncio.create_task(chatter(name)) for name in "abc"]
        for round_ in range(30):
            await asyncio.gather(world.read(5, idle_ms=300), after(300))
            world.network.heal()
            match round_ % 5:
                case 0:
                    world.network.partition(*chance.sample("abcd", 2), one_way=chance.random() < 0.5)
                case 1:
                    peers["d"].die()
                case 2:
                    peers["d"] = world.join("d")
                    world.network.clog("a", "b", 100)
                case 3:
                    world.network.pause("c")
                case _:
                    world.network.resume("c")
        await asyncio.gather(*talking)

    return tell(story, ROUGH, seed)


def test_the_same_seed_gives_the_same_run_and_another_seed_another() -> None:
    once, again, other = a_rough_hour(7), a_rough_hour(7), a_rough_hour(8)
    assert once.network.digest() == again.network.digest() != other.network.digest()
    assert once.network.trace == again.network.trace
    assert (once.served, once.network.tally) == (again.served, again.network.tally)


def test_a_rough_hour_meets_every_fault() -> None:
    tally = a_rough_hour(7).network.tally
    assert [name for name, count in tally.items() if not count] == []


def test_a_peer_that_nobody_ever_was_is_unreachable_in_calm_weather() -> None:
    async def story(world: World) -> None:
        with pytest.raises(Unreachable):
            await world.a.call("nobody", get("/echo"), 100)

    tell(story)
