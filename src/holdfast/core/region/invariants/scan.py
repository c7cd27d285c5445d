"""Rows that invariants check: all of a region, or those near a batch.

Rows near a written row are: the node of a slot or hold, with everything placed there; the victims of a slot; the node
of an agent whose session ended. A batch scan computes sums from their old value and the written rows, never from all
rows of an account or assignment.

Size: every row that an invariant may be about, in both scans.

Three rare changes are scanned as widely as they reach. A new jurisdiction: every assignment. An exclusive assignment
that loses or lacks a right: its slots. A template deleted while in use: every slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from holdfast.core.ledger.state.invariants import BatchDiff, present
from holdfast.core.ledger.state.invariants import BatchScan as Near
from holdfast.core.model.records.breaches import REGION_RIGHT
from holdfast.core.model.records.grants import AccountUsage
from holdfast.core.model.records.lifecycle import ON_NODE, PHASES
from holdfast.core.model.records.node_usage import EMPTY_USAGE, NodeUsage, slot_keys
from holdfast.core.model.records.nodes import Node, NodeReport
from holdfast.core.model.records.slots import FinishedOrdinals, Reservation, Slot
from holdfast.core.model.values.ranges import contains, numbers
from holdfast.core.model.values.resources import ZERO, Resources, add, times
from holdfast.core.model.values.structs import Revision, SlotKey
from holdfast.core.region.invariants.counts import Counts, changed_counts, miscounted_anywhere, miscounted_near
from holdfast.core.region.state.lookups import is_finished, phase_count
from holdfast.core.region.state.slot_kinds import ordinals_of
from holdfast.core.region.state.tables import RegionState

Slots = Iterator[tuple[SlotKey, Slot]]
Amounts = dict[str, int]
_ON_NODE = tuple(phase for phase in PHASES if phase in ON_NODE)


def amounts(resources: Resources) -> Amounts:
    """Return the nonzero amounts, by name."""
    standard = (("cpu", resources.cpu), ("memory", resources.memory), ("disk", resources.disk), ("gpu", resources.gpu))
    return {name: amount for name, amount in (*standard, *resources.extended) if amount}


class RegionFullScan:
    """All rows of a region, and sums computed from them."""

    def __init__(self, state: RegionState) -> None:
        self.state = state

    def slots(self) -> Slots:
        """Return the slots whose own rows are checked."""
        return self.state.slots.unordered()

    def standing(self) -> Slots:
        """Return every slot of each checked node."""
        return self.state.slots.unordered()

    def identities(self) -> Slots:
        """Return every slot of each assignment whose rights are checked."""
        return self.state.slots.unordered()

    def nodes(self) -> Iterator[tuple[Revision, Node]]:
        return self.state.nodes.unordered()

    def node_reports(self) -> Iterator[tuple[Revision, NodeReport]]:
        return self.state.node_reports.unordered()

    def rooms(self) -> Iterator[tuple[Revision, NodeUsage]]:
        return self.state.node_usage.unordered()

    def holds(self) -> Iterator[tuple[Revision, Reservation]]:
        return self.state.holds.unordered()

    def finished(self) -> Iterator[tuple[Revision, tuple[FinishedOrdinals, ...]]]:
        """Return finished ordinals by assignment."""
        return self.state.finished.unordered()

    def uses(self) -> Iterator[tuple[str, AccountUsage]]:
        return self.state.account_usage.unordered()

    def charged(self) -> dict[str, Amounts]:
        """Return by account what its slots and holds need."""
        state = self.state
        kinds = Counter((slot.account, slot.template) for _, slot in state.slots.unordered() if slot.account)
        charged = {account: ZERO for account, _ in state.account_usage.unordered()}
        for (account, template), count in kinds.items():
            need = times(state.templates[template].need, count)
            charged[account] = add(charged.get(account, ZERO), need)
        for _, hold in state.holds.unordered():
            charged[hold.account] = add(charged.get(hold.account, ZERO), hold.need)
        return {account: amounts(need) for account, need in charged.items()}

    def placed(self) -> dict[Revision, int]:
        """Return by assignment the number of its slots on nodes."""
        return Counter(slot.assignment for _, slot in self.state.slots.unordered() if slot.phase in ON_NODE)

    def miscounts(self) -> Iterator[str]:
        """Find counts and indexes that do not agree with their rows."""
        return miscounted_anywhere(self.state)


class RegionBatchScan(Near[RegionState]):
    """Rows that a batch has written in a region, and rows near them."""

    def __init__(self, change: BatchDiff[RegionState]) -> None:
        super().__init__(change)
        self._include_slots()
        self._include_nodes()
        self.include("uses", change.touched.get("allowances", ()))

    def _include_slots(self) -> None:
        before, change = self.before, self.change
        for _, old, new in change.rows("slots"):
            for slot in (old, new):
                self.include("slots", slot.waits_for if slot is not None else ())
        for _, old, new in change.rows("rooms"):
            listed = set(slot_keys(old or EMPTY_USAGE)).symmetric_difference(slot_keys(new or EMPTY_USAGE))
            self.include("slots", sorted(listed))
        for uid, old, new in change.rows("assignments"):
            if old is not None and (new is None or (new.workload, new.tenant) != (old.workload, old.tenant)):
                self.include("slots", self._slots_of(uid))
        for uid, old, new in change.rows("nodes"):
            if old is not None and (new is None or (new.name, new.zone, new.pool) != (old.name, old.zone, old.pool)):
                usage = before.node_usage.get(uid) or EMPTY_USAGE
                self.include("slots", slot_keys(usage))
                self.include("holds", usage.holds)
        for uid, _, _ in change.rows("finished"):
            self.include("slots", (key for key in self._slots_of(uid) if is_finished(self.state, uid, key[1])))
        lost = [digest for digest, old, _ in change.rows("templates") if old is not None and self._used(digest)]
        if lost:
            rows = self.state.slots.items()
            self.include("slots", (key for key, slot in rows if slot.template in lost or slot.next_template in lost))

    def _used(self, digest: str) -> bool:
        """Return whether a slot or assignment uses a template that the batch changed or deleted."""
        count = self.before.template_uses.get(digest) or 0
        for _, *slots in self.change.rows("slots"):
            for slot, sign in zip(slots, (-1, 1), strict=True):
                count += sign * (slot is not None and (slot.template, slot.next_template).count(digest))
        for _, *assignments in self.change.rows("assignments"):
            for one, sign in zip(assignments, (-1, 1), strict=True):
                count += sign * (one is not None and sum(share.template == digest for share in one.shares))
        return count > 0

    def _slots_of(self, assignment: Revision) -> list[SlotKey]:
        """Return the slots that an assignment had before the batch, or has got in it."""
        known = self.before.assignments.get(assignment)
        ordinals = ordinals_of(self.before, assignment)
        written = [
            key for key, _, slot in self.change.rows("slots") if slot is not None and slot.assignment == assignment
        ]
        return [*((known.workload, ordinal) for ordinal in numbers(ordinals) if known is not None), *written]

    def _include_nodes(self) -> None:
        uids = dict.fromkeys((*self.keys("rooms"), *self.keys("nodes"), *self._breached("node")))
        for state in (self.before, self.state):
            for table in ("slots", "holds"):
                uids.update((row.node, None) for _, row in present(state, table, self.keys(table)) if row.node)
        for _, session, _ in self.change.rows("sessions"):
            if session is not None and session.principal.startswith("agent/"):
                name = session.principal.removeprefix("agent/")
                uids.update((uid, None) for _, uid in present(self.before, "node_names", (name,)))
        self.include("nodes", uids)
        self.include("rooms", uids)
        self.include("node_reports", uids)

    def _breached(self, kind: str, invariant: str = "") -> list[Revision]:
        """Return the nodes or assignments whose breaches were opened, changed or closed."""
        parts = [(name, *key.split("/")) for name, key in self.change.touched.get("breaches", ())]
        return [int(part[2]) for part in parts if part[1] == kind and invariant in ("", part[0])]

    def slots(self) -> Slots:
        return self.rows("slots")

    def standing(self) -> Slots:
        keys = dict.fromkeys(self.keys("slots"))
        for _, usage in self.rooms():
            keys.update(dict.fromkeys(slot_keys(usage)))
        return present(self.state, "slots", keys)

    def identities(self) -> Slots:
        """Return slots of assignments that were written, whose breach was, or that have a slot without a right.

        Other assignments cannot have got more slots without a right.
        """
        doubtful = dict.fromkeys((*self.keys("assignments"), *self._breached("assignment", REGION_RIGHT)))
        for _, slot in self.slots():
            known = self.state.assignments.get(slot.assignment)
            if (
                known is not None
                and known.exclusive
                and not contains(known.ordinals, slot.ordinal)
                and slot.phase in ON_NODE
            ):
                doubtful[slot.assignment] = None
        exclusive = [uid for uid, known in present(self.state, "assignments", doubtful) if known.exclusive]
        keys = dict.fromkeys(key for uid in exclusive for key in self._slots_of(uid))
        return present(self.state, "slots", keys)

    def nodes(self) -> Iterator[tuple[Revision, Node]]:
        return self.rows("nodes")

    def node_reports(self) -> Iterator[tuple[Revision, NodeReport]]:
        return self.rows("node_reports")

    def rooms(self) -> Iterator[tuple[Revision, NodeUsage]]:
        return self.rows("rooms")

    def holds(self) -> Iterator[tuple[Revision, Reservation]]:
        return self.rows("holds")

    def finished(self) -> Iterator[tuple[Revision, tuple[FinishedOrdinals, ...]]]:
        return present(self.state, "finished", dict.fromkeys((*self.keys("finished"), *self.keys("assignments"))))

    def uses(self) -> Iterator[tuple[str, AccountUsage]]:
        return self.rows("uses")

    @cached_property
    def changed(self) -> Counts:
        """Return the change of each count by the written rows."""
        return changed_counts(self)

    def charged(self) -> dict[str, Amounts]:
        change: dict[str, Amounts] = {account: {} for account in self.keys("uses")}
        for (what, *where), amount in self.changed.items():
            if what == "charged":
                account, resource = map(str, where)
                change.setdefault(account, {})[resource] = amount
        charged = {}
        for account, more in change.items():
            was = amounts((self.before.account_usage.get(account) or AccountUsage()).charged)
            now = {name: was.get(name, 0) + more.get(name, 0) for name in {**was, **more}}
            charged[account] = {name: amount for name, amount in now.items() if amount}
        return charged

    def placed(self) -> dict[Revision, int]:
        rows = [slot for state in (self.before, self.state) for _, slot in present(state, "slots", self.keys("slots"))]
        uids = dict.fromkeys((*self.keys("assignments"), *self._breached("assignment")))
        uids.update((slot.assignment, None) for slot in rows)
        if self.before.region.jurisdiction != self.state.region.jurisdiction:
            uids.update((uid, None) for uid, _ in self.state.assignments.items())
        return {
            uid: sum(phase_count(self.before, uid, p) + self.changed["tallies", uid, p] for p in _ON_NODE)
            for uid in uids
        }

    def miscounts(self) -> Iterator[str]:
        return miscounted_near(self, self.changed)


RegionScan = RegionFullScan | RegionBatchScan
