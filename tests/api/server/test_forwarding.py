"""Several servers: followers serve reads and hand commands on; the platform reaches regions."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.revision import format_revision
from holdfast.core.model.objects.isolation import Capability
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.host.ledger.ledger import Role
from holdfast.host.ports.transport import Reply, Request
from holdfast.stores.memory import MemoryStore
from tests.support.api.api_cluster import OPERATOR, Part, World, a_class, a_shop, a_tenant, a_workload, in_world


async def two(world: World) -> tuple[Part, Part]:
    """A leader and a follower over one store."""
    store = MemoryStore("shared")
    first = await world.platform("p1", store)
    second = world.part("p2", PLATFORM, store, StartLog("log-platform", "platform", OPERATOR))
    await second.start().follows()
    await world.ask("PUT", "/v1/priorityclasses/standard", a_class())
    await world.ask("PUT", "/v1/tenants/shop", a_tenant())
    await world.until(lambda: second.is_known() and second.state.info.seq == first.state.info.seq)
    return first, second


def test_a_follower_hands_commands_on_to_the_leader() -> None:
    async def story(world: World) -> None:
        first, _ = await two(world)
        answer = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), to="p2")
        assert answer.status == 201
        assert answer.headers["holdfast-server"] == "p1"
        assert len(first.state.workloads) == 1

    in_world(story)


def test_a_repeat_at_another_server_gets_the_first_answer() -> None:
    async def story(world: World) -> None:
        first, _ = await two(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), to="p1", key="same")
        seq = first.state.info.seq
        again = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), to="p2", key="same")
        assert again.headers["holdfast-repeated"] == "true"
        assert first.state.info.seq == seq

    in_world(story)


def test_a_follower_serves_reads_as_fresh_as_asked_for() -> None:
    async def story(world: World) -> None:
        await two(world)
        written = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), to="p1")
        level = f"at-least={written.headers['holdfast-token']}"
        read = await world.ask("GET", "/v1/workloads/shop/web", to="p2", holdfast_read=level)
        linear = await world.ask("GET", "/v1/workloads/shop/web", to="p2", holdfast_read="linear")
        assert (read.status, linear.status) == (200, 200)
        assert read.headers["holdfast-role"] == "following"
        assert read.headers["holdfast-leader"] == "p1"

    in_world(story)


def test_a_follower_serves_watches() -> None:
    async def story(world: World) -> None:
        await two(world)
        async with aclosing(world.watch("/v1/workloads?watch=true", to="p2")) as source:  # type: ignore[type-var]
            await anext(source)
            await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), to="p1")
            line = await anext(source)
            while line["type"] == "BOOKMARK":
                line = await anext(source)
        assert line["type"] == "ADDED"

    in_world(story)


def test_when_the_leader_is_gone_a_follower_says_so_until_somebody_leads() -> None:
    async def story(world: World) -> None:
        first, second = await two(world)
        await first.stop()
        refused = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), to="p2")
        assert refused.status == 503
        assert refused.json["code"] == "not-leading"
        assert "retry-after" in refused.headers
        await second.leads()
        assert (await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), to="p2")).status == 201

    in_world(story)


def a_region_at(address: str) -> dict[str, Any]:
    return {"kind": "Region", "metadata": {"name": "eu"}, "spec": {"jurisdiction": "eu", "address": address}}


async def reports(platform: Part, world: World, address: str) -> None:
    """Region eu joins, and says where it is."""
    await world.until(platform.is_known)
    await world.principal(platform, "region/eu")
    await platform.submit("region/eu", OpenSession())
    session = platform.state.session_of["region/eu"]
    await platform.submit("region/eu", p.JoinRegion("eu", "log-eu", address), session=session, sequence=1)


def test_status_warns_of_a_region_that_claims_a_place_which_nobody_has_signed_and_the_platform_goes_on() -> None:
    async def story(world: World) -> None:
        platform = await a_shop(world)
        await world.ask("PUT", "/v1/regions/eu", a_region_at(""))
        await reports(platform, world, "")
        session = format_revision(platform.state.session_of["region/eu"])
        log_id = platform.state.info.log_id
        where = f"/v1/shipments?log={log_id}&term=1&cursor=999999.0&session={session}&proof=1"
        refused = await world.ask("GET", where, token="region-eu")
        assert (refused.status, refused.json["code"]) == (409, "diverged")
        (warning,) = (await world.ask("GET", "/v1/status")).json["warnings"]
        assert f"region eu requests what follows {log_id}:1:999999" in warning
        await world.principal(platform, "person/late")
        assert platform.ledger.role is Role.LEADING

    in_world(story)


def test_nothing_is_sent_to_an_address_that_only_the_region_has_told() -> None:
    async def story(world: World) -> None:
        platform = await a_shop(world)
        heard: list[Request] = []

        async def listen(request: Request) -> Reply:
            heard.append(request)
            return Reply()

        world.network.join("elsewhere").serve(listen)
        assert (await world.ask("PUT", "/v1/regions/eu", a_region_at(""))).status == 201
        await reports(platform, world, "https://elsewhere")
        refused = await world.ask("GET", "/v1/in/eu/nodes")
        assert (refused.status, refused.json["code"]) == (502, "region-unreachable")
        assert "holdfast region set-address eu URL" in refused.json["detail"]
        shown = (await world.ask("GET", "/v1/regions/eu")).json
        assert shown["status"]["address"] == "https://elsewhere"
        status = (await world.ask("GET", "/v1/status")).json
        assert status["warnings"] == [
            "region eu reports the address https://elsewhere, but its spec has none: nothing is sent there"
        ]
        await world.ask("PUT", "/v1/regions/eu", a_region_at("https://r-eu"))
        await world.ask("GET", "/v1/in/eu/nodes")
        status = (await world.ask("GET", "/v1/status")).json
        assert status["warnings"] == [
            "region eu reports the address https://elsewhere, but its spec has https://r-eu: requests go to the latter"
        ]
        (told,) = status["regions"]
        assert (told["address"], told["reportedAddress"]) == ("https://r-eu", "https://elsewhere")
        assert heard == []

    in_world(story)


def test_an_address_is_a_url_of_a_server_and_plain_only_on_this_machine() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        for wrong in ("r-eu", "http://eu.example", "https://eu.example/v1", "https://me:secret@eu.example"):
            refused = await world.ask("PUT", "/v1/regions/eu", a_region_at(wrong))
            assert (refused.status, refused.json["code"]) == (422, "malformed"), wrong
            assert "secret" not in refused.body.decode()
        for right in ("https://eu.example:7400", "http://127.0.0.1:7400", ""):
            assert (await world.ask("PUT", "/v1/regions/eu", a_region_at(right))).status in (200, 201), right

    in_world(story)


def test_the_platform_reaches_a_region_through_the_address_in_its_spec() -> None:
    async def story(world: World) -> None:
        platform = await a_shop(world)
        await world.region("eu")
        assert (await world.ask("PUT", "/v1/regions/eu", a_region_at("https://r-eu"))).status == 201
        await reports(platform, world, "https://r-eu")
        assert (await world.ask("GET", "/v1/status")).json["warnings"] == []
        found = await world.ask("GET", "/v1/in/eu/nodes")
        assert found.status == 200
        assert found.headers["holdfast-ledger"] == "region/eu"
        await world.parts[-1].stop()
        dark = await world.ask("GET", "/v1/in/eu/nodes")
        assert dark.status == 502
        assert dark.json["code"] == "region-unreachable"
        assert "last contact at" in dark.json["detail"] or "no contact yet" in dark.json["detail"]
        assert (await world.ask("GET", "/v1/in/nowhere/nodes")).status == 404

    in_world(story)


def test_observed_generation_is_behind_and_catches_up() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        created = (await world.ask("PUT", "/v1/workloads/shop/web", a_workload())).json
        fits = next(one for one in created["status"]["conditions"] if one["type"] == "Fits")
        assert (fits["status"], fits["reason"]) == ("unknown", "not-yet-known")
        uid = part.state.workload_names["shop/web"]
        await part.submit("controller/status", p.ReportStatus(uid, 1, 2, 2, 2))
        changed = (await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=3))).json
        assert (changed["metadata"]["generation"], changed["status"]["observedGeneration"]) == (2, 1)
        await part.submit("controller/status", p.ReportStatus(uid, 2, 3, 3, 3))
        caught_up = (await world.ask("GET", "/v1/workloads/shop/web")).json
        assert caught_up["status"]["observedGeneration"] == 2

    in_world(story)


def test_finalizers_hold_a_workload_until_its_region_has_released_it() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        spec = {"kind": "Region", "metadata": {"name": "eu"}, "spec": {"jurisdiction": "eu"}}
        await world.ask("PUT", "/v1/regions/eu", spec)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        await world.principal(part, "region/eu")
        await part.submit("region/eu", OpenSession())
        session = part.state.session_of["region/eu"]
        await part.submit("region/eu", p.JoinRegion("eu", "log-eu", "r-eu"), session=session, sequence=1)
        uid = part.state.workload_names["shop/web"]
        template = part.state.templates_of[uid][0]
        assign = p.Assign(uid, "eu", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, (Share(template, 2),))
        await part.submit("controller/assignment", assign)
        ended = await world.ask("DELETE", "/v1/workloads/shop/web")
        assert ended.headers["holdfast-outcome"] == "deleting"
        assert ended.json["metadata"]["deletion"]["by"] == OPERATOR
        assert ended.json["metadata"]["finalizers"][0]["owner"] == "region/eu"
        held = (await world.ask("GET", "/v1/workloads")).json["items"]
        assert [item["metadata"]["name"] for item in held] == ["web"]
        assignment = part.state.assignments_of[uid][0]
        await part.submit("region/eu", p.RemoveAssignment(assignment), session=session, sequence=2)
        assert (await world.ask("GET", "/v1/workloads")).json["items"] == []

    in_world(story)


def test_status_tells_who_leads_how_old_it_is_and_what_waits() -> None:
    async def story(world: World) -> None:
        await two(world)
        leading = (await world.ask("GET", "/v1/status", to="p1")).json
        following = (await world.ask("GET", "/v1/status", to="p2")).json
        assert (leading["leader"], following["leader"]) == ("p1", "p1")
        assert (leading["role"], following["role"]) == ("leading", "following")
        assert [lane["lane"] for lane in leading["lanes"]] == [
            "proofs", "reports", "operators", "reconcilers", "proposals", "reads",
        ]  # fmt: skip
        assert leading["degraded"] == []
        ready = await world.ask("GET", "/readyz", token="")
        assert ready.status == 200

    in_world(story)


def test_status_warns_of_nodes_on_which_tenants_share_a_user_and_tokens_can_be_read() -> None:
    async def story(world: World) -> None:
        region = await world.region()
        capacity = Resources(1_000, 1_024, 1_024)
        apart = {"capabilities": (Capability.USERS,), "shares_user": False}
        for name, said in (("n1", {"shares_user": True}), ("n2", {"shares_user": False}), ("n3", apart)):
            await region.submit(f"agent/{name}", OpenSession())
            node = c.RegisterNode(name, "general", "a", capacity, **said)
            session = region.state.session_of[f"agent/{name}"]
            await region.submit(f"agent/{name}", node, session=session, sequence=1)
        found = (await world.ask("GET", "/v1/status", to=region.name)).json
        of_nodes = [said for said in found["warnings"] if not said.startswith("token ")]
        assert of_nodes == [
            "replicas can read the token of the agent on 2 nodes: n1, n2", "tenants share a user on 1 nodes: n1",
        ]  # fmt: skip
        told = (await world.ask("GET", "/v1/nodes/n1", to=region.name)).json["status"]
        assert {one["type"]: one["reason"] for one in told["conditions"] if one["status"] == "false"} == {
            "TenantsApart": "user-shared", "TokenPrivate": "token-readable",
        }  # fmt: skip
        third = (await world.ask("GET", "/v1/nodes/n3", to=region.name)).json["status"]
        assert third["capabilities"] == ["users"]

    in_world(story)


def test_a_region_that_hangs_is_told_as_unreachable_since_when() -> None:
    async def story(world: World) -> None:
        platform = await a_shop(world)
        await world.ask("PUT", "/v1/regions/eu", a_region_at("https://hanging"))
        await reports(platform, world, "https://hanging")
        hanging = world.network.join("hanging")

        async def never(_request: Request) -> Reply:
            await world.clock.sleep(3_600_000)
            raise AssertionError

        hanging.serve(never)
        read = await world.ask("GET", "/v1/in/eu/nodes", holdfast_timeout_ms="2000")
        assert (read.status, read.json["code"]) == (502, "region-unreachable")
        assert "last contact at" in read.json["detail"]
        write = await world.ask("PUT", "/v1/in/eu/nodes/n1", {}, holdfast_timeout_ms="2000")
        assert (write.status, write.json["code"]) == (503, "outcome-unknown")
        await hanging.close()

    in_world(story)
