"""Who may do what: tokens, rights, scopes, and that every refusal is on record."""

from __future__ import annotations

import pytest

from holdfast.core.model.objects.principals import Permission, Scope
from tests.support.api.api_cluster import World, a_class, a_shop, a_tenant, a_workload, in_world


@pytest.mark.parametrize("path", ["/v1/tenants", "/v1/status", "/v1/audit", "/v1/workloads/shop/web"])
def test_nobody_is_told_anything_without_a_name(path: str) -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        answer = await world.ask("GET", path, token="")
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == "Bearer"

    in_world(story)


def test_a_wrong_secret_an_expired_and_a_revoked_token_are_refused() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/reader", Permission.READ)
        good = await world.ask("GET", "/v1/tenants", token="person-reader")
        wrong = await world.ask("GET", "/v1/tenants", token="", authorization="Bearer hf_person-reader_" + "x" * 43)
        assert (good.status, wrong.status) == (200, 401)
        token = (await world.ask("GET", "/v1/tokens/person-reader")).json
        assert "hash" not in token["spec"]
        await world.clock.sleep(600_001)
        expired = await world.ask("GET", "/v1/tenants", token="person-reader")
        assert expired.status == 401
        assert "expired" in expired.json["detail"]

    in_world(story)


def test_a_revoked_token_opens_nothing() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/reader", Permission.READ)
        token = (await world.ask("GET", "/v1/tokens/person-reader")).json
        token["spec"]["revoked"] = True
        revoked = await world.ask("PUT", "/v1/tokens/person-reader", token)
        assert revoked.status == 200, revoked
        refused = await world.ask("GET", "/v1/tenants", token="person-reader")
        assert refused.status == 401
        assert "revoked" in refused.json["detail"]

    in_world(story)


def test_wrong_tenant_sees_and_changes_nothing_of_another() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.ask("PUT", "/v1/tenants/bank", a_tenant("bank"))
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        await world.ask("PUT", "/v1/workloads/bank/vault", a_workload("vault", "bank"))
        await world.principal(part, "tenant/bank", Permission.READ, Permission.WRITE)
        mine = await world.ask("GET", "/v1/workloads", token="tenant-bank")
        assert [item["metadata"]["name"] for item in mine.json["items"]] == ["vault"]
        assert (await world.ask("GET", "/v1/workloads/shop/web", token="tenant-bank")).status == 403
        assert (await world.ask("GET", "/v1/workloads?tenant=shop", token="tenant-bank")).status == 403
        stolen = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=0), token="tenant-bank")
        assert (stolen.status, stolen.json["code"]) == (403, "wrong-scope")
        assert (await world.ask("DELETE", "/v1/workloads/shop/web", token="tenant-bank")).status == 403
        assert [
            t["metadata"]["name"] for t in (await world.ask("GET", "/v1/tenants", token="tenant-bank")).json["items"]
        ] == ["bank"]

    in_world(story)


def test_wrong_right_is_refused_by_the_ledger() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "person/reader", Permission.READ)
        refused = await world.ask("PUT", "/v1/priorityclasses/high", a_class("high"), token="person-reader")
        assert (refused.status, refused.json["code"]) == (403, "no-right")
        none = await world.ask(
            "POST", "/v1/commands/declare-lost", {"region": "eu", "reason": "x"}, token="person-reader"
        )
        assert none.status == 403

    in_world(story)


def test_wrong_region_is_refused_in_that_region() -> None:
    async def story(world: World) -> None:
        await world.region("eu")
        eu = await world.ask("GET", "/v1/nodes", to="r-eu")
        assert eu.status == 200

        from holdfast.core.model.objects.principals import Principal, PrincipalSpec
        from holdfast.core.model.values.metadata import Meta
        from holdfast.core.region import commands as c

        spec = PrincipalSpec(rights=tuple(Permission), scope=Scope(region="us"))
        person = Principal(meta=Meta(name="person/us"), spec=spec)
        part = world.parts[-1]
        puts = (c.ShippedPrincipal(person), c.ShippedToken(world._token("person-us", "person/us")))
        await part.submit("controller/link", c.Ship("log-platform", 1, 1, 2, puts))
        wrong = await world.ask("GET", "/v1/nodes", to="r-eu", token="person-us")
        assert (wrong.status, wrong.json["code"]) == (403, "wrong-scope")

    in_world(story)


def test_every_refusal_and_every_action_is_an_audit_event() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "tenant/bank", Permission.READ, Permission.WRITE)
        await world.ask("GET", "/v1/workloads/shop/web", token="tenant-bank")
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), token="tenant-bank")
        await world.ask("GET", "/v1/tenants", token="")
        await world.clock.sleep(3_000)
        items = (await world.ask("GET", "/v1/audit?limit=100")).json["items"]
        denied = {(item["actor"], item["outcome"]) for item in items if item["outcome"] != "accepted"}
        assert {("tenant/bank", "wrong-scope"), ("nobody", "unauthenticated")} <= denied
        done = [item for item in items if item["outcome"] == "accepted" and item["command"] == "put"]
        assert done[-1]["actor"] == "person/operator"
        assert "hash" not in str(items)
        assert (await world.ask("GET", "/v1/audit", token="tenant-bank")).status == 403

    in_world(story)


def test_a_caller_is_told_who_it_is_and_what_it_may_do() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.principal(part, "tenant/shop", Permission.READ, Permission.WRITE)
        me = (await world.ask("GET", "/v1/whoami", token="tenant-shop")).json
        assert me["principal"] == "tenant/shop"
        assert me["rights"] == ["read", "write"]

        async def may(**question: str) -> bool:
            answer = await world.ask("POST", "/v1/can-i", question, token="tenant-shop")
            assert answer.status == 200, answer
            return bool(answer.json["allowed"])

        assert await may(command="put-workload")
        assert await may(command="put-workload", tenant="shop")
        assert not await may(command="put-workload", tenant="bank")
        assert not await may(command="declare-lost")
        assert not await may(right="override")

    in_world(story)


def test_a_tenant_that_submits_too_fast_is_told_when_to_come_again() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.ask("PUT", "/v1/tenants/shop", a_tenant(submitsPerMinute=3))
        await world.principal(part, "tenant/shop", Permission.READ, Permission.WRITE)
        answers = [
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=n), token="tenant-shop")
            for n in range(5)
        ]
        assert [answer.status for answer in answers[:3]] == [201, 200, 200]
        assert answers[4].status == 429
        assert answers[4].json["code"] == "rate-limited"
        assert answers[4].json["lane"] == "operators"
        await world.clock.sleep(int(answers[4].headers["retry-after"]) * 1_000)
        assert (await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), token="tenant-shop")).status == 200

    in_world(story)


def test_a_tenant_cannot_pile_up_more_than_its_bound_of_waiting_replicas() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/tenants/shop", a_tenant(pendingMax=10))
        fits = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=10))
        more = await world.ask("PUT", "/v1/workloads/shop/more", a_workload("more", replicas=1))
        less = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=4))
        assert (fits.status, more.status, less.status) == (201, 429, 200)
        assert more.json["code"] == "too-many-pending"

    in_world(story)
