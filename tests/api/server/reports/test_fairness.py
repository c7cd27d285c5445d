"""`/v1/fairness`: how tenants share a region, or all regions, and who sees it."""

from __future__ import annotations

from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.fairness import TenantFairness, with_shares
from holdfast.core.model.values.resources import Resources
from tests.api.server.objects.test_endpoints import Listing, told
from tests.api.server.reports.test_quota import a_quota, two_tenants
from tests.support.api.api_cluster import World, in_world


def test_the_platform_tells_of_all_regions_together() -> None:
    async def story(world: World) -> None:
        await two_tenants(world)
        spec = {"hard": {"cpu": 4}, "weight": 3}
        changed = await world.ask("PUT", "/v1/quotas/shop", {**a_quota("shop", 4), "spec": spec})
        assert changed.status == 200
        found = (await world.ask("GET", "/v1/fairness")).json
        (shop,) = found["items"]
        assert (shop["tenant"], shop["weight"], shop["dominantResource"]) == ("shop", 3, "cpu")
        assert (shop["sharePercent"], shop["entitledPercent"]) == (18.75, 100.0)
        assert (shop["charged"], shop["waiting"], shop["oldestSince"]) == ({"cpu": "1500m"}, 0, None)
        assert found["metadata"]["total"] == 1

    in_world(story)


def test_a_weight_outside_its_bounds_is_refused() -> None:
    async def story(world: World) -> None:
        await two_tenants(world)
        for weight in (0, 1_001):
            spec = {"hard": {"cpu": 4}, "weight": weight}
            refused = await world.ask("PUT", "/v1/quotas/shop", {**a_quota("shop", 4), "spec": spec})
            assert (refused.status, refused.json["code"]) == (422, "malformed")

    in_world(story)


def test_a_tenant_sees_its_own_row_and_is_refused_that_of_another_one() -> None:
    async def story(world: World) -> None:
        part = await two_tenants(world)
        await world.principal(part, "tenant/bank", Permission.READ)
        assert (await world.ask("GET", "/v1/fairness", token="tenant-bank")).json["items"] == []
        refused = await world.ask("GET", "/v1/fairness?tenant=shop", token="tenant-bank")
        assert (refused.status, refused.json["code"]) == (403, "wrong-scope")
        await world.principal(part, "person/stranger")
        assert (await world.ask("GET", "/v1/fairness", token="person-stranger")).status == 403

    in_world(story)


def test_a_region_tells_of_itself() -> None:
    async def story(region: Listing) -> None:
        found = (await region.world.ask("GET", "/v1/fairness", to="r-eu")).json["items"]
        assert [(one["tenant"], one["sharePercent"], one["entitledPercent"]) for one in found] == [
            ("acme", 0.04, 50.0),
            ("beta", 0.02, 50.0),
        ]
        own = (await region.world.ask("GET", "/v1/fairness", to="r-eu", token="tenant-acme")).json["items"]
        assert own == found[:1]

    told(story)


def test_what_is_protected_is_a_tenants_own_and_the_rest_is_divided_by_weight() -> None:
    rows = [
        TenantFairness("acme", 3, charged=Resources(5_000, 10), protected=Resources(2_000)),
        TenantFairness("beta", 1, charged=Resources(0, 60)),
    ]
    acme, beta = with_shares(rows, Resources(10_000, 100))
    assert (acme.resource, acme.share, acme.entitled) == ("cpu", 500_000, 200_000 + 600_000)
    assert (beta.resource, beta.share, beta.entitled) == ("memory", 600_000, 200_000)
