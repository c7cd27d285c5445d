"""Checks by the log that every preemption is allowed and needed.

- lower: a victim's class has a strictly lower priority, and the successor's may preempt; or recovery reclaims
- run-time: a victim that stays has run for its minimum time
- rate: no more are preempted in a minute than the settings allow
- needed: without any one of the victims that are stopped for it, the successor would not fit on the node
- successor: every victim that is stopped has one, placed in the same record

It counts with plain amounts, by itself. The disruption budget has its own check, and protected capacity an invariant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose
from holdfast.core.model.records.slots import Reservation
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.placement.usage import Amounts, amounts, grow, larger

MINUTE_MS = 60_000


class _Placed(Struct, frozen=True):
    """A slot on a node: when it was bound, whether it stays, whether it ends, and whom it waits for."""

    assignment: Revision
    template: str
    node: Revision
    bound_at: Instant
    firm: bool
    ends: bool = False
    waits_for: tuple[SlotKey, ...] = ()


class PreemptionCheck:
    """Checks the preemptions of one region."""

    def __init__(self, where: str, state: RegionState, find: Callable[[Finding], None]) -> None:
        self._where, self._state, self._find = where, state, find
        self._assignments: dict[Revision, Assignment] = {}
        self._templates: dict[str, Template] = {}
        self._classes: dict[str, PriorityClass] = {}
        self._capacity: dict[Revision, Amounts] = {}
        self._slots: dict[SlotKey, _Placed] = {}
        self._holds: dict[Revision, Reservation] = {}
        #: Slots stopped in this record whose successor is not placed yet, and their causes.
        self._stopped: dict[SlotKey, str] = {}
        self._window: tuple[Instant, int] = (0, 0)

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        position = pack_revision(batch.header.seq)
        for record in batch.records:
            for event in record.events:
                self._take(event, record.at, f"{self._where} {format_revision(position)}")
                position += 1
            for key in self._stopped:
                self._tell("successor", f"{self._where} {format_revision(position)}", f"slot {key} stops for nobody")
            self._stopped = {}

    def _tell(self, rule: str, place: str, why: str) -> None:
        self._find(Finding(f"preemption-{rule}", f"{place}: {why}"))

    def _take(self, event: Any, at: Instant, place: str) -> None:
        match event:
            case e.AssignmentReceived(assignment):
                self._assignments[assignment.uid] = assignment
            case e.TemplateReceived(digest, template):
                self._templates[digest] = template
            case e.PriorityClassReceived(cls):
                self._classes[cls.meta.name] = cls
            case e.NodeStored(node):
                self._capacity[node.uid] = amounts(node.capacity)
            case e.HoldStored(hold):
                self._holds[hold.uid] = hold
            case e.HoldEnded(uid):
                self._holds.pop(uid, None)
            case e.SlotsStopping(cause, stops):
                for stop in stops:
                    if cause in ("preempted", "reclaimed"):
                        self._stopped[stop.slot] = cause
                    elif stop.slot in self._slots:
                        self._slots[stop.slot] = replace(self._slots[stop.slot], ends=True)
            case e.SlotsPlaced():
                for placement in event.placements:
                    self._place(event, placement, at, place)
            case e.SlotsBound(slots):
                for one in slots:
                    self._slots[one.slot] = replace(self._slots[one.slot], bound_at=at)
            case e.SlotsReleased(releases):
                for release in releases:
                    self._slots.pop(release.slot, None)

    def _place(self, event: e.SlotsPlaced, placement: Any, at: Instant, place: str) -> None:
        key, bound_at = (event.workload, placement.ordinal), at if event.bound else 0
        slot = _Placed(
            event.assignment, event.template, placement.node, bound_at, event.firm, waits_for=placement.waits_for
        )
        stops = {one: self._stopped.pop(one) for one in placement.waits_for if one in self._stopped}
        for victim, cause in stops.items():
            told = f"slot {victim} is {cause} for {key}"
            for rule, why in self._wrongs(slot, victim, cause, at):
                self._tell(rule, place, f"{told}: {why}")
            if not placement.hold and self._fits_without(slot, victim):
                self._tell("needed", place, f"{told}: it fits there without that")
        for victim in stops:
            self._slots[victim] = replace(self._slots[victim], ends=True)
        self._slots[key] = slot

    def _wrongs(self, slot: _Placed, victim: SlotKey, cause: str, at: Instant) -> Iterable[tuple[str, str]]:
        theirs, settings = self._slots[victim], self._state.info.settings
        mine, other = self._class_of(slot), self._class_of(theirs)
        if cause == "reclaimed":
            if self._assignments[slot.assignment].purpose is not AssignmentPurpose.RECOVERY or theirs.firm:
                yield "lower", "only recovery reclaims, and only what is reclaimable"
            return
        if mine is None or not mine.spec.may_preempt or (other and other.spec.priority >= mine.spec.priority):
            yield "lower", "its priority is not strictly lower"
        if theirs.firm and at < theirs.bound_at + settings.preempt_after:
            yield "run-time", f"it was bound at {theirs.bound_at}"
        since, count = self._window
        self._window = (since, count + 1) if since <= at < since + MINUTE_MS else (at, 1)
        if self._window[1] > settings.preempt_max:
            yield "rate", f"it is number {self._window[1]} of this minute"

    def _class_of(self, slot: _Placed) -> PriorityClass | None:
        return self._classes.get(self._assignments[slot.assignment].priority_class)

    def _fits_without(self, slot: _Placed, spared: SlotKey) -> bool:
        """Whether the successor fits if this victim stays. Devices and ports may need it, and are not counted here."""
        template = self._templates[slot.template]
        if template.gpus or template.ports or self._is_protected():
            return False
        firm, everything, held = self._used(slot.node, {*slot.waits_for} - {spared})
        need, capacity = amounts(template.need), self._capacity[slot.node]
        limits = [everything]
        if slot.firm:
            grow(firm, held)
            limits.append(firm)
        return all(
            used.get(name, 0) + need[name] <= capacity.get(name, 0) for used in limits for name in need if need[name]
        )

    def _is_protected(self) -> bool:
        """Whether some capacity is protected: then a victim may be needed though there is room."""
        return any(
            amounts(grant.protected) != amounts(type(grant.protected)())
            for grant in self._state.accepted_grants.values()
        )

    def _used(self, node: Revision, without: set[SlotKey]) -> tuple[Amounts, Amounts, Amounts]:
        """Return what firm work, all work and holds use of a node. Of a successor and its victims the larger counts."""
        firm: Amounts = {}
        everything: Amounts = {}
        there = {key: one for key, one in self._slots.items() if one.node == node and key not in without}
        clustered = {victim for one in there.values() for victim in one.waits_for if victim in there}
        for key, one in there.items():
            if key in clustered:
                continue
            need = amounts(self._templates[one.template].need)
            all_, stays = need, need if one.firm else {}
            leaving: tuple[Amounts, Amounts] = ({}, {})
            for victim in [there[name] for name in one.waits_for if name in there]:
                grow(leaving[0], amounts(self._templates[victim.template].need))
                grow(leaving[1], amounts(self._templates[victim.template].need) if victim.firm else {})
            grow(everything, larger(all_, leaving[0]))
            grow(firm, larger(stays, leaving[1]))
        held: Amounts = {}
        for hold in self._holds.values():
            if hold.node == node:
                grow(held, amounts(hold.need))
        return firm, everything, held
