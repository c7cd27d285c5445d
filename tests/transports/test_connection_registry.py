"""How many connections a process bears, and who leaves: whoever opens them and leaves them has only its own to lose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.transport import Pairs, Reply, Request, first_value
from holdfast.transports.connection_registry import ConnectionCaps, ConnectionRegistry, ConnectionSlot
from holdfast.transports.http_connection import ConnectionLimits
from holdfast.transports.http_transport import HttpTransport
from holdfast.transports.tls import TlsConfig
from tests.support.api.api_cluster import World, bearer, in_world
from tests.support.certificates import Authority
from tests.support.event_loop import in_a_loop

REQUEST = b"GET / HTTP/1.1\r\nhost: x\r\nauthorization: %s\r\n\r\n"


class Ending:
    def __init__(self) -> None:
        self.is_over = False

    def abort(self) -> None:
        self.is_over = True


def taken(places: ConnectionRegistry, address: str) -> tuple[ConnectionSlot, Ending]:
    transport = Ending()
    place = places.take(address, transport)
    assert place is not None
    return place, transport


def test_the_first_stranger_of_an_address_leaves_for_one_too_many_of_it() -> None:
    places = ConnectionRegistry(ConnectionCaps(100, 10, 2))
    mine, other = [taken(places, "a") for _ in range(3)], taken(places, "b")
    assert [ending.is_over for _, ending in (*mine, other)] == [True, False, False, False]
    assert (len(places), places.ended, places.refused) == (3, 1, 0)


def test_whoever_is_known_leaves_for_no_stranger() -> None:
    places = ConnectionRegistry(ConnectionCaps(3, 10, 2))
    known, ending = taken(places, "a")
    places.know(known, "agent/n1")
    strangers = [taken(places, "a") for _ in range(50)]
    assert not ending.is_over
    assert [one.is_over for _, one in strangers] == [True] * 48 + [False] * 2


def test_in_all_the_oldest_stranger_of_any_address_leaves_and_where_there_is_none_nobody_comes() -> None:
    places = ConnectionRegistry(ConnectionCaps(3, 10, 2))
    first, second, third = (taken(places, address) for address in "abc")
    fourth = taken(places, "d")
    assert [ending.is_over for _, ending in (first, second, third, fourth)] == [True, False, False, False]
    for place, _ in (second, third, fourth):
        places.know(place, f"agent/{place.address}")
    assert places.take("e", Ending()) is None
    assert (len(places), places.refused) == (3, 1)
    places.leave(second[0])
    taken(places, "e")


def test_where_all_places_are_known_callers_the_one_with_the_most_leaves_for_a_newcomer() -> None:
    """Six who are known may have 5,000 each, which is all there is; and one token may speak for any number of them."""
    places = ConnectionRegistry(ConnectionCaps(connections=10, of_caller=5, many=3))
    seen = [(taken(places, "a"), f"agent/n{number}") for number in (1, 1, 1, 1, 2, 2, 2, 2, 2, 3)]
    for (place, _), caller in seen:
        places.know(place, caller)
    gone = []
    for number in range(4, 7):
        newcomer, _ = taken(places, "b")
        places.know(newcomer, f"agent/n{number}")
        gone.append([index for index, ((_, ending), _) in enumerate(seen) if ending.is_over])
    assert gone == [[4], [0, 4], [0, 4, 5]], "of those with the most, each time the first"
    assert (places.take("b", Ending()), places.refused) == (None, 1), "where nobody has many, nobody leaves"


def test_a_caller_with_one_too_many_loses_its_own_first_one() -> None:
    places = ConnectionRegistry(ConnectionCaps(100, 2, 100))
    of_others = taken(places, "a")
    places.know(of_others[0], "agent/n1")
    mine = [taken(places, "a") for _ in range(4)]
    for place, _ in mine:
        places.know(place, "tenant/shop")
    assert [ending.is_over for _, ending in mine] == [True, True, False, False]
    assert not of_others[1].is_over


def test_nothing_is_kept_of_those_who_left_however_often_they_are_told_to() -> None:
    places = ConnectionRegistry(ConnectionCaps(4, 1, 2))
    seen = [taken(places, str(number % 3)) for number in range(20)]
    for number, (place, _) in enumerate(seen):
        if number % 2:
            places.know(place, f"agent/{number % 4}")
    for place, _ in seen + seen:
        places.leave(place)
    assert len(places) == 0
    assert [places._strangers, places._of_address, places._of_caller] == [{}, {}, {}]


def weighed(places: ConnectionRegistry, slot: ConnectionSlot, coming: int, going: int = 0) -> None:
    slot.coming, slot.going = coming, going
    places.weigh(slot)


def test_who_keeps_us_waiting_for_longest_leaves_where_strangers_send_more_than_is_kept_of_them() -> None:
    places = ConnectionRegistry(ConnectionCaps(bytes_of_strangers=100, bytes_of_caller=300))
    mine = [taken(places, address) for address in "abcd"]
    for (place, _), size in zip(mine, (60, 0, 30, 0), strict=True):
        weighed(places, place, size)
    weighed(places, mine[0][0], 65)  # who sends a little more now and then is no newcomer by that
    weighed(places, mine[3][0], 20)
    assert [ending.is_over for _, ending in mine] == [True, False, False, False]
    weighed(places, mine[2][0], 0)
    weighed(places, mine[3][0], 100)
    assert [ending.is_over for _, ending in mine] == [True, False, False, False], "what arrived is kept no more"
    weighed(places, mine[3][0], 101)
    assert not mine[3][1].is_over, "nobody else could leave for it"


def test_who_is_known_has_only_its_own_to_lose_by_what_it_sends_and_does_not_read() -> None:
    places = ConnectionRegistry(ConnectionCaps(bytes_of_strangers=100, bytes_of_caller=300))
    mine, others, stranger = [taken(places, "a") for _ in range(2)], taken(places, "a"), taken(places, "a")
    weighed(places, mine[0][0], 80)
    for place, caller in ((mine[0][0], "tenant/shop"), (mine[1][0], "tenant/shop"), (others[0], "agent/n1")):
        places.know(place, caller)
    weighed(places, stranger[0], 90)  # who became known counts among strangers no more
    weighed(places, others[0], 0, 250)
    weighed(places, mine[1][0], 100, 130)
    assert [one.is_over for _, one in (*mine, others, stranger)] == [True, False, False, False]
    for place, _ in (*mine, others, stranger):
        places.leave(place)
    assert [places._waited_for, places._bytes] == [{}, {}]


# Over sockets.


@asynccontextmanager
async def serving(
    most: ConnectionCaps, tls: TlsConfig | None = None, answer: bytes = b"heard"
) -> AsyncIterator[HttpTransport]:
    """A server that knows whoever says a name."""

    async def serve(request: Request) -> Reply:
        return Reply(200, body=answer, known=first_value(request.headers, "authorization"))

    limits = ConnectionLimits(drain_ms=500, most=most)
    transport = HttpTransport(SystemClock(), listen="127.0.0.1:0", tls=tls, limits=limits)
    await transport.start()
    transport.serve(serve)
    try:
        yield transport
    finally:
        await transport.close()
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"


class Client:
    """A connection that somebody has opened."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def says(self, name: str) -> bytes:
        """What is answered to whoever says this name; nothing: it was hung up on."""
        self._writer.write(REQUEST % name.encode())
        return await self.hears()

    async def hears(self) -> bytes:
        """What is answered; nothing: it was hung up on."""
        try:
            head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 20)
            assert b"content-length: 5" in head, head
            return await self._reader.readexactly(5)
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""

    async def sends(self, data: bytes) -> None:
        """Send this, as far as the server takes it."""
        self._writer.write(data)
        with suppress(ConnectionError):
            await asyncio.wait_for(self._writer.drain(), 20)

    async def begins(self, name: str) -> None:
        """Say this name, and read no more than the head of what is answered."""
        self._writer.write(REQUEST % name.encode())
        await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 20)

    async def reads(self, size: int) -> int:
        """How much comes of a body of this size."""
        try:
            return len(await asyncio.wait_for(self._reader.readexactly(size), 20))
        except asyncio.IncompleteReadError as error:
            return len(error.partial)
        except ConnectionError:
            return 0

    async def is_hung_up_on(self) -> None:
        """Returns when the server has ended it."""
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await asyncio.wait_for(self._reader.readexactly(1), 20)

    async def close(self) -> None:
        self._writer.close()
        await asyncio.wait({asyncio.ensure_future(self._writer.wait_closed())})


