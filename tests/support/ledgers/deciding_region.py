"""A region whose scheduler decides: workloads, nodes, proposals with evidence, and reports of what waits."""

from __future__ import annotations

from typing import Any, Protocol

from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.assignments import Assignment, AssignmentStage
from holdfast.core.model.records.decisions import Candidate, DecisionEvidence, QuotaSnapshot, SchedulingPass
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.ranges import numbers
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.state.slot_kinds import ordinals_of
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.region import CLASSES, LINK, REPLICA, a_principal, a_template, an_assignment

SCHEDULER = "controller/scheduler"
TEMPLATE = a_template(cpu=100, memory=100)
DIGEST = template_digest(TEMPLATE)
NEAREST = "nearest fit is n1: has cpu 50m of 100m"
REASONS = (PendingReason("capacity", 2, NEAREST, (PendingReason("cpu", 2),)),)


def template_of(one: Assignment) -> str:
    return one.shares[0].template if one.shares else DIGEST


class Sending(Protocol):
    """A server that takes commands."""

    @property
    def state(self) -> RegionState: ...

    async def submit(self, actor: str, command: Any, **fields: Any) -> Committed: ...


class DecidingRegion:
    """One region with nodes n1 to n3 and workloads of tenants; time is the server's."""

    def __init__(self, server: Sending, now: Any) -> None:
        self.server = server
        self.now = now
        self.cursor = server.state.region.cursor

    @property
    def state(self) -> RegionState:
        return self.server.state

    async def ship(self, *puts: c.ShippedItem, gone: tuple[c.RemovedObject, ...] = ()) -> None:
        after, self.cursor = self.cursor, self.cursor + 1
        await self.server.submit(LINK, c.Ship("log-platform", 1, after, self.cursor, puts, gone))

    async def prepared(self) -> DecidingRegion:
        classes = [c.ShippedPriorityClass(one) for one in CLASSES]
        await self.ship(c.ShippedRegion("eu", "eu"), *classes, c.ShippedPrincipal(a_principal("agent/*")))
        await self.ship(c.ShippedTemplate(DIGEST, TEMPLATE))
        for number in (1, 2, 3):
            await self.node(f"n{number}")
        return self

    async def node(self, name: str, cpu: int = 8_000) -> int:
        agent = f"agent/{name}"
        await self.server.submit(agent, OpenSession())
        capacity = Resources(cpu, 10**6, 10**6, 0)
        register = c.RegisterNode(name, "general", "a", capacity, (), (30_000, 30_009))
        await self.server.submit(agent, register, session=self.state.session_of[agent], sequence=1)
        return self.state.node_names[name]

    async def workload(self, name: str = "web", tenant: str = "shop", count: int = 4, **fields: Any) -> Assignment:
        """A workload that the platform asks for, with slots that wait."""
        number = len(self.state.assignments) + 1 + fields.pop("number", 0)
        one = an_assignment(
            100 + number, number, DIGEST, count, tenant=tenant, workload_name=name, generation=3, **fields
        )
        amount = Resources(10**9, 10**9, 10**9, 0)
        grant = c.ShippedGrant(f"quota/{tenant}", number, amount, self.now() + 86_400_000)
        await self.ship(grant, c.ShippedAssignment(one))
        await self.server.submit(REPLICA, c.OpenSlots(one.uid, DIGEST, tuple(range(count))))
        return one

    def a_pass(self, *assignments: Assignment, outcome: str = "placed", **fields: Any) -> SchedulingPass:
        candidates = [Candidate(uid, 900 - at, (("packing", 900 - at),)) for at, uid in enumerate(self.nodes())]
        quota = (QuotaSnapshot(f"quota/{assignments[0].tenant}", Resources(cpu=100), Resources(cpu=1_000)),)
        said: dict[str, Any] = {
            "examined": 3,
            "rejected": (("capacity", "cpu", 1), ("taint", "gpu", 1)),
            "candidates": tuple(candidates[:2]),
            "quota": quota,
            **fields,
        }
        requests = tuple((one.uid, one.generation) for one in assignments)
        return SchedulingPass(requests, template_of(assignments[0]), self.now() - 1_500, outcome, "agent", 7, **said)

    def nodes(self) -> list[int]:
        return [uid for _, uid in sorted(self.state.node_names.items())]

    def group(self, one: Assignment, *placed: tuple[int, str]) -> c.PlacementGroup:
        names = self.state.node_names
        return c.PlacementGroup(
            one.uid,
            template_of(one),
            tuple(c.SlotPlacement(ordinal, names.get(node) or 999) for ordinal, node in placed),
        )

    async def propose(
        self, *groups: c.PlacementGroup, passes: tuple[SchedulingPass, ...] = (), evidence: bytes | None = None
    ) -> Committed:
        """Place; with what the scheduler says it is based on, or with other bytes."""
        view = pack_revision(self.state.info.seq, INDEX_MAX)
        decision = DecisionEvidence(view, 0, passes, (1, 2), (("packing", "1"),))
        said = encode(decision) if evidence is None else evidence
        return await self.server.submit(SCHEDULER, c.Propose(groups, self.now() + 1_000), view=view, evidence=said)

    async def place(self, one: Assignment, *placed: tuple[int, str]) -> Committed:
        """Place slots of one workload, in one pass."""
        return await self.propose(self.group(one, *placed), passes=(self.a_pass(one),))

    async def wait(self, one: Assignment, reasons: tuple[PendingReason, ...] = REASONS) -> Committed:
        """Say why a workload waits."""
        view = pack_revision(self.state.info.seq, INDEX_MAX)
        found = self.a_pass(one, outcome="waiting", nearest=NEAREST, candidates=())
        said = encode(DecisionEvidence(view, 0, (found,)))
        return await self.server.submit(
            SCHEDULER, c.ReportPending(one.uid, template_of(one), view, reasons), evidence=said
        )

    async def end(self, one: Assignment) -> None:
        """Let nothing be left of a workload: the region forgets it."""
        ended = an_assignment(
            one.uid,
            one.workload,
            DIGEST,
            0,
            tenant=one.tenant,
            workload_name=one.workload_name,
            stage=AssignmentStage.ENDED,
        )
        await self.ship(c.ShippedAssignment(ended))
        slots = [self.state.slots[one.workload, ordinal] for ordinal in numbers(ordinals_of(self.state, one.uid))]
        waiting = tuple(slot.ordinal for slot in slots)
        if waiting:
            await self.server.submit(REPLICA, c.WithdrawSlots(one.uid, waiting))
        await self._stop(one)
        await self.server.submit(LINK, c.ForgetAssignment(one.uid))

    async def _stop(self, one: Assignment) -> None:
        from holdfast.core.model.records.lifecycle import Phase

        left = [(one.workload, ordinal) for ordinal in numbers(ordinals_of(self.state, one.uid))]
        if not left:
            return
        await self.server.submit(REPLICA, c.Stop(tuple(left), "scaled-down"))
        for key in left:
            slot = self.state.slots.get(key)
            if slot is not None:
                agent = f"agent/{self.state.nodes[slot.node].name}"
                session = self.state.session_of[agent]
                number = self.state.sessions[session].high + 1
                move = c.Move((c.MoveSlot(key, slot.epoch, Phase.RELEASED, "stopped"),))
                await self.server.submit(agent, move, session=session, sequence=number)
