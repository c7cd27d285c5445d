"""The platform's side: who is shipped to, from where, and what a stream says."""

from __future__ import annotations

import asyncio
from base64 import urlsafe_b64encode
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import pytest
from msgspec.structs import astuple, replace

from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import (
    DIGITS_MAX,
    INDEX_MAX,
    RevisionToken,
    format_revision,
    pack_revision,
    parse_revision,
    seq_of,
)
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.principals import Permission
from holdfast.core.platform import commands as p
from holdfast.core.region.state.shipped_objects import shipped_name
from holdfast.host.errors import StoreWentBackwards, Unavailable, show_token
from holdfast.host.ledger.ledger import Role
from holdfast.host.link.platform import server
from holdfast.host.link.platform.request import PROOF_MAX, read_position_proof
from holdfast.host.link.platform.server import serve_shipments
from holdfast.host.ports.transport import Framing, Reply, Request, StreamReply
from holdfast.host.protocol.problem import read_problem
from holdfast.host.protocol.request_signatures import SigningToken, sign
from holdfast.host.protocol.shipments import SHIPMENTS, KnownPosition, LinkHeartbeat, Message, Shipment, read_message
from holdfast.host.watch.subscription import SubscriptionLimits
from tests.support.hosts.link_world import LinkWorld, PlatformServer, linked
from tests.support.ledgers.platform import DIGEST, a_principal

Query = dict[str, str]
Told = Shipment | LinkHeartbeat


async def joined(platform: PlatformServer) -> int:
    """A session in which region eu has joined."""
    await platform.accept("region/eu", OpenSession())
    session = platform.state.session_of["region/eu"]
    join = p.JoinRegion("eu", "log-eu")
    await platform.ledger.submit(Envelope("region/eu", join, platform.clock.wall(), session, 1))
    assert platform.state.regions["eu"].status.session == session
    return session


async def asked(
    platform: PlatformServer, session: int, cursor: int = 0, query: Query | None = None
) -> Reply | StreamReply:
    facts = platform.state.info
    fields = {
        "region": "eu",
        "log": facts.log_id,
        "term": facts.term,
        "cursor": format_revision(cursor),
        "session": format_revision(session),
    }
    pairs = tuple((name, str(value)) for name, value in {**fields, **(query or {})}.items())
    return await serve_shipments(platform.ledger, Request("GET", SHIPMENTS, pairs), "eu", platform.evidence)


async def stream(
    platform: PlatformServer, session: int, cursor: int = 0, query: Query | None = None
) -> AsyncGenerator[Told, None]:
    """What a stream says after its first message."""
    flow = await asked(platform, session, cursor, query)
    assert isinstance(flow, StreamReply), flow
    assert flow.framing is Framing.FRAMES
    assert isinstance(flow.messages, AsyncGenerator)
    async with aclosing(flow.messages) as frames:
        assert isinstance(read_message(await anext(frames)), KnownPosition)
        async for frame in frames:
            message = read_message(frame)
            assert not isinstance(message, KnownPosition)
            yield message


async def first_of(messages: AsyncGenerator[Told, None], count: int) -> list[Told]:
    """So many messages that are shipments, and then no more is read."""
    found: list[Told] = []
    async with aclosing(messages):
        async for message in messages:
            if isinstance(message, Shipment):
                found.append(message)
            if len(found) == count:
                break
    return found


def objects(message: Told) -> list[tuple[str, str]]:
    assert isinstance(message, Shipment)
    return [*map(shipped_name, message.ship.puts), *((one.kind, one.key) for one in message.ship.gone)]


def head(platform: PlatformServer) -> int:
    return pack_revision(platform.state.info.seq, INDEX_MAX)


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ({"region": "us"}, 403, "wrong-scope"),
        ({"session": "1.0"}, 409, "no-session"),
        ({"session": "seven"}, 400, "malformed"),
        ({"cursor": "41"}, 400, "malformed"),
        ({"term": "first"}, 400, "malformed"),
        ({"term": "9" * DIGITS_MAX}, 400, "malformed"),
        ({"term": "9" * (DIGITS_MAX - 1), "session": "1.0"}, 409, "no-session"),
    ],
)
def test_a_stream_is_refused_with_a_code(query: Query, status: int, code: str) -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        reply = await asked(platform, await joined(platform), 0, query)
        assert isinstance(reply, Reply)
        assert (reply.status, read_problem(reply).code) == (status, code)

    linked(story)


