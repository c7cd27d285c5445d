"""What somebody who means harm, or is merely unlucky, tries at a server. A name is what holds all the same."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.api.server.limits import ConcurrencyLimiter, ServerLimits
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import (
    Permission,
    Principal,
    PrincipalSpec,
    Scope,
    Token,
    TokenSpec,
    hash_secret,
)
from holdfast.core.model.objects.topology import Region, RegionSpec
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.host.errors import OutcomeUnknown
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.transport import Reply, Request, StreamReply
from holdfast.stores.registry import open_store
from holdfast.transports.http_transport import HttpTransport
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.config.validation import invalid_settings
from tests.support.api.api_cluster import (
    OPERATOR,
    TOKEN_LIFE,
    Part,
    World,
    a_shop,
    a_tenant,
    a_workload,
    in_world,
    secret_of,
)
from tests.support.event_loop import in_a_loop
from tests.support.hosts.local_network import LocalTransport
from tests.support.ledgers.region import a_template, an_assignment

BANK = a_tenant("bank")
SCOPED = Scope(tenant="shop")


async def a_bank_and_a_shop(world: World, *rights: Permission) -> Part:
    """Two tenants, and one of them has a token."""
    part = await a_shop(world)
    assert (await world.ask("PUT", "/v1/tenants/bank", BANK)).status == 201
    await world.principal(part, "tenant/shop", *(rights or (Permission.READ, Permission.WRITE)))
    return part


class Watched:
    """Somebody who reads a watch all the time."""

    def __init__(self, world: World, path: str, token: str, to: str) -> None:
        self._world = world
        self._source: Any = world.watch(path, token=token, to=to)
        self._lines: list[Any] = []
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for line in self._source:
            self._lines.append(line)

    async def lines(self, ms: int = 1_000) -> list[Any]:
        """What came until so long from now, and was not told before; without bookmarks."""
        await self._world.clock.sleep(ms)
        if self._task.done():
            self._task.result()
        found, self._lines = self._lines, []
        return [line for line in found if line["type"] != "BOOKMARK"]

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        await self._source.aclose()


@asynccontextmanager
async def watching(world: World, path: str, token: str = "operator", to: str = "p1") -> AsyncIterator[Watched]:
    """A watch that has begun."""
    watched = Watched(world, path, token, to)
    await world.clock.sleep(10)
    try:
        yield watched
    finally:
        await watched.end()


def labelled(name: str = "web", **labels: str) -> dict[str, Any]:
    tree = a_workload(name)
    tree["metadata"]["labels"] = labels
    return tree


# Who asks


def test_a_watch_ends_when_its_token_is_revoked() -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        async with watching(world, "/v1/workloads?watch=true", token="tenant-shop") as source:
            stored = part.state.tokens["tenant-shop"]
            revoked = msgspec.structs.replace(stored, spec=msgspec.structs.replace(stored.spec, revoked=True))
            await part.submit(OPERATOR, p.Put(revoked), key="revoke")
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
            lines = await source.lines(20_000)
        assert [line["type"] for line in lines] == ["ERROR"], lines
        assert lines[0]["object"]["code"] == "unauthenticated"

    in_world(story)


def test_a_watch_ends_when_its_token_expires_though_nothing_changes() -> None:
    async def story(world: World) -> None:
        await a_bank_and_a_shop(world)
        async with watching(world, "/v1/workloads?watch=true", token="tenant-shop") as source:
            lines = await source.lines(TOKEN_LIFE + 20_000)
        assert [line["type"] for line in lines] == ["ERROR"], lines

    in_world(story)


def test_a_watch_ends_when_what_its_caller_may_see_has_changed() -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, "person/p", Permission.READ, Permission.SEE_OTHER_TENANTS)
        async with watching(world, "/v1/workloads?watch=true", token="person-p") as source:
            less = Principal(meta=Meta(name="person/p"), spec=PrincipalSpec(rights=(Permission.READ,)))
            await part.submit(OPERATOR, p.Put(less), key="less")
            await world.ask("PUT", "/v1/workloads/bank/vault", a_workload("vault", "bank"))
            lines = await source.lines(20_000)
        assert [line["type"] for line in lines] == ["ERROR"], lines
        assert lines[0]["object"]["status"] == 410

    in_world(story)


def test_a_watch_through_the_platform_ends_when_the_platform_knows_the_token_no_more() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.region()
        region = Region(meta=Meta(name="eu"), spec=RegionSpec(address="https://r-eu"))
        part.state.regions.put("eu", region)
        async with watching(world, "/v1/in/eu/nodes?watch=true") as source:
            stored = part.state.tokens["operator"]
            revoked = msgspec.structs.replace(stored, spec=msgspec.structs.replace(stored.spec, revoked=True))
            await part.submit(OPERATOR, p.Put(revoked), key="revoke")
            lines = await source.lines(20_000)
        assert [line["type"] for line in lines] == ["ERROR"], lines

    in_world(story)


def test_a_server_that_loads_its_state_does_not_say_that_a_token_is_unknown() -> None:
    async def story(world: World) -> None:
        part = world.part("p9", PLATFORM, None, StartLog("log", "platform", OPERATOR))
        assert part.ledger.role is Role.LOADING
        answer = await world.ask("GET", "/v1/workloads", to="p9")
        assert (answer.status, answer.json["code"]) == (503, "not-reached"), answer
        assert part.ledger.denials.waiting() == ()

    in_world(story)


def test_a_token_for_all_agents_is_nobodys_when_their_principal_is_disabled() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "agent/*", token="agents")
        await world.principal(part, "agent/n1", scope=Scope(region="eu"))
        off = Principal(meta=Meta(name="agent/*"), spec=PrincipalSpec(disabled=True))
        await part.submit(OPERATOR, p.Put(off), key="off")
        answer = await world.ask("GET", "/v1/whoami", token="agents", holdfast_actor="agent/n1")
        assert answer.status == 401, answer

    in_world(story)


@pytest.mark.parametrize("kind", ["person", "tenant"])
def test_a_token_for_all_people_does_not_speak_for_one_of_them(kind: str) -> None:
    """Else whoever may operate could act as whoever has more rights, or as any tenant."""

    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, "person/low", Permission.READ, Permission.OPERATE)
        every: dict[str, Any] = {"metadata": {}, "spec": {}}
        assert (await world.ask("PUT", f"/v1/principals/{kind}/*", every, token="person-low")).status == 201
        spec = {"principal": f"{kind}/*", "hash": hash_secret(secret_of("all")), "expires": "2027-01-15T09:00:00.000Z"}
        made = await world.ask("PUT", "/v1/tokens/all", {"metadata": {}, "spec": spec}, token="person-low")
        assert (made.status, made.json["code"]) == (422, "contradictory"), made
        # Nor does one from before that was refused.
        expires = part.state.info.at + TOKEN_LIFE
        old = TokenSpec(principal=f"{kind}/*", hash=hash_secret(secret_of("all")), expires=expires)
        part.state.tokens.put("all", Token(meta=Meta(name="all"), spec=old))
        one = {"person": OPERATOR, "tenant": "tenant/shop"}[kind]
        assert (await world.ask("GET", "/v1/whoami", token="all", holdfast_actor=one)).status == 401

    in_world(story)


@pytest.mark.parametrize("machine", ["scheduler", "agent"])
def test_who_may_operate_cannot_make_a_machine_that_sees_all_tenants(machine: str) -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, f"{machine}/spy", token="spy", scope=Scope(region="eu"))
        for kind in ("workloads", "assignments", "tenants", "policies"):
            assert (await world.ask("GET", f"/v1/{kind}", token="spy")).status == 403, kind

    in_world(story)


def test_nobody_takes_a_token_from_whoever_has_more_rights() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/low", Permission.READ, Permission.OPERATE)
        spec = {
            "principal": "person/low",
            "hash": hash_secret(secret_of("mine")),
            "expires": "2027-01-15T09:00:00.000Z",
        }
        taken = await world.ask("PUT", "/v1/tokens/operator", {"metadata": {}, "spec": spec}, token="person-low")
        assert (taken.status, taken.json["code"]) == (403, "no-right"), taken
        assert (await world.ask("GET", "/v1/whoami")).json["principal"] == OPERATOR

    in_world(story)


def test_strangers_cannot_choose_what_is_written_into_the_log() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        for number in range(50):
            await world.ask("GET", f"/v1/workloads/shop/{'x' * 150}{number}", token="")
        noted = [one for one in part.ledger.denials.waiting() if one.actor == "nobody"]
        assert [one.what for one in noted] == ["GET /v1/workloads"]

    in_world(story)


# What others have


@pytest.mark.parametrize("who", ["tenant", "person"])
def test_a_watch_never_tells_of_the_end_of_what_it_may_not_show(who: str) -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, "person/p", Permission.READ)
        await world.principal(part, "person/secret-project", Permission.READ)
        token = {"tenant": "tenant-shop", "person": "person-p"}[who]
        for path in ("principals", "tenants", "workloads"):
            async with watching(world, f"/v1/{path}?watch=true", token=token) as source:
                await world.ask("PUT", "/v1/tenants/hidden", a_tenant("hidden"))
                await world.ask("PUT", "/v1/workloads/bank/vault", a_workload("vault", "bank"))
                await world.ask("PUT", "/v1/principals/person/other", {"metadata": {}, "spec": {}})
                await world.ask("DELETE", "/v1/workloads/bank/vault")
                await world.ask("DELETE", "/v1/tenants/hidden")
                await world.ask("DELETE", "/v1/principals/person/other")
                assert await source.lines() == [], path

    in_world(story)


def test_a_resumed_watch_never_tells_of_the_end_of_what_it_may_not_show() -> None:
    async def story(world: World) -> None:
        await a_bank_and_a_shop(world)
        token = (await world.ask("GET", "/v1/tenants")).json["metadata"]["token"]
        await world.ask("PUT", "/v1/tenants/hidden", a_tenant("hidden"))
        await world.ask("PUT", "/v1/workloads/bank/vault", a_workload("vault", "bank"))
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        for path in ("/v1/workloads/bank/vault", "/v1/tenants/hidden", "/v1/workloads/shop/web"):
            assert (await world.ask("DELETE", path)).status == 200
        for kind, own in (("tenants", 0), ("workloads", 1)):
            path = f"/v1/{kind}?watch=true&since={token}"
            async with watching(world, path, token="tenant-shop") as source:
                lines = await source.lines()
            gone = {line["object"]["metadata"]["uid"] for line in lines if line["type"] == "DELETED"}
            assert len(gone) == own, lines
            assert all("hidden" not in str(line) and "bank" not in str(line) for line in lines)

    in_world(story)


def test_a_tenant_is_not_shown_the_overrides_of_others_in_a_status() -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, "person/p", Permission.READ, Permission.OPERATE, scope=SCOPED)
        ends = "2027-01-15T10:00:00.000Z"
        for tenant in ("bank", "shop"):
            body = {"action": "pause-scheduling", "region": "", "target": tenant, "reason": "why", "ends": ends}
            answer = await world.ask("POST", "/v1/commands/open-override", body)
            assert answer.status == 200, answer
        shown = (await world.ask("GET", "/v1/status", token="person-p")).json["overrides"]
        assert [one["spec"]["target"] for one in shown] == ["shop"]

    in_world(story)


def test_an_operator_who_may_not_see_other_tenants_does_not_read_their_workloads_in_the_audit() -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, "person/p", Permission.READ, Permission.OPERATE)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), token="tenant-shop")
        seen = await world.ask("GET", "/v1/audit?command=put-workload", token="person-p")
        assert [one["actor"] for one in seen.json["items"]] == ["tenant/shop"], seen
        assert b"serve" not in seen.body
        assert b"serve" in (await world.ask("GET", "/v1/audit?command=put-workload")).body

    in_world(story)


def test_a_page_is_not_shown_to_a_caller_whose_scope_has_changed() -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, "person/p", Permission.READ, Permission.SEE_OTHER_TENANTS)
        for name in ("a", "b"):
            await world.ask("PUT", f"/v1/workloads/bank/{name}", a_workload(name, "bank"))
        page = (await world.ask("GET", "/v1/workloads?limit=1", token="person-p")).json
        less = Principal(meta=Meta(name="person/p"), spec=PrincipalSpec(rights=(Permission.READ,)))
        await part.submit(OPERATOR, p.Put(less), key="less")
        answer = await world.ask(
            "GET", f"/v1/workloads?limit=1&continue={page['metadata']['continue']}", token="person-p"
        )
        assert answer.status == 400, answer

    in_world(story)


# What a watch tells


def test_what_was_listed_and_leaves_the_selection_is_told_to_a_watch_that_goes_on_from_the_list() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", labelled(app="web"))
        await world.ask("PUT", "/v1/workloads/shop/api", labelled("api", app="web"))
        token = (await world.ask("GET", "/v1/workloads?selector=app%3Dweb")).json["metadata"]["token"]
        await world.ask("PUT", "/v1/workloads/shop/api", labelled("api", app="other"))
        path = f"/v1/workloads?watch=true&selector=app%3Dweb&since={token}"
        async with watching(world, path) as source:
            before = await source.lines()
            await world.ask("PUT", "/v1/workloads/shop/web", labelled(app="other"))
            after = await source.lines()
        assert [(line["type"], line["object"]["metadata"]["name"]) for line in before] == [("DELETED", "api")]
        assert [(line["type"], line["object"]["metadata"]["name"]) for line in after] == [("DELETED", "web")]

    in_world(story)


def test_a_watch_of_one_name_tells_of_whoever_has_that_name_next() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        async with watching(world, "/v1/workloads/shop/web?watch=true") as source:
            await world.ask("DELETE", "/v1/workloads/shop/web")
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
            lines = await source.lines()
        assert [line["type"] for line in lines] == ["DELETED", "ADDED"], lines

    in_world(story)


def test_a_watch_of_one_name_tells_of_no_other() -> None:
    async def story(world: World) -> None:
        await a_bank_and_a_shop(world)
        for path in ("/v1/workloads/shop/web", "/v1/tenants/mine"):
            async with watching(world, f"{path}?watch=true") as source:
                await world.ask("PUT", "/v1/workloads/bank/web", a_workload("web", "bank"))
                await world.ask("PUT", "/v1/tenants/other", a_tenant("other"))
                await world.ask("DELETE", "/v1/workloads/bank/web")
                await world.ask("DELETE", "/v1/tenants/other")
                assert await source.lines() == [], path

    in_world(story)


def test_a_stream_of_a_region_does_not_say_that_it_is_from_the_platform() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.region()
        region = Region(meta=Meta(name="eu"), spec=RegionSpec(address="https://r-eu"))
        part.state.regions.put("eu", region)
        found = await part.api.serve(world.request("GET", "/v1/in/eu/nodes?watch=true"))
        assert isinstance(found, StreamReply)
        assert found.headers == (("holdfast-ledger", "region/eu"),)
        await found.messages.aclose()  # type: ignore[attr-defined]

    in_world(story)


def test_the_end_of_a_replica_is_told_by_its_name_to_its_tenant_alone() -> None:
    async def story(world: World) -> None:
        part = await world.region()
        for number, tenant in enumerate(("shop", "bank")):
            reader = PrincipalSpec(rights=(Permission.READ,))
            puts = (
                c.ShippedPrincipal(Principal(meta=Meta(name=f"tenant/{tenant}"), spec=reader)),
                c.ShippedToken(world._token(f"tenant-{tenant}", f"tenant/{tenant}")),
            )
            await part.submit("controller/link", c.Ship("log-platform", 1, 1 + number, 2 + number, puts))
        template = a_template()
        digest = template_digest(template)
        assignment = an_assignment(uid=77, workload=7, template=template, count=1, tenant="shop", region="eu")
        puts2 = (c.ShippedTemplate(digest, template), c.ShippedAssignment(assignment))
        await part.submit("controller/link", c.Ship("log-platform", 1, 3, 4, puts2))
        async with (
            watching(world, "/v1/replicas?watch=true", to="r-eu") as all_,
            watching(world, "/v1/replicas?watch=true", token="tenant-shop", to="r-eu") as own,
            watching(world, "/v1/replicas?watch=true", token="tenant-bank", to="r-eu") as other,
        ):
            await part.submit("controller/replica", c.OpenSlots(77, digest, (0,)))
            await part.submit("controller/replica", c.WithdrawSlots(77, (0,)))
            name = f"{assignment.workload_name}/eu/0"
            for lines in (await all_.lines(), await own.lines()):
                assert [line["type"] for line in lines][-1] == "DELETED", lines
                assert lines[-1]["object"]["metadata"] == {"name": name}
            assert await other.lines() == []

    in_world(story)


def test_a_watch_that_nobody_reads_gives_its_place_back() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        for _ in range(3):
            found = await part.api.serve(world.request("GET", "/v1/workloads?watch=true"))
            assert isinstance(found, StreamReply)
            await found.messages.aclose()  # type: ignore[attr-defined]  # as a carrier does for HEAD
        assert part.api.ctx.watches.in_use == 0
        assert not part.api.ctx.watchers

    in_world(story)


def test_a_region_whose_stream_ends_at_once_is_no_fault_of_ours() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)

        async def nothing() -> Any:
            for line in list[bytes]():
                yield line

        async def serving(request: Request) -> Reply | StreamReply:
            return StreamReply(nothing())

        other: LocalTransport = world.network.join("r-eu")
        other.serve(serving)
        region = Region(meta=Meta(name="eu"), spec=RegionSpec(address="https://r-eu"))
        part.state.regions.put("eu", region)
        answer = await world.ask("GET", "/v1/in/eu/nodes?watch=true")
        assert (answer.status, answer.json["code"]) == (502, "region-unreachable"), answer
        await other.close()

    in_world(story)


# Writes and their repeats


def test_a_repeat_gets_its_first_answer_however_fast_its_sender_writes() -> None:
    async def story(world: World) -> None:
        await a_bank_and_a_shop(world)
        await world.ask("PUT", "/v1/tenants/shop", a_tenant(submitsPerMinute=1))
        first = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), token="tenant-shop", key="k")
        again = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), token="tenant-shop", key="k")
        assert (first.status, again.status) == (201, 201), again
        assert again.headers["holdfast-repeated"] == "true"
        other = await world.ask("PUT", "/v1/workloads/shop/api", a_workload("api"), token="tenant-shop")
        assert other.status == 429, other

    in_world(story)


def test_a_tenant_writes_no_faster_in_envelopes() -> None:
    async def story(world: World) -> None:
        await a_bank_and_a_shop(world)
        await world.ask("PUT", "/v1/tenants/shop", a_tenant(submitsPerMinute=1))

        def raw(number: int) -> bytes:
            command = p.DeleteWorkload("shop", "none")
            return encode(Envelope("tenant/shop", command, world.clock.wall(), key=f"e{number}"))

        await world.ask("POST", "/v1/envelopes", raw(0), token="tenant-shop")
        answer = await world.ask("POST", "/v1/envelopes", raw(1), token="tenant-shop")
        assert (answer.status, answer.json["code"]) == (429, "rate-limited"), answer
        many = msgspec.msgpack.encode([msgspec.Raw(raw(number)) for number in range(2, 4)])
        assert (await world.ask("POST", "/v1/envelopes/batch", many, token="tenant-shop")).status == 429

    in_world(story)


def test_a_large_batch_costs_as_much_as_its_documents_one_by_one() -> None:
    async def story(world: World) -> None:
        await a_bank_and_a_shop(world)
        await world.ask("PUT", "/v1/tenants/shop", a_tenant(submitsPerMinute=10))
        items = [a_workload(f"w{number}") for number in range(100)]
        assert (await world.ask("POST", "/v1/batch", {"items": items}, token="tenant-shop")).status == 200
        await world.clock.sleep(60_000)
        more = await world.ask("POST", "/v1/batch", {"items": items}, token="tenant-shop")
        assert more.status == 429, more

    in_world(story)


def test_a_tenant_writes_no_faster_under_many_names() -> None:
    async def story(world: World) -> None:
        part = await a_bank_and_a_shop(world)
        await world.principal(part, "person/p", Permission.READ, Permission.WRITE, scope=SCOPED)
        await world.ask("PUT", "/v1/tenants/shop", a_tenant(submitsPerMinute=1))
        first = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), token="tenant-shop")
        second = await world.ask("PUT", "/v1/workloads/shop/api", a_workload("api"), token="person-p")
        assert (first.status, second.status) == (201, 429), second

    in_world(story)


def test_a_batch_does_not_call_refused_what_may_have_been_done(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)

        async def unknown(envelope: Any) -> Any:
            raise OutcomeUnknown("the store did not say")

        with monkeypatch.context() as patched:
            patched.setattr(part.ledger, "submit", unknown)
            answer = await world.ask("POST", "/v1/batch", {"items": [a_workload()]})
        item = answer.json["items"][0]
        assert item["problem"]["code"] == "outcome-unknown"
        assert item["outcome"] == "unknown"

    in_world(story)


def test_the_repeat_of_a_deletion_says_nothing_of_who_has_the_name_now() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        for path, body in (("/v1/workloads/shop/web", a_workload()), ("/v1/tenants/bank", BANK)):
            await world.ask("PUT", path, body)
            first = await world.ask("DELETE", path, key=f"gone-{path}")
            await world.ask("PUT", path, body)
            again = await world.ask("DELETE", path, key=f"gone-{path}")
            assert again.headers["holdfast-repeated"] == "true"
            assert first.headers["holdfast-outcome"] == again.headers["holdfast-outcome"] == "deleted"
            assert "spec" not in again.json, again
            assert (await world.ask("GET", path)).status == 200

    in_world(story)


def test_a_repeat_says_that_it_is_one_though_its_object_is_gone() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), key="k")
        await world.ask("DELETE", "/v1/workloads/shop/web")
        again = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), key="k")
        assert again.headers["holdfast-repeated"] == "true"
        assert (await world.ask("GET", "/v1/workloads/shop/web")).status == 404

    in_world(story)


def test_a_dry_run_of_a_deletion_tells_what_would_become_of_the_object() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        tried = await world.ask("DELETE", "/v1/workloads/shop/web?dryRun=All")
        assert tried.headers["holdfast-outcome"] == "deleted"

    in_world(story)


def test_a_node_is_not_changed_by_who_read_another_revision_of_it() -> None:
    async def story(world: World) -> None:
        part = await world.region()
        opened = await part.submit("agent/n1", OpenSession())
        register = c.RegisterNode("n1", "pool", "a", Resources(cpu=4_000, memory=1 << 30))
        await part.submit("agent/n1", register, session=opened.revision, sequence=1)
        tag = (await world.ask("GET", "/v1/nodes/n1", to="r-eu")).headers["etag"]
        body = {"spec": {"cordoned": True, "note": "mine"}}
        first = await world.ask("PUT", "/v1/nodes/n1", body, to="r-eu", if_match=tag, key="mine")
        assert first.status == 200, first
        other = {"spec": {"note": "theirs"}}
        stale = await world.ask("PUT", "/v1/nodes/n1", other, to="r-eu", if_match=tag)
        assert stale.status == 412, stale
        assert (await world.ask("PUT", "/v1/nodes/n1", other, to="r-eu", if_none_match="*")).status == 412
        assert (await world.ask("PUT", "/v1/nodes/n1", body, to="r-eu", if_match=tag, key="mine")).status == 200

    in_world(story)


# How much


def test_reading_the_audit_takes_a_place_among_the_lists() -> None:
    async def story(world: World) -> None:
        part = await world.platform(limits=ServerLimits(lists_at_a_time=1))
        assert part.api.ctx.lists.acquire("person/other") is None
        assert (await world.ask("GET", "/v1/audit")).status == 429

    in_world(story)


def test_who_begins_many_lists_takes_nobody_elses_away() -> None:
    async def story(world: World) -> None:
        await a_bank_and_a_shop(world)
        for name in ("a", "b"):
            await world.ask("PUT", f"/v1/workloads/shop/{name}", a_workload(name))
        page = (await world.ask("GET", "/v1/workloads?limit=1")).json["metadata"]["continue"]
        for _ in range(100):
            await world.ask("GET", "/v1/workloads?limit=1", token="tenant-shop")
        assert (await world.ask("GET", f"/v1/workloads?limit=1&continue={page}")).status == 200

    in_world(story)


def test_lines_of_batches_that_are_over_are_not_kept() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        async with watching(world, "/v1/workloads?watch=true") as source:
            for number in range(20):
                await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=number + 1))
                await source.lines(10)
        assert len(part.api._lines._made) <= 1

    in_world(story)


def test_a_number_of_any_length_is_no_fault_of_ours() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "region/eu")
        for query in (f"cursor={'9' * 5000}.0", f"term={'9' * 5000}", "term=%C2%B2"):
            answer = await world.ask("GET", f"/v1/shipments?{query}", token="region-eu")
            assert answer.status in (400, 404), answer

    in_world(story)


def test_a_regions_token_does_not_travel_in_the_clear_unless_that_is_said() -> None:
    said = {"role": "region", "region": "eu", "token_file": "t", "advertise": "http://127.0.0.1:7401"}
    afar = ServerSettings(**said, platform=("http://platform.example:7400",), name="r")  # type: ignore[arg-type]
    assert any("in the clear" in why for why in invalid_settings(afar))
    assert invalid_settings(msgspec.structs.replace(afar, insecure=True)) == []
    assert invalid_settings(msgspec.structs.replace(afar, platform=("https://platform.example:7400",))) == []


@in_a_loop
async def test_what_follows_a_body_is_no_header() -> None:
    asked: list[Request] = []

    async def serving(request: Request) -> Reply:
        asked.append(request)
        return Reply()

    transport = HttpTransport(SystemClock(), listen="127.0.0.1:0")
    transport.serve(serving)
    await transport.start()
    host, port = transport.address.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /x HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n")
    writer.write(b"authorization: Bearer late\r\n" * 1_000 + b"\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
    await transport.close()
    assert asked[0].body == b"ab"
    assert [name for name, _ in asked[0].headers] == ["host", "transfer-encoding"]


@in_a_loop
async def test_a_log_can_be_read_by_its_owner_alone_whatever_folder_it_is_in(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    store = await open_store("sqlite:ledger", tmp_path)
    await store.close()
    assert stat.S_IMODE((tmp_path / "ledger").stat().st_mode) == 0o700


def test_one_principal_cannot_take_all_places_from_the_others() -> None:
    places = ConcurrencyLimiter(8, "watches")
    assert [places.acquire("tenant/greedy") for _ in range(2)] == [None, None]
    refused = places.acquire("tenant/greedy")
    assert refused is not None
    assert refused.code == "overloaded"
    assert places.acquire("tenant/other") is None
    places.release("tenant/greedy")
    assert places.acquire("tenant/greedy") is None
