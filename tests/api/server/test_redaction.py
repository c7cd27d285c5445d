"""What a tenant is told of others: nothing. Whatever another tenant has or is called holds one word in this world, and
that word is in no answer to whoever speaks for the first: no list, no watch, no report, no refusal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from holdfast.api.kinds import KINDS
from holdfast.api.resources.schemas import named_commands
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.objects.principals import Permission
from holdfast.core.region import commands as c
from holdfast.host.ports.transport import Request, StreamReply
from tests.support.api.api_cluster import OPERATOR, Answer, Part, World, a_workload, bearer, in_world, secret_of
from tests.support.api.two_tenants import ASKING, MARK, NOTE, TAINTS, an_object, two_tenants

#: Another word of the same length, which nothing in the world has.
NEVER = "yakka"
#: Streams of machines, and the way to a region: no person is served there, or not by this server.
_OF_MACHINES = ("v1/in", "v1/log", "v1/bindings", "v1/shipments")
#: What differs between two answers in a row, whatever was asked.
_PASSING = ("holdfast-token", "holdfast-age-ms", "holdfast-leader")


async def both(world: World) -> tuple[tuple[str, Part], ...]:
    platform, region = await two_tenants(world)
    return (("p1", platform), ("r-eu", region))


def read_paths(part: Part) -> list[str]:
    """Everything that is read with a GET on this server, with its lists as watches too."""
    found = ["/".join(path) for path, routes in part.api.routes.items() if "GET" in routes]
    plain = [f"/{path}" for path in sorted(found) if path not in _OF_MACHINES]
    ledger = part.state.info.ledger.partition("/")[0]
    kinds = [kind for kind in KINDS.values() if ledger in kind.ledger]
    one = [f"/v1/quota/{name}" for name in ("shop",) if ledger == "platform"]
    return plain + one + [f"/v1/{kind.plural}?selector=team%3D{MARK}" for kind in kinds]


async def told(world: World, to: str, path: str, token: str) -> bytes:
    """All bytes of an answer, headers among them."""
    answer = await world.ask("GET", path, to=to, token=token)
    return repr(sorted(answer.headers.items())).encode() + answer.body


async def watched(part: Part, kind: str, token: str, query: str = "") -> Any:
    """A watch that has begun: the stream of its lines."""
    request = Request(
        "GET", f"/v1/{kind}", (("watch", "true"), ("initial", "true")), (("authorization", bearer(token)),)
    )
    return await part.api.serve(request)


async def lines(world: World, flow: StreamReply, count: int) -> bytes:
    """So many more words of a stream, as far as they come."""
    found = b""
    for _ in range(count):
        try:
            async with asyncio.timeout(0.2):
                found += await anext(flow.messages)
        except (TimeoutError, StopAsyncIteration):
            break
    return found


@pytest.mark.parametrize("token", ASKING)
def test_no_read_names_another_tenant(token: str) -> None:
    async def story(world: World) -> None:
        seen_by_all = 0
        for to, part in await both(world):
            for path in read_paths(part):
                found = await told(world, to, path, token)
                assert MARK.encode() not in found, (to, path, found)
                seen_by_all += MARK.encode() in await told(world, to, path, "operator")
        assert seen_by_all >= 30, "the word must be there for those who see everything, or nothing is shown here"

    in_world(story)


@pytest.mark.parametrize("token", ASKING)
def test_no_watch_names_another_tenant(token: str) -> None:
    async def story(world: World) -> None:
        seen_by_all = 0
        for _, part in await both(world):
            ledger = part.state.info.ledger.partition("/")[0]
            for kind in [kind for kind in KINDS.values() if ledger in kind.ledger]:
                mine, theirs = await watched(part, kind.plural, token), await watched(part, kind.plural, "operator")
                assert isinstance(theirs, StreamReply), kind
                await _touch(world, part)
                if isinstance(mine, StreamReply):
                    found = await lines(world, mine, 40)
                    assert MARK.encode() not in found, (kind.plural, found)
                    await mine.messages.aclose()  # type: ignore[attr-defined]
                seen_by_all += MARK.encode() in await lines(world, theirs, 40)
                await theirs.messages.aclose()  # type: ignore[attr-defined]
        assert seen_by_all >= 15

    in_world(story)


async def _touch(world: World, part: Part) -> None:
    """Change what is everybody's, and what is the other's, while somebody watches."""
    world.keys += 1
    key = f"touch-{world.keys}"
    if part.state.info.ledger == "platform":
        marked = an_object("NodePool", "general", f"{MARK}-{world.keys}", region="eu")
        assert (await world.ask("PUT", "/v1/nodepools/general", marked)).status == 200
        body = a_workload(f"{MARK}-{world.keys}", MARK)
        assert (await world.ask("PUT", f"/v1/workloads/{MARK}/{MARK}-{world.keys}", body)).status == 201
        assert (await world.ask("DELETE", f"/v1/workloads/{MARK}/{MARK}-{world.keys - 1}")).status in (200, 404)
        return
    for name, tenancy in (("n1", ("shop", MARK)), (f"{MARK}-1", (MARK,))):
        told = c.AdministerNode(part.state.node_names[name], False, False, TAINTS, (), tenancy, f"{NOTE} {key}")
        await part.submit(OPERATOR, told, key=f"{key}-{name}")


@pytest.mark.parametrize("token", ASKING)
def test_a_name_of_another_tenant_and_one_that_nobody_has_are_answered_alike(token: str) -> None:
    async def story(world: World) -> None:
        for to, part in await both(world):
            for verb, path, body in asked_by_name(part):
                answers = []
                for word in (MARK, NEVER):
                    sent = msgspec.json.decode(msgspec.json.encode(body).replace(MARK.encode(), word.encode()))
                    answer = await world.ask(verb, path.replace(MARK, word), sent, to=to, token=token)
                    answers.append(alike(answer, word))
                assert answers[0] == answers[1], (to, verb, path, body)

    in_world(story)


def alike(answer: Answer, word: str) -> tuple[Any, ...]:
    """An answer as it would be if the word that was asked for were another."""
    headers = [(name, value) for name, value in sorted(answer.headers.items()) if name not in _PASSING]
    return answer.status, headers, answer.body.replace(word.encode(), b"WORD")


def asked_by_name(part: Part) -> Iterator[tuple[str, str, Any]]:
    """Requests that name what is the other tenant's."""
    ledger = part.state.info.ledger.partition("/")[0]
    names = {
        "tenants": MARK, "quotas": MARK, "principals": f"tenant/{MARK}", "tokens": f"{MARK}-token",
        "recoverybudgets": f"{MARK}-budget", "policies": f"{MARK}-policy", "nodes": f"{MARK}-1",
        "grants": f"eu/quota/{MARK}", "sessions": f"agent/{MARK}-1", "breaches": f"quota/quota/{MARK}",
    }  # fmt: skip
    tenanted = {"workloads": f"{MARK}-api", "assignments": f"{MARK}-api/eu/serving"}
    tenanted |= dict.fromkeys(("replicas", "endpoints"), f"{MARK}-api/eu/0")
    names |= {kind: f"{MARK}/{name}" for kind, name in tenanted.items()}
    for plural, name in names.items():
        kind = KINDS[plural]
        if ledger in kind.ledger:
            yield "GET", f"/v1/{plural}/{name}", None
        if ledger in kind.written_on:
            yield "PUT", f"/v1/{plural}/{name}", _body(plural, name)
            yield "DELETE", f"/v1/{plural}/{name}", None
    for plural in [kind.plural for kind in KINDS.values() if ledger in kind.ledger]:
        yield "GET", f"/v1/{plural}?tenant={MARK}", None
    yield "GET", f"/v1/repairs?tenant={MARK}", None
    if ledger == "platform":
        yield "GET", f"/v1/quota/{MARK}", None
        yield "POST", "/v1/batch", {"items": [_body("tenants", MARK), _body("workloads", f"{MARK}/{MARK}-api")]}
        yield (
            "POST",
            "/v1/commands/activate-policy",
            {"region": "eu", "revision": "0.0", "scope": MARK, "stage": "active"},
        )
        ends = "2027-01-15T09:00:00Z"
        for action in ("pause-scheduling", "emergency-quota"):
            facts = {"tenant": MARK, "cpu": "1"} if action == "emergency-quota" else {}
            fields: dict[str, Any] = {
                "action": action,
                "region": "",
                "target": MARK,
                "reason": "x",
                "ends": ends,
                "facts": facts,
            }
            yield "POST", "/v1/commands/open-override", fields
    else:
        yield "GET", f"/v1/decisions?workload={MARK}/{MARK}-api", None
        yield "GET", f"/v1/decisions?tenant={MARK}", None
        yield "GET", f"/v1/decisions?slot={MARK}/{MARK}-api/eu/0", None
        yield "GET", f"/v1/queue?workload={MARK}/{MARK}-api", None


