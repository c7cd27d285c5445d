"""The small world of random programs: a few nodes, people, templates and workloads that get in one another's way.

Every template takes some cpu, memory and disk, nodes hold three or four of them, and there is one of each thing that a
gate looks at: devices, ports, labels, taints, tenancy, isolation, domains, groups kept apart and together, extended
resources.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.isolation import Isolation
from holdfast.core.model.objects.principals import Permission, Principal
from holdfast.core.model.objects.tenants import PriorityClass
from holdfast.core.model.objects.topology import Toleration
from holdfast.core.model.objects.workloads import Apart, Near, RestartPolicy, Spread, Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.values.resources import Resources
from holdfast.core.region.commands import RegisterNode
from tests.support.ledgers.region import CLASSES, a_class, a_principal, a_template

T = TypeVar("T")


class Chance:
    """Where a program's choices come from: a seed, or Hypothesis, which can take them back one by one."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def below(self, count: int) -> int:
        return self._source.randrange(count) if count > 1 else 0

    def one_in(self, count: int) -> bool:
        return self.below(count) == count - 1

    def pick(self, many: Sequence[T]) -> T:
        return many[self.below(len(many))]

    def some(self, many: Sequence[T], most: int) -> list[T]:
        """One to `most` different ones, in the order in which they were drawn."""
        left, found = list(many), list[T]()
        for _ in range(1 + self.below(min(most, len(left)))):
            found.append(left.pop(self.below(len(left))))
        return found

    def weighed(self, many: Sequence[tuple[int, T]]) -> T:
        left = self.below(sum(weight for weight, _ in many))
        for weight, one in many:
            left -= weight
            if left < 0:
                return one
        raise AssertionError("the weights have changed")


_PORTS = (30_000, 30_002)
NODES: dict[str, RegisterNode] = {
    node.name: node
    for node in (
        RegisterNode(
            "n1",
            "general",
            "a",
            Resources(4000, 8192, 100),
            ports=_PORTS,
            labels=(("disk", "ssd"),),
            address="10.0.0.1",
        ),
        RegisterNode("n2", "gpu", "a", Resources(4000, 8192, 100, 2000), (Device("h100"), Device("l4")), _PORTS),
        RegisterNode(
            "n3", "general", "b", Resources(4000, 8192, 100, 0, (("fpga", 2),)), ports=_PORTS, address="n3.example"
        ),
        RegisterNode("n4", "gpu", "b", Resources(6000, 6144, 100, 1000), (Device("h100"),), _PORTS, (("disk", "ssd"),)),
        RegisterNode("n5", "general", "c", Resources(3000, 4096, 60), ports=_PORTS, address="fd00::5"),
    )
}

_DEDICATED = (Toleration("dedicated", "db"),)
TEMPLATES: dict[str, Template] = {
    "web-1": a_template(1000, 1024, disk=10),
    "web-2": a_template(1500, 1024, disk=10, isolation=Isolation.STRICT),
    "web-0": a_template(500, 512, disk=5),
    "db-1": a_template(1000, 2048, disk=20, ports=1, apart=(Apart("db"),), tolerate=_DEDICATED),
    "db-2": a_template(1500, 2048, disk=20, ports=1, apart=(Apart("db", "zone", 2),), tolerate=_DEDICATED),
    "chat-1": a_template(500, 512, disk=5, near=(Near("chat", "zone", required=True),)),
    "chat-2": a_template(500, 512, disk=5, near=(Near("db", "pool"), Near("chat", "node", required=True))),
    "batch-1": a_template(1000, 1024, disk=10, restarts_max=0),
    "scrap-1": a_template(1500, 1024, disk=10, restart=RestartPolicy.NEVER, isolation=Isolation.STRICT),
    "batch-2": a_template(500, 512, disk=5, restarts_max=0),
    "scrap-gpu": a_template(500, 512, disk=5, gpus=1, gpu_milli=400),
    "crit-1": a_template(2000, 2048, disk=20, spread=(Spread("zone"),)),
    "crit-2": a_template(2500, 1024, disk=20, spread=(Spread("zone"),), require=(("disk", "ssd"),)),
    "stand-in": a_template(1500, 1536, disk=15, ports=1),
    "gpu-1": a_template(500, 1024, disk=10, gpus=1, gpu_models=("h100",)),
    "gpu-2": a_template(1000, 1024, disk=10, gpus=2),
    "gpu-part": a_template(500, 512, disk=5, gpus=1, gpu_milli=600),
    "picky-ssd": a_template(500, 1024, disk=10, require=(("disk", "ssd"),), ports=2),
    "picky-fpga": a_template(500, 1024, disk=10, extended=(("fpga", 1),), spread=(Spread("pool", 2),)),
}
DIGESTS: dict[str, str] = {name: template_digest(template) for name, template in TEMPLATES.items()}


