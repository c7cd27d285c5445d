"""Whether a template fits a node: the function that ledger and agent share, and that scheduler filters agree with.

`admits` checks what the node is for, `fits` whether it has the free capacity. Both return the code and the detail of
the first gate that refuses, or None.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.isolation import Isolation, TenantHost, missing_capabilities
from holdfast.core.model.objects.workloads import Template, tolerates
from holdfast.core.model.records.node_usage import KEY_BYTES, NodeUsage
from holdfast.core.model.records.nodes import READY, Node, label_value, ports_of
from holdfast.core.model.values.limits import NODE_SLOTS_MAX
from holdfast.core.model.values.resources import ZERO, add, first_lacking

#: Size of the keys of `NODE_SLOTS_MAX` slots, one value that every change replaces: a node with so many takes no more.
_CROWD_BYTES = NODE_SLOTS_MAX * KEY_BYTES

STANDARD = Isolation.STANDARD


class Infeasible(NamedTuple):
    """The gate that refuses, and why."""

    code: Code
    detail: str


def admits(node: Node, template: Template, tenant: str, there: tuple[str, ...] = ()) -> Infeasible | None:
    """Check whether the node is for such work at all. `there` are the tenants on a node that takes one tenant at a
    time: see the module `node_tenants`."""
    if node.health is not READY or not node.session or node.cordoned or node.draining:
        return Infeasible(Code.NODE_UNAVAILABLE, _why_unavailable(node))
    for taint in node.taints:
        if not tolerates(template, taint):
            return Infeasible(Code.TAINT, f"{taint.key}={taint.value}")
    if node.tenancy and tenant not in node.tenancy:
        return Infeasible(Code.TENANCY, "the node is reserved for other tenants")
    if node.tenant or there or template.isolation is not STANDARD:  # checked for each placement: most have none of it
        misfit = keeps_apart(node, template, tenant, there)
        if misfit is not None:
            return misfit
    for key, value in template.require:
        if label_value(node, key) != value:
            return Infeasible(Code.LABELS, f"{key}={value}")
    return None


def keeps_apart(node: TenantHost, template: Template, tenant: str, there: tuple[str, ...]) -> Infeasible | None:
    """Check whether the node's agent isolates such work from other tenants: the part of `admits` for agents."""
    if node.tenant and tenant != node.tenant:
        return Infeasible(Code.TENANCY, "the node is reserved for other tenants")
    if there and there != (tenant,):
        return Infeasible(Code.ONE_TENANT, "it runs all work as one user, and has another tenant's work")
    lacks = missing_capabilities(template.isolation, node.capabilities)
    return Infeasible(Code.ISOLATION, f"its agent does not enforce {', '.join(lacks)}") if lacks else None


def _why_unavailable(node: Node) -> str:
    if node.cordoned or node.draining:
        return "draining" if node.draining else "cordoned"
    return "its agent has no session" if not node.session else node.health.value


def fits(
    node: Node, usage: NodeUsage, template: Template, devices: tuple[int, ...], ports: tuple[int, ...], *, firm: bool
) -> Infeasible | None:
    """Check whether the free capacity suffices. Reclaimable work may use held capacity."""
    if len(usage.slots) >= _CROWD_BYTES:
        there = len(usage.slots) // KEY_BYTES
        return Infeasible(Code.CAPACITY, f"{there} replicas are on it, and it takes at most {NODE_SLOTS_MAX}")
    need, capacity = template.need, node.capacity
    short = first_lacking(need, usage.all, capacity)
    if not short and firm:
        if usage.held is not ZERO:
            short = first_lacking(need, add(usage.firm, usage.held), capacity)
        elif usage.firm is not usage.all:
            short = first_lacking(need, usage.firm, capacity)
    if short:
        return Infeasible(Code.CAPACITY, short)
    if template.gpus or devices:
        misfit = fits_devices(node, usage, template, devices, firm=firm)
        if misfit is not None:
            return misfit
    if template.ports or ports:
        return fits_ports(node, usage, template.ports, ports)
    return None


def fits_devices(
    node: Node, usage: NodeUsage, template: Template, devices: tuple[int, ...], *, firm: bool
) -> Infeasible | None:
    """Check whether the named devices exist, have an accepted model, and each has that much free."""
    if len(devices) != template.gpus or len({*devices}) != len(devices):
        return Infeasible(Code.DEVICE, f"{template.gpus} different devices are needed")
    for index in devices:
        if not 0 <= index < len(node.devices):
            return Infeasible(Code.DEVICE, f"there is no device {index}")
        device, milli = node.devices[index], template.gpu_milli
        if template.gpu_models and device.model not in template.gpu_models:
            return Infeasible(Code.DEVICE, f"device {index} is a {device.model}")
        if index < len(usage.devices):
            taken = usage.devices[index]
            if taken.all + milli > device.milli or (firm and taken.firm + taken.held + milli > device.milli):
                return Infeasible(Code.DEVICE, f"device {index} is taken")
        elif milli > device.milli:
            return Infeasible(Code.DEVICE, f"device {index} is too small")
    return None


def fits_ports(node: Node, usage: NodeUsage, wanted: int, ports: tuple[int, ...]) -> Infeasible | None:
    """Check whether the named ports are in the node's range and free."""
    if len(ports) != wanted or len({*ports}) != len(ports):
        return Infeasible(Code.PORT, f"{wanted} different ports are needed")
    there = ports_of(node)
    for port in ports:
        if port not in there:
            where = f"outside {there[0]}-{there[-1]}" if there else "none of a node that has no ports"
            return Infeasible(Code.PORT, f"{port} is {where}")
        place = bisect_left(usage.ports, port)  # they are sorted
        if usage.ports[place : place + 1] == (port,):
            return Infeasible(Code.PORT, f"{port} is taken")
    return None


def picked(node: Node, usage: NodeUsage, template: Template, *, firm: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first free devices and ports for one slot; fewer than it needs if there are not enough."""
    devices: tuple[int, ...] = ()
    if template.gpus:
        each = replace(template, gpus=1)
        free = (n for n in range(len(node.devices)) if fits_devices(node, usage, each, (n,), firm=firm) is None)
        devices = tuple(islice(free, template.gpus))
    taken = {*usage.ports} if template.ports else ()
    ports = (port for port in ports_of(node) if port not in taken) if template.ports else ()
    return devices, tuple(islice(ports, template.ports))


def feasible(
    node: Node,
    usage: NodeUsage,
    template: Template,
    tenant: str,
    devices: tuple[int, ...] = (),
    ports: tuple[int, ...] = (),
    *,
    firm: bool = True,
    there: tuple[str, ...] = (),
) -> Infeasible | None:
    """Check every gate of a node for a template."""
    return admits(node, template, tenant, there) or fits(node, usage, template, devices, ports, firm=firm)
