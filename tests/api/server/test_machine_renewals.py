"""Heartbeats over the API: asked for by thousands, so what is known of a caller is not worked out again each time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.api.server import authentication
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.objects.principals import Principal, PrincipalSpec, verify_secret
from holdfast.core.model.values.metadata import Meta
from holdfast.core.region import commands as c
from holdfast.host.protocol.commands import SchedulerVitals
from tests.support.api.api_cluster import Answer, Part, World, in_world

JSON = "application/json"


async def _session(world: World, region: Part, actor: str) -> str:
    envelope = Envelope(actor, OpenSession(), world.clock.wall())
    opened = await world.ask(
        "POST", "/v1/envelopes", encode(envelope), to="r-eu", token="agents",
        holdfast_actor=actor, content_type="application/msgpack",
    )  # fmt: skip
    assert opened.status == 200, opened
    return format_revision(region.state.session_of[actor])


async def _renew(world: World, actor: str, body: bytes, media: str = JSON) -> Answer:
    return await world.ask(
        "POST", "/v1/renewals", body, to="r-eu", token="agents", holdfast_actor=actor, content_type=media
    )


async def _ship(world: World, region: Part, *puts: Any) -> None:
    cursor = region.state.region.cursor
    await region.submit("controller/link", c.Ship("log-platform", 1, cursor, cursor + 1, puts))


def _as_machines_write(session: str) -> bytes:
    return b'{"session":"%b"}' % session.encode()


def test_a_renewal_is_heard_however_its_json_is_written() -> None:
    async def story(world: World) -> None:
        session = await _session(world, await world.region(), "agent/n1")
        for body in (_as_machines_write(session), b' { "session" : "%b" } ' % session.encode()):
            for media in (JSON, f"{JSON}; charset=utf-8", ""):
                answer = await _renew(world, "agent/n1", body, media)
                assert answer.status == 200, answer
                assert answer.json["worthMs"] > 0

    in_world(story)


@pytest.mark.parametrize(
    ("body", "media", "status", "code"),
    [
        (b'{"session":"1.0","session":"2.0"}', JSON, 400, "unreadable"),
        (b'{"session":"1.0"', JSON, 400, "unreadable"),
        (b'{"session":"..."}', JSON, 400, "unreadable"),
        (b'{"session":"1.0"}\n{}', JSON, 400, "unreadable"),
        (b'{"session":"1.0"}', "text/plain", 415, "wrong-media-type"),
        (b'{"session":"999.0"}', JSON, 409, "no-session"),
    ],
)
def test_what_is_no_renewal_is_told_what_it_is(body: bytes, media: str, status: int, code: str) -> None:
    async def story(world: World) -> None:
        await _session(world, await world.region(), "agent/n1")
        answer = await _renew(world, "agent/n1", body, media)
        assert (answer.status, answer.json["code"]) == (status, code)

    in_world(story)


@pytest.mark.parametrize(("name", "hashed"), [("n1", 1), ("n" * 300, 5)])
def test_the_secret_of_a_token_of_many_is_hashed_once_for_each_that_it_names(
    name: str, hashed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []

    def counted(secret: str, known: str) -> bool:
        judged.append(secret)
        return verify_secret(secret, known)

    monkeypatch.setattr(authentication, "verify_secret", counted)

    async def story(world: World) -> None:
        await world.region()
        for _ in range(5):
            me = await world.ask("GET", "/v1/whoami", to="r-eu", token="agents", holdfast_actor=f"agent/{name}")
            assert me.json["principal"] == f"agent/{name}"
        # Names of any length are remembered of nobody: whoever has such a token could fill the memory with them.
        assert len(judged) == hashed

    in_world(story)


def test_each_that_a_token_of_many_names_is_itself_and_no_other() -> None:
    async def story(world: World) -> None:
        region = await world.region()
        session = await _session(world, region, "agent/n1")
        for actor, status in (("agent/n1", 200), ("agent/n2", 409), ("agent/n1", 200), ("agent/n2", 409)):
            assert (await _renew(world, actor, _as_machines_write(session))).status == status
        nobody = await world.ask("POST", "/v1/renewals", _as_machines_write(session), to="r-eu", token="agents")
        assert nobody.status == 401

    in_world(story)


@pytest.mark.parametrize("name", ["agent/*", "agent/n1"])
def test_one_that_is_remembered_is_refused_once_a_principal_that_proved_it_is_disabled(name: str) -> None:
    async def story(world: World) -> None:
        region = await world.region()
        own = Principal(meta=Meta(name="agent/n1"), spec=PrincipalSpec())
        await _ship(world, region, c.ShippedPrincipal(own))
        session = await _session(world, region, "agent/n1")
        assert (await _renew(world, "agent/n1", _as_machines_write(session))).status == 200
        disabled = Principal(meta=Meta(name=name), spec=PrincipalSpec(disabled=True))
        await _ship(world, region, c.ShippedPrincipal(disabled))
        assert (await _renew(world, "agent/n1", _as_machines_write(session))).status == 401

    in_world(story)


async def _beat(world: World, session: str, report: Any) -> Answer:
    body = msgspec.json.encode({"session": session, "scheduler": report})
    return await world.ask(
        "POST", "/v1/renewals", body, to="r-eu", token="schedulers", holdfast_actor="scheduler/s1", content_type=JSON
    )


async def _scheduler_session(world: World, region: Part) -> str:
    envelope = Envelope("scheduler/s1", OpenSession(), world.clock.wall())
    await world.ask(
        "POST", "/v1/envelopes", encode(envelope), to="r-eu", token="schedulers",
        holdfast_actor="scheduler/s1", content_type="application/msgpack",
    )  # fmt: skip
    return format_revision(region.state.session_of["scheduler/s1"])


def test_a_scheduler_that_says_how_it_fares_is_told_who_else_is_live() -> None:
    async def story(world: World) -> None:
        region = await world.region()
        leader = region.ledger.leader
        assert leader is not None
        leader.term.schedulers.enter("controller/scheduler", lambda: SchedulerVitals("r-eu", 0, 0))
        session = await _scheduler_session(world, region)
        told = await _beat(world, session, {"where": "host", "cycleMs": 10, "viewAgeMs": 20})
        assert told.json["schedulers"] == ["controller/scheduler", "scheduler/s1"]
        rows = {row.name: row for row in leader.term.schedulers.rows()}
        assert (rows["scheduler/s1"].where, rows["scheduler/s1"].view_age_ms) == ("host", 20)
        agent = await _session(world, region, "agent/n1")
        assert "schedulers" not in (await _renew(world, "agent/n1", _as_machines_write(agent))).json

    in_world(story)


@pytest.mark.parametrize("report", [7, None, {"where": 1}, {"where": "x", "cycleMs": "soon", "viewAgeMs": 0}])
def test_a_report_that_cannot_be_read_is_refused(report: Any) -> None:
    async def story(world: World) -> None:
        region = await world.region()
        session = await _scheduler_session(world, region)
        told = await _beat(world, session, report)
        assert (told.status, told.json["code"]) == (400, "unreadable")
        assert region.ledger.leader is not None
        assert region.ledger.leader.term.schedulers.live() == ()

    in_world(story)