def test_a_follower_ships_nothing() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session = await joined(platform)
        follower = world.platform("p2")
        await follower.ledger.durable.wait_for(platform.state.info.seq, 5_000)
        reply = await asked(follower, session)
        assert isinstance(reply, Reply)
        assert (reply.status, read_problem(reply).code) == (503, "not-leading")

    linked(story)


def test_a_session_that_has_not_joined_is_told_nothing() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        await joined(platform)
        await platform.accept("region/eu", OpenSession())
        reply = await asked(platform, platform.state.session_of["region/eu"])
        assert isinstance(reply, Reply)
        assert read_problem(reply).code == "no-session"

    linked(story)


def test_a_retired_region_is_told_that_it_is() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session = await joined(platform)
        await platform.accept("person/root", p.RetireRegion("eu", "its machines are switched off"))
        reply = await asked(platform, session)
        assert isinstance(reply, Reply)
        assert read_problem(reply).code == "tombstoned"

    linked(story)


def test_a_stream_begins_with_what_is_known_of_the_regions_own_log() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session = await joined(platform)

        async def known() -> Message:
            flow = await asked(platform, session)
            assert isinstance(flow, StreamReply)
            assert isinstance(flow.messages, AsyncGenerator)
            async with aclosing(flow.messages) as frames:
                return read_message(await anext(frames))

        assert await known() == KnownPosition(0, "")
        said = p.Acknowledge("eu", "log-eu", pack_revision(5, INDEX_MAX), 0, DIGEST)
        await platform.ledger.submit(Envelope("region/eu", said, platform.clock.wall(), session, 2))
        assert await known() == KnownPosition(pack_revision(5, INDEX_MAX), DIGEST)

    linked(story)


def test_without_a_cursor_a_full_list_comes_first() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        [message] = await first_of(stream(platform, await joined(platform)), 1)
        assert isinstance(message, Shipment)
        assert (message.ship.full, message.ship.to, message.token) == (
            True, head(platform), platform.ledger.durable.token(),
        )  # fmt: skip
        assert objects(message) == [("region", "eu"), ("principal", "region/*")]

    linked(story)


def test_a_full_list_comes_in_parts_of_one_moment_and_then_what_changed_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "PART_OBJECTS", 2)

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        for number in range(3):
            await platform.put(a_principal(f"person/{number}"))
        session, position = await joined(platform), head(platform)
        messages = stream(platform, session)
        found = [await anext(messages)]
        await platform.put(a_principal("person/meanwhile"))
        found += await first_of(messages, 3)
        ships = [message.ship for message in found if isinstance(message, Shipment)]
        assert [(ship.full, ship.part, ship.last) for ship in ships] == [
            (True, 0, False), (True, 1, False), (True, 2, True), (False, 0, True),
        ]  # fmt: skip
        assert [ship.to for ship in ships[:3]] == [position] * 3
        assert [message.complete for message in found] == [False, False, True, True]
        assert objects(found[3]) == [("principal", "person/meanwhile")]
        assert ships[3].after == position

    linked(story)


def test_a_list_ends_where_the_session_that_asked_for_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "PART_OBJECTS", 1)

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        messages = stream(platform, await joined(platform))
        assert isinstance(await anext(messages), Shipment)
        await joined(platform)
        assert [message async for message in messages] == []

    linked(story)


def test_from_a_cursor_comes_only_what_changed_after_it_in_one_step_to_the_head() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session, cursor = await joined(platform), head(platform)
        for name, right in (
            ("a", Permission.READ),
            ("b", Permission.READ),
            ("c", Permission.READ),
            ("a", Permission.WRITE),
        ):
            await platform.put(a_principal(f"person/{name}", right))
        [message] = await first_of(stream(platform, session, cursor), 1)
        assert isinstance(message, Shipment)
        assert (message.ship.after, message.ship.to) == (cursor, head(platform))
        assert sorted(objects(message)) == [("principal", f"person/{name}") for name in "abc"]

    linked(story)


