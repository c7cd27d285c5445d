"""What a client may rely on, whoever carries its requests: one body for every wire, with real servers at the other end.

Two servers of one platform over one store; where it says so, a region with a link to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

from holdfast.client.async_client import AsyncClient
from holdfast.client.errors import ConflictError, NotFoundError, PermissionDeniedError, RefusedError, UnavailableError
from holdfast.core.model.objects.principals import Permission
from holdfast.core.platform import commands as p
from tests.support.api.api_cluster import OPERATOR, a_class, a_tenant, a_workload
from tests.support.api.cluster_over_transport import ClusterOverTransport, Server, cluster_over_transport
from tests.support.api.transports import WIRES
from tests.support.ledgers.platform import a_principal, a_region


class Two:
    """Two servers of one platform, `first` leads, and a client that knows both, with a tenant that may run work."""

    def __init__(self, world: ClusterOverTransport, first: Server, second: Server, client: AsyncClient) -> None:
        self.world, self.first, self.second, self.client = world, first, second, client

    async def at(self, *servers: Server, **access: Any) -> AsyncClient:
        """A client that knows these servers only."""
        return await self.world.client(*servers, **access)

    async def knows(self, name: str, *rights: Permission) -> str:
        """The name of a token of a principal, which both exist from now on."""
        token = name.replace("/", "-")
        await self.first.submit(OPERATOR, p.Put(a_principal(name, *rights)), key=name)
        await self.first.submit(OPERATOR, p.Put(self.world.token(token, name)), key=token)
        return token


Story = Callable[[Two], Awaitable[None]]
Tell = Callable[[Story], None]


@pytest.fixture(params=sorted(WIRES))
def tell(request: pytest.FixtureRequest) -> Tell:
    """Runs a story about two servers over the wire at hand."""

    def telling(story: Story) -> None:
        async def told(world: ClusterOverTransport) -> None:
            first, second = await world.two()
            client = await world.client(first, second)
            for applied in await client.batch([a_class(), a_tenant()]):
                assert applied.outcome == "created", applied
            await story(Two(world, first, second, client))

        cluster_over_transport(request.param, told)

    return telling


def names(found: Any) -> list[str]:
    return [item["metadata"]["name"] for item in found.items]


# Writing


def test_a_write_is_read_back(tell: Tell) -> None:
    async def story(two: Two) -> None:
        written = await two.client.put(a_workload())
        found = await two.client.get("Workload", "web", "shop")
        assert written.outcome == "created"
        assert found == written.object
        assert found["metadata"]["revision"] == written.revision
        changed = await two.client.edit("Workload", "web", _with_replicas(5), "shop")
        assert (changed.outcome, changed.object["spec"]["replicas"]) == ("configured", 5)
        assert (await two.client.delete("Workload", "web", "shop")).outcome == "deleted"
        with pytest.raises(NotFoundError):
            await two.client.get("Workload", "web", "shop")

    tell(story)


def _with_replicas(count: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda found: {**found, "spec": {**found["spec"], "replicas": count}}


def test_a_write_at_a_follower_is_done_by_the_leader(tell: Tell) -> None:
    async def story(two: Two) -> None:
        client = await two.at(two.second)
        assert (await client.put(a_workload())).outcome == "created"
        assert "shop/web" in two.first.state.workload_names
        assert two.second.ledger.leader is None
        # Its own write is in what it reads, although the follower hears of it a little later.
        assert (await client.get("Workload", "web", "shop"))["spec"]["replicas"] == 2

    tell(story)


def test_a_client_goes_on_with_the_next_leader_and_its_key_makes_a_repeat_harmless(tell: Tell) -> None:
    async def story(two: Two) -> None:
        before = await two.client.put(a_workload(), idempotency_key="once")
        await two.first.stop()
        again = await two.client.put(a_workload(), idempotency_key="once")
        assert two.second.ledger.leader is not None
        assert (again.outcome, again.object["metadata"]["uid"]) == ("created", before.object["metadata"]["uid"])
        assert again.object["metadata"]["generation"] == 1
        with pytest.raises(ConflictError) as reused:
            await two.client.put(a_workload("other"), idempotency_key="once")
        assert reused.value.problem.code == "key-reused"
        assert (await two.client.put(a_workload("other"))).outcome == "created"

    tell(story)


def test_a_write_that_was_under_way_when_the_leader_stopped_is_done_once(tell: Tell) -> None:
    async def story(two: Two) -> None:
        writing = [asyncio.create_task(two.client.put(a_workload(f"w{number}"))) for number in range(5)]
        await asyncio.sleep(0)
        await two.first.stop()
        assert [(await one).outcome for one in writing] == ["created"] * 5
        found = await two.client.list("workloads")
        assert sorted(names(found)) == [f"w{number}" for number in range(5)]
        assert {item["metadata"]["generation"] for item in found.items} == {1}

    tell(story)


def test_a_dry_run_is_judged_and_writes_nothing(tell: Tell) -> None:
    async def story(two: Two) -> None:
        seq = two.first.state.info.seq
        tried = await two.client.put(a_workload(), dry_run=True)
        assert (tried.outcome, tried.object["spec"]["replicas"]) == ("created", 2)
        (batch,) = await two.client.batch([a_workload(priorityClass="none")], dry_run=True)
        assert batch.outcome == "refused"
        with pytest.raises(NotFoundError):
            await two.client.get("Workload", "web", "shop")
        assert two.first.state.info.seq == seq

    tell(story)


def test_commands_are_answered_with_where_they_stand(tell: Tell) -> None:
    async def story(two: Two) -> None:
        await two.first.submit(OPERATOR, p.Put(a_region("eu")), key="eu")
        landed = await two.client.command("declare-lost", region="eu", reason="a fire")
        found = await two.client.get("Region", "eu")
        assert landed.revision
        assert found["status"]["health"] == "lost"
        with pytest.raises(NotFoundError):
            await two.client.command("declare-lost", region="nowhere", reason="a fire")

    tell(story)


# Reading


def test_a_list_joins_its_pages_and_shows_one_moment(tell: Tell) -> None:
    async def story(two: Two) -> None:
        wanted = [f"w{number}" for number in range(7)]
        await two.client.batch([a_workload(name) for name in wanted])
        found = await two.client.list("workloads", limit=3)
        assert names(found) == wanted
        assert found.token.startswith("log-platform:")
        await two.client.put({**a_workload("marked"), "metadata": _marked("marked")})
        assert names(await two.client.list("workloads", selector="tier=back", limit=3)) == ["marked"]

    tell(story)


def _marked(name: str) -> dict[str, Any]:
    return {"name": name, "tenant": "shop", "labels": {"tier": "back"}}


def test_a_read_is_as_fresh_as_it_asks_for(tell: Tell) -> None:
    async def story(two: Two) -> None:
        reader = await two.at(two.second)
        await two.client.put(a_workload())
        token = (await two.client.list("workloads")).token
        assert (await reader.get("Workload", "web", "shop", read=f"at-least={token}"))["kind"] == "Workload"
        await two.client.put(a_workload("api"))
        assert (await reader.get("Workload", "api", "shop", read="linear"))["kind"] == "Workload"
        log_id, term, seq, digest = token.split(":")
        hasty = await two.at(two.second, retry_for_ms=500, timeout_ms=200)
        with pytest.raises(UnavailableError):
            await hasty.get("Workload", "web", "shop", read=f"at-least={log_id}:{term}:{int(seq) + 1_000}:{digest}")

    tell(story)


def test_a_watch_that_is_resumed_at_the_other_server_misses_nothing(tell: Tell) -> None:
    async def story(two: Two) -> None:
        writer, seen = await two.at(two.second, two.first), []
        async with aclosing(two.client.watch("workloads", initial=True)) as events:
            assert (await anext(events)).type == "BOOKMARK"
            await writer.put(a_workload("w0"))
            seen.append(await _named(events))
            await writer.put(a_workload("w1"))
            await two.first.stop()
            for name in ("w2", "w3"):
                await writer.put(a_workload(name))
            await writer.delete("Workload", "w0", "shop")
            seen += [await _named(events) for _ in range(4)]
        assert seen == [("ADDED", "w0"), ("ADDED", "w1"), ("ADDED", "w2"), ("ADDED", "w3"), ("DELETED", "w0")]

    tell(story)


async def _named(events: Any) -> tuple[str, str]:
    async for event in events:
        if event.type != "BOOKMARK":
            return event.type, event.object["metadata"]["name"]
    raise AssertionError("the watch ended")


def test_a_watch_goes_on_from_a_token_at_any_server(tell: Tell) -> None:
    async def story(two: Two) -> None:
        token = (await two.client.list("workloads")).token
        await two.client.put(a_workload("w0"))
        for server in (two.first, two.second):
            client = await two.at(server)
            async with aclosing(client.watch("workloads", since=token)) as events:
                assert await _named(events) == ("ADDED", "w0")

    tell(story)


# Being refused


def test_problems_arrive_typed(tell: Tell) -> None:
    async def story(two: Two) -> None:
        first = await two.client.put(a_workload())
        await two.client.put(a_workload(replicas=3))
        with pytest.raises(ConflictError) as stale:
            await two.client.put(a_workload(replicas=4), if_match=first.revision)
        assert (stale.value.is_stale, stale.value.problem.status) == (True, 412)
        with pytest.raises(RefusedError) as invalid:
            await two.client.put(a_workload(replicas="many", replica=1))
        assert [fault.pointer for fault in invalid.value.problem.errors] == ["/spec/replicas", "/spec/replica"]
        with pytest.raises(NotFoundError):
            await two.client.get("Tenant", "nobody")
        with pytest.raises(PermissionDeniedError) as unknown:
            await (await two.at(two.first, token="nobody")).list("tenants")
        assert unknown.value.problem.status == 401
        token = await two.knows("person/reader", Permission.READ)
        with pytest.raises(PermissionDeniedError) as denied:
            await (await two.at(two.second, token=token)).put(a_tenant("bank"))
        assert denied.value.problem.code == "no-right"

    tell(story)


# Machines


def test_a_machine_opens_a_session_sends_numbered_commands_and_renews(tell: Tell) -> None:
    async def story(two: Two) -> None:
        await two.first.submit(OPERATOR, p.Put(a_region("eu")), key="eu")
        client = await two.at(two.second, two.first, token=await two.knows("region/eu"))
        machine = client.speaker("region/eu")
        session = await machine.open()
        joining = machine.envelope(p.JoinRegion("eu", "log-eu", "here"))
        once, twice = await client.send(joining), await client.send(joining)
        assert once.revision == twice.revision
        assert two.first.state.regions["eu"].status.address == "here"
        renewed = await machine.renew()
        assert 0 < renewed.worth_ms <= 2_000
        assert await machine.open() != session
        with pytest.raises(RefusedError) as ended:
            await client.renew(session)
        assert ended.value.problem.code == "no-session"

    tell(story)


# Regions


async def reached(two: Two, region: Server) -> None:
    """An operator says where the region is, and it knows the platform's servers."""
    address = region.name if "://" in region.name else f"https://{region.name}"
    await two.first.submit(OPERATOR, p.Put(a_region("eu", "EU", address)), key="address")
    await two.world.until(lambda: len(region.state.platform_servers) == 2)
    await two.world.until(lambda: two.second.state.regions["eu"].spec.address == address)