@asynccontextmanager
async def clients(transport: HttpTransport, count: int) -> AsyncIterator[list[Client]]:
    port = int(transport.address.rpartition(":")[2])
    opened = [Client(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(count)]
    try:
        yield opened
    finally:
        for one in opened:
            await one.close()


@in_a_loop
async def test_connections_that_are_left_open_end_and_those_who_say_who_they_are_are_heard() -> None:
    async with serving(ConnectionCaps(1_000, 100, 20)) as transport, clients(transport, 1) as (agent,):
        assert await agent.says("agent/n1") == b"heard"
        async with clients(transport, 60) as left:
            await left[0].is_hung_up_on()
            assert await agent.says("agent/n1") == b"heard", "who is known is not touched"
            async with clients(transport, 1) as (newcomer,):
                assert await newcomer.says("agent/n2") == b"heard", "a newcomer finds a place"


@in_a_loop
async def test_what_strangers_send_and_never_end_is_kept_of_a_few_of_them_alone() -> None:
    most = ConnectionCaps(bytes_of_strangers=1 << 20)
    async with serving(most) as transport, clients(transport, 12) as strangers:
        for one in strangers:  # all but the last byte of a request of the largest size
            await one.sends(b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n" + b"." * 999_999)
        for one in strangers[:-1]:
            await one.is_hung_up_on()
        async with clients(transport, 1) as (newcomer,):
            body = b"." * 500_000
            head = b"POST / HTTP/1.1\r\nhost: x\r\nauthorization: agent/n1\r\ncontent-length: 500000\r\n\r\n"
            await newcomer.sends(head + body)
            assert await newcomer.hears() == b"heard", "who sends all of it is heard"


@in_a_loop
async def test_answers_that_a_caller_does_not_read_are_kept_of_a_few_of_its_connections_alone() -> None:
    answer = b"." * (32 << 20)  # far more than a kernel keeps of a connection
    async with (
        serving(ConnectionCaps(bytes_of_caller=40 << 20), answer=answer) as transport,
        clients(transport, 4) as mine,
        clients(transport, 1) as (other,),
    ):
        await other.begins("agent/n1")
        for one in mine:
            await one.begins("tenant/shop")
        for one in mine[:-1]:
            assert await one.reads(len(answer)) < len(answer)
        for one in (mine[-1], other):
            assert await one.reads(len(answer)) == len(answer), "who came last is answered in full, and so are others"


@in_a_loop
async def test_who_answers_nothing_to_who_are_you_stays_a_stranger() -> None:
    async with serving(ConnectionCaps(1_000, 100, 5)) as transport, clients(transport, 1) as (nobody,):
        assert await nobody.says("") == b"heard"
        async with clients(transport, 5):
            await nobody.is_hung_up_on()


@in_a_loop
async def test_a_handshake_that_does_not_go_on_counts_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ours")
    tls = authority.server()
    async with serving(ConnectionCaps(1_000, 100, 5), tls) as transport, clients(transport, 12) as left:
        await left[0].is_hung_up_on()
        asker = HttpTransport(SystemClock(), tls=authority.client("holdfast:agent/n1"))
        await asker.start()
        try:
            found = await asker.call(transport.address, Request("GET", "/"), 20_000)
        finally:
            await asker.close()
        assert found.body == b"heard"


@in_a_loop
async def test_a_server_that_closes_waits_for_no_handshake(tmp_path: Path) -> None:
    began = asyncio.get_running_loop().time()
    async with serving(ConnectionCaps(), Authority(tmp_path / "ours").server()) as transport, clients(transport, 3):
        await asyncio.sleep(0.05)
        await transport.close()
        assert asyncio.get_running_loop().time() - began < ConnectionLimits().handshake_ms / 1_000


def said(name: str) -> Pairs:
    return (("authorization", bearer(name)),)


def test_the_server_says_whom_it_knows_and_of_strangers_nothing() -> None:
    async def story(world: World) -> None:
        served = (await world.platform()).api.serve
        known = await served(Request("GET", "/v1/whoami", headers=said("operator")))
        assert known.known == "person/operator"
        for path, headers in (("/healthz", said("operator")), ("/v1/whoami", ()), ("/v1/whoami", said("nobody"))):
            assert (await served(Request("GET", path, headers=headers))).known == ""
        refused = await served(Request("GET", "/v1/workloads", (("x", "y"),), said("operator")))
        assert refused.known == "person/operator", "to be refused is to be known"

    in_world(story)


def test_what_everybody_may_ask_for_is_made_once() -> None:
    async def story(world: World) -> None:
        served = (await world.platform()).api.serve
        for path in ("/openapi.json", "/v1/schemas/Workload"):
            first, second = [await served(Request("GET", path)) for _ in range(2)]
            assert isinstance(first, Reply)
            assert isinstance(second, Reply)
            assert first.body is second.body

    in_world(story)
