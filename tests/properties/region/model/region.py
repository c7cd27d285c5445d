"""A deliberately simple region: what a region's ledger should answer, by brute force.

Mutable dataclasses in plain dicts, and not one index: every room, charge, count and protected amount is summed anew
each time it is asked for. It shares structs, the edge table and the refusal codes with the ledger, and no rule: where
the two disagree, one of them has misread the documents.

    region_model_things     slots, nodes, holds, grants, and the arithmetic of amounts
    region_model            all that exists, and every sum over it
    region_model_senders    who may send, repeats, sessions, settings, overrides
    region_model_objects    nodes, ordinals
    region_model_holds      room that is held
    region_model_placing    Propose
    region_model_slots      Bind, Unreserve, Expire, Move, Stop
    region_model_shipping   Ship, and what the world breaks
    region_judge            all of it put together
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.objects.policies import Override, SchedulerPolicy
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.lifecycle import ON_NODE, Phase
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.records.slots import Failure
from holdfast.core.model.values.settings import DEFAULTS, Settings
from holdfast.core.model.values.structs import SlotKey
from tests.properties.region.model.records import (
    Amounts,
    Grant,
    Hold,
    Key,
    Node,
    Over,
    Room,
    Session,
    Slot,
    amounts,
    larger,
    minus,
    plus,
    summed,
)


@dataclass
class Model:
    """Everything a region knows, as simply as it can be said."""

    log_id: str
    ledger: str
    seq: int = 0
    term: int = 0
    term_at: int = 0
    settings: Settings = DEFAULTS
    jurisdiction: str = ""
    platform_log: str = ""
    platform_term: int = 0
    cursor: int = 0
    proof: str = ""
    #: The full list under way, by its log, term and position; what each part named; what was last told to be gone.
    listing: tuple[str, int, int] | None = None
    listed: tuple[frozenset[tuple[str, str]], ...] = ()
    swept: tuple[str, str] | None = None
    principals: dict[str, Principal] = field(default_factory=dict)
    sessions: dict[int, Session] = field(default_factory=dict)
    keys: dict[tuple[str, str], Key] = field(default_factory=dict)
    overrides: dict[int, Override] = field(default_factory=dict)
    shipped_overrides: dict[int, Override] = field(default_factory=dict)
    nodes: dict[int, Node] = field(default_factory=dict)
    slots: dict[SlotKey, Slot] = field(default_factory=dict)
    holds: dict[int, Hold] = field(default_factory=dict)
    assignments: dict[int, Assignment] = field(default_factory=dict)
    templates: dict[str, Template] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    grants: dict[str, Grant] = field(default_factory=dict)
    classes: dict[str, PriorityClass] = field(default_factory=dict)
    tokens: dict[str, Token] = field(default_factory=dict)
    servers: dict[str, ServerToken] = field(default_factory=dict)
    platform_servers: dict[str, ServerToken] = field(default_factory=dict)
    pools: dict[str, int] = field(default_factory=dict)
    policies: dict[int, SchedulerPolicy] = field(default_factory=dict)
    validities: dict[str, int] = field(default_factory=dict)
    examined: dict[tuple[int, str], int] = field(default_factory=dict)
    #: By how much each is broken, and since when.
    breaches: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    #: Since when preemptions are counted, and how many there were.
    preempted: tuple[int, int] = (0, 0)
    #: Batch work that does not come back.
    over: set[Over] = field(default_factory=set)

    @property
    def here(self) -> int:
        """The batch that the command under judgement would become."""
        return self.seq + 1

    @property
    def uid(self) -> int:
        """The uid of what it would make first."""
        return pack_revision(self.here)

    def clone(self) -> Model:
        """Another region like this one."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict):
                rows = {key: copy.copy(row) if hasattr(row, "__dict__") else row for key, row in value.items()}
                setattr(other, name, rows)
        other.sessions = {
            uid: Session(s.principal, s.opened, s.since, s.high, s.fence, dict(s.answered))
            for uid, s in self.sessions.items()
        }
        other.leaving = set(self.leaving)
        other.over = set(self.over)
        return other

    # Who is there

    def need(self, template: str) -> Amounts:
        return amounts(self.templates[template].need)

    def standing(self) -> list[Slot]:
        return [slot for slot in self.slots.values() if slot.phase in ON_NODE]

    def on(self, node: int) -> list[Slot]:
        return [slot for slot in self.standing() if slot.node == node]

    def heir(self, key: SlotKey) -> Slot | None:
        """Who waits for this slot."""
        return next((slot for slot in self.slots.values() if key in slot.waits), None)

    def of(self, assignment: int) -> list[Slot]:
        return [slot for slot in self.slots.values() if slot.assignment == assignment]

    def template_uses(self, digest: str) -> int:
        shares = sum(share.template == digest for a in self.assignments.values() for share in a.shares)
        slots = sum((slot.template == digest) + (slot.following == digest) for slot in self.slots.values())
        return shares + slots

    # What is taken

    def takes(self, slot: Slot) -> Amounts:
        """Everything a slot takes where it stands: its need, and of each of its devices a part."""
        milli = self.templates[slot.template].gpu_milli
        return {**self.need(slot.template), **{f"device/{index}": milli for index in slot.devices}}

    def room(self, node: int, without: Iterable[SlotKey] = (), without_hold: int = 0) -> Room:
        """The sum over who stands there; a slot and its victims take the larger of what comes and what leaves."""
        gone = set(without)
        there = [slot for slot in self.on(node) if slot.key not in gone]
        room = Room({}, {}, {}, [])
        for slot in there:
            if self.heir(slot.key) is not None:
                continue
            victims = [victim for victim in there if victim.key in slot.waits]
            firm = summed(self.takes(victim) for victim in victims if victim.firm)
            every = summed(self.takes(victim) for victim in victims)
            room.firm = plus(room.firm, larger(firm, self.takes(slot) if slot.firm else {}))
            room.all = plus(room.all, larger(every, self.takes(slot)))
        for hold in self.holds.values():
            if hold.node == node and hold.uid != without_hold:
                devices = {f"device/{index}": hold.milli for index in hold.devices}
                room.held = plus(room.held, {**hold.need, **devices})
        room.ports = [port for slot in there for port in slot.ports]
        return room

    def capacity(self, node: Node) -> Amounts:
        devices = {f"device/{index}": device.milli for index, device in enumerate(node.said.devices)}
        return {**amounts(node.said.capacity), **devices}

    def charged(self, account: str) -> Amounts:
        slots = [self.need(slot.template) for slot in self.slots.values() if slot.account == account]
        return summed([*slots, *(hold.need for hold in self.holds.values() if hold.account == account)])

    def pays(self, account: str, need: Amounts, at: int) -> bool:
        """Nothing is added above the target, nor after the end."""
        grant = self.grants.get(account)
        if grant is None or grant.ends <= at:
            return False
        spent = self.charged(account)
        return all(spent.get(name, 0) + amount <= grant.target.get(name, 0) for name, amount in need.items())

    def owed(self, account: str) -> Amounts:
        """What of its protected amount does not stand on nodes yet, as firm work of that account."""
        placed = summed(self.need(s.template) for s in self.standing() if s.firm and s.account == account)
        left = minus(self.grants[account].protected, placed)
        return {name: amount for name, amount in left.items() if amount > 0}

    def owed_to_others(self, tenant: str) -> Amounts:
        """What no placement of this tenant may crowd out, whoever pays for it."""
        return summed(self.owed(account) for account in self.grants if account != f"quota/{tenant}")

    def free(self) -> Amounts:
        """What firm work and holds leave over on usable nodes."""
        total: Amounts = {}
        for node in self.nodes.values():
            if node.usable:
                room = self.room(node.uid)
                total = plus(total, minus(self.capacity(node), plus(room.firm, room.held)))
        return total

    def crowds_out(self, free_before: Amounts, owed: Amounts) -> bool:
        """Whether what was taken since leaves less than others are owed, of anything that was taken."""
        free = self.free()
        taken = [name for name in owed if free.get(name, 0) < free_before.get(name, 0)]
        return any(free.get(name, 0) < owed[name] for name in taken)

    def serving(self, assignment: int) -> int:
        return sum(slot.phase is Phase.SERVING for slot in self.of(assignment))

    def disruption_left(self, assignment: int, stopping: int = 0) -> int:
        """How many serving replicas may be stopped voluntarily, once `stopping` of them are.

        So many that no more than the share are missing from the wanted number.
        """
        terms = self.assignments[assignment]
        fewest = sum(share.count for share in terms.shares) - terms.disruption
        return self.serving(assignment) - stopping - fewest

    def open_requests(self) -> dict[tuple[int, str], int]:
        found: dict[tuple[int, str], int] = {}
        for slot in self.slots.values():
            if slot.phase is Phase.PENDING:
                found[slot.assignment, slot.template] = found.get((slot.assignment, slot.template), 0) + 1
        return found

    # The end of a stay

    def touch_room(self, node: int) -> None:
        self.nodes[node].room_changed = self.here

    def leave(self, slot: Slot, cause: str, detail: str = "", at: int = 0) -> None:
        """The slot leaves its node: its ordinal waits again, or is gone, and nobody waits for it any more."""
        if slot.node:
            self.touch_room(slot.node)
        heir = self.heir(slot.key)
        if heir is not None:
            heir.waits = tuple(key for key in heir.waits if key != slot.key)
        del self.slots[slot.key]
        terms = self.assignments[slot.assignment]
        spent = cause == "given-up" and terms.batch and slot.given_up == 2 and slot.following == slot.template
        if slot.phase is Phase.SUCCEEDED or spent:
            over = Over(slot.assignment, slot.ordinal, slot.template, slot.phase is Phase.SUCCEEDED)
            self.over |= {over} if self.still_counts(over) else set()
        elif slot.following and cause != "withdrawn":
            paid, asked = self.need(slot.template), self.need(slot.following)
            enough = all(amount <= paid.get(name, 0) for name, amount in asked.items())
            same = slot.failure if slot.following == slot.template else None
            self.slots[slot.key] = Slot(
                *slot.key, slot.assignment, slot.following, slot.following, self.here,
                cause=cause, account=slot.account if enough else "", detail=detail,
                failure=Failure(cause, detail, at) if cause == "declined" else same,
                given_up=slot.given_up + (cause == "given-up") if slot.following == slot.template else 0,
                receipt=slot.receipt,
            )  # fmt: skip

    def still_counts(self, over: Over) -> bool:
        """What is over counts while its assignment asks for that template, and once that has ended until it is gone."""
        terms = self.assignments.get(over.assignment)
        if terms is None:
            return False
        asked = terms.batch and over.template in [share.template for share in terms.shares]
        return terms.stage is AssignmentStage.ENDED or asked

    def preemptions(self, at: int) -> int:
        """How many there were in the minute that began with the first of them."""
        since, count = self.preempted
        return count if since <= at < since + 60_000 else 0

    def count_preemption(self, at: int) -> None:
        since, count = self.preempted
        self.preempted = (since, count + 1) if self.preemptions(at) else (at, 1)

    def forget_over(self) -> None:
        self.over = {over for over in self.over if self.still_counts(over)}

    def drop_hold(self, uid: int) -> None:
        self.touch_room(self.holds.pop(uid).node)

    def forget_unused(self) -> None:
        """A template that the platform ships no more goes with its last use; a look at a request goes with it."""
        for digest in sorted(self.leaving):
            if not self.template_uses(digest):
                self.leaving.remove(digest)
                del self.templates[digest]
        still = self.open_requests()
        self.examined = {request: at for request, at in self.examined.items() if request in still}
