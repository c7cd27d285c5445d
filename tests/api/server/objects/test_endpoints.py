"""`/v1/endpoints` of a region: what is listed, to whom, and a watch by which a load balancer adds and removes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any

import jsonschema_rs
import pytest

from holdfast.api.openapi.document import description
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from tests.support.api.api_cluster import Part, World, in_world
from tests.support.ledgers.region import CLASSES, REPLICA, a_principal, a_template, an_assignment

LINK, ENDPOINTS = "controller/link", "controller/endpoints"
SERVES = "selector=phase%3Dserving"


class Listing:
    """A region with workloads web and api of tenant acme, and one of beta; each has two replicas, with a port."""

    def __init__(self, world: World, part: Part) -> None:
        self.world = world
        self.part = part
        self.number = 0

    async def set_up(self) -> Listing:
        template = a_template(cpu=10, memory=10, ports=1)
        digest = template_digest(template)
        rows = (("web", "acme"), ("api", "acme"), ("web", "beta"))
        works = [
            an_assignment(100 + n, n, template, 2, tenant=tenant, workload_name=name)
            for n, (name, tenant) in enumerate(rows, start=1)
        ]
        ends = self.world.clock.wall() + 10**9
        grants = [c.ShippedGrant(f"quota/{tenant}", 1, Resources(10**6, 10**6, 0), ends) for tenant in ("acme", "beta")]
        people = [
            a_principal("tenant/acme", Permission.READ, tenant="acme"),
            a_principal("tenant/beta", Permission.READ, tenant="beta"),
            a_principal("person/blind"),
        ]
        tokens = [self.world._token(one.meta.name.replace("/", "-"), one.meta.name) for one in people]
        puts: tuple[Any, ...] = (
            *(c.ShippedPriorityClass(one) for one in CLASSES), c.ShippedTemplate(digest, template), *grants,
            *(c.ShippedPrincipal(one) for one in people),
            *(c.ShippedToken(one) for one in tokens), *(c.ShippedAssignment(one) for one in works),
        )  # fmt: skip
        await self.part.submit(LINK, c.Ship("log-platform", 1, 1, 2, puts))
        await self.part.submit("agent/n1", OpenSession())
        await self.register("10.0.0.7")
        node, port = self.part.state.node_names["n1"], 30_000
        groups = []
        for one in works:
            await self.part.submit(REPLICA, c.OpenSlots(one.uid, digest, (0, 1)))
            groups.append(
                c.PlacementGroup(one.uid, digest, tuple(c.SlotPlacement(n, node, (), (port + n,)) for n in (0, 1)))
            )
            port += 2
        now = self.world.clock.wall()
        await self.part.submit("controller/scheduler", c.Propose(tuple(groups), now + 5_000))
        everything = [(workload, n) for workload in (1, 2, 3) for n in (0, 1)]
        for target, cause in ((Phase.STARTING, "started"), (Phase.RUNNING, "running")):
            await self.agent(target, cause, *everything)
        return self

    async def register(self, address: str) -> None:
        capacity = Resources(10**5, 10**5, 10**5)
        node = c.RegisterNode("n1", "general", "a", capacity, ports=(30_000, 30_009), address=address)
        await self.send(node)

    async def send(self, command: Any) -> None:
        self.number += 1
        session = self.part.state.session_of["agent/n1"]
        await self.part.submit("agent/n1", command, session=session, sequence=self.number)

    def moves(self, target: Phase, cause: str, *keys: tuple[int, int]) -> c.Move:
        slots = self.part.state.slots
        return c.Move(tuple(c.MoveSlot(key, slots[key].epoch, target, cause) for key in keys))

    async def agent(self, target: Phase, cause: str, *keys: tuple[int, int]) -> None:
        await self.send(self.moves(target, cause, *keys))

    async def ready(self, *keys: tuple[int, int]) -> None:
        await self.agent(Phase.READY, "probe-passed", *keys)

    async def publish(self, *keys: tuple[int, int]) -> None:
        await self.part.submit(ENDPOINTS, self.moves(Phase.SERVING, "published", *keys))

    async def withdraw(self, *keys: tuple[int, int]) -> None:
        await self.part.submit(ENDPOINTS, self.moves(Phase.READY, "withdrawn", *keys))

    async def listed(self, query: str = "", token: str = "operator") -> dict[str, str]:
        """The phase of each that is listed, by its name."""
        answer = await self.world.ask("GET", f"/v1/endpoints?{query}", to="r-eu", token=token)
        assert answer.status == 200, answer
        return {
            f"{one['metadata']['tenant']}/{one['metadata']['name']}": one["status"]["phase"]
            for one in answer.json["items"]
        }


def told(story: Callable[[Listing], Coroutine[Any, Any, None]]) -> None:
    async def begin(world: World) -> None:
        await story(await Listing(world, await world.region("eu")).set_up())

    in_world(begin)


# The list


def test_what_is_ready_or_serves_is_listed_with_its_address() -> None:
    async def story(region: Listing) -> None:
        assert await region.listed() == {}
        await region.ready((1, 0), (1, 1))
        await region.publish((1, 1))
        assert await region.listed() == {"acme/web/eu/0": "ready", "acme/web/eu/1": "serving"}
        answer = await region.world.ask("GET", "/v1/endpoints/acme/web/eu/1", to="r-eu")
        status = answer.json["status"]
        assert (status["addresses"], status["node"], status["zone"]) == (["10.0.0.7:30001"], "n1", "a")
        schema = description("region")["components"]
        jsonschema_rs.validate({"components": schema, "$ref": "#/components/schemas/EndpointShown"}, answer.json)

    told(story)


def test_of_a_node_without_an_address_nothing_is_listed() -> None:
    async def story(region: Listing) -> None:
        await region.ready((1, 0))
        await region.register("")
        assert await region.listed() == {}
        assert (await region.world.ask("GET", "/v1/endpoints/acme/web/eu/0", to="r-eu")).status == 404

    told(story)


def test_it_is_asked_for_by_workload_and_by_phase() -> None:
    async def story(region: Listing) -> None:
        await region.ready((1, 0), (1, 1), (2, 0), (3, 0))
        await region.publish((1, 1), (3, 0))
        assert await region.listed("workload=api") == {"acme/api/eu/0": "ready"}
        assert await region.listed("workload=acme/web") == {"acme/web/eu/0": "ready", "acme/web/eu/1": "serving"}
        assert await region.listed("workload=web&tenant=beta") == {"beta/web/eu/0": "serving"}
        assert await region.listed(f"workload=web&{SERVES}") == {
            "acme/web/eu/1": "serving",
            "beta/web/eu/0": "serving",
        }
        odd = await region.world.ask("GET", "/v1/endpoints?workload=acme/web&tenant=beta", to="r-eu")
        assert (odd.status, odd.json["code"]) == (422, "contradictory")

    told(story)


@pytest.mark.parametrize("odd", ["", "a%1Cb", "a/b/c", "/web", "acme/"])
@pytest.mark.parametrize("route", ["endpoints", "queue"])
def test_a_workload_that_none_can_be_called_is_refused_and_not_looked_for(route: str, odd: str) -> None:
    async def story(region: Listing) -> None:
        found = await region.world.ask("GET", f"/v1/{route}?workload={odd}", to="r-eu")
        assert (found.status, found.json["code"]) == (400, "unreadable")

    told(story)


def test_a_tenant_sees_its_own_and_who_may_not_read_sees_nothing() -> None:
    async def story(region: Listing) -> None:
        await region.ready((1, 0), (3, 0))
        assert await region.listed(token="tenant-acme") == {"acme/web/eu/0": "ready"}
        denied = await region.world.ask("GET", "/v1/endpoints?tenant=beta", to="r-eu", token="tenant-acme")
        assert denied.status == 403
        blind = await region.world.ask("GET", "/v1/endpoints", to="r-eu", token="person-blind")
        assert blind.status == 403

    told(story)


# The watch


async def lines(source: Any, count: int) -> list[tuple[str, str]]:
    """What the next lines that are not bookmarks say, and of whom."""
    found: list[tuple[str, str]] = []
    while len(found) < count:
        line = await anext(source)
        if line["type"] != "BOOKMARK":
            found.append((line["type"], line["object"]["metadata"]["name"]))
    return found


def test_a_watch_of_what_serves_says_what_to_add_and_what_to_remove() -> None:
    async def story(region: Listing) -> None:
        await region.ready((1, 0), (1, 1))
        await region.publish((1, 0))
        path = f"/v1/endpoints?workload=acme/web&{SERVES}&watch=true&initial=true"
        async with aclosing(region.world.watch(path, to="r-eu")) as source:  # type: ignore[type-var]
            assert await lines(source, 1) == [("ADDED", "web/eu/0")]
            await region.publish((1, 1))
            assert await lines(source, 1) == [("MODIFIED", "web/eu/1")]
            await region.withdraw((1, 0))
            assert await lines(source, 1) == [("DELETED", "web/eu/0")]
            await region.agent(Phase.FAILED, "exit", (1, 1))
            assert await lines(source, 1) == [("DELETED", "web/eu/1")]
            await region.publish((1, 0))
            assert await lines(source, 1) == [("MODIFIED", "web/eu/0")]

    told(story)


def test_whoever_watches_everything_is_told_only_of_what_is_or_was_listed() -> None:
    async def story(region: Listing) -> None:
        async with aclosing(region.world.watch("/v1/endpoints?watch=true", to="r-eu")) as source:  # type: ignore[type-var]
            assert (await anext(source))["type"] == "BOOKMARK"
            await region.agent(Phase.FAILED, "exit", (1, 1))
            await region.ready((1, 0))
            await region.agent(Phase.RUNNING, "probe-lost", (1, 0))
            await region.ready((3, 1))
            assert await lines(source, 3) == [
                ("MODIFIED", "web/eu/0"),
                ("DELETED", "web/eu/0"),
                ("MODIFIED", "web/eu/1"),
            ]

    told(story)


def test_a_node_that_is_reached_elsewhere_is_told_of() -> None:
    async def story(region: Listing) -> None:
        await region.ready((1, 0))
        async with aclosing(region.world.watch("/v1/endpoints?watch=true", to="r-eu")) as source:  # type: ignore[type-var]
            assert (await anext(source))["type"] == "BOOKMARK"
            await region.register("10.0.0.8")
            line = await anext(source)
            assert line["object"]["status"]["addresses"] == ["10.0.0.8:30000"]
            await region.register("")
            assert await lines(source, 1) == [("DELETED", "web/eu/0")]

    told(story)


def test_a_watch_resumes_where_it_broke() -> None:
    async def story(region: Listing) -> None:
        await region.ready((1, 0), (1, 1))
        await region.publish((1, 0), (1, 1))
        answer = await region.world.ask("GET", f"/v1/endpoints?{SERVES}", to="r-eu")
        token = answer.json["metadata"]["token"]
        await region.agent(Phase.FAILED, "exit", (1, 1))
        path = f"/v1/endpoints?{SERVES}&watch=true&since={token}"
        async with aclosing(region.world.watch(path, to="r-eu")) as source:  # type: ignore[type-var]
            assert await lines(source, 1) == [("DELETED", "web/eu/1")]

    told(story)
