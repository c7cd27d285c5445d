"""What machines may ask a server for: every route of both ledgers, against agents, schedulers and regions."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.api.kinds import KINDS
from holdfast.api.server.reports.status import token_warnings
from holdfast.core.model.objects.principals import Principal, PrincipalSpec, Scope, Token
from holdfast.core.model.values.metadata import Meta
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from holdfast.host.ports.transport import Reply
from tests.support.api.api_cluster import OPERATOR, Part, World, in_world
from tests.support.ledgers.platform import a_token, a_world

_SPEAKS = {"GET whoami", "POST envelopes", "POST envelopes/batch", "POST renewals"}
_KINDS = {f"GET {plural}" for plural in KINDS}
#: By ledger and machine: what it may ask for. All else is refused, whatever a later endpoint shows.
MAY: dict[tuple[str, str], set[str]] = {
    ("platform", "region/eu"): _SPEAKS | {"GET shipments"},
    ("platform", "agent/n1"): set(),
    ("platform", "scheduler/main"): set(),
    ("region", "region/eu"): set(),
    ("region", "agent/n1"): _SPEAKS | {"GET bindings"},
    ("region", "scheduler/main"): {
        *_SPEAKS,
        *_KINDS,
        "GET log",
        "GET status",
        "GET queue",
        "GET decisions",
        "GET schedulers",
    },
    # Of another region: what is known everywhere is good in one place.
    ("region", "agent/n2"): set(),
    ("region", "scheduler/other"): set(),
}
MACHINES = {
    "region/eu": Scope(),
    "agent/n1": Scope(region="eu"),
    "agent/n2": Scope(region="us"),
    "scheduler/main": Scope(region="eu"),
    "scheduler/other": Scope(region="us"),
}


async def a_ledger(world: World, ledger: str) -> Part:
    """A server that knows every machine, and a token of each."""
    if ledger == "platform":
        part = await world.platform()
        for name, scope in MACHINES.items():
            await world.principal(part, name, scope=scope)
        return part
    part = await world.region()
    puts: list[c.ShippedItem] = []
    for name, scope in MACHINES.items():
        puts.append(c.ShippedPrincipal(Principal(meta=Meta(name=name), spec=PrincipalSpec(scope=scope))))
        puts.append(c.ShippedToken(world._token(name.replace("/", "-"), name)))
    cursor = part.state.region.cursor
    await part.submit("controller/link", c.Ship("log-platform", 1, cursor, cursor + 1, tuple(puts)))
    return part


@pytest.mark.parametrize(("ledger", "machine"), MAY, ids=lambda word: word.replace("/", "-"))
def test_a_machine_is_answered_what_its_work_takes_and_nothing_else(ledger: str, machine: str) -> None:
    async def story(world: World) -> None:
        part = await a_ledger(world, ledger)
        answered = set()
        for words, verbs in part.api.routes.items():
            for verb, route in verbs.items():
                if route.is_open:
                    continue
                path = "/".join((*words, *(["x"] * route.least)))
                # Past identity and right all of these are wrong in some other way, so that none begins a stream.
                wrong = "?session=none" if words[-1] == "bindings" else "?since=none" if words[-1] == "log" else ""
                found = await world.ask(verb, f"/{path}{wrong}", b"", to=part.name, token=machine.replace("/", "-"))
                if found.status == 403:
                    assert found.json["code"] in ("no-right", "wrong-scope"), found
                else:
                    assert found.status != 401, found
                    answered.add(f"{verb} {'/'.join(words[1:])}")
        assert answered == MAY[ledger, machine]

    in_world(story)


def test_status_warns_of_tokens_that_are_good_for_more_than_one_machine() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        await world.principal(part, "agent/*", token="agents")
        await world.principal(part, "agent/n1", scope=Scope(region="eu"))
        stray = msgspec.structs.replace(world._token("stray", "agent/n9").spec, any=True)
        await part.submit(OPERATOR, p.Put(Token(meta=Meta(name="stray"), spec=stray)), key="stray")
        assert (await world.ask("GET", "/v1/status")).json["warnings"] == [
            "token agents is valid for every agent: create one for each, then revoke it",
            "token stray is valid for agent/n9 in every region: set one in its scope",
        ]
        for name in ("agents", "stray"):
            stored = part.state.tokens[name]
            revoked = msgspec.structs.replace(stored.spec, revoked=True)
            await part.submit(OPERATOR, p.Put(msgspec.structs.replace(stored, spec=revoked)), key=f"revoke-{name}")
        assert (await world.ask("GET", "/v1/status")).json["warnings"] == []

    in_world(story)


def test_status_warns_of_a_token_of_every_region_from_before_there_could_be_none() -> None:
    bench = a_world()
    bench.put(a_token("old", "region/eu"))
    stored = bench.state.tokens["old"]
    spec = msgspec.structs.replace(stored.spec, principal="region/*")
    assert token_warnings(bench.state, bench.at) == []
    bench.state.tokens.put("old", msgspec.structs.replace(stored, spec=spec))
    assert token_warnings(bench.state, bench.at) == [
        "token old is valid for every region: create one for each, then revoke it"
    ]


def test_a_certificate_stands_for_nobody_but_one() -> None:
    async def story(world: World) -> None:
        part = await world.region()
        request = world.request("GET", "/v1/whoami", token="", holdfast_actor="agent/n1")
        statuses = []
        for proven in ("agent/n1", "agent/*"):
            found = await part.api.serve(msgspec.structs.replace(request, proven=proven))
            assert isinstance(found, Reply)
            statuses.append(found.status)
        assert statuses == [200, 401]

    in_world(story)
