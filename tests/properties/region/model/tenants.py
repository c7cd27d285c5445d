"""The model of tenants on a node: who may come beside whom, who keeps it, and what strict work takes."""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.model.objects.topology import TaintEffect
from holdfast.core.model.objects.workloads import Template
from tests.properties.region.model.records import Node, Slot
from tests.properties.region.model.region import Model

STRICT = {"users", "pid-namespace", "mount-namespace", "memory-limit", "cpu-limit", "pids-limit"}


def has_one_user(node: Node) -> bool:
    """Whether all that runs there is one user's, and nobody said that tenants may share it."""
    return "users" not in {one.value for one in node.said.capabilities} and not node.said.shares_user


def is_bare(node: Node, template: Template) -> bool:
    """Whether it is strict work, and something that takes is not enforced there."""
    return template.isolation is Isolation.STRICT and bool(STRICT - {one.value for one in node.said.capabilities})


def refuse_tenant(model: Model, node: Node, template: Template, tenant: str, *, empty: bool = False) -> Code | None:
    if node.meant.tenancy and tenant not in node.meant.tenancy:
        return Code.TENANCY
    if node.said.tenant not in ("", tenant):
        return Code.TENANCY
    if not empty and has_one_user(node) and any(other != tenant for other in _there(model, node)):
        return Code.ONE_TENANT
    return Code.ISOLATION if is_bare(node, template) else None


def _there(model: Model, node: Node) -> list[str]:
    standing = [model.assignments[slot.assignment].tenant for slot in model.on(node.uid)]
    return standing + [hold.tenant for hold in model.holds.values() if hold.node == node.uid]


def unwelcome(model: Model, node: Node) -> list[Slot]:
    """What stands there and may not."""
    slots = list(model.on(node.uid))
    bad = [slot for slot in slots if not _may_stay(model, node, slot)]
    if has_one_user(node):
        kept = keeper(model, node)
        bad += [s for s in slots if s not in bad and model.assignments[s.assignment].tenant != kept]
    return bad


def keeper(model: Model, node: Node) -> str:
    """Who has most there of what may stay, the first by name; of a node where nothing may, whose hold is oldest."""
    staying = [slot for slot in model.on(node.uid) if _may_stay(model, node, slot)]
    tenants = [model.assignments[slot.assignment].tenant for slot in staying]
    if tenants:
        return sorted(tenants, key=lambda one: (-tenants.count(one), one))[0]
    held = sorted((hold.uid, hold.tenant) for hold in model.holds.values() if hold.node == node.uid)
    return held[0][1] if held else ""


def _may_stay(model: Model, node: Node, slot: Slot) -> bool:
    template, tenant = model.templates[slot.template], model.assignments[slot.assignment].tenant
    foreign = bool(node.meant.tenancy) and tenant not in node.meant.tenancy
    accepted = [(one.key, one.value) for one in template.tolerate]
    evicting = [taint for taint in node.meant.taints if taint.effect is TaintEffect.EVICT]
    evicted = any((one.key, "") not in accepted and (one.key, one.value) not in accepted for one in evicting)
    return not (foreign or evicted or node.said.tenant not in ("", tenant) or is_bare(node, template))
