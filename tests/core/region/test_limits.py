"""What is exactly as much as may be is taken, and one more is not; and what is told where little tells things apart."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from holdfast.core.ledger import partial
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.commit.rules import CommandContext, Subject
from holdfast.core.ledger.partial import wrong_count
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import DeviceUsage, NodeUsage
from holdfast.core.model.records.nodes import Device, Machine, Node, NodeHealth
from holdfast.core.model.values.resources import ZERO
from holdfast.core.model.values.settings import Settings
from holdfast.core.region import commands as c
from holdfast.core.region import limits
from holdfast.core.region.decide import full_list, shipments
from holdfast.core.region.decide.preemption import _at_least
from holdfast.core.region.queries.assignments import has_stale_lease
from holdfast.core.region.queries.feasibility import _why_unavailable, fits_devices
from holdfast.core.region.queries.node_conditions import node_conditions
from holdfast.core.region.subjects import of_hold, of_node
from tests.support.ledgers.region import LINK, REPLICA, RegionBench, a_template, an_assignment


def a_bench() -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    bench.a_node()
    return bench


@pytest.mark.parametrize(
    ("count", "is_right"), [(0, False), (1, True), (partial.PARTS_MAX, True), (partial.PARTS_MAX + 1, False)]
)
def test_a_command_names_one_thing_at_least_and_not_more_than_the_most(count: int, is_right: bool) -> None:
    assert (wrong_count(count) is None) is is_right


def test_a_proposal_places_one_slot_at_least_and_has_not_more_groups_than_the_most() -> None:
    bench = a_bench()
    work = bench.a_workload(count=1)
    (group,) = bench.proposal(work, c.SlotPlacement(0, bench.state.node_names["n1"])).groups
    bare = replace(group, placements=())
    for groups, code in (((bare,), Code.TOO_LARGE), ((group, *[bare] * partial.PARTS_MAX), Code.TOO_LARGE)):
        command = replace(bench.proposal(work), groups=groups)
        assert bench.refuse("scheduler/main", command).code is code
    taken = replace(bench.proposal(work), groups=(group, *[bare] * (partial.PARTS_MAX - 1)))
    assert isinstance(bench.send("scheduler/main", taken), Committed)


def test_a_detail_may_be_as_long_as_it_may_be_and_no_longer() -> None:
    bench = a_bench()
    bench.place(bench.a_workload(count=1), c.SlotPlacement(0, bench.state.node_names["n1"]))
    said = bench.move("agent/n1", Phase.STARTING, "started", detail="x" * (limits.DETAIL_MAX + 1))
    assert isinstance(said, Refused)
    assert said.code is Code.MALFORMED
    assert isinstance(bench.move("agent/n1", Phase.STARTING, "started", detail="x" * limits.DETAIL_MAX), Committed)


@pytest.mark.parametrize(("spare", "ended"), [(0, 2), (-1, 1)])
def test_as_much_ends_in_one_record_as_exactly_fits(spare: int, ended: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = RegionBench()
    for uid in (100, 200, 300):
        bench.a_workload(count=1, uid=uid, workload=uid)
    case = CommandContext(bench.envelope(LINK, c.StandDown("gone")), bench.at, 1)
    sizes = [len(encode(event)) for event in shipments._endings(bench.state, case)]
    monkeypatch.setattr(shipments, "ENDED_BYTES", sum(sizes[:2]) + spare)
    bench.accept(LINK, c.StandDown("gone"))
    assert len(bench.state.unended) == 3 - ended


@pytest.mark.parametrize(("spare", "gone"), [(0, 2), (-1, 1)])
def test_as_much_is_gone_with_a_list_as_exactly_fits_beside_its_last_part(
    spare: int, gone: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, last = RegionBench(), c.Ship("log-platform", 1, 0, 50, (), full=True, part=1, last=True)
    going = [c.RemovedObject("principal", f"person/{name}") for name in "abc"]
    monkeypatch.setattr(full_list, "REMOVED_BYTES", 2 * limits.EACH_BYTES + len(encode(last)) + spare)
    assert full_list._first(bench.state, going, last) == going[:gone]
    monkeypatch.setattr(full_list, "REMOVED_BYTES", 2 * limits.EACH_BYTES + spare)
    assert full_list._first(bench.state, going, None) == going[:gone]
    monkeypatch.setattr(full_list, "REMOVED_BYTES", limits.EACH_BYTES - 1)
    assert full_list._first(bench.state, going, None) == going[:1], "one at least, where nothing is beside it"
    assert full_list._first(bench.state, going, last) == []


@pytest.mark.parametrize(
    ("ordinals", "right_until", "term", "is_before"),
    [(((0, 1),), 1, 0, True), (((0, 1),), 1, 1, False), ((), 1, 0, False), (((0, 1),), 0, 0, False)],
)
def test_a_lease_is_told_again_if_it_was_told_in_another_term(
    ordinals: tuple[tuple[int, int], ...], right_until: int, term: int, is_before: bool
) -> None:
    state = RegionBench().state
    assert not has_stale_lease(state)
    lease = an_assignment(exclusive=True)
    state.assignments.put(1, replace(lease, ordinals=(), right_until=0))
    state.assignments.put(
        2, replace(lease, ordinals=ordinals, right_until=right_until, right_term=state.info.term - 1 + term)
    )
    assert has_stale_lease(state) is is_before


# Why a node takes no work


USABLE = Node("n1", 1, 1, "general", "a", ZERO, session=1, health=NodeHealth.READY)


@pytest.mark.parametrize(
    ("node", "why", "reason"),
    [
        (replace(USABLE, cordoned=True), "cordoned", "cordoned"),
        (replace(USABLE, draining=True), "draining", "draining"),
        (replace(USABLE, cordoned=True, draining=True), "draining", "draining"),
        (replace(USABLE, session=0), "its agent has no session", "session-ended"),
        (replace(USABLE, health=NodeHealth.SILENT), "silent", "session-ended"),
        (replace(USABLE, health=NodeHealth.LOST), "lost", "lost"),
    ],
)
def test_a_node_that_takes_no_work_says_why(node: Node, why: str, reason: str) -> None:
    assert _why_unavailable(node) == why
    assert [one.reason.value for one in node_conditions(node, Settings()) if one.type == "Usable"] == [reason]


MACHINE = Machine("id", "host", "boot")


@pytest.mark.parametrize(
    ("before", "reason", "message"),
    [
        (replace(MACHINE, boot="other"), "rebooted", "the machine was rebooted"),
        (
            replace(MACHINE, id="other"),
            "machine-replaced",
            "machine id of host host, and ran on machine other of host host",
        ),
        (Machine(), "machine-replaced", "and ran on machine without a name of host unknown"),
    ],
)
def test_a_node_whose_machine_is_another_says_which_it_was(before: Machine, reason: str, message: str) -> None:
    node = replace(USABLE, machine=MACHINE, machine_before=before, machine_changed=7)
    (found,) = [one for one in node_conditions(node, Settings()) if one.type == "SameMachine"]
    assert (found.reason.value, found.since) == (reason, 7)
    assert message in found.message


# What an expectation is about


def test_an_expectation_is_about_a_node_by_name_or_by_a_uid_that_nobody_has() -> None:
    bench = a_bench()
    uid = bench.state.node_names["n1"]
    assert of_node(bench.state, c.RemoveNode(uid)) == Subject("Node/n1", bench.state.nodes[uid].revision)
    assert of_node(bench.state, c.RemoveNode(7)) == Subject("Node/7", 0)
    assert of_hold(bench.state, c.DropHold(7)) == Subject("Reservation/7", 0)
    assert of_hold(RegionBench(level=1).state, c.DropHold(7)) is None


# What a slot that is stopped becomes


def test_a_slot_that_is_stopped_becomes_only_what_its_assignment_asks_for() -> None:
    bench = a_bench()
    old, new, other = a_template(cpu=100), a_template(cpu=200), a_template(cpu=300)
    digests = [template_digest(one) for one in (old, new, other)]
    bench.ship(*(c.ShippedTemplate(digest, one) for digest, one in zip(digests, (old, new, other), strict=True)))
    shares = (Share(digests[0], 1), Share(digests[1], 1), Share(digests[2], 0))
    work = an_assignment(template=old, shares=shares)
    bench.ship(c.ShippedAssignment(work))
    bench.accept(REPLICA, c.OpenSlots(work.uid, digests[0], (0,)))
    bench.place(work, c.SlotPlacement(0, bench.state.node_names["n1"]))
    key = ((work.workload, 0),)
    assert bench.refuse("controller/rollout", c.Stop(key, "rollout", digests[2])).code is Code.NOT_ASSIGNED
    assert bench.refuse("controller/rollout", c.Stop(key, "rollout", "f" * 32)).code is Code.NOT_FOUND
    bench.accept("controller/rollout", c.Stop(key, "rollout", digests[1]))
    assert bench.slot().next_template == digests[1]


# Devices


@pytest.mark.parametrize(
    ("taken", "firm", "has_room"),
    [
        (DeviceUsage(firm=0, all=600), True, True),
        (DeviceUsage(firm=0, all=601), True, False),
        (DeviceUsage(firm=300, all=300, held=300), True, True),
        (DeviceUsage(firm=300, all=300, held=301), True, False),
        (DeviceUsage(firm=301, all=301, held=300), True, False),
        (DeviceUsage(firm=300, all=300, held=301), False, True),
    ],
)
def test_a_device_is_shared_to_its_last_thousandth_and_what_is_held_is_kept_from_firm_work(
    taken: DeviceUsage, firm: bool, has_room: bool
) -> None:
    node = replace(USABLE, devices=(Device("a100", 1_000),))
    template = a_template(gpus=1, gpu_milli=400)
    found = fits_devices(node, NodeUsage(devices=(taken,)), template, (0,), firm=firm)
    assert (found is None) is has_room


def test_until_victims_are_gone_as_much_of_a_device_stays_taken_as_either_has() -> None:
    before = NodeUsage(devices=(DeviceUsage(500, 600, 7), DeviceUsage(100, 800)))
    joined = NodeUsage(devices=(DeviceUsage(700, 100, 9),))
    assert _at_least(joined, before).devices == (DeviceUsage(700, 600, 9), DeviceUsage(100, 800))
    assert _at_least(before, joined).devices == (DeviceUsage(700, 600, 7), DeviceUsage(100, 800))