@pytest.mark.parametrize("query", [{"log": "log-other"}, {"log": "log-other", "cursor": "999.0"}, {"list": "yes"}])
def test_in_another_log_and_where_one_is_wanted_a_full_list_comes(query: Query) -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        [message] = await first_of(stream(platform, await joined(platform), head(platform), query), 1)
        assert isinstance(message, Shipment)
        assert message.ship.full

    linked(story)


@pytest.mark.parametrize("query", [{"term": "7"}, {"cursor": "999.0"}, {"cursor": "999.0", "list": "yes"}])
def test_a_place_that_was_signed_and_is_not_in_this_log_stops_the_server(query: Query) -> None:
    """What was shipped was in this log: it went backwards, and would give out uids a second time (RULES 9, 13)."""

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        await platform.announced()
        session, cursor, seq = await joined(platform), head(platform), platform.state.info.seq
        reply = await asked(platform, session, cursor, {**query, "proof": signed(platform, query, cursor)})
        assert isinstance(reply, Reply)
        assert (reply.status, read_problem(reply).code) == (503, "stopped")
        with pytest.raises(Unavailable):
            await platform.put(a_principal("person/late"))
        error = await platform.failure()
        assert isinstance(error, StoreWentBackwards)
        shipped = parse_revision(query.get("cursor", format_revision(cursor))) or 0
        there = f"log-platform:{query.get('term', 1)}:{seq_of(shipped)}"
        assert there in str(error), "what was shipped"
        assert f"log-platform:1:{seq}:" in str(error), "and what there is"
        assert str(error) in read_problem(reply).detail
        assert platform.ledger.role is Role.STOPPED
        assert platform.state.info.seq == seq

    linked(story)


def signed(platform: PlatformServer, query: Query, cursor: int, digest: bytes = b"") -> str:
    """The proof that this server would have given, had it been there, and with a batch of this digest."""
    seq = seq_of(parse_revision(query.get("cursor", format_revision(cursor))) or 0)
    return platform.evidence.sign(platform.state, RevisionToken("log-platform", int(query.get("term", 1)), seq, digest))


def by(name: str, secret: str, position: RevisionToken) -> str:
    """A proof of somebody who says to be the server of that name."""
    raw = sign(SigningToken(name, secret), encode(("holdfast shipped 2", *astuple(position), name)))
    there = f"{position.term} {position.seq} {position.digest_start.hex()}"
    return f"{there} {name} {urlsafe_b64encode(raw).decode()}"


FAR = {"cursor": "999.0"}
THERE = RevisionToken("log-platform", 1, 999, b"12345678")
#: What somebody who has a region's token, and no key of a server, can show.
FORGED: dict[str, Callable[[PlatformServer], str]] = {
    "nothing": lambda _: "",
    "garbage": lambda _: "1 999 00 server-p1 ====",
    "too few words": lambda _: "1 999 00",
    "too long": lambda platform: signed(platform, FAR, 0) + "=" * 400,
    "a true proof of an earlier place": lambda platform: signed(platform, {}, head(platform)),
    "one whose place was changed": lambda platform: signed(platform, {}, head(platform)).replace(
        f" {seq_of(head(platform))} ", " 999 "
    ),
    "one whose digest was changed": lambda platform: signed(platform, {}, head(platform)).replace("  ", " 00 "),
    "one whose term was changed": lambda platform: "7" + signed(platform, FAR, 0)[1:],
    "a term that is no number": lambda platform: "\u0661" + signed(platform, FAR, 0)[1:],
    "one of another log": lambda platform: platform.evidence.sign(
        platform.state, RevisionToken("log-other", 1, 999, b"12345678")
    ),
    "one of a key that the log does not know": lambda _: by("server-p9", "mine", THERE),
    "one of another key than the server's": lambda _: by("server-p1", "mine", THERE),
}


@pytest.mark.parametrize("forged", FORGED)
def test_a_place_that_nobody_has_signed_is_refused_to_that_region_and_stops_nobody(forged: str) -> None:
    """Whoever has the token of one region would stop the platform for all of them."""

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        await platform.announced()
        session = await joined(platform)
        reply = await asked(platform, session, 0, {**FAR, "term": "7", "proof": FORGED[forged](platform)})
        assert isinstance(reply, Reply)
        assert (reply.status, read_problem(reply).code) == (409, "diverged")
        assert platform.ledger.metrics.counted("shipping_unproven") == 1
        [warning] = platform.evidence.warnings(platform.state)
        assert "region eu requests what follows log-platform:7:999" in warning
        await platform.put(a_principal("person/late"))
        assert platform.ledger.role is Role.LEADING
        [message] = await first_of(stream(platform, session), 1)
        assert isinstance(message, Shipment), "and is believed again when it asks for what there is"
        assert platform.evidence.warnings(platform.state) == []

    linked(story)