def _body(plural: str, name: str) -> dict[str, Any]:
    if plural == "workloads":
        return a_workload(name.partition("/")[2], name.partition("/")[0])
    specs: dict[str, dict[str, Any]] = {
        "quotas": {"hard": {"cpu": "1"}},
        "tokens": {"principal": f"tenant/{MARK}", "expires": "2027-01-15T09:00:00Z", "hash": "0" * 64},
        "recoverybudgets": {"regions": ["eu"], "each": {"cpu": "1"}},
        "policies": {"strategy": "spread"},
        "nodes": {"cordoned": True, "note": "x"},
    }
    return an_object(KINDS[plural].name, name, **specs.get(plural, {}))


@pytest.mark.parametrize("token", ASKING)
def test_a_number_of_another_tenant_and_one_that_nothing_has_are_answered_alike(token: str) -> None:
    async def story(world: World) -> None:
        (_, platform), (_, region) = await both(world)
        overrides = [uid for uid, one in platform.state.overrides.items() if one.reason.startswith(MARK)]
        workload = platform.state.workload_names[f"{MARK}/{MARK}-api"]
        (hold,) = [uid for uid, _ in region.state.holds.items()]
        node = region.state.node_names[f"{MARK}-1"]
        nowhere = 999_000_001
        attested: dict[str, Any] = {"ordinal": 0, "region": "eu", "reason": "x"}
        note: dict[str, Any] = {
            "cordoned": True,
            "draining": False,
            "taints": [],
            "labels": {},
            "tenancy": [],
            "note": "x",
        }
        tried: list[tuple[str, str, str, int, dict[str, Any]]] = [
            *[("p1", "end-override", "uid", uid, {"reason": "x"}) for uid in overrides],
            ("p1", "attest-right", "workload", workload, attested),
            ("r-eu", "drop-hold", "hold", hold, {}),
            ("r-eu", "extend-hold", "hold", hold, {"ends": "2027-01-15T09:00:00Z"}),
            ("r-eu", "remove-node", "node", node, {}),
            ("r-eu", "administer-node", "node", node, note),
        ]
        for to, tag, field, uid, rest in tried:
            answers = []
            for number in (uid, nowhere):
                body = {field: format_revision(number), **rest}
                answer = await world.ask("POST", f"/v1/commands/{tag}", body, to=to, token=token)
                answers.append(alike(answer, format_revision(number)))
            assert answers[0] == answers[1], tag
            assert answers[0][0] == 403, (tag, answers)
            assert MARK.encode() not in answers[0][2]

    in_world(story)


