"""Nodes that are only declared: what they are, and that a life of theirs follows another."""

from __future__ import annotations

import asyncio

import pytest

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.region.commands import RegisterNode
from holdfast.host.protocol.session_client import SessionConfig
from holdfast.wiring.dev.data_folder import REGIONS, documents_in, example
from holdfast.wiring.dev.simulated_nodes import nodes_of, simulated_agent
from tests.support.api.api_cluster import Part, World, bearer, in_world


@pytest.mark.parametrize("region", REGIONS)
def test_they_are_spread_over_zones_and_over_the_pools_of_the_example(region: str) -> None:
    nodes = nodes_of(region, 6)
    assert len({node.name for node in nodes}) == 6
    assert [node.zone[-1] for node in nodes] == ["a", "b", "c"] * 2
    file = example()
    assert file is not None
    pools = [one for one in documents_in(file) if one["kind"] == "NodePool" and one["spec"]["region"] == region]
    assert {node.pool for node in nodes} == {one["metadata"]["name"] for one in pools}


def test_fewer_are_the_first_of_more() -> None:
    assert nodes_of("us-east", 9)[:2] == nodes_of("us-east", 2)


def test_one_is_registered_kept_alive_and_registered_again_after_its_session() -> None:
    async def story(world: World) -> None:
        region = await world.region()
        wanted = nodes_of("eu-central", 1)[0]
        sender = SessionConfig(
            f"agent/{wanted.name}",
            (region.name,),
            lambda: (("authorization", bearer("agents")), ("holdfast-actor", f"agent/{wanted.name}")),
        )
        node = simulated_agent(world.caller, world.clock, sender, wanted)
        life = asyncio.create_task(node.run())
        await node.is_registered.wait()
        first = the_node(region, wanted)
        await world.clock.sleep(60_000)
        assert the_node(region, wanted) == first, "its session lives"
        await region.submit("controller/node-health", EndSession(first[1], "a test"))
        await world.until(lambda: the_node(region, wanted)[1] > first[1])
        assert the_node(region, wanted)[0] == first[0], "the same node"
        life.cancel()

    in_world(story)


def the_node(region: Part, wanted: RegisterNode) -> tuple[int, int]:
    """Its uid, and its session."""
    uid: int = region.state.node_names[wanted.name]
    return uid, region.state.nodes[uid].session
