"""Slots, nodes and overrides of a region by its log, updated event by event.

Every event is a complete fact, so a few dicts are enough. Nothing here uses the ledger's fold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.core.ledger.builtin.overrides import OverrideEnded, OverrideOpened
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.settings import Settings
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region import events as e
from holdfast.sim.checks.placement.usage import amounts, is_open, outlives_its_fence, place_of


class SlotInLog(NamedTuple):
    """A slot on a node, with its template and assignment."""

    node: Revision
    template: str
    assignment: Revision


class RegionLogView:
    """The tables of one region."""

    def __init__(self) -> None:
        self.nodes: dict[Revision, Node] = {}
        self.templates: dict[str, Template] = {}
        self.assignments: dict[Revision, Assignment] = {}
        self.priorities: dict[str, int] = {}
        self.validities: dict[str, Revision] = {}
        self.stands: dict[SlotKey, SlotInLog] = {}
        #: Overrides of this ledger and of the platform: each ledger has its own uids.
        self.overrides: dict[tuple[str, Revision], Override] = {}

    def take(self, event: Any) -> None:  # long: a table of small cases
        """Apply the next event. The caller applies placements one by one."""
        match event:
            case e.NodeStored(node):
                self.nodes[node.uid] = node
            case e.NodeRemoved(uid):
                self.nodes.pop(uid, None)
            case e.TemplateReceived(digest, template):
                self.templates[digest] = template
            case e.AssignmentReceived(assignment):
                self.assignments[assignment.uid] = assignment
            case e.PriorityClassReceived(known):
                self.priorities[known.meta.name] = known.spec.priority
            case e.ValidityReceived(validity):
                self.validities[validity.scope] = validity.revision
            case e.OverrideReceived(override):
                self.overrides["platform", override.uid] = override
            case OverrideOpened(override):
                self.overrides["here", override.uid] = override
            case OverrideEnded(uid):
                self.overrides.pop(("here", uid), None)
            case e.SlotsReleased(releases):
                for one in releases:
                    self.stands.pop(one.slot, None)
            case e.ShippedObjectRemoved(gone) if gone.kind == "override":
                self.overrides.pop(("platform", int(gone.key)), None)
            case e.ShippedObjectRemoved(gone) if gone.kind == "validity":
                self.validities.pop(gone.key, None)

    def position(self, placed: e.SlotsPlaced, ordinal: int, node: Revision) -> None:
        """Record a slot on its node."""
        self.stands[placed.workload, ordinal] = SlotInLog(node, placed.template, placed.assignment)

    def in_force(self, action: OverrideAction, at: Instant) -> set[str]:
        """Return the targets of all active overrides of one action."""
        return {one.target for one in self.overrides.values() if one.action is action and one.ends > at}

    def valid(self, tenant: str) -> Revision:
        """Return the policy that is valid for a tenant's work here."""
        return self.validities.get(tenant, self.validities.get("", 0))

    def spread(self, workload: Revision, key: str) -> dict[str, int]:
        """Return, by domain, the number of a workload's slots that are spread over such domains."""
        counts: dict[str, int] = {}
        for (mine, _), stood in self.stands.items():
            if mine == workload and any(rule.key == key for rule in self.templates[stood.template].spread):
                where = place_of(self.nodes[stood.node], key)
                counts[where] = counts.get(where, 0) + 1
        return counts

    def domains(self, placed: e.SlotsPlaced, key: str, at: Instant, settings: Settings) -> set[str]:
        """Return the domains with a node that accepts such work and is large enough, full or not."""
        avoided, known = self.in_force(OverrideAction.AVOID_ZONE, at), self.assignments[placed.assignment]
        nodes = [node for node in self.nodes.values() if is_open(node) and node.zone not in avoided]
        if known.exclusive:
            nodes = [node for node in nodes if not outlives_its_fence(node, settings)]
        template = self.templates[placed.template]
        return {place_of(node, key) for node in nodes if not self.why_not(node, template, known.tenant)}

    def why_not(self, node: Node, template: Template, tenant: str) -> str:
        """Return why a node does not accept such work, even if empty; empty: it does."""
        for taint in node.taints:
            if not any(one.key == taint.key and one.value in ("", taint.value) for one in template.tolerate):
                return f"it has the taint {taint.key}={taint.value}"
        if (node.tenancy and tenant not in node.tenancy) or node.tenant not in ("", tenant):
            return f"it is reserved for {node.tenancy or node.tenant}, not for {tenant}"
        if template.isolation is Isolation.STRICT and not set(STRICT) <= set(node.capabilities):
            return "it does not isolate strictly"
        there = {self.assignments[one.assignment].tenant for one in self.stands.values() if one.node == node.uid}
        if not node.shares_user and Capability.USERS not in node.capabilities and there - {tenant}:
            return f"it has one user and runs work of {sorted(there)}"
        labels = {**dict(node.reported_labels), **dict(node.labels)}
        lacks = [name for name, value in template.require if labels.get(name) != value]
        return f"it lacks the label {lacks[0]}" if lacks else "it is too small" if _is_small(node, template) else ""


def _is_small(node: Node, template: Template) -> bool:
    """Return whether the template does not fit on the empty node."""
    has, need = amounts(node.capacity), amounts(template.need)
    models = template.gpu_models or {one.model for one in node.devices}
    suiting = [one for one in node.devices if one.model in models and one.milli >= template.gpu_milli]
    ports = len(range(max(1, node.ports[0]), node.ports[1] + 1))
    short = any(has.get(name, 0) < more for name, more in need.items())
    return short or len(suiting) < template.gpus or ports < template.ports
