"""`/v1/quota`: how quotas stand, to whom it may be told."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.region_reports import Nodes, RegionSummary
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from tests.support.api.api_cluster import V1, Part, World, a_shop, a_tenant, in_world


def a_quota(tenant: str, cpus: int) -> dict[str, Any]:
    return {"apiVersion": V1, "kind": "Quota", "metadata": {"name": tenant}, "spec": {"hard": {"cpu": cpus}}}


async def two_tenants(world: World) -> Part:
    """shop with 4 cpu, of which 2 are lent to eu and 1500m used there, and bank with 6; eu has 8."""
    part = await a_shop(world)
    await world.ask("PUT", "/v1/tenants/bank", a_tenant("bank"))
    region = {"apiVersion": V1, "kind": "Region", "metadata": {"name": "eu"}, "spec": {}}
    for path, body in (
        ("/v1/quotas/shop", a_quota("shop", 4)),
        ("/v1/quotas/bank", a_quota("bank", 6)),
        ("/v1/regions/eu", region),
    ):
        assert (await world.ask("PUT", path, body)).status == 201
    await world.principal(part, "region/eu")
    await part.submit("region/eu", OpenSession())
    session = part.state.session_of["region/eu"]
    cpu = Resources(cpu=8_000)
    nodes = Nodes("general", (), (), (), (), 1, cpu, cpu, (cpu,), (cpu,))
    told = RegionSummary((nodes,), (("quota/shop", Resources(cpu=1_500)),))
    await part.submit("region/eu", p.JoinRegion("eu", "log-eu"), session=session, sequence=1)
    ends = world.clock.wall() + 60_000
    await part.submit("controller/grant", p.OfferGrant("quota/shop", "eu", Resources(cpu=2_000), ends))
    settled = p.AcknowledgeGrant("quota/shop", 1, Resources(cpu=2_000))
    await part.submit("region/eu", settled, session=session, sequence=2)
    await part.submit("region/eu", p.Report("eu", 5, summary=told), session=session, sequence=3)
    return part


def test_an_operator_is_told_of_all_tenants_and_of_what_was_promised_in_vain() -> None:
    async def story(world: World) -> None:
        await two_tenants(world)
        found = (await world.ask("GET", "/v1/quota")).json
        assert [one["tenant"] for one in found["items"]] == ["bank", "shop"]
        shop = found["items"][1]
        assert (shop["hard"], shop["granted"], shop["charged"]) == ({"cpu": 4}, {"cpu": 2}, {"cpu": "1500m"})
        (eu,) = shop["regions"]
        assert (eu["region"], eu["target"], eu["settled"], eu["health"]) == ("eu", {"cpu": 2}, {"cpu": 2}, "healthy")
        assert eu["reportedMsAgo"] < 60_000
        wanted = "the quotas of all tenants promise 10 cpu; the regions that have reported have 8 cpu"
        assert found["warnings"] == [wanted]

    in_world(story)


def test_a_tenant_is_told_of_itself_alone_and_not_of_what_all_were_promised() -> None:
    async def story(world: World) -> None:
        part = await two_tenants(world)
        await world.principal(part, "tenant/shop", Permission.READ)
        found = (await world.ask("GET", "/v1/quota", token="tenant-shop")).json
        assert [one["tenant"] for one in found["items"]] == ["shop"]
        assert found["warnings"] == []
        assert (await world.ask("GET", "/v1/quota/shop", token="tenant-shop")).json["items"] == found["items"]
        refused = await world.ask("GET", "/v1/quota/bank", token="tenant-shop")
        assert (refused.status, refused.json["code"]) == (403, "wrong-scope")

    in_world(story)


def test_a_person_who_may_not_see_other_tenants_sees_none() -> None:
    async def story(world: World) -> None:
        part = await two_tenants(world)
        await world.principal(part, "person/helper", Permission.READ)
        assert (await world.ask("GET", "/v1/quota", token="person-helper")).json["items"] == []
        assert (await world.ask("GET", "/v1/quota/shop", token="person-helper")).status == 403
        await world.principal(part, "person/stranger")
        assert (await world.ask("GET", "/v1/quota", token="person-stranger")).status == 403

    in_world(story)


def test_a_tenant_without_a_quota_is_not_found() -> None:
    async def story(world: World) -> None:
        await two_tenants(world)
        answer = await world.ask("GET", "/v1/quota/nobody")
        assert (answer.status, answer.json["code"]) == (404, "not-found")

    in_world(story)


def test_a_region_has_no_quotas_to_tell_of() -> None:
    async def story(world: World) -> None:
        await world.region()
        assert (await world.ask("GET", "/v1/quota", to="r-eu")).status == 404

    in_world(story)