def test_what_a_request_says_reaches_a_region_as_it_was_said(tell: Tell) -> None:
    """What is signed on one side is what is read on the other, whatever carries it."""

    async def story(two: Two) -> None:
        await two.first.submit(OPERATOR, p.Put(a_region("eu", "EU")), key="eu")
        await two.knows("region/eu")
        region = await two.world.region("eu", two.first, two.second)
        await reached(two, region)
        for one in (two.first, two.second):
            there = (await two.at(one)).region("eu")
            assert names(await there.list("nodes", selector="a/b.c=d e,f!=&%2B+ü")) == []
            for name in ("n1", "ü n/1?#", "%2F", "a+b", "..;"):
                with pytest.raises(NotFoundError):
                    await there.get("Node", name)
            with pytest.raises(NotFoundError):
                await there.put({"kind": "Node", "metadata": {"name": "n1"}, "spec": {"note": "ü\n"}})
            assert (await there.whoami())["via"].startswith("platform/")

    tell(story)


def test_a_region_hears_of_people_and_is_reached_through_the_platform_until_it_is_dark(tell: Tell) -> None:
    async def story(two: Two) -> None:
        await two.first.submit(OPERATOR, p.Put(a_region("eu", "EU")), key="eu")
        await two.knows("region/eu")
        region = await two.world.region("eu", two.first, two.second)
        token = await two.knows("person/oncall", Permission.READ)
        await two.world.until(lambda: region.state.tokens.get(token) is not None)
        oncall = await two.at(region, token=token)
        assert (await oncall.whoami())["principal"] == "person/oncall"
        assert (await oncall.status())["platform"]["degradedReason"] == ""
        there = two.client.region("eu")
        with pytest.raises(UnavailableError) as nowhere:
            await (await two.at(two.first, retry_for_ms=300)).region("eu").status()
        assert "has no address" in nowhere.value.problem.detail
        await reached(two, region)
        assert (await there.status())["ledger"] == "region/eu"
        assert names(await there.list("nodes")) == []
        await region.stop()
        hasty = await two.at(two.first, retry_for_ms=300)
        with pytest.raises(UnavailableError) as dark:
            await hasty.region("eu").list("nodes")
        problem = dark.value.problem
        assert (problem.code, problem.status, problem.facts["region"]) == ("region-unreachable", 502, "eu")
        assert "region eu is unreachable, last contact at 20" in problem.detail

    tell(story)


def test_status_says_how_old_a_regions_word_and_summary_are_and_how_far_it_is_behind(tell: Tell) -> None:
    async def story(two: Two) -> None:
        await two.first.submit(OPERATOR, p.Put(a_region("eu", "EU")), key="eu")
        (before,) = (await two.client.status())["regions"]
        assert (before["summaryMsAgo"], before["behind"], before["lastContactMsAgo"]) == (None, None, None)
        await two.knows("region/eu")
        await two.world.region("eu", two.first, two.second)
        status = two.first.state.regions
        await two.world.until(lambda: "eu" in two.first.state.summaries and status["eu"].status.cursor > 0)
        (after,) = (await (await two.at(two.first)).status())["regions"]
        assert 0 <= after["summaryMsAgo"] < 10_000
        assert 0 <= after["lastContactMsAgo"] < 10_000
        assert 0 <= after["behind"] <= two.first.state.info.seq

    tell(story)
