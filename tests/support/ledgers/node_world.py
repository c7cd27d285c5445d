"""A region of nodes with work on them, and the controllers that look after nodes: who falls silent, what is done."""

from __future__ import annotations

from collections import Counter
from typing import Any

from holdfast.core.ledger.builtin.log import RaiseLevel
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.reconciler import Reconciler, ReconcileResult, principal
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import NO_MACHINE, Machine, Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.ranges import expanded
from holdfast.core.reconcilers.region.node_health import NodeHealthReconciler
from holdfast.core.reconcilers.region.repair import RepairReconciler
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.region import REPLICA, ROOT, RegionBench, a_template, an_assignment

TEMPLATE = a_template(cpu=100, memory=100)
HEALTH, REPAIR = NodeHealthReconciler(), RepairReconciler()


class NodeWorld:
    """So many nodes `n0`, `n1`..., each with one replica of workload 1 in a phase: ordinal n stands on node n."""

    def __init__(
        self, count: int, phase: Phase = Phase.SERVING, machine: Machine = NO_MACHINE, level: int = LEVEL, **fields: Any
    ) -> None:
        self.bench = RegionBench(checked=count <= 10, level=level)
        self.bench.a_scheduler()
        self.bench.a_grant()
        self.uids = [self.bench.a_node(f"n{number}", machine=machine) for number in range(count)]
        self.assignment = self.work(count, phase, **fields)

    def work(self, count: int, phase: Phase = Phase.SERVING, **fields: Any) -> Assignment:
        """One replica of a workload on each of the first nodes."""
        if fields.get("exclusive"):
            assignment = an_assignment(template=TEMPLATE, count=count, ordinals=tuple(range(count)), **fields)
            digest = assignment.shares[0].template
            if digest not in self.state.templates:
                self.bench.ship(c.ShippedTemplate(digest, TEMPLATE))
            self.bench.ship(c.ShippedAssignment(assignment))
            self.bench.accept(REPLICA, c.OpenSlots(assignment.uid, digest, expanded(assignment.ordinals)))
        else:
            assignment = self.bench.a_workload(TEMPLATE, count, **fields)
        self.bench.place(assignment, *(c.SlotPlacement(number, self.uids[number]) for number in range(count)))
        if phase is not Phase.BOUND:
            for number in range(count):
                self.bench.walk(phase, number, assignment.workload)
        return assignment

    @property
    def state(self) -> RegionState:
        return self.bench.state

    def node(self, number: int) -> Node:
        return self.state.nodes[self.uids[number]]

    def slot(self, number: int, workload: int = 1) -> Slot:
        return self.bench.slot(number, workload)

    def phases(self, workload: int = 1) -> Counter[str]:
        """How many replicas are in each phase."""
        return Counter(slot.phase.value for slot in self.state.slots.values() if slot.workload == workload)

    def raise_level(self) -> None:
        """The server writes the newest level from now on, and so does its log."""
        self.bench.book = REGION
        self.bench.accept(ROOT, RaiseLevel(LEVEL))

    def silence(self, *numbers: int) -> None:
        """The sessions of these agents end, now."""
        for number in numbers:
            self.bench.accept("controller/sessions", EndSession(self.node(number).session, "silent"))

    def come_back(self, *numbers: int, **fields: Any) -> None:
        """These agents open sessions again, and register their nodes."""
        for number in numbers:
            self.bench.open_session(f"agent/n{number}")
            self.bench.a_node(f"n{number}", **fields)

    def look(self, reconciler: Reconciler[RegionState], number: int) -> ReconcileResult:
        return reconciler.reconcile(self.state, self.uids[number], self.bench.at)

    def send(self, reconciler: Reconciler[RegionState], number: int) -> list[Any]:
        """One look at a node, and what it sends, which is accepted."""
        sent = [wanted.command for wanted in self.look(reconciler, number).commands]
        for command in sent:
            self.bench.accept(principal(reconciler.name), command)
        return sent

    def settle(self) -> None:
        """Both controllers look at every node, until they send nothing more."""
        sent: list[list[Any]] = []
        for _ in range(5):
            sent = [self.send(one, n) for n, uid in enumerate(self.uids) if uid in self.state.nodes for one in _BOTH]
            if not any(sent):
                return
        raise AssertionError(f"not quiet: {sent}")

    def say(self, number: int, target: Phase, cause: str, workload: int = 1) -> None:
        """The agent of a node says something of the replica there."""
        answer = self.bench.move(f"agent/n{number}", target, cause, number, workload)
        assert not hasattr(answer, "code"), answer


_BOTH: tuple[Reconciler[RegionState], ...] = (HEALTH, REPAIR)
