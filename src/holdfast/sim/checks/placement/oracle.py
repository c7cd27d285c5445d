"""Whether a waiting slot can be placed: an oracle that shares no code with schedulers or the ledger's gates.

    waiting slot ──▶ refused everywhere?    assigned, in time, lawful, not paused, quota, protected capacity
                 ──▶ refused on each node?  open, accepts it, rules about its neighbors, capacity, devices, ports

For each slot it returns a node that accepts it now, without preemption, or every code that keeps it from some node. A
pending reason is true if its code is among these. Each waiting slot is examined as if it were the next one.

Size: every gate once more, written apart from those that it judges.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from typing import NamedTuple

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.grants import AcceptedGrant
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.limits import NODE_SLOTS_MAX
from holdfast.core.model.values.structs import Instant, SlotKey
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.placement import usage

#: The code of a slot that no node would accept, even if empty and open.
NEVER_FITS = "never-fits"


class OracleVerdict(NamedTuple):
    """A node that accepts the slot, empty: none; and every code that excludes it from some node."""

    node: str
    shut: frozenset[str]


class PlacementOracle:
    """What a region can place at one ledger time, as if some slots did not exist."""

    def __init__(self, state: RegionState, at: Instant, without: Collection[SlotKey] = ()) -> None:
        self.counted = usage.CountedRegion(state, at, without)
        self._state, self._at = state, at
        self._overrides = [one for one in state.every_override() if one.ends > at]
        self._avoided = {one.target for one in self._in_force(OverrideAction.AVOID_ZONE)}

    def waiting(self) -> Iterator[tuple[Slot, OracleVerdict]]:
        """Yield every waiting slot with its verdict."""
        for slot in self.counted.slots.values():
            if slot.phase == "pending":
                yield slot, self.verdict(slot)

    def verdict(self, slot: Slot) -> OracleVerdict:
        """Return whether a waiting slot can be placed now; of a gang, with as many others as that needs."""
        gang = self._state.assignments[slot.assignment].gang
        return self._alone(slot) if gang is None else self._together(slot, gang)

    def _together(self, slot: Slot, gang: Gang) -> OracleVerdict:
        """Return whether enough members of a slot's gang fit together. Rules over domains are not tried: with them, no
        gang counts as one that fits."""
        assignment, template = self._state.assignments[slot.assignment], self.counted.template(slot)
        rows, number, needed = self._state.finished.get(slot.assignment) or (), slot.ordinal // gang.size, gang.needed
        failed = {n // gang.size for row in rows for run in row.failed for n in range(*run)}
        done = [n for row in rows for run in row.done for n in range(*run) if n // gang.size == number]
        all_ = [one for one in self.counted.slots.values() if one.assignment == slot.assignment]
        mine = [one for one in all_ if one.ordinal // gang.size == number]
        there = len(done) + sum(one.phase not in (*usage.NOWHERE, Phase.TERMINATING) for one in mine)
        waits = [one for one in mine if one.phase is Phase.PENDING and one.template == slot.template]
        least, alone = max(1, needed - there), self._alone(slot)
        codes = {*alone.shut, Code.GANG.value}
        whole = {name: amount * needed for name, amount in usage.amounts(template.need).items()}
        grants = [self._state.accepted_grants.get(account) for account in assignment.accounts]
        if not any(one is not None and self._pays(one, whole) for one in grants):
            codes.add(Code.OVER_GRANT.value)
        if self._is_firm(assignment) and self._crowds_out(assignment.tenant, whole):
            codes.add(Code.PROTECTED.value)
        nodes = self.counted.nodes.values()
        if sum(self._held_empty(slot, node, needed) for node in nodes) < needed:
            codes.add(NEVER_FITS)
        if number in failed or len(waits) < least:
            return OracleVerdict("", frozenset(codes))
        if least == 1:
            return OracleVerdict(alone.node, frozenset(codes))
        ruled = template.spread or template.apart or template.near
        if ruled or {Code.OVER_GRANT.value, Code.PROTECTED.value} & codes or set(self.shut(slot)):
            return OracleVerdict("", frozenset(codes))
        fits = {node.name: self._fit_on(slot, node, least) for node in nodes}
        best = max(fits, key=lambda name: fits[name], default="")
        return OracleVerdict(best if sum(fits.values()) >= least else "", frozenset(codes))

    def _held_empty(self, slot: Slot, node: Node, most: int) -> int:
        """Return how many such slots a node holds if it is empty and open."""
        if self._never(slot, node):
            return 0
        has, need = usage.amounts(node.capacity), usage.amounts(self.counted.template(slot).need)
        return min([most, *(has.get(name, 0) // more for name, more in need.items() if more)])

    def _fit_on(self, slot: Slot, node: Node, most: int) -> int:
        """Return how many such slots a node accepts one after the other."""
        template, before, count = self.counted.template(slot), self.counted.on[node.uid], 0
        firm = self._is_firm(self._state.assignments[slot.assignment])
        on = self.counted.on[node.uid] = copy.deepcopy(before)
        while count < most and not any(self.refusals(slot, node)):
            need = usage.amounts(template.need)
            free = [port for port in range(max(1, node.ports[0]), node.ports[1] + 1) if port not in on.ports]
            on.ports.update(free[: template.ports])
            for index in self._free_devices(template, node, firm=firm)[: template.gpus]:
                need[usage.device(index)] = template.gpu_milli
            on.take(need if firm else {}, need)
            on.slots.append(slot)
            count += 1
        self.counted.on[node.uid] = before
        return count

    def _alone(self, slot: Slot) -> OracleVerdict:
        """Return whether a waiting slot can be placed now, by itself."""
        shut, nodes = {str(code) for code in self.shut(slot)}, self.counted.nodes.values()
        codes = set(shut)
        for node in nodes:
            mine = {str(code) for code in self.refusals(slot, node)}
            if not mine and not shut:
                return OracleVerdict(node.name, frozenset())
            codes |= mine
        if all(self._never(slot, node) for node in nodes):
            codes.add(NEVER_FITS if nodes else Code.NODE_UNAVAILABLE.value)
        return OracleVerdict("", frozenset(codes))

    # For all nodes

    def shut(self, slot: Slot) -> Iterator[str]:
        """Yield every code that excludes a slot from all nodes."""
        assignment, template = self._state.assignments[slot.assignment], self.counted.template(slot)
        asked = [share for share in assignment.shares if share.template == slot.template and share.count > 0]
        if not asked or assignment.stage is not AssignmentStage.ACTIVE or not self._has_right(assignment, slot):
            yield Code.NOT_ASSIGNED
        if assignment.fails_late and 0 < assignment.deadline <= self._at:
            yield Code.DEADLINE_MISSED
        if assignment.jurisdictions and self._state.region.jurisdiction not in assignment.jurisdictions:
            yield Code.RESIDENCY
        if {one.target for one in self._in_force(OverrideAction.PAUSE_SCHEDULING)} & {"", assignment.tenant}:
            yield Code.PAUSED
        if assignment.priority_class not in self._state.priority_classes:
            yield Code.NOT_FOUND
        yield from self._unpaid(slot, assignment, usage.amounts(template.need))
        if self._is_firm(assignment) and self._crowds_out(assignment.tenant, usage.amounts(template.need)):
            yield Code.PROTECTED

    def _in_force(self, action: OverrideAction) -> list[Override]:
        return [one for one in self._overrides if one.action is action]

    def _has_right(self, assignment: Assignment, slot: Slot) -> bool:
        if assignment.exclusive and not any(first <= slot.ordinal < after for first, after in assignment.ordinals):
            return False
        until, told = assignment.right_until, assignment.right_term
        return until == 0 or (told == self._state.info.term and self._at < until)

    def _is_firm(self, assignment: Assignment) -> bool:
        known = self._state.priority_classes.get(assignment.priority_class)
        return known is None or not known.spec.reclaimable

    def _unpaid(self, slot: Slot, assignment: Assignment, need: usage.Amounts) -> Iterator[str]:
        """Yield missing quota; a slot that is charged already needs none."""
        if not assignment.accounts:
            yield from (Code.NOT_FOUND, Code.OVER_GRANT)
            return
        if slot.account:
            return
        granted = [self._state.accepted_grants.get(account) for account in assignment.accounts]
        alive = [one for one in granted if one is not None and one.ends > self._at]
        if any(self._pays(one, need) for one in alive):
            return
        ended = all(one is not None and one.ends <= self._at for one in granted)
        yield Code.GRANT_ENDED if ended else Code.OVER_GRANT

    def _pays(self, allowance: AcceptedGrant, need: usage.Amounts) -> bool:
        charged, target = self.counted.charged.get(allowance.account, {}), usage.amounts(allowance.target)
        return all(charged.get(name, 0) + more <= target.get(name, 0) for name, more in need.items() if more)

    def _crowds_out(self, tenant: str, need: usage.Amounts) -> bool:
        """Return whether one more slot would use capacity that is protected for others, over all open nodes."""
        kept: usage.Amounts = {}
        for account, allowance in self._state.accepted_grants.items():
            if account != f"quota/{tenant}":
                stands = self.counted.placed.get(account, {})
                for name, amount in usage.amounts(allowance.protected).items():
                    kept[name] = kept.get(name, 0) + max(0, amount - stands.get(name, 0))
        for name in [name for name, more in need.items() if more and kept.get(name)]:
            free = 0
            for uid, node in self.counted.nodes.items():
                if usage.is_open(node):
                    on = self.counted.on[uid]
                    free += usage.amounts(node.capacity).get(name, 0) - on.firm.get(name, 0) - on.held.get(name, 0)
            if free - kept[name] < need[name]:
                return True
        return False

    # For one node

    def refusals(self, slot: Slot, node: Node) -> Iterator[str]:
        """Yield every code for which a node does not accept a slot now."""
        assignment, template = self._state.assignments[slot.assignment], self.counted.template(slot)
        if not usage.is_open(node) or node.zone in self._avoided:
            yield Code.NODE_UNAVAILABLE
        if assignment.exclusive and usage.outlives_its_fence(node, self._state.info.settings):
            yield Code.NODE_UNAVAILABLE
        yield from self._not_meant(template, assignment.tenant, node)
        yield from self._badly_placed(slot, template, assignment.tenant, node)
        yield from self._too_full(template, node, firm=self._is_firm(assignment))

    def _not_meant(self, template: Template, tenant: str, node: Node) -> Iterator[str]:
        for taint in node.taints:
            if not any(one.key == taint.key and one.value in ("", taint.value) for one in template.tolerate):
                yield Code.TAINT
        if (node.tenancy and tenant not in node.tenancy) or node.tenant not in ("", tenant):
            yield Code.TENANCY
        on = self.counted.on[node.uid]
        there = {self.counted.tenant(one) for one in on.slots} | {hold.tenant for hold in on.holds}
        if not node.shares_user and Capability.USERS not in node.capabilities and there - {tenant}:
            yield Code.ONE_TENANT
        if template.isolation is Isolation.STRICT and not set(STRICT) <= set(node.capabilities):
            yield Code.ISOLATION
        labels = {**dict(node.reported_labels), **dict(node.labels)}
        if any(labels.get(key) != value for key, value in template.require):
            yield Code.LABELS

    def _badly_placed(self, slot: Slot, template: Template, tenant: str, node: Node) -> Iterator[str]:
        for spread in template.spread:
            here = self._stand(slot, spread.key).get(usage.place_of(node, spread.key), 0)
            if here + 1 - min(self.spread(slot, spread.key).values(), default=0) > spread.max_skew:
                yield Code.SPREAD
        for apart in template.apart:
            where = [usage.place_of(one, apart.key) for one in self._members(apart.group, tenant)]
            if where.count(usage.place_of(node, apart.key)) >= apart.most:
                yield Code.APART
        for near in template.near:
            taken = {usage.place_of(one, near.key) for one in self._members(near.group, tenant)}
            if near.required and taken and usage.place_of(node, near.key) not in taken:
                yield Code.NEAR

    def spread(self, slot: Slot, key: str) -> dict[str, int]:
        """Return, by domain that would accept it if empty, how many of the slot's workload are spread over it."""
        stand = self._stand(slot, key)
        open_ = {usage.place_of(node, key) for node in self.counted.nodes.values() if self._could_stand(slot, node)}
        return {where: stand.get(where, 0) for where in sorted(open_)}

    def _stand(self, slot: Slot, key: str) -> dict[str, int]:
        """Return, by every domain, how many of the slot's workload are spread over it."""
        counts: dict[str, int] = {}
        for one in self.counted.standing():
            rules = [rule.key for rule in self.counted.template(one).spread]
            if one.workload == slot.workload and key in rules:
                where = usage.place_of(self.counted.nodes[one.node], key)
                counts[where] = counts.get(where, 0) + 1
        return counts

    def _could_stand(self, slot: Slot, node: Node) -> bool:
        """Return whether a node is open and accepts such work of this size, full or not."""
        assignment = self._state.assignments[slot.assignment]
        if not usage.is_open(node) or node.zone in self._avoided:
            return False
        fenced = not (assignment.exclusive and usage.outlives_its_fence(node, self._state.info.settings))
        return fenced and not self._never(slot, node)

    def _members(self, group: str, tenant: str) -> list[Node]:
        """Return the node of each member of a tenant's group."""
        found = []
        for one in self.counted.standing():
            template = self.counted.template(one)
            names = {*(rule.group for rule in template.apart), *(rule.group for rule in template.near)}
            if group in names and self.counted.tenant(one) == tenant:
                found.append(self.counted.nodes[one.node])
        return found

    def _too_full(self, template: Template, node: Node, *, firm: bool) -> Iterator[str]:
        on, has, need = self.counted.on[node.uid], usage.amounts(node.capacity), usage.amounts(template.need)
        for name, more in need.items():
            kept = on.firm.get(name, 0) + on.held.get(name, 0)
            taken = max(on.all.get(name, 0), kept) if firm else on.all.get(name, 0)
            if more and taken + more > has.get(name, 0):
                yield Code.CAPACITY
        if len(on.slots) >= NODE_SLOTS_MAX:
            yield Code.CAPACITY
        if len(self._free_devices(template, node, firm=firm)) < template.gpus:
            yield Code.DEVICE
        first, last = node.ports
        if sum(port not in on.ports for port in range(max(1, first), last + 1)) < template.ports:
            yield Code.PORT

    def _free_devices(self, template: Template, node: Node, *, firm: bool) -> list[int]:
        """Return the devices that have enough free capacity for one slot."""
        on, free = self.counted.on[node.uid], list[int]()
        for index, one in enumerate(node.devices):
            name = usage.device(index)
            kept = on.firm.get(name, 0) + on.held.get(name, 0)
            taken = max(on.all.get(name, 0), kept) if firm else on.all.get(name, 0)
            suits = not template.gpu_models or one.model in template.gpu_models
            free += [index] if suits and taken + template.gpu_milli <= one.milli else []
        return free

    def _never(self, slot: Slot, node: Node) -> bool:
        """Return whether a node would not accept the slot even if empty and open."""
        template, tenant = self.counted.template(slot), self._state.assignments[slot.assignment].tenant
        meant = any(code != Code.ONE_TENANT for code in self._not_meant(template, tenant, node))
        has, need = usage.amounts(node.capacity), usage.amounts(template.need)
        small = any(more > has.get(name, 0) for name, more in need.items() if more)
        suits = [one for one in node.devices if not template.gpu_models or one.model in template.gpu_models]
        lacks = sum(one.milli >= template.gpu_milli for one in suits) < template.gpus
        first, last = node.ports
        return meant or small or lacks or last + 1 - max(1, first) < template.ports
