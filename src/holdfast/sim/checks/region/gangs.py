"""Checks by the log that gangs are whole, without the ledger's gate and queries.

- gang-whole: after a command that placed members of a gang, as many are there as its rule needs
- gang-split: an assignment has whole gangs only
- gang-bound: no command binds a part of the reserved members of a gang

A loss makes a gang smaller at any time. `late_gangs` finds those that are neither completed nor ended in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.model.records.assignments import ACTIVE, Assignment
from holdfast.core.model.records.lifecycle import STOPPABLE, Phase
from holdfast.core.model.records.slots import FinishedOrdinals
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.deadlines import PROMPT_MS, Unconverged
from holdfast.sim.checks.ledger_audit import Finding

#: A gang: its assignment and its number.
GangKey = tuple[Revision, int]


class GangCheck:
    """Checks the gangs of one region."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        self._assignments: dict[Revision, Assignment] = {}
        self._owner: dict[SlotKey, Revision] = {}
        #: Members that are there: reserved, bound or further, and not ending; and finished ones.
        self._there: dict[SlotKey, Phase] = {}
        self._done: dict[Revision, dict[str, set[int]]] = {}

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch, command by command."""
        place = f"{self._where} {format_revision(pack_revision(batch.header.seq))}"
        for record in batch.records:
            placed: dict[GangKey, None] = {}
            bound: dict[GangKey, None] = {}
            for event in record.events:
                for key in self._take(event, place):
                    (bound if isinstance(event, e.SlotsBound) else placed)[key] = None
            for key in placed:
                self._judge(key, place)
            for uid, number in bound:
                if any(phase is Phase.RESERVED for phase in self._members(uid, number).values()):
                    self._find(Finding("gang-bound", f"{place}: gang {number} of {uid} is bound in part"))

    def _judge(self, key: GangKey, place: str) -> None:
        uid, number = key
        gang = self._assignments[uid].gang
        assert gang is not None
        done = [n for one in self._done.get(uid, {}).values() for n in one]
        finished = sum(ordinal // gang.size == number for ordinal in done)
        there, needed = len(self._members(uid, number)) + finished, gang.min or gang.size
        if there < needed:
            self._find(Finding("gang-whole", f"{place}: gang {number} of {uid} has {there} of {needed} members"))

    def _members(self, uid: Revision, number: int) -> dict[SlotKey, Phase]:
        known = self._assignments[uid]
        size = known.gang.size if known.gang is not None else 1
        keys = [(known.workload, ordinal) for ordinal in range(number * size, (number + 1) * size)]
        return {key: self._there[key] for key in keys if key in self._there and self._owner.get(key) == uid}

    def _gang(self, key: SlotKey) -> list[GangKey]:
        uid = self._owner.get(key)
        gang = self._assignments[uid].gang if uid in self._assignments else None
        return [(uid, key[1] // gang.size)] if gang is not None and uid is not None else []

    def _take(self, event: Any, place: str) -> list[GangKey]:  # long: a table of small cases
        """Apply an event. Return the gangs of which it placed or bound members."""
        match event:
            case e.AssignmentReceived(assignment):
                self._assignments[assignment.uid] = assignment
                asked = {share.template for share in assignment.shares}  # of another template, all ordinals run again
                done_before = self._done.get(assignment.uid, {})
                self._done[assignment.uid] = {digest: one for digest, one in done_before.items() if digest in asked}
                size = assignment.gang.size if assignment.gang is not None else 1
                if any(share.count % size for share in assignment.shares):
                    counts = [share.count for share in assignment.shares]
                    self._find(Finding("gang-split", f"{place}: {assignment.uid} has {counts} of gangs of {size}"))
            case e.SlotsOpened(assignment=uid, workload=workload, ordinals=ordinals):
                self._owner.update({(workload, n): uid for first, after in ordinals for n in range(first, after)})
            case e.SlotsPlaced(workload=workload, bound=bound, placements=placements):
                keys = [(workload, one.ordinal) for one in placements]
                self._there.update(dict.fromkeys(keys, Phase.BOUND if bound else Phase.RESERVED))
                return [gang for key in keys for gang in self._gang(key)]
            case e.SlotsBound(slots):
                self._there.update(dict.fromkeys([one.slot for one in slots], Phase.BOUND))
                return [gang for one in slots for gang in self._gang(one.slot)]
            case e.SlotsStopping(stops=stops):
                for stop in stops:
                    self._there.pop(stop.slot, None)
            case e.SlotsReleased(releases):
                for one in releases:
                    self._there.pop(one.slot, None)
                    if not one.next_template:
                        self._owner.pop(one.slot, None)
            case e.OrdinalsFinished(assignment=uid, template=digest, done=done):
                self._done.setdefault(uid, {}).setdefault(digest, set()).update(done)
        return []


def failed_with_gang(row: FinishedOrdinals, size: int) -> int:
    """Return how many ordinals are over only because a member of their gang has failed for good."""
    failed, over = ({n for one in runs for n in range(*one)} for runs in (row.failed, (*row.done, *row.failed)))
    gangs = {n // size for n in failed}
    return len(gangs) * size - sum(n // size in gangs for n in over)


def late_gangs(where: str, state: RegionState, uid: int, assignment: Assignment) -> Iterator[Unconverged]:
    """Yield gangs that have had too few members for longer than their rule allows."""
    gang = assignment.gang
    if gang is None or assignment.stage is not ACTIVE:
        return
    done = {n for row in state.finished.get(uid) or () for one in row.done for n in range(*one)}
    slots = {slot.ordinal: slot for slot in state.slots.values() if slot.assignment == uid}
    for number in sorted({ordinal // gang.size for ordinal in slots}):
        members = [slots.get(n) for n in range(number * gang.size, (number + 1) * gang.size) if n not in done]
        gone = [one for one in members if one is None or one.phase in (Phase.PENDING, Phase.TERMINATING)]
        runs = [one for one in members if one is not None and one.phase in STOPPABLE]
        spare = gang.size - (gang.min or gang.size)
        if runs and len(gone) > spare:
            since = sorted(one.since if one is not None else state.info.at for one in gone)[spare]
            if since + gang.replace_within <= state.info.at:
                detail = f"lacks {len(gone)} of {gang.size} members since {since}, and {len(runs)} still run"
                yield Unconverged("gang", f"{where} gang {number} of {uid}", detail, PROMPT_MS)
