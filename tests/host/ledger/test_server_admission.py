"""Servers of a ledger: what they announce in the store is put into the log by the leader, whatever lies beside it."""

from __future__ import annotations

import asyncio
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import RaiseLevel
from holdfast.core.ledger.builtin.servers import ServerForgotten, ServerStored
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.model.objects.principals import format_token
from holdfast.core.model.records.servers import SERVER_TOKEN_LIFE, ServerToken, server_principal
from holdfast.core.region.definition import REGION
from holdfast.host.ledger.ledger import Role, ServerIdentity
from holdfast.host.ledger.server_admission import POLL_MS, ServerAdmission, announcement, read_announcement
from holdfast.host.ledger.server_token import LIFE_MS, ServerTokenKeeper, ServerTokens, StoredToken
from holdfast.host.ports.store import ANNOUNCEMENT_BYTES, Store
from holdfast.host.protocol.request_signatures import public_key_of
from holdfast.host.runtime.telemetry import Metrics
from holdfast.sim.actors.server_files import TokenFile, token_source
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, batches_in, in_world, until

HOUR = 3_600_000


def with_servers(server: Server, file: TokenFile | None = None, seed: str = "") -> tuple[Server, ServerTokenKeeper]:
    """The same server, with a token of its own and what puts tokens into the log; not started yet."""
    admission = ServerAdmission(server.ledger)
    server.ledger.leader_tasks["servers"] = admission.run
    chance = token_source(Random(seed or server.name))
    return server, ServerTokenKeeper(server.ledger, file or TokenFile(), chance, admission.wake)


async def written(store: Store) -> list[ServerStored | ServerForgotten]:
    """What the log says of servers."""
    events = [event for batch in await batches_in(store) for record in batch.records for event in record.events]
    return [event for event in events if isinstance(event, ServerStored | ServerForgotten)]


def a_token(server: Server, name: str = "server-x", principal: str = "region/eu/s9", life: int = HOUR) -> ServerToken:
    return ServerToken(name, principal, "0f" * 32, server.clock.wall() + life)


def test_a_restart_keeps_the_token_and_a_lost_file_makes_another() -> None:
    async def story(world: World) -> None:
        store, file = MemoryStore(), TokenFile()
        first, token = with_servers(world.server(store), file)
        await first.start().leads()
        running = asyncio.create_task(token.run())
        await until(lambda: len(first.state.servers) == 1, first.clock)
        shown = token.current()
        assert shown
        running.cancel()
        await first.stop()

        second, token = with_servers(world.server(store), file, "another chance")
        running = asyncio.create_task(token.run())
        await second.start().leads()
        await second.clock.sleep(5_000)
        assert token.current() == shown
        assert len(await written(store)) == 1
        running.cancel()
        await second.stop()

        third, token = with_servers(world.server(store), TokenFile(), "a third chance")
        running = asyncio.create_task(token.run())
        await third.start().leads()
        await until(lambda: len(third.state.servers) == 2, third.clock)
        assert token.current() not in (None, shown)
        running.cancel()

    in_world(story)


def test_a_token_is_announced_until_the_log_has_it_though_the_store_fails_meanwhile() -> None:
    async def story(world: World) -> None:
        store = FaultyStore(MemoryStore())
        server, token = with_servers(world.server(store))
        await server.start().leads()
        store.refuse("announce")
        running = asyncio.create_task(token.run())
        await server.clock.sleep(10_000)
        assert len(server.state.servers) == 0
        store.refuse()
        await until(lambda: len(server.state.servers) == 1, server.clock)
        assert await store.inner.announced() == []
        assert not running.done()
        running.cancel()

    in_world(story)