def test_every_command_of_people_by_number_is_tried_on_what_is_anothers() -> None:
    """The list above has all that are named by a number: a new one is to be put there."""
    numbered = {
        tag
        for ledger in ("platform", "region")
        for tag, rule in named_commands(ledger).items()
        if {"uid", "hold", "node", "workload", "assignment"} & set(rule.command.__struct_fields__)  # type: ignore[attr-defined]
    }
    assert numbered == {"end-override", "attest-right", "drop-hold", "extend-hold", "hold", "remove-node",
                        "administer-node"}  # fmt: skip


def test_a_refusal_in_an_envelope_names_no_other_tenant_either() -> None:
    async def story(world: World) -> None:
        (_, _), (_, region) = await both(world)
        (hold,) = [uid for uid, _ in region.state.holds.items()]
        raw = encode(Envelope("person/clerk", c.DropHold(hold), world.clock.wall(), key="drop"))
        for path, body in (("/v1/envelopes", raw), ("/v1/envelopes/batch", msgspec.msgpack.encode([msgspec.Raw(raw)]))):
            answer = await world.ask("POST", path, body, to="r-eu", token="clerk")
            assert b"wrong-scope" in answer.body, answer
            assert MARK.encode() not in answer.body

    in_world(story)


def test_a_refusal_that_would_name_another_tenant_says_its_code_alone() -> None:
    async def story(world: World) -> None:
        from holdfast.api.server.redaction import Redaction

        (_, platform), _ = await both(world)
        request = world.request("GET", "/v1/whoami", token="shop")
        caller: Any = platform.api.ctx.callers.of(platform.state, request)
        redaction = Redaction(caller, platform.state)
        found = Refused(Code.CAPACITY, f"what {MARK} has leaves no room", {"node": "n1"})
        assert redaction.refused(found, by_number=False) == Refused(Code.CAPACITY, "refused: capacity", {})
        own = Refused(Code.CAPACITY, "what shop has leaves no room", {"node": "n1"})
        assert redaction.refused(own, by_number=False) is own

    in_world(story)


