"""One assignment in a region with its controllers: what it asks for, what they send, and nodes that do what is due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.reconciler import Reconciler, ReconcileResult, principal
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.assignments import Assignment, Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import PendingReason, Slot
from holdfast.core.model.values.ranges import numbers
from holdfast.core.reconcilers.region.replica import ReplicaReconciler
from holdfast.core.reconcilers.region.rollout import RolloutReconciler
from holdfast.core.region import commands as c
from holdfast.core.region.state.slot_kinds import ordinals_of
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_template, an_assignment

UID, WORKLOAD = 100, 1
#: Templates by short names: each needs as much as any other.
TEMPLATES = {name: a_template(cpu=100, memory=100, environment=(("NAME", name),)) for name in ("one", "two", "three")}
DIGESTS = {name: template_digest(template) for name, template in TEMPLATES.items()}
NAMES = {digest: name for name, digest in DIGESTS.items()}

#: What is tried next, by phase: the second is for those that may not be restarted, or kept, any more.
_FORWARD = {
    Phase.BOUND: ((Phase.STARTING, "started"),),
    Phase.STARTING: ((Phase.RUNNING, "running"),),
    Phase.RUNNING: ((Phase.READY, "probe-passed"),),
    Phase.READY: ((Phase.SERVING, "published"),),
    Phase.FAILED: ((Phase.STARTING, "restarted"), (Phase.RELEASED, "given-up")),
    Phase.UNKNOWN: ((Phase.RUNNING, "found-again"), (Phase.FAILED, "gone")),
    Phase.TERMINATING: ((Phase.RELEASED, "stopped"),),
}


class AssignmentWorld:
    """A region with nodes, a scheduler and one assignment, of the templates in `TEMPLATES`."""

    def __init__(self, nodes: int = 1, *, checked: bool = True) -> None:
        self.bench = RegionBench(checked=checked)
        self.bench.a_scheduler()
        self.nodes = [self.bench.a_node(f"n{number}", memory=10**6, cpu=10**6) for number in range(nodes)]
        self.bench.a_grant()
        self.bench.ship(*(c.ShippedTemplate(DIGESTS[name], template) for name, template in TEMPLATES.items()))

    @property
    def state(self) -> RegionState:
        return self.bench.state

    @property
    def assignment(self) -> Assignment:
        return self.state.assignments[UID]

    def ask(self, counts: dict[str, int], uid: int = UID, **fields: Any) -> None:
        """The platform asks for so many of each template."""
        shares = tuple(Share(DIGESTS[name], number) for name, number in counts.items() if number)
        self.bench.ship(c.ShippedAssignment(an_assignment(uid, WORKLOAD, shares=shares, **fields)))

    def slots(self, uid: int = UID) -> list[Slot]:
        return [self.state.slots[WORKLOAD, ordinal] for ordinal in numbers(ordinals_of(self.state, uid))]

    def slot(self, ordinal: int) -> Slot:
        return self.bench.slot(ordinal, WORKLOAD)

    def phases(self) -> dict[int, str]:
        """The phase of each ordinal."""
        return {slot.ordinal: slot.phase.value for slot in self.slots()}

    def templates(self) -> dict[int, tuple[str, str]]:
        """What each ordinal is now, and what it will be; empty: nothing."""
        return {slot.ordinal: (NAMES[slot.template], NAMES.get(slot.next_template, "")) for slot in self.slots()}

    def serving(self) -> int:
        return sum(slot.phase is Phase.SERVING for slot in self.slots())

    # What controllers do

    def look(self, reconciler: Reconciler[RegionState], uid: int = UID) -> ReconcileResult:
        return reconciler.reconcile(self.state, uid, self.bench.at)

    def send(self, reconciler: Reconciler[RegionState], uid: int = UID) -> list[Any]:
        """One look, and what it sends, which is accepted."""
        sent = [wanted.command for wanted in self.look(reconciler, uid).commands]
        for command in sent:
            self.bench.accept(principal(reconciler.name), command)
        return sent

    def settle(self, *reconcilers: Reconciler[RegionState], uid: int = UID) -> list[Any]:
        """One look after the other, until nothing is sent any more; what was sent."""
        sent: list[Any] = []
        for _ in range(10):
            now = [
                command
                for one in reconcilers or (ReplicaReconciler(), RolloutReconciler())
                for command in self.send(one, uid)
            ]
            if not now:
                return sent
            sent += now
        raise AssertionError(f"not quiet: {sent[-3:]}")

    # What schedulers and agents do

    def work(self, ordinals: Sequence[int] | None = None, to: Phase = Phase.SERVING) -> None:
        """Every slot, or these, is placed where it waits, and goes on to a phase; what must end has ended."""
        for slot in self.slots():
            if ordinals is None or slot.ordinal in ordinals:
                self._bring(slot.ordinal, to)

    def _bring(self, ordinal: int, to: Phase) -> None:
        for _ in range(12):
            slot = self.state.slots.get((WORKLOAD, ordinal))
            if slot is None or slot.phase is to or not self.step(ordinal):
                return

    def step(self, ordinal: int) -> bool:
        """The next thing that happens to a slot by itself. Whether anything did."""
        slot = self.slot(ordinal)
        if slot.phase is Phase.PENDING:
            placement = c.SlotPlacement(ordinal, self.nodes[ordinal % len(self.nodes)])
            group = c.PlacementGroup(slot.assignment, slot.template, (placement,))
            return isinstance(self.bench.send(SCHEDULER, c.Propose((group,), self.bench.at + 1_000)), Committed)
        return any(self.move(ordinal, target, cause) for target, cause in _FORWARD.get(slot.phase, ()))

    def move(self, ordinal: int, target: Phase, cause: str) -> bool:
        slot = self.slot(ordinal)
        actor = "controller/endpoints" if cause == "published" else f"agent/{self.state.nodes[slot.node].name}"
        return isinstance(self.bench.move(actor, target, cause, ordinal, WORKLOAD), Committed)

    def cut(self, node: int) -> None:
        """The agent of a node is silent: what it held is unknown. Then it is back, and says so one by one."""
        agent, uid = f"agent/n{node}", self.nodes[node]
        self.bench.accept("controller/node-health", EndSession(self.bench.sessions[agent], "silent"))
        known = [s for s in self.slots() if s.node == uid and s.phase.value in _AT_NODE]
        lost = tuple(c.MoveSlot((WORKLOAD, s.ordinal), s.epoch, Phase.UNKNOWN, "session-ended") for s in known)
        if lost:
            self.bench.accept("controller/node-health", c.Move(lost))
        self.bench.open_session(agent)
        self.bench.a_node(f"n{node}", memory=10**6, cpu=10**6)

    def report(self, code: str = "capacity") -> None:
        """The scheduler says of all requests why they wait."""
        for request in self.state.requests.get(UID) or ():
            examined = pack_revision(self.state.info.seq, INDEX_MAX)
            reasons = (PendingReason(code, request.open),)
            self.bench.send(SCHEDULER, c.ReportPending(UID, request.template, examined, reasons))


_AT_NODE = ("bound", "starting", "running", "ready", "serving", "failed")


def serving(count: int, **fields: Any) -> AssignmentWorld:
    """So many replicas of template one that all serve."""
    found = AssignmentWorld()
    found.ask({"one": count}, **fields)
    found.settle(ReplicaReconciler())
    found.work()
    return found


def opened(*ordinals: int, name: str = "one", uid: int = UID) -> c.OpenSlots:
    """These are wanted under this template."""
    return c.OpenSlots(uid, DIGESTS[name], ordinals)


def withdrawn(*ordinals: int, uid: int = UID) -> c.WithdrawSlots:
    return c.WithdrawSlots(uid, ordinals)


def stopped(*ordinals: int, cause: str = "scaled-down") -> c.Stop:
    return c.Stop(tuple((WORKLOAD, ordinal) for ordinal in ordinals), cause)