@pytest.mark.parametrize(
    "raw",
    [
        b"\x00", b"\xc1", b"not a token", b"\xff" * ANNOUNCEMENT_BYTES, b"\x94" * ANNOUNCEMENT_BYTES,
        b"\x94\xa1\xff\xa1a\xa1a\x01", announcement(ServerToken("n", "region/eu/s", "0f" * 32, 1)) + b"more",
        announcement(ServerToken("server-1", "region/eu/s1", "0f" * 32, 2**63)),
        announcement(ServerToken("server-1", "region/eu/s1", "0f" * 32, -1)),
        announcement(ServerToken("server-1", "platform/s1", "0f" * 32, 10**15)),
        announcement(ServerToken("server-1", "region/eu", "0f" * 32, 10**15)),
        announcement(ServerToken("server-1", "region/us/s1", "0f" * 32, 10**15)),
        announcement(ServerToken("server-1", "region/eu/s1/x", "0f" * 32, 10**15)),
        announcement(ServerToken("server-1", "person/root", "0f" * 32, 10**15)),
        announcement(ServerToken("no_name\n", "region/eu/s1", "0f" * 32, 10**15)),
        announcement(ServerToken("server-1", "region/eu/s1", "", 10**15)),
    ],
)  # fmt: skip
def test_whatever_lies_in_the_store_the_leader_goes_on_and_takes_the_good_beside_it(raw: bytes) -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server, _ = with_servers(world.server(store))
        await server.start().leads()
        await store.announce("\n\x1b[31m" + "a" * 500, raw)
        await store.announce("zz", announcement(a_token(server)))
        await until(lambda: len(server.state.servers) == 1, server.clock)
        await server.clock.sleep(2 * POLL_MS)
        assert await store.announced() == []
        assert [one.name for one in server.state.servers.values()] == ["server-x"]
        assert sum(n for (name, _), n in server.ledger.metrics.counts.items() if name == "servers_refused") == 1
        assert server.ledger.leader is not None

    in_world(story)


def test_below_level_2_nothing_is_announced_or_written_and_above_it_at_once() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        old = await world.server(store, level=1).start().leads()
        assert old.state.info.level == 1
        await old.stop()
        server, token = with_servers(world.server(store))
        await server.start().leads()
        running = asyncio.create_task(token.run())
        await store.announce("early", announcement(a_token(server)))
        await server.clock.sleep(10 * POLL_MS)
        assert server.state.info.level == 1
        assert await written(store) == []
        assert token.current() is None
        await server.accept("ledger", RaiseLevel(2))
        await until(lambda: len(server.state.servers) == 2, server.clock)
        running.cancel()

    in_world(story)


def test_two_servers_of_one_name_have_a_token_each_and_neither_pushes_the_other_out() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        leader, _ = with_servers(world.server(store))
        await leader.start().leads()
        tokens = [
            ServerTokenKeeper(leader.ledger, TokenFile(), token_source(Random(number)), lambda: None)
            for number in range(6)
        ]
        running = [asyncio.create_task(token.run()) for token in tokens]
        await until(lambda: len(leader.state.servers) == 4, leader.clock)
        await leader.clock.sleep(300_000)
        settled = len(await written(store))
        await leader.clock.sleep(300_000)
        assert len(await written(store)) == settled
        assert {one.principal for one in leader.state.servers.values()} == {"region/eu/s1"}
        assert len(leader.state.servers) == 4
        for task in running:
            task.cancel()

    in_world(story)


def test_a_token_that_is_over_is_forgotten_and_not_before_it_could_be_announced_again() -> None:
    async def story(world: World) -> None:
        store = MemoryStore()
        server, _ = with_servers(world.server(store))
        await server.start().leads()
        await store.announce("x", announcement(a_token(server, life=5_000)))
        await until(lambda: len(server.state.servers) == 1, server.clock)
        await server.clock.sleep(10_000)
        assert len(server.state.servers) == 1
        await server.stop()
        server.clock.wrong_by += SERVER_TOKEN_LIFE
        later, _ = with_servers(world.server(store, "s2", clock=server.clock))
        await later.start().leads()
        await until(lambda: len(later.state.servers) == 0, later.clock)
        assert isinstance((await written(store))[-1], ServerForgotten)

    in_world(story)


