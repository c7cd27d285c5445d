"""A full list arrives in parts, one record each; the last part deletes unlisted objects (ADR 0021).

    part 0 ──▶ 1 ──▶ ... ──▶ last ──▶ unlisted objects are deleted ──▶ the cursor is at the list's position
      ▲                       │ too many for one record: the last part is sent again ──▶ continues
      └── another list starts over, whatever the state of the one before

Log, term and position identify a list: one leader cuts one state in one way. While it is in progress, the region stores
the received names, deletes nothing, keeps its cursor and refuses steps. So after any failure the next list, or the same
one again, ends it.
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
    """Refuse a part of a full list unless it is the next one."""
    listing = place.listing
    past = command.log_id == place.platform_log and command.to <= place.cursor
    if listing is not None and _is_of(listing, command):
        if is_resumed_sweep(place, command):
            return None
        if command.part < listing.parts:
            return Refused(Code.ALREADY, f"{listing.parts} parts of this list are applied", facts)
        if command.part > listing.parts or listing.swept is not None:
            return Refused(Code.GAP, f"{listing.parts} parts are applied: {command.part} is not next", facts)
        return None
    if past and (command.part or command.to < place.cursor):
        return Refused(Code.ALREADY, "the cursor is past this list", facts)
    if command.part:
        return Refused(Code.DIVERGED, f"part {command.part} belongs to another list than the one in progress", facts)
    return None


def is_resumed_sweep(place: RegionInfo, command: c.Ship) -> bool:
    """Return whether this is the last part again, applied already, with deletions left to do."""
    listing = place.listing
    if listing is None or listing.swept is None or not _is_of(listing, command):
        return False
    return command.last and command.part == listing.parts - 1


def _is_of(listing: FullListProgress, command: c.Ship) -> bool:
    return (listing.log_id, listing.term, listing.to) == (command.log_id, command.term, command.to)


def apply_part(
    state: RegionState, command: c.Ship, names: tuple[ObjectName, ...]
) -> tuple[list[c.RemovedObject], list[Any]]:
    """Return the objects that this part deletes, and the events for the list's progress."""
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
    """Return the objects that fit in this record. None if a large part takes the record, otherwise at least one."""
    left = REMOVED_BYTES - (len(encode(beside)) if beside is not None else 0)
    for count, one in enumerate(gone[:REMOVED_MAX]):
        left -= EACH_BYTES
        assignment = state.assignments.get(int(one.key)) if one.kind == "assignment" else None
        left -= len(encode(ended_assignment(assignment))) if assignment is not None else 0
        if left < 0 and (count or beside is not None):
            return gone[:count]
    return gone[:REMOVED_MAX]


def ended_assignment(assignment: Assignment) -> Assignment:
    """Return an assignment as ended. The platform has deleted it, so no right is returned."""
    return replace(assignment, stage=AssignmentStage.ENDED, shares=(), ordinals=(), returning=())


def _unlisted(state: RegionState, named: set[ObjectName], after: FullListProgress | None) -> list[c.RemovedObject]:
    """Return unlisted objects that are not deleted yet. Templates are last: they follow the objects that use them."""
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
