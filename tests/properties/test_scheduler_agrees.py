"""The scheduler's filters and the ledger's gates say the same of any node and request.

A row that passes has devices and ports that the scheduler picks and the ledger takes; a row that does not has none.
"""

from __future__ import annotations

from itertools import combinations
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.model.placement import EMPTY_ROOM, Room
from holdfast.core.model.topology import Node
from holdfast.core.region.feasible import feasible
from holdfast.core.scheduling.ask import Ask
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.choosing import filtered
from holdfast.core.scheduling.filling import Rejected
from holdfast.core.scheduling.framework import Rulebook
from holdfast.core.scheduling.window import whole
from tests.properties.scheduler_world import TENANTS, World, placeable
from tests.support.scheduling import Follower, nodes_of

RULES = Rulebook(BUILT_IN.filters, (), True)


def a_worn_region(seed: int) -> tuple[World, Follower]:
    """A region in which something stands, is held, cordoned, tainted; nodes that shrank under their work."""
    world = World(Random(seed), checked=False)
    follower = Follower(world.bench)
    for _ in range(8):
        world.happen()
        follower.work()
    follower.catch_up()
    return world, follower


def has_a_way(node: Node, room: Room, ask: Ask) -> bool:
    """Whether the ledger takes such a slot with any devices and ports."""
    first, last = node.ports
    free = [port for port in range(first, last + 1) if port not in room.ports] if last else []
    ports = tuple(free[: ask.template.ports])
    return any(
        feasible(node, room, ask.template, ask.tenant, devices, ports, firm=ask.firm) is None
        for devices in combinations(range(len(node.devices)), ask.template.gpus)
    )


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_scheduler_and_ledger_predicates_agree_for_any_node_and_request(seed: int) -> None:
    world, follower = a_worn_region(seed)
    table = follower.scheduler.table
    for _ in range(20):
        ask = Ask("d", world.a_template(), world.chance.choice(TENANTS), firm=world.chance.random() < 0.5)
        rejected: Rejected = {}
        passes = filtered(RULES, whole(table, ask), rejected)
        assert int(passes.sum()) + sum(rejected.values()) == table.count
        for row, node in enumerate(table.nodes):
            room = follower.state.rooms.get(node.uid) or EMPTY_ROOM
            assert passes[row] == has_a_way(node, room, ask), (node, room, ask)
            if passes[row]:
                template = ask.template
                devices = table.devices.pick(row, template, firm=ask.firm) if template.gpus else ()
                ports = table.devices.pick_ports(node, room, template.ports)
                assert feasible(node, room, template, ask.tenant, devices, ports, firm=ask.firm) is None


@given(st.integers(0, 2**32))
@settings(max_examples=100)
def test_what_is_proposed_on_a_current_view_is_accepted_and_what_is_not_is_refused(seed: int) -> None:
    """The same with everything that a proposal is judged by: payers, protected room, rules over domains, overrides."""
    world, follower = a_worn_region(seed)
    world.add_workload()
    follower.catch_up()
    while (attempt := follower.look()) is not None:
        assert list(placeable(world.bench)), "nothing can be placed, and something was proposed"
        assert nodes_of(attempt)
        assert follower.send(attempt) == []
        follower.catch_up()
    assert list(placeable(world.bench)) == []
