"""Conditional writes: every write endpoint hands the expected revision to the ledger, which alone can judge it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.api.kinds import KINDS
from holdfast.api.server.app import ApiServer
from holdfast.api.server.objects.ledger_commands import tags
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.stores.memory import MemoryStore
from tests.support.api.api_cluster import OPERATOR, Part, World, a_class, a_shop, a_tenant, a_workload, in_world

LATER = "2099-01-01T00:00:00.000Z"
#: A write of each object, by the path that names it.
OBJECTS: dict[str, Any] = {
    "/v1/workloads/shop/web": a_workload(),
    "/v1/tenants/shop": a_tenant(),
    "/v1/priorityclasses/standard": a_class(),
    "/v1/quotas/shop": {"spec": {"hard": {"cpu": 4}}},
    "/v1/principals/person/spare": {"spec": {"rights": ["read"]}},
    "/v1/tokens/spare": {"spec": {"principal": OPERATOR, "hash": "0" * 64, "expires": LATER}},
    "/v1/regions/eu": {"spec": {"jurisdiction": "eu", "address": "https://r-eu"}},
    "/v1/nodepools/general": {"spec": {"region": "eu"}},
    "/v1/recoverybudgets/reserve": {"spec": {"regions": ["eu"], "each": {"cpu": 1}}},
    "/v1/policies/packed": {"spec": {"scores": {"packing": 3}}},
    "/v1/nodes/n1": {"spec": {"labels": {"disk": "ssd"}}},
}
ENDS = {"ends": LATER}
#: A body of each command that is sent by name and changes an object.
COMMANDS: dict[str, Any] = {
    "activate-policy": {"revision": "0.0", "region": "eu"},
    "attest-right": {"workload": "1.0", "ordinal": 0, "region": "eu", "reason": "off"},
    "believe-region": {"region": "eu", "reason": "whole"},
    "configure": {"settings": {}},
    "declare-lost": {"region": "eu", "reason": "silent"},
    "end-override": {"uid": "1.0", "reason": "over"},
    "retire-region": {"region": "eu", "reason": "burnt"},
    "roll-back-policy": {"revision": "1.0", "successor": "0.0", "reason": "worse"},
    "administer-node": {"node": "1.0"},
    "remove-node": {"node": "1.0"},
    "extend-hold": {"hold": "1.0", **ENDS},
    "drop-hold": {"hold": "1.0"},
    "open-override": {"action": "pause-repair", "region": "eu", "target": "", "reason": "why", **ENDS},
    "hold": {"purpose": "dated", "node": "1.0", "account": "quota/shop", **ENDS},
    "raise-level": {"level": 9},
    "revoke-server": {"principal": "platform/p1"},
}
#: What machines send: envelopes of their own, in which people's conditions have no place.
OF_MACHINES = {("v1", "envelopes"), ("v1", "envelopes", "batch"), ("v1", "renewals")}


def writes(api: ApiServer) -> list[tuple[str, str, Any]]:
    """Every write that a server takes of people: verb, path and body."""
    found: list[tuple[str, str, Any]] = []
    for prefix, routes in api.routes.items():
        for verb, route in routes.items():
            if not route.is_led or verb == "GET" or prefix in OF_MACHINES:
                continue
            if prefix == ("v1", "commands"):
                found += [
                    ("POST", f"/v1/commands/{tag}", COMMANDS[tag]) for tag in tags(api.ctx.ledger.definition.name)
                ]
            elif prefix == ("v1", "batch"):
                found.append(("POST", "/v1/batch", {"items": [a_tenant()]}))
            else:
                (path,) = [one for one in OBJECTS if one.startswith("/" + "/".join(prefix) + "/")]
                found.append((verb, path, OBJECTS[path] if verb == "PUT" else None))
    return found


class Heard:
    """What a server hands to its ledger."""

    def __init__(self, part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
        self.envelopes: list[Envelope[Any]] = []
        submit = part.ledger.submit

        async def listen(envelope: Envelope[Any], *rest: Any, **named: Any) -> Any:
            self.envelopes.append(envelope)
            return await submit(envelope, *rest, **named)

        monkeypatch.setattr(part.ledger, "submit", listen)


async def a_node(part: Part) -> None:
    opened = await part.submit("agent/n1", OpenSession())
    register = c.RegisterNode("n1", "pool", "a", Resources(cpu=4_000, memory=1 << 30))
    await part.submit("agent/n1", register, session=opened.revision, sequence=1)


@pytest.mark.parametrize("ledger", ["platform", "region"])
def test_every_write_endpoint_hands_the_condition_to_the_ledger(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        if ledger == "platform":
            part = await a_shop(world)
        else:
            await a_node(part := await world.region())
        heard = Heard(part, monkeypatch)
        seen: list[str] = []
        for verb, path, body in writes(part.api):
            for header, expect in (('"41.3"', pack_revision(41, 3)), ("*", PRESENT), ("none", ABSENT)):
                heard.envelopes.clear()
                condition = {"if_none_match": "*"} if header == "none" else {"if_match": header}
                answer = await world.ask(verb, path, body, to=part.name, **condition)
                if path == "/v1/batch":
                    assert (answer.status, heard.envelopes) == (400, []), "its documents name their revisions"
                    continue
                (sent,) = heard.envelopes
                assert sent.expect == expect, (verb, path, answer)
                if expect > 0:
                    assert answer.status in (412, 404, 422), (verb, path, answer)
            seen.append(f"{verb} {path}")
        written = [kind for kind in KINDS.values() if ledger in kind.written_on]
        assert len([one for one in seen if one.startswith("PUT")]) == len(written)

    in_world(story)


@pytest.mark.parametrize("condition", [{"if_match": '"0.0"'}, {"if_match": ""}, {"if_none_match": ""}], ids=str)
def test_a_condition_that_expects_nothing_is_refused_and_not_left_out(
    condition: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a script whose variable is empty: it means a condition, and would overwrite what it did not read."""

    async def story(world: World) -> None:
        part = await a_shop(world)
        heard = Heard(part, monkeypatch)
        for verb, path, body in writes(part.api):
            if path != "/v1/batch":
                answer = await world.ask(verb, path, body, to=part.name, **condition)
                assert (answer.status, answer.json["code"]) == (400, "unreadable"), (verb, path)
        assert heard.envelopes == []

    in_world(story)


