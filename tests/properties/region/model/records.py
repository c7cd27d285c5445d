"""What exists in the model of a region, as plain mutable records, and the arithmetic of amounts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NodeHealth
from holdfast.core.model.records.slots import Failure, PreemptionReceipt, ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region.commands import AdministerNode, RegisterNode, ReportNode

#: An amount of each resource; what is not named is zero.
Amounts = dict[str, int]


def amounts(resources: Resources) -> Amounts:
    named = {"cpu": resources.cpu, "memory": resources.memory, "disk": resources.disk, "gpu": resources.gpu}
    return {name: amount for name, amount in {**named, **dict(resources.extended)}.items() if amount}


def plus(left: Amounts, right: Amounts, sign: int = 1) -> Amounts:
    both = {name: left.get(name, 0) + sign * right.get(name, 0) for name in {**left, **right}}
    return {name: amount for name, amount in both.items() if amount}


def minus(left: Amounts, right: Amounts) -> Amounts:
    return plus(left, right, -1)


def summed(many: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for one in many:
        total = plus(total, one)
    return total


def larger(left: Amounts, right: Amounts) -> Amounts:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


@dataclass
class Slot:
    """One ordinal. `waits` are the victims that are not gone yet.

    `changed` is the batch of its last change, `reported` that of its binding or of its agent's last word.
    """

    workload: int
    ordinal: int
    assignment: int
    template: str
    following: str
    changed: int
    phase: Phase = Phase.PENDING
    cause: str = ""
    reported: int = 0
    epoch: int = 0
    node: int = 0
    devices: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    account: str = ""
    ends: int = 0
    restarts: int = 0
    waits: tuple[SlotKey, ...] = ()
    firm: bool = True
    detail: str = ""
    failure: Failure | None = None
    given_up: int = 0
    bound_at: int = 0
    receipt: PreemptionReceipt | None = None

    @property
    def key(self) -> SlotKey:
        return self.workload, self.ordinal


@dataclass(frozen=True)
class Over:
    """An ordinal of batch work that does not come back: of which assignment and template, and whether it is done."""

    assignment: int
    ordinal: int
    template: str
    done: bool


@dataclass
class Node:
    """A machine: what its agent said, what an operator said, and whether it lives. `fares` is what was told when."""

    uid: int
    said: RegisterNode
    changed: int
    meant: AdministerNode
    health: NodeHealth = NodeHealth.READY
    session: int = 0
    ended: int = 0
    #: Since when its agent runs on the machine that it named last, and the fence time by which its last session ended.
    machine_since: int = 0
    fence: int = 0
    room_changed: int = 0
    fares: tuple[ReportNode, int] | None = None

    @property
    def usable(self) -> bool:
        return (
            self.health is NodeHealth.READY and self.session > 0 and not self.meant.cordoned and not self.meant.draining
        )

    def domain(self, key: str) -> str:
        return {"zone": self.said.zone, "pool": self.said.pool, "node": self.said.name}[key]

    def label(self, key: str) -> str | None:
        return {**dict(self.said.labels), **dict(self.meant.labels)}.get(key)


@dataclass
class Hold:
    """Room kept without a slot."""

    uid: int
    purpose: ReservationPurpose
    owner: str
    tenant: str
    assignment: int
    node: int
    need: Amounts
    devices: tuple[int, ...]
    milli: int
    account: str
    ends: int
    template: Template
    digest: str


@dataclass
class Grant:
    """A grant as the region holds it."""

    version: int
    target: Amounts
    limit: Amounts
    ends: int
    protected: Amounts
    weight: int


@dataclass
class Session:
    """One life of a machine, and every number it has had an answer for."""

    principal: str
    opened: int
    since: int
    high: int = 0
    fence: int = 0
    answered: dict[int, tuple[int, bytes]] = field(default_factory=dict)


@dataclass
class Key:
    """What a person's key was used for."""

    body: bytes
    at: int
    revision: int
    answer: bytes


@dataclass
class Room:
    """What is taken of one node, each resource and each device by firm work, by all work, and by holds."""

    firm: Amounts
    all: Amounts
    held: Amounts
    ports: list[int]

    def fits(self, need: Amounts, capacity: Amounts, *, firm: bool) -> bool:
        """What is needed fits; what was broken from outside and is not asked for is not this one's affair."""
        for name, amount in need.items():
            if firm and self.firm.get(name, 0) + self.held.get(name, 0) + amount > capacity.get(name, 0):
                return False
            if self.all.get(name, 0) + amount > capacity.get(name, 0):
                return False
        return True
