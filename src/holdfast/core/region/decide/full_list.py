"""A full list comes in parts, each a record of its own; what it does not name is gone with its last part (ADR 0021).

    part 0 ──▶ 1 ──▶ ... ──▶ last ──▶ what no part named is gone ──▶ the cursor is at the list's position
      ▲                                  │ more than one record holds: the last part again ──▶ goes on
      └── another list begins anew, whatever became of the one before

A list is told apart by its log, term and position: one leader cuts one state in one way. While it is under way the
names that came are kept, nothing leaves, the cursor stays, and steps are refused; so whatever breaks in the middle, the
next list, or the same one again, ends it.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.region import commands as c
from holdfast.core.region import events as e
from holdfast.core.region.limits import EACH_BYTES, REMOVED_BYTES, REMOVED_MAX
from holdfast.core.region.state.shipped_objects import TABLE_OF_SHIPPED, is_own
from holdfast.core.region.state.tables import FullListProgress, ObjectName, RegionInfo, RegionState


def refuse_part(place: RegionInfo, command: c.Ship, facts: dict[str, Any]) -> Refused | None:
    """Whether this part of a full list is not the next one."""
    listing = place.listing
    past = command.log_id == place.platform_log and command.to <= place.cursor
    if listing is not None and _is_of(listing, command):
        if is_resumed_sweep(place, command):
            return None
        if command.part < listing.parts:
            return Refused(Code.ALREADY, f"{listing.parts} parts of this list are here", facts)
        if command.part > listing.parts or listing.swept is not None:
            return Refused(Code.GAP, f"{listing.parts} parts of this list are here: {command.part} is not next", facts)
        return None
    if past and (command.part or command.to < place.cursor):
        return Refused(Code.ALREADY, "the cursor is past this list", facts)
    if command.part:
        return Refused(Code.DIVERGED, f"part {command.part} is of another list than was begun", facts)
    return None


def is_resumed_sweep(place: RegionInfo, command: c.Ship) -> bool:
    """Whether this is the last part once more, whose objects are here and which has not ended yet."""
    listing = place.listing
    if listing is None or listing.swept is None or not _is_of(listing, command):
        return False
    return command.last and command.part == listing.parts - 1


def _is_of(listing: FullListProgress, command: c.Ship) -> bool:
    return (listing.log_id, listing.term, listing.to) == (command.log_id, command.term, command.to)


def apply_part(
    state: RegionState, command: c.Ship, names: tuple[ObjectName, ...]
) -> tuple[list[c.RemovedObject], list[Any]]:
    """What is gone with this part of a list, and the events that say how far the list is now."""
    part = e.ListTaken(command.log_id, command.term, command.to, command.part, names)
    if not command.last:
        return [], [part]
    again = is_resumed_sweep(state.region, command)
    named = set() if again else {*names}
    if again or command.part:
        named.update(*[row for _, row in state.listed_names.unordered()])
    gone = _unlisted(state, named, after=state.region.listing if again else None)
    now = _first(state, gone, None if again else command)
    if len(now) == len(gone):
        return gone, [e.CursorMoved(command.log_id, command.term, command.to, command.proof)]
    swept = e.ListSwept(command.log_id, now[-1] if now else c.RemovedObject("", ""))
    return now, [swept] if again else [part, swept]


def _first(state: RegionState, gone: list[c.RemovedObject], beside: c.Ship | None) -> list[c.RemovedObject]:
    """As much of it as one record holds: nothing, where the part that it comes with is large, and else one at least."""
    left = REMOVED_BYTES - (len(encode(beside)) if beside is not None else 0)
    for count, one in enumerate(gone[:REMOVED_MAX]):
        left -= EACH_BYTES
        assignment = state.assignments.get(int(one.key)) if one.kind == "assignment" else None
        left -= len(encode(ended_assignment(assignment))) if assignment is not None else 0
        if left < 0 and (count or beside is not None):
            return gone[:count]
    return gone[:REMOVED_MAX]


def ended_assignment(assignment: Assignment) -> Assignment:
    """An assignment that the platform has no more: whatever stands by it ends, and there is nobody to give back to."""
    return replace(assignment, stage=AssignmentStage.ENDED, shares=(), ordinals=(), returning=())


def _unlisted(state: RegionState, named: set[ObjectName], after: FullListProgress | None) -> list[c.RemovedObject]:
    """What is not named and was not told to be gone yet, templates last: they go after those who use them."""
    swept = after.swept if after is not None and after.swept is not None else ("", "")
    found = []
    for kind in (*TABLE_OF_SHIPPED, "template"):
        table = TABLE_OF_SHIPPED[kind][0] if kind in TABLE_OF_SHIPPED else "templates"
        for key, value in state.table(table).unordered():
            name = kind, str(key)
            if name not in named and not is_own(kind, value) and _turn(name) > _turn(swept):
                found.append(name)
    return [c.RemovedObject(*name) for name in sorted(found, key=_turn)]


def _turn(name: ObjectName) -> tuple[bool, ObjectName]:
    return name[0] == "template", name
