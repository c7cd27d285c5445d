"""What waits to be ended or put right, and what is known not to fit: as servers answer it."""

from __future__ import annotations

import jsonschema_rs

from holdfast.api.openapi.document import description
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.model.objects.principals import Permission, Scope
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.region_reports import Nodes, RegionSummary
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from tests.support.api.api_cluster import Answer, Part, World, a_shop, a_tenant, a_workload, in_world


async def deleting(world: World, *tenants: str) -> Part:
    """A platform and region eu, which has not released a deleted workload of each tenant."""
    part = await a_shop(world)
    await world.ask(
        "PUT", "/v1/regions/eu", {"kind": "Region", "metadata": {"name": "eu"}, "spec": {"address": "https://r-eu"}}
    )
    await world.principal(part, "region/eu")
    await part.submit("region/eu", OpenSession())
    session = part.state.session_of["region/eu"]
    await part.submit("region/eu", p.JoinRegion("eu", "log-eu", "r-eu"), session=session, sequence=1)
    for tenant in tenants:
        await world.ask("PUT", f"/v1/tenants/{tenant}", a_tenant(tenant))
        await world.ask("PUT", f"/v1/workloads/{tenant}/web", a_workload(tenant=tenant))
        uid = part.state.workload_names[f"{tenant}/web"]
        share = Share(part.state.templates_of[uid][0], 2)
        await part.submit(
            "controller/assignment", p.Assign(uid, "eu", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, (share,))
        )
        await world.ask("DELETE", f"/v1/workloads/{tenant}/web")
    return part


def keys(answer: Answer) -> list[str]:
    assert answer.status == 200, answer
    return sorted(one["key"] for one in answer.json["items"])


def test_a_deletion_that_hangs_is_told_with_whom_it_waits_for() -> None:
    async def story(world: World) -> None:
        await deleting(world, "shop")
        found = await world.ask("GET", "/v1/repairs")
        (one,) = found.json["items"]
        assert (one["what"], one["owner"], one["overdue"]) == ("deletion", "region/eu", False)
        assert one["deadline"] > one["since"]
        schema = description("platform")["paths"]["/v1/repairs"]["get"]["responses"]["200"]["content"]
        parts = {"components": description("platform")["components"], **schema["application/json"]["schema"]}
        jsonschema_rs.validate(parts, found.json)

    in_world(story)


def test_tenants_see_their_own_and_operators_what_they_may() -> None:
    async def story(world: World) -> None:
        part = await deleting(world, "shop", "bank")
        await world.principal(part, "tenant/shop", Permission.READ, token="shop")
        await world.principal(part, "person/scoped", Permission.READ, token="scoped", scope=Scope(tenant="bank"))
        await world.principal(part, "person/blind", Permission.READ, token="blind")
        await world.principal(part, "person/nobody", Permission.WRITE, token="nobody")
        assert keys(await world.ask("GET", "/v1/repairs")) == ["workload/bank/web", "workload/shop/web"]
        assert keys(await world.ask("GET", "/v1/repairs?tenant=bank")) == ["workload/bank/web"]
        assert keys(await world.ask("GET", "/v1/repairs", token="shop")) == ["workload/shop/web"]
        assert keys(await world.ask("GET", "/v1/repairs", token="scoped")) == ["workload/bank/web"]
        assert keys(await world.ask("GET", "/v1/repairs", token="blind")) == []
        assert (await world.ask("GET", "/v1/repairs?tenant=bank", token="shop")).status == 403
        assert (await world.ask("GET", "/v1/repairs", token="nobody")).status == 403

    in_world(story)


def test_no_more_are_told_than_are_asked_for_and_how_many_there_are() -> None:
    async def story(world: World) -> None:
        await deleting(world, "shop", "bank")
        found = await world.ask("GET", "/v1/repairs?limit=1")
        assert (len(found.json["items"]), found.json["metadata"]["total"]) == (1, 2)

    in_world(story)


def test_a_region_tells_what_hangs_there_through_the_platform() -> None:
    async def story(world: World) -> None:
        await deleting(world)
        await world.region("eu")
        found = await world.ask("GET", "/v1/in/eu/repairs")
        assert (found.headers["holdfast-ledger"], keys(found)) == ("region/eu", [])

    in_world(story)


def test_a_region_that_is_forgotten_completes_the_deletions_that_waited_for_it() -> None:
    async def story(world: World) -> None:
        part = await deleting(world, "shop")
        done = await world.ask("POST", "/v1/commands/retire-region", {"region": "eu", "reason": "scrapped"})
        assert done.status == 200, done
        assert keys(await world.ask("GET", "/v1/repairs")) == []
        assert len(part.state.workloads) == 0

    in_world(story)


def test_a_right_of_a_lost_region_is_freed_as_the_list_says() -> None:
    async def story(world: World) -> None:
        part = await deleting(world)
        document = a_workload("db", exclusive=True, failover="acknowledged", replicas=1)
        stored = await world.ask("PUT", "/v1/workloads/shop/db", document)
        uid = stored.json["metadata"]["uid"]
        await part.submit("controller/assignment", p.GrantRight(part.state.workload_names["shop/db"], 0, "eu"))
        await world.ask("POST", "/v1/commands/declare-lost", {"region": "eu", "reason": "a fire"})
        (one,) = (await world.ask("GET", "/v1/repairs")).json["items"]
        assert "`holdfast region attest eu shop/db 0 --stopped --reason TEXT`" in one["todo"]
        body = {"workload": uid, "ordinal": 0, "region": "us", "reason": "no power"}
        wrong = await world.ask("POST", "/v1/commands/attest-right", body)
        assert (wrong.status, wrong.json["code"]) == (409, "right-held")
        done = await world.ask("POST", "/v1/commands/attest-right", {**body, "region": "eu"})
        assert done.status == 200, done
        assert keys(await world.ask("GET", "/v1/repairs")) == []

    in_world(story)


def test_whether_it_fits_is_answered_with_the_write_itself_and_with_a_dry_run() -> None:
    async def story(world: World) -> None:
        part = await deleting(world)
        size = Resources(cpu=32_000, memory=65_536)
        row = Nodes("small", (), (), (), (), 1, size, size, (size,), (size,))
        session = part.state.session_of["region/eu"]
        report = p.Report("eu", 1, (), RegionSummary(nodes=(row,)))
        await part.submit("region/eu", report, session=session, sequence=2)
        large = {"command": ["serve"], "need": {"cpu": 64}}
        for query in ("?dryRun=All", ""):
            answer = await world.ask("PUT", f"/v1/workloads/shop/web{query}", a_workload(template=large))
            (fits,) = answer.json["status"]["conditions"]
            assert (fits["status"], fits["reason"]) == ("false", "never-fits")
            assert fits["message"] == "needs 64 cpu; the largest node of eu has 32"
        small = (await world.ask("PUT", "/v1/workloads/shop/web", a_workload())).json
        assert [(one["status"], one["observedGeneration"]) for one in small["status"]["conditions"]] == [("true", 2)]
        told = (await world.ask("GET", "/v1/regions/eu")).json["status"]["summary"]
        assert told["nodes"][0]["largest"] == [{"cpu": 32, "memory": "64Gi"}]

    in_world(story)
