"""What programs leave out while the ledger answers it otherwise than the documents say.

Each waiver is named for the test in `tests/core/region/test_known_faults.py` that shows the fault at its smallest and
is expected to fail. When the ledger is mended that test passes, its mark must go, and the waiver with it:
`test_every_waiver_names_a_fault_that_is_still_there` insists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.invariants import Violation
from holdfast.core.model.lifecycle import STOP_CAUSES, Kind, Phase
from holdfast.core.model.placement import DeviceRoom, Room
from holdfast.core.region import commands as c
from holdfast.core.region.rooms import recount
from holdfast.core.region.state import RegionState
from tests.properties.region_model import Model, amounts
from tests.properties.region_model_senders import sender_of
from tests.properties.region_model_shipping import overshoots_of_node
from tests.properties.region_model_shipping import ship as apply_step

Waiver = Callable[[Model, RegionState, Envelope[Any]], bool]


def placements(command: Any) -> Iterator[tuple[c.Group, c.Placement]]:
    for group in command.groups if isinstance(command, c.Propose) else ():
        for placement in group.placements:
            yield group, placement


def more_than_one_need_beside_protected_room(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    """While somebody is owed protected room: several placements that are not all of one group and one payer."""
    many = list(placements(envelope.command))
    odd = any(one.hold for _, one in many) or len({id(group) for group, _ in many}) > 1
    for group, one in many:
        assignment = model.assignments.get(group.assignment)
        slot = model.slots.get((assignment.workload, one.ordinal)) if assignment else None
        odd |= bool(assignment and slot and slot.account not in ("", *assignment.accounts[:1]))
    return odd and len(many) > 1 and any(model.owed(account) for account in model.grants)


def a_slot_of_another_assignment(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    for group, one in placements(envelope.command):
        assignment = model.assignments.get(group.assignment)
        slot = model.slots.get((assignment.workload, one.ordinal)) if assignment else None
        if slot is not None and slot.assignment != group.assignment:
            return True
    return False


def a_victim_that_no_longer_waits(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    for _, one in placements(envelope.command):
        for key in one.after:
            victim, slot = model.slots.get(key), state.slots.get(key)
            if victim is not None and slot is not None and slot.after and not victim.waits:
                return True
    return False


def several_serving_victims(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    keys = [key for _, one in placements(envelope.command) for key in one.after if key in model.slots]
    serving = Counter(model.slots[key].assignment for key in keys if model.slots[key].phase is Phase.SERVING)
    return any(count > 1 for count in serving.values())


def more_serving_than_wanted(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    command = envelope.command
    if not isinstance(command, c.Stop) or len(command.slots) < 2 or command.cause not in STOP_CAUSES:
        return False
    stopped = [model.slots[key].assignment for key in command.slots if key in model.slots]
    for uid in stopped:
        wanted = sum(share.count for share in model.assignments[uid].shares)
        if model.serving(uid) > wanted and STOP_CAUSES[command.cause].kind is Kind.VOLUNTARY:
            return True
    return False


def a_node_over_in_what_is_not_asked_for(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    asked: list[tuple[int, dict[str, int]]] = []
    if isinstance(envelope.command, c.Hold):
        hold = envelope.command
        template = model.templates.get(hold.template)
        asked.append((hold.node, amounts(template.need if template else hold.need)))
    for group, one in placements(envelope.command):
        if group.template in model.templates:
            asked.append((one.node, model.need(group.template)))
    for uid, need in asked:
        node = model.nodes.get(uid)
        over = overshoots_of_node(model, node) if node is not None else {}
        if any(key.rpartition("/")[2] not in need for kind, key in over if kind == "region.capacity"):
            return True
    return False


def found_again_while_it_waits(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    moves = envelope.command.moves if isinstance(envelope.command, c.Move) else ()
    return any(one.cause == "found-again" and one.slot in model.slots and model.slots[one.slot].waits for one in moves)


def changed_by_others_in_the_present_session(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    for one in envelope.command.moves if isinstance(envelope.command, c.Move) else ():
        slot = model.slots.get(one.slot)
        node = model.nodes.get(slot.node) if slot is not None else None
        if slot is None or node is None or not node.session or one.cause not in ("fenced", "session-ended"):
            continue
        if slot.moved <= model.sessions[node.session].opened < slot.changed:
            return True
    return False


def templates_and_their_users_in_one_step(model: Model, state: RegionState, envelope: Envelope[Any]) -> bool:
    """A template that leaves or comes back in a step that also changes who uses it, or while it is leaving."""
    command = envelope.command
    if not isinstance(command, c.Ship):
        return False
    after = model.clone()
    if apply_step(after, command, sender_of(model, envelope, 0)) is not None:
        return False
    back = {put.digest for put in command.puts if isinstance(put, c.TemplateShipped)} & model.leaving
    left = after.leaving - model.leaving
    return bool(back) or any(bool(after.template_uses(d)) != bool(model.template_uses(d)) for d in left)


WAIVERS: dict[str, Waiver] = {
    "test_what_a_protected_tenant_has_just_placed_is_owed_to_it_no_more": more_than_one_need_beside_protected_room,
    "test_a_slot_is_placed_only_through_its_own_assignment": a_slot_of_another_assignment,
    "test_a_successor_whose_victims_are_gone_can_itself_be_preempted": a_victim_that_no_longer_waits,
    "test_two_serving_victims_of_one_placement_cost_two_of_the_disruption_budget": several_serving_victims,
    "test_serving_replicas_beyond_what_is_wanted_cost_no_disruption_budget": more_serving_than_wanted,
    "test_a_broken_device_does_not_keep_a_hold_of_cpu_away": a_node_over_in_what_is_not_asked_for,
    "test_a_successor_is_not_found_running_before_its_victims_are_gone": found_again_while_it_waits,
    "test_a_retargeted_slot_still_belongs_to_the_session_that_ended": changed_by_others_in_the_present_session,
    "test_a_template_and_its_last_assignment_that_go_in_one_step_are_both_gone": templates_and_their_users_in_one_step,
}


def waived(model: Model, state: RegionState, envelope: Envelope[Any]) -> str:
    """Why a program does not send this now; empty when it may."""
    return next((name for name, waiver in WAIVERS.items() if waiver(model, state, envelope)), "")


EXCUSED = "test_a_room_is_what_it_was_once_its_devices_are_free_again"


def excused(state: RegionState, violation: Violation) -> bool:
    """A room keeps empty places for devices that it had: the same room, but for the invariant's strict eye."""
    if violation.invariant != "region.rooms":
        return False
    rooms = state.rooms.items()
    return all(_bare(recount(state, uid, room.revision)) == _bare(room) for uid, room in rooms)


def _bare(room: Room) -> Room:
    devices = list(room.devices)
    while devices and devices[-1] == DeviceRoom():
        devices.pop()
    return replace(room, devices=tuple(devices))