def test_a_plugin_named_like_a_field_of_nodes_is_shown_to_a_tenant_with_its_version_and_score() -> None:
    async def story(world: World) -> None:
        from holdfast.api.server.redaction import Redaction

        (_, platform), _ = await both(world)
        request = world.request("GET", "/v1/whoami", token="shop")
        redaction = Redaction(platform.api.ctx.callers.of(platform.state, request), platform.state)  # type: ignore[arg-type]
        decision = {"plugins": {"taints": "1", "packing": "2"}, "candidates": [{"parts": {"taints": 5}}]}
        assert redaction.cleared(decision) == decision

    in_world(story)


def test_what_a_tenant_has_sent_itself_is_shown_as_it_was_sent() -> None:
    async def story(world: World) -> None:
        await both(world)
        body = a_workload("peer")
        body["metadata"]["labels"] = {"peer": MARK}
        assert (await world.ask("PUT", "/v1/workloads/shop/peer", body, token="shop")).status == 201
        found = (await world.ask("GET", "/v1/workloads/shop/peer", token="shop")).json
        assert found["metadata"]["labels"] == {"peer": MARK}

    in_world(story)


@pytest.mark.parametrize("token", ASKING)
def test_nothing_is_chosen_by_a_label_that_is_not_shown(token: str) -> None:
    """Whether something has a label that names another tenant would be told by being listed, or watched."""

    async def story(world: World) -> None:
        chosen_by_all = 0
        for to, part in await both(world):
            ledger = part.state.info.ledger.partition("/")[0]
            for kind in [kind for kind in KINDS.values() if ledger in kind.ledger]:
                for label in ("team", "for"):
                    path = f"/v1/{kind.plural}?selector={label}%3D"
                    answers = [await world.ask("GET", path + word, to=to, token=token) for word in (MARK, NEVER)]
                    told = [answer.json.get("items") for answer in answers]
                    assert told[0] == told[1], (to, kind.plural, label, told)
                    chosen_by_all += bool((await world.ask("GET", path + MARK, to=to)).json["items"])
                    request = world.request("GET", f"{path}{MARK}&watch=true&initial=true", token=token)
                    flow = await part.api.serve(request)
                    if isinstance(flow, StreamReply):
                        assert b"BOOKMARK" in await anext(flow.messages), kind.plural
                        await flow.messages.aclose()  # type: ignore[attr-defined]
        assert chosen_by_all >= 5, "who sees everything chooses by them"

    in_world(story)


def test_who_may_end_what_it_may_not_see_is_not_shown_it_by_that() -> None:
    """A dry run would show all that there is, and end nothing."""

    async def story(world: World) -> None:
        (_, platform), _ = await both(world)
        await world.principal(platform, "person/ops", Permission.OPERATE, Permission.READ, Permission.WRITE)
        for path in (f"quotas/{MARK}", f"workloads/{MARK}/{MARK}-api"):
            assert (await world.ask("GET", f"/v1/{path}", token="person-ops")).status in (403, 404)
            for way in ("?dryRun=All", ""):
                answer = await world.ask("DELETE", f"/v1/{path}{way}", token="person-ops")
                assert answer.status == 200, answer
                assert set(answer.json) == {"apiVersion", "kind", "metadata"}, answer
                assert set(answer.json["metadata"]) <= {"name", "tenant"}, answer

    in_world(story)


