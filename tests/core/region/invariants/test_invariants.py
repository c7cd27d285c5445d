"""Each invariant of a region finds what it is there to find, near the batch that breaks it and in full alike."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.ledger.state.invariants import Violation, check
from holdfast.core.model.objects.topology import Taint, TaintEffect
from holdfast.core.model.objects.workloads import Spread
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import slot_keys, with_key, without_key
from holdfast.core.model.records.nodes import NodeReport
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import FullListProgress, RegionState
from tests.support.ledgers.region import REPLICA, SCHEDULER, RegionBench, a_template, an_assignment
from tests.support.wrong_events import Wrong, found_both_ways, names, told

#: Slots of the scene: two share a node and its device, one waits for room, one yields to another, one has an identity.
FIRST, SECOND, WAITING = (1, 0), (1, 1), (1, 2)
VICTIM, HEIR, IDENTITY = (2, 0), (3, 0), (4, 0)
#: A batch of which the first is done.
BATCH = 600


@cache
def _scene() -> RegionBench:
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant(protected=Resources(2000, 2048))
    bench.a_grant("recovery/critical")
    first = bench.a_node("n1", gpus=("a100", "a100"), labels=(("disk", "ssd"),))
    second = bench.a_node("n2", cpu=4000)
    spread = (Spread(key="zone", max_skew=9),)
    service = bench.a_workload(a_template(gpus=1, gpu_milli=500, ports=1, spread=spread), count=3)
    places = [c.SlotPlacement(0, first, (0,), (30_000,)), c.SlotPlacement(1, first, (0,), (30_001,))]
    bench.place(service, *places)
    bench.walk(Phase.SERVING)
    victim = bench.a_workload(a_template(cpu=4000), 1, uid=200, workload=2, disruption=1, priority_class="best-effort")
    bench.place(victim, c.SlotPlacement(0, second))
    bench.walk(Phase.SERVING, 0, 2)
    heir = bench.a_workload(a_template(cpu=3000), 1, uid=300, workload=3, priority_class="critical")
    bench.place(heir, c.SlotPlacement(0, second, waits_for=(VICTIM,)))
    owner = an_assignment(400, 4, heir.shares[0].template, 1, exclusive=True, ordinals=(0,))
    bench.ship(c.ShippedAssignment(owner))
    bench.accept(REPLICA, c.OpenSlots(400, owner.shares[0].template, (0,)))
    bench.place(owner, c.SlotPlacement(0, first))
    bench.a_node("n3", cpu=2000, zone="b")
    bench.place(
        bench.a_workload(a_template(cpu=1500), 1, uid=500, workload=5), c.SlotPlacement(0, node(bench.state, "n3"))
    )
    bench.a_node("n3", cpu=1000, zone="b")
    batch = bench.a_workload(a_template(cpu=10), 2, uid=BATCH, workload=6, batch=True, accounts=("recovery/critical",))
    bench.place(batch, c.SlotPlacement(0, first), c.SlotPlacement(1, first))
    ends, template = bench.at + 60_000, batch.shares[0].template
    held = c.Hold(ReservationPurpose.PLACEHOLDER, first, "recovery/critical", ends, assignment=BATCH, template=template)
    bench.accept(SCHEDULER, held)
    bench.walk(Phase.RUNNING, 0, 6)
    bench.move("agent/n1", Phase.SUCCEEDED, "completed", 0, 6)
    bench.move("agent/n1", Phase.RELEASED, "collected", 0, 6)
    return bench


def a_scene() -> RegionState:
    return _scene().state.fork()


def node(state: RegionState, name: str) -> int:
    return state.node_names[name]


def change(state: RegionState, table: str, key: Any, **fields: Any) -> None:
    state.table(table).put(key, replace(state.table(table)[key], **fields))


def change_node(state: RegionState, name: str, **fields: Any) -> None:
    change(state, "nodes", node(state, name), **fields)


def only(state: RegionState, table: str) -> Any:
    ((key, _),) = state.table(table).items()
    return key


# What goes wrong


def list_it_twice(state: RegionState) -> None:
    uid = node(state, "n2")
    change(state, "rooms", uid, slots=with_key(state.node_usage[uid].slots, FIRST))


def list_it_nowhere(state: RegionState) -> None:
    uid = node(state, "n1")
    change(state, "rooms", uid, slots=without_key(state.node_usage[uid].slots, FIRST))


def forget_a_room(state: RegionState) -> None:
    state.node_usage.drop(node(state, "n2"))


def stand_elsewhere(state: RegionState) -> None:
    change(state, "slots", IDENTITY, node=node(state, "n2"))


def share_more_of_a_device_than_there_is(state: RegionState) -> None:
    change(state, "slots", SECOND, devices=(0, 0))


def give_a_port_twice(state: RegionState) -> None:
    change(state, "slots", SECOND, ports=state.slots[FIRST].ports)


def forget_what_a_list_named(state: RegionState) -> None:
    state.region = replace(state.region, listing=FullListProgress("log-platform", 1, 99, 1))


def keep_names_of_no_list(state: RegionState) -> None:
    state.listed_names.put(0, ())


def charge_nobody(state: RegionState) -> None:
    change(state, "slots", FIRST, account="")


def charge_twice(state: RegionState) -> None:
    use = state.account_usage["quota/acme"]
    state.account_usage.put("quota/acme", replace(use, charged=replace(use.charged, cpu=use.charged.cpu + 1000)))


def forget_to_return_a_charge(state: RegionState) -> None:
    state.holds.drop(only(state, "holds"))


def settle_below_what_is_charged(state: RegionState) -> None:
    change(state, "allowances", "quota/acme", limit=ZERO)


def lose_a_grant(state: RegionState) -> None:
    state.accepted_grants.drop("quota/acme")


def take_too_little(state: RegionState) -> None:
    change(state, "rooms", node(state, "n1"), all=ZERO)


def come_from_the_future(state: RegionState) -> None:
    change(state, "slots", FIRST, revision=1 << 60)


def keep_an_epoch(state: RegionState) -> None:
    change(state, "slots", WAITING, epoch=1)


def live_without_a_session(state: RegionState) -> None:
    state.sessions.drop(state.nodes[node(state, "n2")].session)


def lose_an_assignment(state: RegionState) -> None:
    state.assignments.drop(100)


def lose_a_template(state: RegionState) -> None:
    state.templates.drop(state.slots[FIRST].template)


def lose_a_node(state: RegionState) -> None:
    state.nodes.drop(node(state, "n3"))


def report_of_a_node_that_is_gone(state: RegionState) -> None:
    state.node_reports.put(7, NodeReport(10, 20))


def lose_an_heir(state: RegionState) -> None:
    change(state, "slots", HEIR, waits_for=())


def hold_while_waiting(state: RegionState) -> None:
    change(state, "slots", WAITING, ports=(30_005,))


def begin_what_is_done_anew(state: RegionState) -> None:
    slot = state.slots[6, 1]
    state.slots.put((6, 0), replace(slot, ordinal=0))


def have_done_what_runs(state: RegionState) -> None:
    (row,) = state.finished[BATCH]
    state.finished.put(BATCH, (replace(row, done=((0, 2),)),))


def have_done_it_and_failed(state: RegionState) -> None:
    (row,) = state.finished[BATCH]
    state.finished.put(BATCH, (replace(row, failed=row.done),))


def have_done_what_nobody_asks_for(state: RegionState) -> None:
    (row,) = state.finished[BATCH]
    state.finished.put(BATCH, (replace(row, template="another"),))


def have_done_what_nobody_asks_for_besides(state: RegionState) -> None:
    (row,) = state.finished[BATCH]
    state.finished.put(BATCH, (row, replace(row, template="another", done=((7, 8),))))


def have_done_it_in_no_order(state: RegionState) -> None:
    (row,) = state.finished[BATCH]
    state.finished.put(BATCH, (replace(row, done=((7, 8), (5, 6))),))


def keep_what_a_service_has_done(state: RegionState) -> None:
    change(state, "assignments", BATCH, batch=False)


def rest_in_released(state: RegionState) -> None:
    change(state, "slots", VICTIM, phase=Phase.RELEASED)


def shrink_without_a_breach(state: RegionState) -> None:
    change_node(state, "n1", capacity=Resources(1000, 1024))


def close_a_breach_too_early(state: RegionState) -> None:
    state.breaches.drop(only(state, "breaches"))


def grow_a_breach(state: RegionState) -> None:
    change_node(state, "n3", capacity=Resources(500))


def evict_without_a_breach(state: RegionState) -> None:
    change_node(state, "n1", taints=(Taint("broken", "", TaintEffect.EVICT),))


def keep_a_node_for_others(state: RegionState) -> None:
    change_node(state, "n2", tenancy=("others",))


def allow_other_jurisdictions_only(state: RegionState) -> None:
    change(state, "assignments", 100, jurisdictions=("us",))


def lie_elsewhere_by_law(state: RegionState) -> None:
    change(state, "assignments", 100, jurisdictions=("us",))
    state.region = replace(state.region, jurisdiction="ch")


def lose_a_template_that_others_ask_for_now(state: RegionState) -> None:
    shares = state.assignments[500].shares
    for uid in (100, 200, 300):
        change(state, "assignments", uid, shares=shares)
    state.assignments.put(700, replace(state.assignments[500], uid=700, workload=7))
    state.templates.drop(shares[0].template)


def lose_a_template_of_which_slots_come_and_go(state: RegionState) -> None:
    """Of three things that are of it two are new, and one is of another now."""
    slot, other = state.slots[5, 0], state.slots[HEIR]
    for ordinal in (1, 2):
        state.slots.put((5, ordinal), replace(slot, ordinal=ordinal))
    change(state, "slots", VICTIM, template=other.template, next_template=other.template)
    state.slots.drop((6, 1))
    state.templates.drop(slot.template)


def take_a_right_away(state: RegionState) -> None:
    change(state, "assignments", 400, ordinals=())


def stand_without_a_right(state: RegionState) -> None:
    slot = state.slots[IDENTITY]
    state.slots.drop(IDENTITY)
    state.slots.put((4, 7), replace(slot, ordinal=7))


def miscount(table: str) -> Wrong:
    """One row of a count or index is lost."""

    def wrong(state: RegionState) -> None:
        state.table(table).drop(state.table(table).items()[0][0])

    wrong.__name__ = f"lose_a_row_of_{table}"
    return wrong


def forget_a_sum(state: RegionState) -> None:
    state.totals = replace(state.totals, capacity=ZERO)


def owe_protected_tenants_nothing(state: RegionState) -> None:
    change(state, "allowances", "quota/acme", protected=Resources(10**6))


def list_kinds_out_of_order(state: RegionState) -> None:
    one, *others = state.kinds[100, 0]
    assert others, "one kind is always in order"
    state.kinds.put((100, 0), (*others, one))


def open_one_request_too_many(state: RegionState) -> None:
    (request,) = state.requests[100]
    state.requests.put(100, (replace(request, open=request.open + 1),))


#: Rows of sessions and of keys are no counts, and are rebuilt from their own.
COUNTS = [spec.name for spec in RegionState.TABLES if spec.derived and spec.name not in ("session_of", "keys_of")]

PLANTS: list[tuple[str, Wrong]] = [
    ("region.unique-binding", list_it_twice),
    ("region.unique-binding", list_it_nowhere),
    ("region.unique-binding", forget_a_room),
    ("region.unique-binding", stand_elsewhere),
    ("region.device-ownership", share_more_of_a_device_than_there_is),
    ("region.port-ownership", give_a_port_twice),
    ("region.charges", charge_nobody),
    ("region.charges", charge_twice),
    ("region.charges", forget_to_return_a_charge),
    ("region.grants", settle_below_what_is_charged),
    ("region.grants", lose_a_grant),
    ("region.rooms", take_too_little),
    ("region.epochs", come_from_the_future),
    ("region.epochs", keep_an_epoch),
    ("region.epochs", live_without_a_session),
    ("region.references", lose_an_assignment),
    ("region.references", lose_a_template),
    ("region.references", lose_a_template_that_others_ask_for_now),
    ("region.references", lose_a_template_of_which_slots_come_and_go),
    ("region.references", lose_a_node),
    ("region.references", report_of_a_node_that_is_gone),
    ("region.references", lose_an_heir),
    ("region.pending", hold_while_waiting),
    ("region.pending", rest_in_released),
    ("region.finished", begin_what_is_done_anew),
    ("region.finished", have_done_what_runs),
    ("region.finished", have_done_it_and_failed),
    ("region.finished", have_done_what_nobody_asks_for),
    ("region.finished", have_done_what_nobody_asks_for_besides),
    ("region.finished", have_done_it_in_no_order),
    ("region.finished", keep_what_a_service_has_done),
    ("region.lists", forget_what_a_list_named),
    ("region.lists", keep_names_of_no_list),
    *(("region.counts", miscount(table)) for table in COUNTS),
    ("region.counts", forget_a_sum),
    ("region.counts", owe_protected_tenants_nothing),
    ("region.counts", list_kinds_out_of_order),
    ("region.counts", open_one_request_too_many),
    ("region.capacity", shrink_without_a_breach),
    ("region.capacity", close_a_breach_too_early),
    ("region.capacity", grow_a_breach),
    ("region.allowed", evict_without_a_breach),
    ("region.allowed", keep_a_node_for_others),
    ("region.residency", allow_other_jurisdictions_only),
    ("region.residency", lie_elsewhere_by_law),
    ("region.right", take_a_right_away),
    ("region.right", stand_without_a_right),
]


@pytest.mark.parametrize(("invariant", "wrong"), PLANTS, ids=[wrong.__name__ for _, wrong in PLANTS])
def test_what_is_wrong_is_found_near_its_batch_and_in_full(invariant: str, wrong: Wrong) -> None:
    near, full = found_both_ways(REGION, a_scene(), wrong)
    assert invariant in names(near)
    assert invariant in names(full)
    assert set(told(full)) <= set(names(near)), "what else is broken is found near, too"
    places = [one for one in full if one.invariant != "region.counts" and one.invariant in told([one])]
    assert [one for one in places if one not in near] == [], "at each place: counts are told otherwise"


def test_every_invariant_is_shown_to_find_something() -> None:
    assert {invariant for invariant, _ in PLANTS} == {invariant.id for invariant in REGION.invariants}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert found_both_ways(REGION, a_scene(), lambda _state: None) == ([], [])
    assert check(RegionState(), REGION.invariants) == []


def test_a_new_jurisdiction_is_looked_at_in_every_assignment() -> None:
    """The one act in a region that concerns rows which nobody has written."""
    bench = _scene().branch()
    bench.ship(c.ShippedAssignment(replace(bench.state.assignments[100], jurisdictions=("eu",))))

    def move_abroad(state: RegionState) -> None:
        state.region = replace(state.region, jurisdiction="us")

    near, full = found_both_ways(REGION, bench.state, move_abroad)
    assert names(near) == names(full) == ["region.residency"]


@pytest.mark.parametrize("lost", ["template", "next_template"])
def test_what_is_or_is_to_be_of_a_template_that_is_lost_is_looked_at(lost: str) -> None:
    bench, later = _scene().branch(), a_template(cpu=1400)
    bench.ship(c.ShippedTemplate(template_digest(later), later))
    shares = (Share(template_digest(later), 1),)
    bench.ship(c.ShippedAssignment(replace(bench.state.assignments[500], generation=2, shares=shares)))
    bench.accept(REPLICA, c.OpenSlots(500, shares[0].template, (0,)))
    digest = getattr(bench.state.slots[5, 0], lost)
    near, _full = found_both_ways(REGION, bench.state, lambda state: state.templates.drop(digest))
    assert Violation("region.references", "slot (5, 0) refers to an object that does not exist") in near


def test_the_scene_has_what_the_plants_need() -> None:
    state = a_scene()
    assert state.slots[VICTIM].successor == HEIR
    assert slot_keys(state.node_usage[node(state, "n1")]) == [FIRST, SECOND, IDENTITY, (6, 1)]
    assert [key for key, _ in state.breaches.items()] == [("region.capacity", f"node/{node(state, 'n3')}/cpu")]


# Each part of a promise, by itself


def slot(key: Any, /, **fields: Any) -> Wrong:
    return lambda state: change(state, "slots", key, **fields)


def on_node(name: str, /, **fields: Any) -> Wrong:
    return lambda state: change_node(state, name, **fields)


def head(state: RegionState) -> int:
    """The first revision that there is not yet, after the batch in which it goes wrong."""
    return pack_revision(state.info.seq + 2)


FUTURE = 1 << 60
PARTS: dict[str, tuple[str, Wrong]] = {
    "a slot of another number": ("region.unique-binding", slot(FIRST, ordinal=7)),
    "a slot of another workload": ("region.unique-binding", slot(FIRST, workload=7)),
    "what waits and stands": ("region.unique-binding", slot(WAITING, phase=Phase.RUNNING)),
    "what stands and waits": ("region.unique-binding", slot(FIRST, phase=Phase.PENDING)),
    "a device that gives one too many": (
        "region.device-ownership", lambda state: change(state, "templates", state.slots[FIRST].template, gpu_milli=501),
    ),
    "what is reserved for nobody": ("region.charges", slot(FIRST, account="", phase=Phase.RESERVED)),
    "a revision that is not there yet": ("region.epochs", lambda state: slot(FIRST, revision=head(state))(state)),
    "an epoch after its revision": ("region.epochs", slot(FIRST, epoch=FUTURE)),
    "an epoch of what is reserved": ("region.epochs", slot(FIRST, phase=Phase.RESERVED)),
    "no epoch of what is bound": ("region.epochs", slot(FIRST, epoch=0)),
    "a node under another uid": ("region.epochs", on_node("n1", uid=1)),
    "a node before it came": ("region.epochs", on_node("n1", revision=0)),
    "a node of the future": ("region.epochs", lambda state: on_node("n1", revision=head(state))(state)),
    "a session that has ended": ("region.epochs", on_node("n1", session=FUTURE)),
    "a template that comes next and is gone": ("region.references", slot(FIRST, next_template="unknown")),
    "a deleted node": ("region.references", slot(WAITING, node=FUTURE)),
    "an heir that is gone": ("region.references", slot(VICTIM, successor=(9, 9))),
    "an heir that does not wait": ("region.references", slot(HEIR, waits_for=())),
    "an heir on another node": ("region.references", lambda state: slot(HEIR, node=node(state, "n1"))(state)),
    "an heir of what goes on": ("region.references", slot(VICTIM, phase=Phase.SERVING)),
    "a hold on a node that is gone": (
        "region.references", lambda state: change(state, "holds", only(state, "holds"), node=FUTURE),
    ),
    "what waits with a node": ("region.pending", lambda state: slot(WAITING, node=node(state, "n1"))(state)),
    "what waits with a device": ("region.pending", slot(WAITING, devices=(1,))),
    "what waits with a port": ("region.pending", slot(WAITING, ports=(30_009,))),
    "what waits with an epoch": ("region.pending", slot(WAITING, epoch=1)),
    "what waits for others": ("region.pending", slot(WAITING, waits_for=(FIRST,))),
    "what waits with an heir": ("region.pending", slot(WAITING, successor=HEIR)),
    "a node for others by its agent's word": ("region.allowed", on_node("n1", tenant="other")),
    "a node for others by an operator's word": ("region.allowed", on_node("n1", tenancy=("other",))),
    "a taint of a value that nobody accepts": (
        "region.allowed", on_node("n1", taints=(Taint("kept", "x", TaintEffect.EVICT),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_a_promise_is_looked_at_by_itself(part: str) -> None:
    invariant, wrong = PARTS[part]
    state = a_scene()
    wrong(state)
    assert invariant in {violation.invariant for violation in check(state, REGION.invariants)}


@pytest.mark.parametrize(
    "right",
    [
        on_node("n1", taints=(Taint("kept", "x", TaintEffect.REFUSE),)),
        on_node("n1", tenancy=("acme", "other"), tenant="acme"),
        lambda state: on_node("n1", revision=pack_revision(state.info.seq, INDEX_MAX))(state),
        lambda state: slot(FIRST, revision=pack_revision(state.info.seq, INDEX_MAX))(state),
    ],
    ids=["a taint that evicts nobody", "a node for its tenant", "the last revision", "the last revision of a slot"],
)
def test_what_may_be_so_is_not_complained_of(right: Wrong) -> None:
    state = a_scene()
    right(state)
    complained = {violation.invariant for violation in check(state, REGION.invariants)}
    assert complained <= {"region.counts"}, "what is counted by such nodes was not counted anew"