def test_a_batch_that_was_signed_and_is_another_one_here_stops_the_server() -> None:
    """An older copy of a store reaches the same term and the same batch again, with other content."""

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        await platform.announced()
        session, cursor = await joined(platform), head(platform)
        await platform.put(a_principal("person/later"))
        here = platform.ledger.durable.token()
        mine = signed(
            platform,
            {},
            cursor,
            (
                await platform.ledger.durable.verify(
                    RevisionToken("log-platform", 1, seq_of(cursor), b""), platform.ledger.store
                )
            ).digest_start,
        )
        assert isinstance(await asked(platform, session, cursor, {"proof": mine}), StreamReply)
        reply = await asked(platform, session, cursor, {"proof": signed(platform, {}, cursor, b"otherone")})
        assert isinstance(reply, Reply)
        assert (reply.status, read_problem(reply).code) == (503, "stopped")
        error = await platform.failure()
        assert isinstance(error, StoreWentBackwards)
        assert f"log-platform:1:{seq_of(cursor)}:{b'otherone'.hex()}" in str(error), "what was shipped"
        assert show_token(here) in str(error), "and what there is"

    linked(story)


def test_each_place_that_a_region_is_brought_to_is_signed_once_the_log_knows_the_servers_key() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session = await joined(platform)
        [unsigned] = await first_of(stream(platform, session), 1)
        assert isinstance(unsigned, Shipment)
        assert unsigned.ship.proof == ""
        await platform.announced()
        [message] = await first_of(stream(platform, session, unsigned.ship.to), 1)
        assert isinstance(message, Shipment)
        ship = message.ship
        found = read_position_proof(platform.state, "log-platform", ship.proof)
        assert found == platform.ledger.durable.token()

    linked(story)


def test_while_nothing_changes_a_beat_comes_every_second() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session = await joined(platform)
        began, beats = world.clock.wall(), []
        async with aclosing(stream(platform, session, head(platform))) as messages:
            async for message in messages:
                assert isinstance(message, LinkHeartbeat)
                beats.append(message)
                if len(beats) == 3:
                    break
                platform.ledger.renew("region/eu", session)
        assert [beat.at - began for beat in beats] == [1_000, 2_000, 3_000]
        assert all(beat.leads and beat.token == platform.ledger.durable.token() for beat in beats)

    linked(story)


def test_far_behind_steps_are_cut_at_events_and_each_can_be_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STEP_OBJECTS", 3)

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session, cursor = await joined(platform), head(platform)
        names = [f"person/{number}" for number in range(8)]
        await asyncio.gather(*(platform.put(a_principal(name)) for name in names))
        assert platform.state.info.seq <= seq_of(cursor) + 2  # most of them in one batch
        whole = await first_of(stream(platform, session, cursor), 3)
        told = [key for message in whole for _, key in objects(message)]
        assert told == names
        for message in whole:
            assert isinstance(message, Shipment)
            assert message.ship.after == cursor
            assert message.complete == (message is whole[-1])
            cursor = message.ship.to
            left = told[told.index(objects(message)[-1][1]) + 1 :]
            if left:
                [rest] = await first_of(stream(platform, session, cursor), 1)
                assert [key for _, key in objects(rest)] == left[:3]
        assert cursor == head(platform)

    linked(story)


def test_a_step_that_would_be_too_large_for_a_record_is_cut_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STEP_BYTES", 280)  # two principals, and not three

    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session, cursor = await joined(platform), head(platform)
        names = [f"person/{number}" for number in range(5)]
        for name in names:
            await platform.put(a_principal(name))
        found = await first_of(stream(platform, session, cursor), 3)
        assert [key for message in found for _, key in objects(message)] == names
        assert max(len(objects(message)) for message in found) == 2
        assert [message.complete for message in found] == [False, False, True]

    linked(story)


