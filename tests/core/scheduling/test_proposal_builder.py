"""Placements that take over victims and holds: each once, with the devices and ports that are freed for them."""

from __future__ import annotations

import pytest

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.scheduling.nodes.claims import Takeover
from holdfast.core.scheduling.proposal_builder import ProposalBuilder
from holdfast.core.scheduling.queue.request_groups import RequestGroup
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower, a_region

GPU = a_template(cpu=1_000, gpus=1, ports=1)


def crowded(template: Template = GPU) -> tuple[RegionBench, Follower]:
    """Node n1 with two devices: one is a normal slot's with the only port, the other is held. Urgent work waits."""
    bench, follower = a_region(nodes=1, cpu=2_000, gpus=("t4", "t4"), ports=(30_000, 30_000))
    bench.a_workload(GPU, uid=300, workload=3, count=1)
    follower.work()
    (other,) = {0, 1} - {*bench.slot(0, 3).devices}
    need = Resources(1_000, 100, 0, 1_000)
    node, ends = bench.state.node_names["n1"], bench.at + 60_000
    assert node is not None
    bench.accept(ROOT, c.Hold(ReservationPurpose.DATED, node, "quota/acme", ends, need, (other,), tenant="acme"))
    bench.a_workload(template, count=3, priority_class="critical")
    follower.catch_up()
    return bench, follower


def drafted(follower: Follower, takeovers: list[Takeover]) -> tuple[ProposalBuilder, int]:
    """A draft with one slot for each takeover, and how many were placed."""
    scheduler = follower.scheduler
    draft = ProposalBuilder(follower.state, follower.bench.at, scheduler.table, scheduler.flight)
    group: RequestGroup = next(one for one in scheduler.queue.groups.values() if one.priority_class == "critical")
    slots = draft.slots([*group.entries.values()], 9, len(takeovers))
    return draft, draft.add(group, slots, [0] * len(slots), (9,), takeovers)


def test_a_successor_gets_device_and_port_of_its_victim_and_another_slot_the_device_of_its_hold() -> None:
    bench, follower = crowded()
    victim, (hold,) = bench.slot(0, 3), [*bench.state.holds.keys()]
    draft, placed = drafted(follower, [Takeover(((3, 0),))])
    assert placed == 1
    assert draft.groups[0].placements[0].devices == victim.devices
    assert draft.groups[0].placements[0].ports == victim.ports
    _, follower = crowded(a_template(cpu=1_000, gpus=1))
    draft, placed = drafted(follower, [Takeover((), hold)])
    assert placed == 1
    assert draft.groups[0].placements[0].devices == follower.state.holds[hold].devices


def test_without_a_takeover_neither_device_nor_port_is_free() -> None:
    for template in (a_template(cpu=100, gpus=1), a_template(cpu=100, ports=1)):
        assert drafted(crowded(template)[1], [Takeover()])[1] == 0


@pytest.mark.parametrize("what", ["victim", "hold"])
def test_a_victim_and_a_hold_are_proposed_once_in_one_draft_and_while_it_is_in_flight(what: str) -> None:
    bench, follower = crowded(a_template(cpu=100))
    (hold,) = [*bench.state.holds.keys()]
    over = Takeover(((3, 0),)) if what == "victim" else Takeover((), hold)
    draft, placed = drafted(follower, [over, over])
    assert placed == 1
    assert drafted(follower, [over])[1] == 0
    follower.scheduler.flight.take(1, draft.parts, bench.at + 1_000)
    assert drafted(follower, [over])[1] == 0
    follower.scheduler.flight.refuse(1)
    assert drafted(follower, [over])[1] == 1


def test_what_has_left_is_not_taken_over() -> None:
    _, follower = crowded(a_template(cpu=100))
    assert drafted(follower, [Takeover(((9, 9),))])[1] == drafted(follower, [Takeover((), 99)])[1] == 0


def test_an_ended_savepoint_cannot_be_taken_back() -> None:
    _, follower = crowded()
    draft, _ = drafted(follower, [])
    first = draft.savepoint()
    second = draft.savepoint()
    draft.keep(first)
    with pytest.raises(AssertionError, match="has ended"):
        draft.take_back(second)
