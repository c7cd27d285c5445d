"""The scheduler's filters, the ledger's gates and the agent say the same of any node and request.

A row that passes has devices and ports that the scheduler picks and the ledger takes; a row that does not has none.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.agent.admission import BindingAdmission
from holdfast.core.agent.bindings import BoundSlot, bindings_of_node
from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.workloads import DriverKind
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage
from holdfast.core.model.records.nodes import Node
from holdfast.core.region.commands import RegisterNode
from holdfast.core.region.queries.feasibility import admits, feasible
from holdfast.core.region.state.node_tenants import tenants_on
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.fill import Rejected
from holdfast.core.scheduling.framework import SchedulingProfile
from holdfast.core.scheduling.nodes.window import all_rows
from holdfast.core.scheduling.selection import apply_filters
from tests.properties.scheduler.world import TENANTS, World, placeable
from tests.support.ledgers.scheduler_world import Follower, nodes_of

RULES = SchedulingProfile(BUILT_IN.filters, (), True)


def a_worn_region(seed: int) -> tuple[World, Follower]:
    """A region in which something stands, is held, cordoned, tainted; nodes that shrank under their work."""
    world = World(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(8):
        world.happen()
        follower.work()
    follower.catch_up()
    return world, follower


def has_a_way(node: Node, usage: NodeUsage, ask: SlotAsk, there: tuple[str, ...]) -> bool:
    """Whether the ledger takes such a slot with any devices and ports, beside whoever is there."""
    first, last = node.ports
    free = [port for port in range(first, last + 1) if port not in usage.ports] if last else []
    ports = tuple(free[: ask.template.ports])
    return any(
        feasible(node, usage, ask.template, ask.tenant, devices, ports, firm=ask.firm, there=there) is None
        for devices in combinations(range(len(node.devices)), ask.template.gpus)
    )


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_scheduler_and_ledger_predicates_agree_for_any_node_and_request(seed: int) -> None:
    world, follower = a_worn_region(seed)
    table = follower.scheduler.table
    for _ in range(20):
        ask = SlotAsk("d", world.a_template(), world.chance.choice(TENANTS), firm=world.chance.random() < 0.5)
        rejected: Rejected = {}
        passes = apply_filters(RULES, all_rows(table, ask), rejected)
        assert int(passes.sum()) + sum(rejected.values()) == table.count
        for row, node in enumerate(table.nodes):
            room = follower.state.node_usage.get(node.uid) or EMPTY_USAGE
            there = tenants_on(follower.state, node)
            assert passes[row] == has_a_way(node, room, ask, there), (node, room, ask)
            if passes[row]:
                template = ask.template
                devices = table.devices.pick(row, template, firm=ask.firm) if template.gpus else ()
                ports = table.devices.pick_ports(node, room, template.ports)
                fits = feasible(node, room, template, ask.tenant, devices, ports, firm=ask.firm, there=there)
                assert fits is None
                assert not refused_by_agent(follower.state, node, ask, devices, ports)


def refused_by_agent(
    state: RegionState, node: Node, ask: SlotAsk, devices: tuple[int, ...] = (), ports: tuple[int, ...] = ()
) -> str:
    """What the agent of a node says to such a slot, bound after all that stands there; empty: it takes it."""
    standing = bindings_of_node(state, node.uid, 0)
    new = BoundSlot((0, 0), 1, Phase.BOUND, "bound", "new", "new", ask.tenant, 1, 1, devices, ports)
    said = RegisterNode(
        node.name, node.pool, node.zone, node.capacity, node.devices, node.ports, capabilities=node.capabilities,
        tenant=node.tenant, shares_user=node.shares_user,
    )  # fmt: skip
    templates = {**dict(state.templates.items()), "new": ask.template}
    refused = BindingAdmission(said, (*DriverKind,)).of([*standing, new], templates, 0)
    return refused.get(((0, 0), 1), ("", 0))[0]


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_an_agent_takes_what_the_ledger_binds_and_the_ledger_refuses_what_it_does_not(seed: int) -> None:
    world, follower = a_worn_region(seed)
    for _ in range(20):
        ask = SlotAsk("d", world.a_template(), world.chance.choice(TENANTS), firm=True)
        for node in follower.state.nodes.values():
            gate = admits(node, ask.template, ask.tenant, tenants_on(follower.state, node))
            agent = refused_by_agent(follower.state, node, ask)
            assert gate is not None or not agent, (node, ask, agent)
            if gate is not None and gate.code is Code.ISOLATION:
                assert agent.startswith(Code.ISOLATION.value)


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_what_is_proposed_on_a_current_view_is_accepted_and_what_is_not_is_refused(seed: int) -> None:
    """The same with everything that a proposal is judged by: payers, protected room, rules over domains, overrides."""
    world, follower = a_worn_region(seed)
    world.add_workload()
    follower.catch_up()
    while (attempt := follower.look()) is not None:
        placements = [one for group in attempt.command.groups for one in group.placements]
        assert all(one.waits_for for one in placements) or list(placeable(world.bench)), "nothing can be placed"
        assert nodes_of(attempt)
        assert follower.send(attempt) == []
        follower.catch_up()
    assert list(placeable(world.bench)) == []
