"""What an agent can enforce between tenants: registered in each of its lives, and what takes more is refused by it."""

from __future__ import annotations

import logging

import pytest
from msgspec.structs import replace

from holdfast.agent.admission import BindingAdmission
from holdfast.agent.drivers.driver import Capabilities, LimitMethod, enforced_capabilities
from holdfast.agent.drivers.simulated import EVERYTHING, ONE_USER
from holdfast.core.agent.bindings import BoundSlot
from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.workloads import DriverKind
from holdfast.core.model.records.breaches import REGION_ALLOWED
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import RegisterNode
from tests.support.api.api_cluster import World, in_world
from tests.support.hosts.agent_world import Node, a_region, bind
from tests.support.ledgers.region import a_template

STRICT_WORK = a_template(cpu=100, isolation=Isolation.STRICT)
PLAIN = a_template(cpu=100)
NODE = RegisterNode("n1", "p", "a", Resources(1, 1, 1), shares_user=False)


def a_bound(number: int, tenant: str, phase: Phase = Phase.BOUND, template: str = "plain") -> BoundSlot:
    return BoundSlot((number, 0), 1, phase, "", template, f"{tenant}/w", tenant, 1, 1)


def refused(node: RegisterNode, *bound: BoundSlot) -> dict[int, str]:
    """By number of the workload: why the agent of a node does not take it."""
    templates = {"plain": PLAIN, "strict": STRICT_WORK}
    found = BindingAdmission(node, (*DriverKind,)).of(bound, templates, 0)
    return {slot[0]: why.partition(":")[0] for (slot, _), (why, _) in found.items()}


def test_only_what_the_kernel_keeps_counts_as_enforced() -> None:
    assert enforced_capabilities(EVERYTHING) == tuple(sorted(Capability))
    assert enforced_capabilities(ONE_USER) == ()
    sampled = Capabilities(
        LimitMethod.SAMPLED,
        LimitMethod.CGROUP,
        LimitMethod.NOT_LIMITED,
        LimitMethod.SAMPLED,
        whole=True,
        users=True,
        namespaces=False,
    )
    assert enforced_capabilities(sampled) == (Capability.CPU_LIMIT, Capability.USERS)


def test_an_agent_registers_what_its_driver_can_enforce_in_each_of_its_lives() -> None:
    async def main(world: World) -> None:
        region = await a_region(world, STRICT_WORK)
        node = Node(world, region).start()
        await node.is_known()
        assert region.state.nodes[node.uid].capabilities == tuple(sorted(Capability))
        await bind(region, node, 0)
        await world.until(lambda: node.running() == [0])
        await node.kill()
        node.machine.can = ONE_USER
        node.start()
        await node.is_known()
        assert region.state.nodes[node.uid].capabilities == ()
        assert region.state.breaches[REGION_ALLOWED, f"node/{node.uid}"].overshoot == 1
        await node.kill()

    in_world(main)


def test_heartbeats_tell_nothing_of_it() -> None:
    async def main(world: World) -> None:
        region = await a_region(world)
        node = Node(world, region).start()
        await node.is_known()
        await world.clock.sleep(1_000)
        before = region.state.info.seq
        await world.clock.sleep(20_000)
        assert region.state.info.seq - before <= 1, "nothing is logged of a node that goes on as it was"
        await node.kill()

    in_world(main)


def test_an_agent_refuses_strict_work_that_it_cannot_isolate() -> None:
    strict = a_bound(1, "acme", template="strict")
    assert refused(NODE, strict) == {1: Code.ISOLATION.value}
    assert refused(replace(NODE, capabilities=STRICT), strict) == {}
    assert template_digest(STRICT_WORK) != template_digest(PLAIN)


def test_an_agent_with_one_user_for_all_begins_nothing_beside_the_work_of_another_tenant() -> None:
    runs = a_bound(1, "acme", Phase.SERVING)
    assert refused(NODE, runs, a_bound(2, "beta"), a_bound(3, "acme")) == {2: Code.ONE_TENANT.value}
    assert refused(NODE, a_bound(1, "acme"), a_bound(2, "beta"), a_bound(3, "acme")) == {2: Code.ONE_TENANT.value}
    assert refused(replace(NODE, shares_user=True), runs, a_bound(2, "beta")) == {}
    assert refused(replace(NODE, capabilities=(Capability.USERS,)), runs, a_bound(2, "beta")) == {}


def test_what_runs_already_is_left_to_the_region() -> None:
    assert refused(NODE, a_bound(1, "acme", Phase.SERVING), a_bound(2, "beta", Phase.SERVING)) == {}


def test_an_agent_of_one_tenant_takes_no_other() -> None:
    mine = replace(NODE, tenant="acme")
    assert refused(mine, a_bound(1, "beta"), a_bound(2, "acme")) == {1: Code.TENANCY.value}


@pytest.mark.parametrize(
    ("can", "shares", "warned"),
    [
        (EVERYTHING, False, []),
        (EVERYTHING, True, []),
        (ONE_USER, False, ["the agent is not root"]),
        (ONE_USER, True, ["the agent is not root", "all tenants run as the agent's user"]),
    ],
)
def test_an_agent_warns_at_its_start_of_each_thing_that_it_does_not_enforce(
    can: Capabilities, shares: bool, warned: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def main(world: World) -> None:
        region = await a_region(world)
        node = Node(world, region)
        node.machine.can, node.shares_user = can, shares
        node.start()
        await node.is_known()
        await node.kill()

    with caplog.at_level(logging.WARNING, "holdfast.agent"):
        in_world(main)
    said = [record.getMessage() for record in caplog.records if "not-enforced" in record.getMessage()]
    assert len(said) == len(warned)
    for line, why in zip(said, warned, strict=True):
        assert why in line
