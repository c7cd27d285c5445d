"""Random regions for schedulers: nodes of all kinds, workloads that ask for all kinds of them, and what happens there.

Small on purpose: few nodes with little on them, so that everything is short of something.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from random import Random
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import principal
from holdfast.core.model.objects.isolation import STRICT, Capability, Isolation
from holdfast.core.model.objects.policies import (
    OverrideAction,
    PlacementStrategy,
    PolicyDocument,
    PolicyStage,
    SchedulerPolicy,
    Validity,
)
from holdfast.core.model.objects.topology import Taint, Toleration
from holdfast.core.model.objects.workloads import Apart, Spread, Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.node_usage import EMPTY_USAGE
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.ranges import expanded
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.lookups import valid_policy
from holdfast.core.region.state.slot_kinds import ordinals_of
from tests.support.ledgers.region import LINK, REPLICA, ROOT, RegionBench, a_template, an_assignment

TENANTS = ("acme", "beta")
ZONES = ("a", "b", "c")
THINGS = ("model-7", "python-3.11", "web")
DEDICATED = Taint("dedicated", "batch")
#: What agents enforce: all of it, less, nothing.
ENFORCED = (tuple(sorted(Capability)), STRICT, (Capability.USERS,), (Capability.CPU_LIMIT, Capability.MEMORY_LIMIT), ())


class World:
    """A region and the chance that rules it."""

    def __init__(self, chance: Random, *, checked: bool = True) -> None:
        self.chance = chance
        self.bench = RegionBench(checked=checked)
        self._numbers = 0
        self._versions = 0
        for tenant in TENANTS:
            self.grant(f"quota/{tenant}")
        self.grant("recovery/r")
        for _ in range(chance.randint(2, 7)):
            self.add_node()
        for _ in range(chance.randint(0, 2)):
            self.policy()
        for _ in range(chance.randint(1, 5)):
            self.add_workload()

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    # What there is

    def grant(self, account: str) -> None:
        self._versions += 1
        cpu = self.chance.choice([0, 1500, 4000, 100_000, 100_000, 100_000])
        target = Resources(cpu, 10**6, 10**6, 10**6, (("fpga", 4),))
        protected = (
            Resources(self.chance.choice([0, 0, 0, 1000, 3000])) if account.startswith("quota/") else Resources()
        )
        self.bench.a_grant(account, version=self._versions, target=target, protected=protected)

    def add_node(self) -> None:
        chance = self.chance
        ports = chance.choice([(0, 0), (30_000, 30_001), (30_000, 30_004)])
        uid = self.bench.a_node(
            f"n{self._number()}",
            cpu=chance.choice([1000, 2000, 4000]),
            memory=chance.choice([1024, 8192, 8192]),
            zone=chance.choice(ZONES),
            pool=chance.choice(["general", "special"]),
            gpus=tuple(chance.choice(["t4", "h100"]) for _ in range(chance.choice([0, 0, 1, 3, 4]))),
            ports=ports,
            labels=(("disk", chance.choice(["ssd", "hdd"])),) if chance.random() < 0.7 else (),
            extended=(("fpga", chance.randint(1, 2)),) if chance.random() < 0.2 else (),
            **self.keeping_apart(),
        )
        if chance.random() < 0.5:
            self.administer(uid)

    def keeping_apart(self) -> dict[str, Any]:
        """What an agent says of how it keeps tenants apart."""
        chance = self.chance
        return {
            "capabilities": chance.choice(ENFORCED),
            "tenant": chance.choice(TENANTS) if chance.random() < 0.1 else "",
            "shares_user": chance.random() < 0.5,
        }

    def administer(self, uid: int) -> None:
        chance = self.chance
        self.bench.send(
            ROOT,
            c.AdministerNode(
                uid,
                cordoned=chance.random() < 0.2,
                taints=(DEDICATED,) if chance.random() < 0.2 else (),
                tenancy=(chance.choice(TENANTS),) if chance.random() < 0.2 else (),
                labels=(("disk", "ssd"),) if chance.random() < 0.3 else (),
                note="chance",
            ),
        )

    def report(self) -> None:
        """The agent of a node says how it fares."""
        names = [node.name for _, node in self.bench.state.nodes.items() if node.session]
        if names:
            name, chance = self.chance.choice(names), self.chance
            cpu, memory = (chance.randrange(0, 101, 10) for _ in range(2))
            present = tuple(sorted(chance.sample(THINGS, chance.randint(0, 2))))
            self.bench.send(f"agent/{name}", c.ReportNode(name, cpu, memory, present))

    def a_template(self) -> Template:
        chance = self.chance
        gpus = chance.choice([0, 0, 0, 1, 2])
        rules: dict[str, object] = {}
        if chance.random() < 0.3:
            rules["spread"] = (Spread(chance.choice(["zone", "pool"]), chance.randint(1, 2)),)
        if chance.random() < 0.3:
            keys = chance.sample(["node", "zone", "pool"], chance.randint(1, 2))
            rules["apart"] = tuple(Apart("db", key, chance.randint(1, 2)) for key in keys)
        return a_template(
            cpu=chance.choice([0, 300, 300, 1000, 1500]),
            memory=chance.choice([0, 512]),
            gpus=gpus,
            gpu_milli=chance.choice([500, 300, 1000]) if gpus == 1 else 1000,
            gpu_models=("h100",) if gpus and chance.random() < 0.3 else (),
            ports=chance.choice([0, 0, 0, 1, 2]),
            require=(("disk", "ssd"),) if chance.random() < 0.2 else (),
            tolerate=(Toleration("dedicated"),) if chance.random() < 0.3 else (),
            extended=(("fpga", 1),) if chance.random() < 0.1 else (),
            uses=tuple(sorted(chance.sample(THINGS, chance.choice([0, 0, 1, 2])))),
            isolation=Isolation.STRICT if chance.random() < 0.2 else Isolation.STANDARD,
            **rules,
        )

    def add_workload(self) -> None:
        chance, number = self.chance, self._number()
        tenant = chance.choice(TENANTS)
        count = chance.randint(1, 5)
        accounts = chance.choice([(f"quota/{tenant}",), (f"quota/{tenant}", "recovery/r"), ("recovery/r",)])
        old = [template for _, template in self.bench.state.templates.items()]
        template = chance.choice(old) if old and chance.random() < 0.3 else self.a_template()
        exclusive = chance.random() < 0.15
        assignment = an_assignment(
            1000 + number, number, template, count, tenant=tenant, accounts=accounts,
            purpose=AssignmentPurpose.RECOVERY if accounts == ("recovery/r",) else AssignmentPurpose.SERVING,
            priority_class=chance.choice(["critical", "normal", "normal", "best-effort"]),
            deadline=chance.choice([0, 0, self.bench.at + 60_000]),
            exclusive=exclusive, ordinals=tuple(range(count)) if exclusive else (),
        )  # fmt: skip
        digest = template_digest(template)
        self.bench.ship(c.ShippedTemplate(digest, template), c.ShippedAssignment(assignment))
        self.bench.accept(REPLICA, c.OpenSlots(assignment.uid, digest, tuple(range(count))))

    def policy(self) -> None:
        number = self._number()
        strategy = self.chance.choice([*PlacementStrategy])
        policy = SchedulerPolicy(
            revision=number,
            name="some",
            document=PolicyDocument(strategy),
            stage=PolicyStage.ACTIVE,
            author=ROOT,
            at=self.bench.at,
        )
        scope = self.chance.choice(["", *TENANTS])
        self.bench.ship(c.ShippedPolicy(policy), c.ShippedValidity(Validity("eu", scope, number)))

    # What happens

    def happen(self) -> None:
        """Something, if it can."""
        events = (
            self.add_node, self.add_workload, self.add_workload, self.end_one, self.end_one, self.end_one,
            self.lose_one, self.lose_one, self.withdraw, self.reopen, self.change_node, self.change_node,
            self.some_grant, self.policy, self.override, self.hold, self.drop_hold, self.reassign, self.register_again,
            self.forget, self.report,
        )  # fmt: skip
        self.bench.at += self.chance.choice([0, 10, 500])
        self.chance.choice(events)()

    def _standing(self) -> list[tuple[int, int]]:
        return [key for key, slot in self.bench.state.slots.items() if slot.node]

    def lose_one(self, *, wanted: bool = True) -> None:
        """A slot comes off its node, and waits again with its charge."""
        standing = self._standing()
        if standing:
            workload, ordinal = self.chance.choice(standing)
            slot = self.bench.slot(ordinal, workload)
            if not wanted:
                self.bench.send(REPLICA, c.WithdrawSlots(slot.assignment, (ordinal,)))
            node = self.bench.state.nodes[slot.node].name
            self.bench.move(f"agent/{node}", Phase.RELEASED, "declined", ordinal, workload)

    def end_one(self) -> None:
        self.lose_one(wanted=False)

    def _assignment(self) -> Assignment | None:
        found = [assignment for _, assignment in self.bench.state.assignments.items()]
        return self.chance.choice(found) if found else None

    def withdraw(self) -> None:
        assignment = self._assignment()
        if assignment is not None:
            ordinals = expanded(ordinals_of(self.bench.state, assignment.uid))
            if ordinals:
                self.bench.send(REPLICA, c.WithdrawSlots(assignment.uid, (self.chance.choice(ordinals),)))

    def reopen(self) -> None:
        assignment = self._assignment()
        if assignment is not None and assignment.shares:
            ordinal = self.chance.randint(0, 6)
            self.bench.send(REPLICA, c.OpenSlots(assignment.uid, assignment.shares[0].template, (ordinal,)))

    def reassign(self) -> None:
        """The platform changes its mind about class, payers, deadline or ordinals."""
        assignment = self._assignment()
        if assignment is None:
            return
        chance = self.chance
        changes: list[dict[str, Any]] = [
            {"priority_class": chance.choice(["critical", "normal", "best-effort"])},
            {"accounts": (f"quota/{assignment.tenant}", "recovery/r")},
            {"deadline": chance.choice([0, self.bench.at + 30_000])},
            {"ordinals": expanded(assignment.ordinals)[:-1]},
            {"right_until": chance.choice([0, self.bench.at, self.bench.at + 60_000])},
        ]
        revision = max(assignment.revision, self.bench.state.region.cursor) + 1
        changed = replace(assignment, revision=revision, generation=assignment.generation + 1, **chance.choice(changes))
        cursor = self.bench._cursor
        answer = self.bench.send(LINK, c.Ship("log-platform", 1, cursor, cursor + 1, (c.ShippedAssignment(changed),)))
        if isinstance(answer, Committed):
            self.bench._cursor += 1

    def forget(self) -> None:
        """A workload leaves the region, if nothing of it runs."""
        assignment = self._assignment()
        if assignment is not None:
            ended = replace(assignment, revision=assignment.revision + 1, stage=AssignmentStage.ENDED, shares=())
            ordinals = expanded(ordinals_of(self.bench.state, assignment.uid))
            if ordinals:
                self.bench.send(REPLICA, c.WithdrawSlots(assignment.uid, ordinals))
            self.bench.ship(c.ShippedAssignment(ended))
            self.bench.send(REPLICA, c.ForgetAssignment(assignment.uid))

    def _node(self) -> Node | None:
        found = [node for _, node in self.bench.state.nodes.items()]
        return self.chance.choice(found) if found else None

    def change_node(self) -> None:
        node = self._node()
        if node is not None:
            self.administer(node.uid)

    def register_again(self) -> None:
        """An agent says something else of its node."""
        node, chance = self._node(), self.chance
        if node is not None:
            capacity = replace(node.capacity, cpu=chance.choice([500, 2000, 4000]))
            ports = chance.choice([(0, 0), (30_001, 30_003), node.ports])
            zone = chance.choice([node.zone, *ZONES])
            command = c.RegisterNode(
                node.name, node.pool, zone, capacity, node.devices, ports, labels=node.reported_labels,
                **self.keeping_apart(),
            )  # fmt: skip
            self.bench.send(f"agent/{node.name}", command)

    def some_grant(self) -> None:
        self.grant(self.chance.choice(["quota/acme", "quota/beta", "recovery/r"]))

    def override(self) -> None:
        chance = self.chance
        action, target = chance.choice(
            [
                (OverrideAction.AVOID_ZONE, chance.choice(ZONES)),
                (OverrideAction.PAUSE_SCHEDULING, chance.choice(["", *TENANTS])),
            ]
        )
        ends = self.bench.at + chance.choice([100, 500])
        self.bench.send(ROOT, OpenOverride(action, "eu", target, "chance", ends))

    def hold(self) -> None:
        node = self._node()
        if node is not None:
            ends = self.bench.at + 3_600_000
            need = Resources(self.chance.choice([300, 1000]))
            hold = c.Hold(ReservationPurpose.DATED, node.uid, "quota/acme", ends, need, tenant="acme")
            self.bench.send(ROOT, hold)

    def drop_hold(self) -> None:
        holds = [uid for uid, _ in self.bench.state.holds.items()]
        if holds:
            self.bench.send(ROOT, c.DropHold(self.chance.choice(holds)))


# Without a scheduler


def placeable(bench: RegionBench) -> Iterator[str]:
    """Every slot that waits and that the ledger would take somewhere, found by trying everything."""
    for (workload, ordinal), slot in bench.state.slots.items():
        if slot.phase is Phase.PENDING:
            for node in bench.state.nodes.values():
                if takes(bench, slot.assignment, slot.template, ordinal, node):
                    yield f"slot {workload}/{ordinal} of {slot.assignment} on {node.name}"
                    break


def takes(bench: RegionBench, assignment: int, digest: str, ordinal: int, node: Node) -> bool:
    """Whether the ledger takes a slot on a node, with some devices and ports."""
    template = bench.state.templates[digest]
    room = bench.state.node_usage.get(node.uid) or EMPTY_USAGE
    policy = valid_policy(bench.state, bench.state.assignments[assignment].tenant)
    first, last = node.ports
    free = [port for port in range(first, last + 1) if port not in room.ports] if last else []
    ports = tuple(free[: template.ports])
    for devices in combinations(range(len(node.devices)), template.gpus):
        group = c.PlacementGroup(assignment, digest, (c.SlotPlacement(ordinal, node.uid, devices, ports),))
        command = c.Propose((group,), bench.at + 1_000)
        envelope = Envelope(principal("scheduler"), command, bench.at, policy=policy)
        if isinstance(BatchDraft(REGION, bench.state).add(envelope, bench.at), Committed):
            return True
    return False