def test_for_weeks_what_is_shown_is_good_and_has_been_known_to_all_for_a_quarter_of_its_life() -> None:
    """On a ledger that only takes what is announced: a real one would prove its term a million times meanwhile."""

    async def story(world: World) -> None:
        state, store, clock = REGION.empty(), MemoryStore(), world.clock()
        state.info = replace(state.info, log_id="log-eu", ledger="region/eu", level=LEVEL)
        since: dict[str, int] = {}

        def take() -> None:
            for name, raw in store._announced.all():
                token = read_announcement(raw)
                assert token is not None
                state.servers.put(token.name, token)
                since[token.name] = clock.wall()
                store._announced.put(name, b"")

        durable, metrics = SimpleNamespace(state=state), Metrics()
        ledger: Any = SimpleNamespace(
            role=Role.FOLLOWING,
            durable=durable,
            store=store,
            clock=clock,
            metrics=metrics,
            identity=ServerIdentity("s1"),
        )
        token = ServerTokenKeeper(ledger, TokenFile(), token_source(Random(1)), take)
        running = asyncio.create_task(token.run())
        await until(lambda: bool(since), clock)
        shown: list[str] = []
        while clock.wall() < min(since.values()) + 3 * LIFE_MS:
            await clock.sleep(HOUR)
            own = token.current()
            assert own is not None
            name, row = own.name, state.servers[own.name]
            assert row.hash == public_key_of(own.secret)
            assert row.expires - clock.wall() >= LIFE_MS // 4 - HOUR
            assert clock.wall() - since[name] >= LIFE_MS // 4 - HOUR or len(since) == 1
            shown += [name] if name not in shown else []
        assert len(shown) >= 5
        assert metrics.counted("server_tokens_minted") <= len(shown) + 1
        assert not running.done()
        running.cancel()

    in_world(story)


def test_a_token_of_another_name_or_ledger_in_the_file_is_not_shown_for_ones_own() -> None:
    async def story(world: World) -> None:
        file = TokenFile()
        first, token = with_servers(world.server(MemoryStore()), file)
        await first.start().leads()
        running = asyncio.create_task(token.run())
        await until(lambda: len(first.state.servers) == 1, first.clock)
        copied = token.current()
        running.cancel()
        other, token = with_servers(world.server(MemoryStore(), "elsewhere:7400"), file, "other")
        await other.start().leads()
        running = asyncio.create_task(token.run())
        await until(lambda: len(other.state.servers) == 1, other.clock)
        assert [one.principal for one in other.state.servers.values()] == ["region/eu/elsewhere-7400"]
        assert token.current() != copied
        running.cancel()

    in_world(story)


@pytest.mark.parametrize(
    "text", ["", "{}", "null", "hf_server-1_x", '{"principal":"region/eu/s1","current":{"token":"x","expires":9}}']
)
def test_a_file_that_holds_no_token_is_replaced(text: str) -> None:
    async def story(world: World) -> None:
        file = TokenFile()
        file.text = text
        server, token = with_servers(world.server(MemoryStore()), file)
        await server.start().leads()
        running = asyncio.create_task(token.run())
        await until(lambda: bool(token.current()), server.clock)
        assert file.text != text
        running.cancel()

    in_world(story)


def test_a_token_that_was_made_while_the_clock_was_ahead_is_replaced_once_it_is_right() -> None:
    """No leader takes a token that lasts for so long: its server would act for nobody until that time has come."""

    async def story(world: World) -> None:
        server = world.server(MemoryStore())
        ahead = format_token("server-ahead", "s" * 43)
        held = StoredToken(ahead, server.clock.wall() + 400 * 24 * HOUR)
        principal = server_principal("region/eu", server.name)
        file = TokenFile()
        await file.write(msgspec.json.encode(ServerTokens(principal, held)).decode())
        _, token = with_servers(server, file)
        await server.start().leads()
        running = asyncio.create_task(token.run())
        await until(lambda: len(server.state.servers) == 1, server.clock)
        own = token.current()
        assert own is not None
        assert own.name in server.state.servers
        assert own.name != "server-ahead"
        running.cancel()
        await server.stop()

    in_world(story)
