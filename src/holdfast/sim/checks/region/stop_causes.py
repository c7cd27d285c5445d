"""Checks by the log that the cause of every stop is true.

- rollout: more slots run its template than the assignment requires, and it is not about to serve
- scaled-down, superseded: there are more slots than required, and no pending one could go in its place
- deleted, deadline-missed: its assignment has ended
- right-lapsed: it runs by a leased right
- grant-ended: an emergency account is charged for it
- preempted, reclaimed: see `preemptions`
- gang-broken: fewer members of its gang are there than it needs; gang-failed: one has failed for good
- not-allowed: its node does not accept it, or a breach is open that concerns more than this

Whether a stop is missing is checked elsewhere.

Size: one table of causes, and what they read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.topology import TaintEffect
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.sim.checks.ledger_audit import Finding

#: The invariant of slots that may not stay on their node: checked here in detail. All other breaches only need to be
#: open.
ALLOWED = "region.allowed"
#: A decision may be based on a state up to this old.
SEEN_MS = 3_000
#: Causes that depend on the wanted count and must be true now: the ledger refuses decisions based on an older count.
COUNTED = ("rollout", "scaled-down", "superseded", "deleted", "deadline-missed")
NEVER = 2**62
#: How long a running slot has to start serving: after an outage no slot serves yet.
SETTLES_MS = 29_000


class _Slot(Struct, frozen=True):
    """A slot by the log: assignment, template, node, phase with its start, and next template."""

    assignment: Revision
    template: str
    phase: Phase
    since: Instant
    next_template: str
    node: Revision = 0
    account: str = ""
    #: The phase before, with its start: a stop may be based on it.
    before: tuple[Phase, Instant] = (Phase.PENDING, 0)

    @property
    def stays(self) -> bool:
        """Whether its ordinal is still wanted."""
        return self.phase not in (Phase.TERMINATING, Phase.RELEASED) or bool(self.next_template)


class StopCauseCheck:
    """Checks the stops of one region."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        #: Recent versions of each assignment with their ends: a stop may be based on an older one.
        self._assignments: dict[Revision, list[tuple[Instant, Assignment]]] = {}
        self._templates: dict[str, Template] = {}
        self._nodes: dict[Revision, Node] = {}
        self._slots: dict[SlotKey, _Slot] = {}
        #: By assignment and template: its finished ordinals, done and failed.
        self._finished: dict[Revision, dict[str, tuple[set[int], set[int]]]] = {}
        #: Open breaches, except those of slots that may not stay on their node.
        self._breaches: set[str] = set()

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        position = pack_revision(batch.header.seq)
        for record in batch.records:
            for event in record.events:
                self._take(event, record.at, f"{self._where} {format_revision(position)}")
                position += 1

    def _take(self, event: Any, at: Instant, place: str) -> None:  # long: a table of small cases
        match event:
            case e.AssignmentReceived(assignment):
                self._store(assignment, at)
            case e.TemplateReceived(digest, template):
                self._templates[digest] = template
            case e.NodeStored(node):
                self._nodes[node.uid] = node
            case e.BreachOpened(breach) if breach.invariant != ALLOWED:
                self._breaches.add(breach.key)
            case e.RegionBreachClosed(invariant, key) if invariant != ALLOWED:
                self._breaches.discard(key)
            case e.SlotsOpened(assignment=uid, workload=workload, template=digest, ordinals=ordinals):
                for first, after in ordinals:
                    for ordinal in range(first, after):
                        self._slots[workload, ordinal] = _Slot(uid, digest, Phase.PENDING, at, digest)
            case e.SlotsRetargeted(slots, template):
                for one in slots:
                    self._change(one.slot, next_template=template)
            case e.SlotsPlaced(workload=workload, account=account, bound=bound, placements=placements):
                phase = Phase.BOUND if bound else Phase.RESERVED
                for placed in placements:
                    slot = workload, placed.ordinal
                    paid = self._slots[slot].account or account
                    self._change(slot, node=placed.node, phase=phase, since=at, account=paid)
            case e.SlotsAdopted(account, slots):
                for one in slots:
                    self._change(one.slot, account=account)
            case e.SlotsBound(slots):
                for one in slots:
                    self._change(one.slot, phase=Phase.BOUND, since=at)
            case e.SlotsMoved(moves):
                for move in moves:
                    known = self._slots[move.slot]
                    self._change(move.slot, phase=move.phase, since=at, before=(known.phase, known.since))
            case e.SlotsStopping(cause, stops):
                wrong = {stop.slot: why for stop in stops if (why := self._wrong(stop.slot, cause, at))}
                for slot, why in wrong.items():
                    self._find(Finding("cause-true", f"{place}: slot {slot} is stopped for {cause!r}: {why}"))
                for stop in stops:
                    self._change(stop.slot, phase=Phase.TERMINATING, since=at, next_template=stop.next_template)
            case e.SlotsReleased(releases):
                for release in releases:
                    self._release(release, at)
            case e.OrdinalsFinished(assignment=uid, template=digest, done=done, failed=failed):
                rows = self._finished.setdefault(uid, {}).setdefault(digest, (set(), set()))
                rows[0].update(done)
                rows[1].update(failed)

    def _store(self, assignment: Assignment, at: Instant) -> None:
        lately = [(min(until, at), one) for until, one in self._assignments.get(assignment.uid, ())]
        kept = [(until, one) for until, one in lately if until + SEEN_MS > at]
        self._assignments[assignment.uid] = [*kept, (NEVER, assignment)]

    def _change(self, slot: SlotKey, **named: Any) -> None:
        self._slots[slot] = replace(self._slots[slot], **named)

    def _release(self, one: e.SlotRelease, at: Instant) -> None:
        if not one.next_template:
            del self._slots[one.slot]
            return
        template, paid = one.next_template, one.account
        waits = {"node": 0, "phase": Phase.PENDING, "since": at}
        self._change(one.slot, template=template, next_template=template, account=paid, **waits)

    def _wrong(self, key: SlotKey, cause: str, at: Instant) -> str:
        """Return what contradicts a cause; empty: it may be true, or was lately, if that is enough."""
        stored = self._assignments[self._slots[key].assignment]
        lately = [one for until, one in stored if until + SEEN_MS > at]
        found = [self._not_so(key, cause, one, at) for one in (lately[-1:] if cause in COUNTED else lately)]
        return found[-1] if all(found) else ""

    def _not_so(self, key: SlotKey, cause: str, assignment: Assignment, at: Instant) -> str:
        slot = self._slots[key]
        match cause:
            case "rollout":
                asked = sum(share.count for share in assignment.shares if share.template == slot.template)
                there = sum(one.template == slot.template for one in self._of(slot.assignment))
                if there <= asked:
                    return f"{asked} of its template are required, and {there} exist"
                settles = _settles(slot, at) and not self._gang_serves(key, assignment)
                return f"it is {slot.phase} for {at - slot.since} ms, and should start to serve" if settles else ""
            case "scaled-down" | "superseded":
                return self._not_surplus(key, slot, assignment, at)
            case "deleted" | "deadline-missed":
                return "" if assignment.stage is AssignmentStage.ENDED else "its assignment has not ended"
            case "right-lapsed":
                return "" if assignment.right_until else "it runs without a lease"
            case "grant-ended":
                return "" if slot.account.startswith("emergency/") else f"it is charged to {slot.account}"
            case "preempted" | "reclaimed":
                return ""
            case "gang-broken" | "gang-failed":
                return self._gang_stays(key, cause, assignment)
            case "not-allowed":
                return self._allowed(slot, assignment)
        return "no controller stops slots for that cause"

    def _gang_serves(self, key: SlotKey, assignment: Assignment) -> bool:
        """Return whether a member of its gang serves, or did a moment ago: the gang is stopped as a whole."""
        return any(Phase.SERVING in (one.phase, one.before[0]) for one in self._members(key, assignment))

    def _members(self, key: SlotKey, assignment: Assignment) -> list[_Slot]:
        size = assignment.gang.size if assignment.gang is not None else 1
        first = key[1] // size * size
        found = [self._slots.get((key[0], ordinal)) for ordinal in range(first, first + size)]
        return [one for one in found if one is not None and one.assignment == assignment.uid]

    def _gang_stays(self, key: SlotKey, cause: str, assignment: Assignment) -> str:
        """Return why a gang should not end; empty: it is broken, or has failed."""
        gang = assignment.gang
        if gang is None:
            return "it is of no gang"
        asked = {share.template for share in assignment.shares}  # of another template, all ordinals run again
        rows = [row for digest, row in self._finished.get(assignment.uid, {}).items() if digest in asked]
        finished = [n for row in rows for n in row[1 if cause == "gang-failed" else 0]]
        over = sum(n // gang.size == key[1] // gang.size for n in finished)
        if cause == "gang-failed":
            return "" if over else "no member of its gang has failed for good"
        leaves = (Phase.PENDING, Phase.TERMINATING, Phase.RELEASED)
        there = over + sum(one.phase not in leaves for one in self._members(key, assignment))
        return f"{there} members are there" if there >= (gang.min or gang.size) else ""

    def _of(self, assignment: Revision) -> list[_Slot]:
        return [one for one in self._slots.values() if one.assignment == assignment and one.stays]

    def _not_surplus(self, key: SlotKey, slot: _Slot, assignment: Assignment, at: Instant) -> str:
        if assignment.batch or assignment.stage is not AssignmentStage.ACTIVE or assignment.right_until:
            return ""  # ended assignments want no slots, and lapsed ones are not counted
        asked, mine = sum(share.count for share in assignment.shares), self._of(slot.assignment)
        if assignment.exclusive:
            listed = any(first <= key[1] < after for first, after in assignment.ordinals)
            return "its identity is required" if listed else ""
        if len(mine) <= asked:
            return f"{asked} are required, and {len(mine)} exist"
        if assignment.gang is not None:
            return ""  # a serving member may be of the smallest gang
        wait = [one for one in mine if one.phase is Phase.PENDING and one.template == slot.template]
        seen = [one for one in wait if one.since + SEEN_MS <= at]
        if slot.phase is Phase.SERVING and len(seen) >= len(mine) - asked:
            return f"it serves, and of {len(mine)} slots for {asked}, {len(seen)} wait for a node"
        return ""

    def _allowed(self, slot: _Slot, assignment: Assignment) -> str:
        """Return why a slot may stay on its node; empty: there is a reason against it."""
        node, tenant, template = self._nodes[slot.node], assignment.tenant, self._templates[slot.template]
        about = (f"node/{slot.node}/", f"assignment/{slot.assignment}/")
        if any(f"{key}/".startswith(about) for key in self._breaches):
            return ""
        for taint in [one for one in node.taints if one.effect is TaintEffect.EVICT]:
            if not any(one.key == taint.key and one.value in ("", taint.value) for one in template.tolerate):
                return ""
        kept = (node.tenancy and tenant not in node.tenancy) or node.tenant not in ("", tenant)
        exposed = template.isolation is Isolation.STRICT and not set(STRICT) <= set(node.capabilities)
        alone = not node.shares_user and Capability.USERS not in node.capabilities
        if kept or exposed or alone:
            return ""
        return f"node {node.name} accepts it"


def _settles(slot: _Slot, at: Instant) -> bool:
    """Return whether a slot runs and must be left to start serving: now, and in the state seen a moment ago."""
    seen = [(slot.phase, slot.since), *([slot.before] if at < slot.since + SEEN_MS else [])]
    is_new = any(phase in (Phase.BOUND, Phase.STARTING, Phase.FAILED) for phase, _ in seen)
    waits = [phase not in (Phase.RUNNING, Phase.READY) or at < since + SETTLES_MS for phase, since in seen]
    return slot.phase in (Phase.RUNNING, Phase.READY) and not is_new and all(waits)
