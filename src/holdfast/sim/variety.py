"""Variants of nodes, workloads, tenants and regions: small worlds with great variety.

    plan ──▶ a node:      labels, devices, a pool, a size, few ports, one user; a taint, reserved for a tenant
         ──▶ a workload:  spread, apart, near, a label, GPUs, a toleration, strict isolation, batch, a budget, gangs
                          residency, or a limit of the latency to its clients
         ──▶ a tenant:    a quota below its requests, protected capacity, reclaimable work in addition,
                          a weight
         ──▶ a region:    one more scheduler, embedded or standalone

Each variant is drawn independently, so any combination can occur. Some workloads fit nowhere for a while, or ever.
Their pending reasons are checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.model.objects.tenants import QuotaSpec
from holdfast.core.model.objects.topology import RegionSpec, Taint, Toleration
from holdfast.core.model.objects.workloads import Apart, Latency, Near, OnDeadline, Placement, Spread, WorkloadSpec
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import ZERO, Resources, add, elementwise_min, times
from holdfast.sim.scenario import PLACES

#: A label of some nodes that some workloads require, and a taint that some tolerate.
LABEL = ("disk", "ssd")
TAINT = "spot"
MODELS = ("t4", "a100")
#: The groups of a tenant whose members are apart, or near each other.
APART, NEAR = "wide", "close"
#: First word of the command of batch work, which ends by itself.
BATCH = "batch"
PORTS = (30_000, 30_099)
#: GPU quota of a tenant in thousandths, unless a variant changes it.
GPUS = 8_000

#: Jurisdictions of the regions, in turn. All clients are at one place: its latency to the first region, and the
#: increment for each further one.
LAWS = ("north", "south")
CLIENTS, FIRST_MS, NEXT_MS = "town", 20, 40

Variants = Iterable[tuple[str, Random]]


class NodeProfile(Struct, frozen=True):
    """The properties of a node, and what operators set on it."""

    capacity: Resources
    pool: str = "pool"
    devices: tuple[Device, ...] = ()
    labels: Labels = ()
    ports: tuple[int, int] = PORTS
    one_user: bool = False
    taints: tuple[Taint, ...] = ()
    tenancy: tuple[str, ...] = ()

    @property
    def administered(self) -> dict[str, Any]:
        """Return the fields that operators set."""
        return {"taints": self.taints, "tenancy": self.tenancy}


def node_profile(capacity: Resources, odd: Variants, tenants: list[str]) -> NodeProfile:
    found = NodeProfile(capacity)
    for kind, chance in odd:
        found = replace(found, **_node(found, kind, chance, tenants))
    return found


def _node(node: NodeProfile, kind: str, chance: Random, tenants: list[str]) -> dict[str, Any]:
    room = node.capacity
    match kind:
        case "label":
            return {"labels": (LABEL,)}
        case "taint":
            return {"taints": (Taint(TAINT),)}
        case "kept":
            return {"tenancy": (chance.choice(tenants),)}
        case "device":
            devices = tuple(Device(chance.choice(MODELS)) for _ in range(chance.randint(1, 2)))
            return {"devices": devices, "capacity": replace(room, gpu=1_000 * len(devices))}
        case "pool":
            return {"pool": chance.choice(("large", "old"))}
        case "size":
            percent = chance.choice((25, 30, 40, 150))
            return {"capacity": replace(room, cpu=room.cpu * percent // 100, memory=room.memory * percent // 100)}
        case "ports":
            return {"ports": (PORTS[0], PORTS[0] + chance.randint(0, 1))}
        case "one-user":
            return {"one_user": True}
    raise ValueError(f"unknown node variant {kind!r}")


def region_specs(regions: Iterable[str]) -> dict[str, RegionSpec]:
    """Return, by region, jurisdiction, latency to clients, and address."""
    return {
        name: RegionSpec(LAWS[number % len(LAWS)], ((CLIENTS, FIRST_MS + number * NEXT_MS),), f"https://{name}-1")
        for number, name in enumerate(regions)
    }


def apply_rules(spec: WorkloadSpec, odd: Variants, regions: Iterable[RegionSpec]) -> WorkloadSpec:
    """Return a workload with its rules; at least one region satisfies them."""
    for kind, chance in odd:
        if kind in PLACES:
            spec = replace(spec, placement=_place(spec.placement, kind, chance, regions))
        else:
            spec = _rule(spec, kind, chance)
    return spec


def _place(placement: Placement, kind: str, chance: Random, regions: Iterable[RegionSpec]) -> Placement:
    lawful = [one for one in regions if not placement.jurisdictions or one.jurisdiction in placement.jurisdictions]
    chosen = chance.choice(lawful)
    if kind == "residency":
        return replace(placement, jurisdictions=(chosen.jurisdiction,))
    far_ms = dict(chosen.latencies)[CLIENTS]
    near = Latency(CLIENTS, limit=far_ms) if chance.random() < 0.6 else Latency(CLIENTS, target=far_ms)
    return replace(placement, latency=(near,))


def _rule(spec: WorkloadSpec, kind: str, chance: Random) -> WorkloadSpec:
    template = spec.template
    match kind:
        case "batch":
            return _batch(spec, chance)
        case "budget":
            return replace(spec, disruption_max=chance.choice((0, 1, 1, 1, 2)))
        case "spread-zones":
            template = replace(template, spread=(*template.spread, Spread("zone", chance.choice((1, 1, 2, 4)))))
        case "spread-pools":
            template = replace(template, spread=(*template.spread, Spread("pool", chance.choice((1, 2, 3)))))
        case "apart-nodes":
            template = replace(template, apart=(*template.apart, Apart(APART, "node", chance.choice((1, 1, 2)))))
        case "apart-zones":
            template = replace(template, apart=(*template.apart, Apart(APART, "zone", chance.choice((1, 2, 3)))))
        case "near-zone":
            template = replace(template, near=(*template.near, Near(NEAR, "zone", required=chance.random() < 0.7)))
        case "near-node":
            template = replace(template, near=(*template.near, Near(NEAR, "node", required=chance.random() < 0.5)))
        case "gang":
            return _ganged(spec, chance)
        case "label":
            template = replace(template, require=(LABEL,))
        case "gpu":
            milli = chance.choice((500, 1_000))
            models = chance.choice(((), (), MODELS[:1], MODELS[1:]))
            need = replace(template.need, gpu=milli)
            template = replace(template, gpus=1, gpu_milli=milli, gpu_models=models, need=need)
        case "tolerate":
            template = replace(template, tolerate=(Toleration(TAINT),))
        case "strict":
            template = replace(template, isolation=Isolation.STRICT)
        case "ports":
            template = replace(template, ports=0 if spec.batch else 2)
        case other:
            raise ValueError(f"unknown workload rule {other!r}")
    return replace(spec, template=template)


def _batch(spec: WorkloadSpec, chance: Random) -> WorkloadSpec:
    """Return the spec as batch work, usually with a deadline. Exclusive and critical workloads stay as they are."""
    if spec.exclusive or spec.template.startup is not None:
        return spec
    template = replace(spec.template, command=(BATCH, *spec.template.command[1:]), ports=0)
    deadline = chance.choice((0, *[chance.randrange(5_000, 60_000)] * 3))
    late = chance.choice(tuple(OnDeadline)) if deadline else OnDeadline.BEST_EFFORT
    return replace(spec, template=template, batch=True, deadline=deadline, on_deadline=late)


def _ganged(spec: WorkloadSpec, chance: Random) -> WorkloadSpec:
    """Return the spec with gangs. Identities have none."""
    if spec.exclusive:
        return spec
    size = chance.choice((2, 2, 3, 4))
    gang = Gang(size, chance.choice((0, 0, size - 1)), chance.choice((0, 5_000, 15_000)))
    whole = [-(-number // size) * size for number in (spec.replicas, spec.disruption_max)]
    return replace(spec, gang=gang, replicas=whole[0], disruption_max=whole[1])


def quota_of(hard: Resources, specs: Iterable[WorkloadSpec], odd: Variants) -> QuotaSpec:
    """Return the quota of a tenant; `specs` are its first workloads."""
    asked = ZERO
    for spec in specs:
        asked = add(asked, times(spec.template.need, spec.replicas))
    found = QuotaSpec(hard=replace(hard, gpu=GPUS))
    for kind, chance in odd:
        match kind:
            case "quota":
                found = replace(found, hard=part(asked, chance.choice((50, 70, 90))))
            case "protected":
                kept = part(asked, chance.choice((60, 100)))
                found = replace(found, protected=replace(elementwise_min(kept, found.hard), gpu=0))
            case "reclaimable":
                found = replace(found, reclaimable=chance.choice((5, 20, 50)))
            case "weight":
                found = replace(found, weight=chance.choice((2, 5, 100)))
            case other:
                raise ValueError(f"unknown tenant variant {other!r}")
    return found


def part(of: Resources, percent: int) -> Resources:
    """Return a percentage of an amount."""
    return Resources(of.cpu * percent // 100, of.memory * percent // 100, 0, of.gpu * percent // 100)