@pytest.mark.parametrize("token", ASKING)
def test_what_is_degraded_is_told_without_the_names_of_others(token: str) -> None:
    class Link:
        def age_ms(self) -> int | None:
            return 1_000

        def degraded_reason(self) -> str:
            return f"this region refused a shipment: quota/{MARK} is contradictory"

    async def story(world: World) -> None:
        _, (_, region) = await both(world)
        region.api.ctx.link = Link()
        told = (await world.ask("GET", "/v1/status", to="r-eu", token=token)).json
        assert "cut off from the platform" in told["degraded"]
        assert MARK not in str(told)
        assert MARK in str((await world.ask("GET", "/v1/status", to="r-eu")).json["degraded"])

    in_world(story)


def test_a_tenant_sees_nodes_without_what_others_have_on_them_and_not_those_kept_for_others() -> None:
    async def story(world: World) -> None:
        await both(world)
        found = (await world.ask("GET", "/v1/nodes", to="r-eu", token="shop")).json["items"]
        assert [one["metadata"]["name"] for one in found] == ["n1", "n2", "n3"]
        first = found[0]
        assert (first["spec"]["tenancy"], first["spec"]["labels"]) == (["shop"], {"arch": "arm"})
        assert [taint["key"] for taint in first["spec"]["taints"]] == ["gpu"]
        assert (first["status"]["replicas"], first["status"]["taken"]) == (0, {})
        assert first["status"]["capacity"]["cpu"] == 8
        whole = (await world.ask("GET", "/v1/nodes/n1", to="r-eu")).json
        assert (whole["spec"]["tenancy"], whole["status"]["replicas"]) == (["shop", MARK], 2)

    in_world(story)


def test_a_node_that_its_agent_keeps_for_another_tenant_is_not_shown_to_this_one() -> None:
    async def story(world: World) -> None:
        _, region = (await both(world))[1]
        node = region.state.nodes[region.state.node_names["n2"]]
        await region.submit("agent/n2", OpenSession())
        session = region.state.session_of["agent/n2"]
        said = c.RegisterNode("n2", node.pool, node.zone, node.capacity, tenant=MARK, shares_user=False)
        await region.submit("agent/n2", said, session=session, sequence=1)
        found = (await world.ask("GET", "/v1/nodes", to="r-eu", token="shop")).json["items"]
        assert [one["metadata"]["name"] for one in found] == ["n1", "n3"]
        whole = (await world.ask("GET", "/v1/nodes/n2", to="r-eu")).json
        assert whole["status"]["tenant"] == MARK

    in_world(story)


def test_who_may_see_other_tenants_sees_them_whatever_its_scope() -> None:
    async def story(world: World) -> None:
        (_, platform), _ = await both(world)
        await world.principal(platform, "person/wide", Permission.READ, Permission.SEE_OTHER_TENANTS)
        names = [
            one["metadata"]["name"]
            for one in (await world.ask("GET", "/v1/tenants", token="person-wide")).json["items"]
        ]
        assert names == ["shop", MARK]

    in_world(story)


def test_no_answer_holds_the_hash_of_a_token_or_its_secret() -> None:
    async def story(world: World) -> None:
        for to, part in await both(world):
            names = [name for name, _ in part.state.tokens.items()]
            words = [one.spec.hash for _, one in part.state.tokens.items()] + [secret_of(name) for name in names]
            who = [*ASKING, "operator", f"{MARK}-token", *(("agents", "schedulers") if to == "r-eu" else ())]
            for path in read_paths(part):
                for token in who:
                    actor = {"agents": "agent/n1", "schedulers": "scheduler/main"}.get(token, "")
                    answer = await world.ask("GET", path, to=to, token=token, **_as(actor))
                    held = repr(answer.headers).encode() + answer.body
                    assert not any(word.encode() in held for word in words), (to, path, token)

    in_world(story)


def _as(actor: str) -> dict[str, str]:
    return {"holdfast_actor": actor} if actor else {}