def test_a_document_that_says_revision_0_is_refused() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = (await world.ask("PUT", "/v1/workloads/shop/web", a_workload())).json
        first["metadata"]["revision"] = "0.0"
        first["spec"]["replicas"] = 7
        answer = await world.ask("PUT", "/v1/workloads/shop/web", first)
        assert (answer.status, answer.json["code"]) == (422, "invalid")

    in_world(story)


def test_two_operators_who_read_one_revision_of_a_node_do_not_overwrite_one_another_through_two_servers() -> None:
    async def story(world: World) -> None:
        store = MemoryStore("shared")
        first = await world.region(store=store)
        await a_node(first)
        second = world.part("r-two", REGION, store, StartLog("log-eu", "region/eu", OPERATOR))
        await second.start().follows()
        await world.until(lambda: second.is_known() and second.state.info.seq == first.state.info.seq)
        tags = [(await world.ask("GET", "/v1/nodes/n1", to=one.name)).headers["etag"] for one in (first, second)]
        assert tags[0] == tags[1]
        bodies = [{"spec": {"cordoned": True, "note": f"by {one.name}"}} for one in (first, second)]
        answers = await asyncio.gather(
            *(
                world.ask("PUT", "/v1/nodes/n1", body, to=one.name, if_match=tag)
                for body, one, tag in zip(bodies, (first, second), tags, strict=True)
            )
        )
        assert sorted(one.status for one in answers) == [200, 412], answers
        (lost,) = [one for one in answers if one.status == 412]
        (won,) = [one for one in answers if one.status == 200]
        facts = lost.json["facts"]
        assert (f'"{facts["seen"]}"', f'"{facts["revision"]}"') == (tags[0], won.headers["etag"])

    in_world(story)


def test_a_node_document_that_was_read_before_it_changed_is_refused_in_a_batch_too() -> None:
    async def story(world: World) -> None:
        part = await world.region()
        await a_node(part)
        read = (await world.ask("GET", "/v1/nodes/n1", to=part.name)).json
        await world.ask("PUT", "/v1/nodes/n1", {"spec": {"labels": {"disk": "ssd"}}}, to=part.name)
        meta = {"name": "n1", "revision": read["metadata"]["revision"]}
        document = {"kind": "Node", "apiVersion": "holdfast/v1", "metadata": meta, "spec": {"note": "old"}}
        (item,) = (await world.ask("POST", "/v1/batch", {"items": [document]}, to=part.name)).json["items"]
        assert (item["outcome"], item["problem"]["code"]) == ("refused", "stale")

    in_world(story)


def test_the_condition_reaches_a_region_through_the_platform() -> None:
    async def story(world: World) -> None:
        platform = await a_shop(world)
        part = await world.region()
        await a_node(part)
        await world.ask("PUT", "/v1/regions/eu", OBJECTS["/v1/regions/eu"])
        await world.principal(platform, "region/eu")
        await platform.submit("region/eu", OpenSession())
        session = platform.state.session_of["region/eu"]
        await platform.submit("region/eu", p.JoinRegion("eu", "log-eu", part.name), session=session, sequence=1)
        tag = (await world.ask("GET", "/v1/in/eu/nodes/n1")).headers["etag"]
        ssd, hdd = ({"spec": {"labels": {"disk": disk}}} for disk in ("ssd", "hdd"))
        assert (await world.ask("PUT", "/v1/nodes/n1", ssd, to=part.name, if_match=tag)).status == 200
        assert (await world.ask("PUT", "/v1/in/eu/nodes/n1", hdd, if_match=tag)).status == 412

    in_world(story)


def test_settings_are_configured_on_the_revision_that_a_status_shows() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        read = (await world.ask("GET", "/v1/status")).json["settingsRevision"]
        mine, theirs = ({"settings": {"reservationLife": life}} for life in ("20s", "21s"))
        assert (await world.ask("POST", "/v1/commands/configure", theirs, if_match=f'"{read}"')).status == 200
        lost = await world.ask("POST", "/v1/commands/configure", mine, if_match=f'"{read}"')
        assert lost.status == 412, lost
        now = (await world.ask("GET", "/v1/status")).json["settingsRevision"]
        assert (await world.ask("POST", "/v1/commands/configure", mine, if_match=f'"{now}"')).status == 200

    in_world(story)