@dataclass(frozen=True)
class Kind:
    """A workload of the world, and what its assignment may say."""

    uid: int
    tenant: str
    priority_class: str
    templates: tuple[str, ...]
    exclusive: bool = False
    batch: bool = False
    purpose: AssignmentPurpose = AssignmentPurpose.SERVING
    accounts: tuple[tuple[str, ...], ...] = ()
    count: int = 3
    gang: Gang | None = None

    @property
    def assignment(self) -> int:
        return 100 * self.uid


_ACME, _BETA, _SPARE = ("quota/acme",), ("quota/beta",), ("emergency/7",)
KINDS: dict[int, Kind] = {
    kind.assignment: kind
    for kind in (
        Kind(1, "acme", "normal", ("web-1", "web-2", "web-0"), accounts=(_ACME, _ACME + _SPARE, _SPARE), count=4),
        Kind(2, "acme", "normal", ("db-1", "db-2"), exclusive=True, accounts=(_ACME,)),
        Kind(3, "beta", "best-effort", ("batch-1", "batch-2"), batch=True, accounts=(_BETA,)),
        Kind(4, "beta", "best-effort", ("scrap-1", "scrap-gpu"), accounts=(_BETA,), count=4),
        Kind(5, "acme", "critical", ("crit-1", "crit-2"), accounts=(_ACME,)),
        Kind(
            6, "beta", "critical", ("stand-in",), purpose=AssignmentPurpose.RECOVERY, accounts=(("recovery/vital",),
                                                                                                _BETA),
        ),
        Kind(7, "beta", "normal", ("gpu-1", "gpu-part", "gpu-2"), accounts=(_BETA, _SPARE)),
        Kind(8, "acme", "normal", ("picky-ssd", "picky-fpga"), accounts=(_ACME,)),
        Kind(9, "acme", "normal", ("chat-1", "chat-2"), accounts=(_ACME,)),
        Kind(10, "acme", "normal", ("web-0", "web-1"), accounts=(_ACME, _ACME + _SPARE), count=4, gang=Gang(2)),
        Kind(11, "beta", "best-effort", ("batch-2",), batch=True, accounts=(_BETA,), count=3, gang=Gang(3, min=2)),
    )
}  # fmt: skip
ACCOUNTS = ("quota/acme", "quota/beta", "recovery/vital", "emergency/7")
#: A second assignment of the first workload: where two purposes meet in one region, ordinals are not to be confused.
SECOND = 101


def an_assignment_of(uid: int, **fields: Any) -> Assignment:
    kind = KINDS[100 if uid == SECOND else uid]
    shares = fields.pop("shares", ((kind.templates[0], kind.count),))
    defaults: dict[str, Any] = {
        "purpose": AssignmentPurpose.RECOVERY if uid == SECOND else kind.purpose,
        "stage": AssignmentStage.ACTIVE,
        "accounts": ("recovery/vital",) if uid == SECOND else kind.accounts[0],
        "priority_class": kind.priority_class,
        "disruption": 2,
        "exclusive": kind.exclusive,
        "ordinals": tuple(range(kind.count)) if kind.exclusive else (),
        "batch": kind.batch,
        "gang": kind.gang,
    }
    return Assignment(
        uid=uid, revision=uid, workload=kind.uid, workload_name=f"w{kind.uid}", tenant=kind.tenant, region="eu",
        generation=1, shares=tuple(Share(DIGESTS[name], count) for name, count in shares), **{**defaults, **fields},
    )  # fmt: skip


PEOPLE: tuple[Principal, ...] = (
    a_principal("person/ops", Permission.OPERATE, Permission.OVERRIDE),
    a_principal("person/reader", Permission.READ),
    a_principal("person/here", Permission.OPERATE, Permission.OVERRIDE, region="eu"),
    a_principal("person/elsewhere", Permission.OPERATE, Permission.OVERRIDE, region="us"),
    a_principal("person/acme", Permission.OPERATE, tenant="acme"),
    a_principal("person/n1", Permission.OPERATE, node="n1"),
    a_principal("tenant/acme", Permission.WRITE, Permission.OPERATE, tenant="acme"),
)
OPERATORS = ("person/root", "person/ops", "person/here")
SCHEDULERS = ("scheduler/main", "scheduler/second")
#: Classes as they may become: what was firm is reclaimable, who could preempt no longer can.
OTHER_CLASSES: tuple[PriorityClass, ...] = (
    *CLASSES,
    a_class("normal", 50, reclaimable=True),
    a_class("critical", 100),
    a_class("best-effort", 10),
)