@pytest.mark.parametrize(("short_by", "counts"), [(0, [2]), (1, [1, 1])])
def test_a_step_may_be_as_large_as_a_record_takes_to_the_byte(
    short_by: int, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session, cursor = await joined(platform), head(platform)
        for name in ("person/a", "person/b"):
            await platform.put(a_principal(name))
        [whole] = await first_of(stream(platform, session, cursor), 1)
        assert isinstance(whole, Shipment)
        monkeypatch.setattr(server, "STEP_BYTES", len(encode(replace(whole.ship, proof=""))) - short_by)
        before = platform.ledger.metrics.counted("shipping_objects")
        found = await first_of(stream(platform, session, cursor), len(counts))
        assert [len(objects(message)) for message in found] == counts
        assert platform.ledger.metrics.counted("shipping_objects") - before == 2

    linked(story)


def test_what_is_gone_is_an_object_that_was_shipped_too() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session, ends = await joined(platform), platform.clock.wall() + 3_600_000
        uid = await platform.accept("person/root", OpenOverride(OverrideAction.PAUSE_AUTOSCALER, "eu", "", "a", ends))
        cursor, before = head(platform), platform.ledger.metrics.counted("shipping_objects")
        await platform.accept("person/root", EndOverride(uid, "it is over"))
        [found] = await first_of(stream(platform, session, cursor), 1)
        assert objects(found) == [("override", str(uid))]
        assert platform.ledger.metrics.counted("shipping_objects") - before == 1

    linked(story)


def test_a_stream_that_falls_behind_the_trimmed_log_goes_on_with_a_full_list() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        platform.ledger.hub.window = SubscriptionLimits(waiting_batches=1)
        session, cursor = await joined(platform), head(platform)
        messages = stream(platform, session, cursor)
        await platform.put(a_principal("person/first"))
        first = await anext(messages)
        assert objects(first) == [("principal", "person/first")]
        for number in range(5):
            await platform.put(a_principal(f"person/{number}"))
        await world.platform_store.trim(platform.state.info.log_id, platform.state.info.seq)
        [found] = await first_of(messages, 1)
        assert isinstance(found, Shipment)
        assert found.ship.full
        assert len(objects(found)) == 8

    linked(story)


def test_a_leader_that_leads_no_more_says_so_and_its_stream_ends() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        messages = stream(platform, await joined(platform))
        assert isinstance(await anext(messages), Shipment)
        assert platform.ledger.leader is not None
        platform.ledger.leader.term.is_over = True
        last = [message async for message in messages]
        assert [isinstance(message, LinkHeartbeat) and message.leads for message in last] == [False]

    linked(story)


def test_a_stream_ends_with_the_session_that_asked_for_it() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        messages = stream(platform, await joined(platform))
        assert isinstance(await anext(messages), Shipment)
        await joined(platform)
        assert [message async for message in messages] == []
        assert platform.ledger.metrics.gauged("shipping_streams") == 0

    linked(story)


def test_a_stream_that_nobody_reads_any_more_leaves_no_subscription() -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        session = await joined(platform)
        await first_of(stream(platform, session), 1)
        messages = stream(platform, session, head(platform))
        assert isinstance(await anext(messages), LinkHeartbeat)
        await messages.aclose()
        metrics = platform.ledger.metrics
        assert (metrics.gauged("shipping_streams"), metrics.gauged("watch_subscribers")) == (0, 0)

    linked(story)


@pytest.mark.parametrize(
    ("term", "length", "is_proof"),
    [
        (1, PROOF_MAX, True),
        (1, PROOF_MAX + 1, False),
        (10 ** (DIGITS_MAX - 1) - 1, PROOF_MAX, True),
        (10 ** (DIGITS_MAX - 1), PROOF_MAX, False),
    ],
)
def test_a_proof_is_read_up_to_its_greatest_length_and_number(term: int, length: int, is_proof: bool) -> None:
    async def story(world: LinkWorld) -> None:
        platform = await world.a_platform()
        await platform.announced()
        place = RevisionToken("log-platform", term, 3, b"12345678")
        proof = platform.evidence.sign(platform.state, place)
        assert len(proof) < PROOF_MAX
        found = read_position_proof(platform.state, "log-platform", f"{proof} ".ljust(length, "x"))
        assert found == (place if is_proof else None)

    linked(story)
