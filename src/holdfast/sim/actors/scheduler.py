"""A scheduler in its plainest form: a view of its own, which may be old, and proposals that the ledger judges.

Its view is a follower of the region's log: what cuts or slows its way to the store makes the view stale.
"""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.core.ledger.revision import INDEX_MAX, revision
from holdfast.core.model.allotment import Assignment
from holdfast.core.model.placement import EMPTY_ROOM, PendingReason, Room, SchedulingRequest
from holdfast.core.model.resources import add
from holdfast.core.model.shapes import Revision, SlotKey
from holdfast.core.model.topology import Node
from holdfast.core.model.workload import Template
from holdfast.core.region import commands as c
from holdfast.core.region.assigned import valid_policy
from holdfast.core.region.book import REGION
from holdfast.core.region.feasible import Misfit, admits, fits
from holdfast.core.region.state import RegionState
from holdfast.core.region.unmet import Unmet
from holdfast.host.ledger import Identity, Ledger
from holdfast.sim.actors.remote import Heard, Remote, Speaker
from holdfast.sim.world import Process, Program

LOOK_MS = 500
IDLE_MS = 2_000
PATIENCE_MS = 4_000
RENEW_MS = 2_000
#: What one look proposes at most.
MOST = 20
#: Of so many proposals one reserves first and binds later.
TWO_STEPS_OF = 5

_unmet = msgspec.msgpack.Decoder(list[Unmet])


class Scheduler:
    """One life of a scheduler."""

    def __init__(self, process: Process, store: str, servers: list[str], heard: Heard, refused: dict[str, int]) -> None:
        self._refused = refused
        self._process = process
        self._view = Ledger(REGION, process.store(store), process.clock, Identity(process.name, may_lead=False))
        name = process.name.partition(".")[0]
        self._speaker = Speaker(process, Remote(process, servers, heard), f"scheduler/{name}")
        self._chance = process.chance("scheduler")
        self._renewed = 0
        #: Slots it reserved and has not bound yet, by tenant.
        self._reserved: dict[str, list[SlotKey]] = {}

    async def run(self) -> None:
        """Follow, and propose."""
        await asyncio.gather(self._view.run(), self._work())

    async def _work(self) -> None:
        while True:
            busy = False
            if not self._speaker.session:
                await self._speaker.open()
            elif await self._lives():
                busy = await self._look()
            await self._process.clock.sleep(LOOK_MS if busy or not self._speaker.session else IDLE_MS)

    async def _look(self) -> bool:
        state = self._view.durable.state
        if self._reserved:
            await self._bind(state)
        rooms: dict[Revision, Room] = {}
        busy = False
        waiting = [one for _, requests in state.requests.items() for one in requests]
        # In any order: two schedulers that look at the same time want the same room for different slots.
        for request in self._chance.sample(waiting, len(waiting)):
            busy |= await self._consider(state, request, rooms)
        return busy

    async def _bind(self, state: RegionState) -> None:
        """Bind what it reserved, under the policy that is valid now. What was not answered is tried again."""
        reserved, self._reserved = self._reserved, {}
        for tenant, slots in reserved.items():
            policy = valid_policy(state, tenant)
            command = c.Bind(tuple(slots))
            if await self._speaker.send(command, PATIENCE_MS, view=_revision(state), policy=policy) is None:
                self._reserved[tenant] = slots

    async def _consider(self, state: RegionState, request: SchedulingRequest, rooms: dict[Revision, Room]) -> bool:
        """Propose what fits; say why the rest waits. Whether anything was proposed."""
        assignment, template = state.assignments.get(request.assignment), state.templates.get(request.template)
        if assignment is None or template is None:
            return False
        cls = state.classes.get(assignment.priority_class)
        firm = cls is None or not cls.spec.reclaimable
        open_ = [
            n
            for n in state.ordinals.get(assignment.uid) or ()
            if (slot := state.slots[(assignment.workload, n)]).phase.value == "pending"
            and slot.template == request.template
        ]
        placements: list[c.Placement] = []
        why: dict[str, int] = {}
        for ordinal in open_[:MOST]:
            node = self._choose(state, template, assignment.tenant, rooms, why, firm=firm)
            if node is None:
                break
            placements.append(c.Placement(ordinal, node.uid))
        group = c.Group(assignment.uid, request.template, tuple(placements))
        policy = valid_policy(state, assignment.tenant)
        if placements:
            why |= await self._propose(state, group, policy, assignment)
        if why:
            await self._report(state, request, why)
        return bool(placements) and not why

    async def _propose(
        self, state: RegionState, group: c.Group, policy: Revision, assignment: Assignment
    ) -> dict[str, int]:
        """Send a proposal; what of it was refused, by code."""
        bind = self._chance.randrange(TWO_STEPS_OF) > 0
        until = self._speaker.ledger_time() + state.facts.settings.proposal_life // 2
        command = c.Propose((group,), until, bind=bind)
        reply = await self._speaker.send(command, PATIENCE_MS, view=_revision(state), policy=policy, evidence=b"{}")
        if reply is None:
            return {}
        if reply.said == "refused":
            return {reply.code: len(group.placements)}
        unmet = _unmet.decode(reply.answer) if reply.answer else []
        if not bind:
            lost = {one.index for one in unmet}
            placed = [(assignment.workload, p.ordinal) for n, p in enumerate(group.placements) if n not in lost]
            self._reserved.setdefault(assignment.tenant, []).extend(placed)
        found: dict[str, int] = {}
        for one in unmet:
            found[one.code] = found.get(one.code, 0) + 1
            self._refused[one.code] = self._refused.get(one.code, 0) + 1
        return found

    async def _report(self, state: RegionState, request: SchedulingRequest, why: dict[str, int]) -> None:
        reasons = tuple(PendingReason(code, count) for code, count in sorted(why.items()))
        if reasons != request.reasons:
            command = c.ReportPending(request.assignment, request.template, _revision(state), reasons)
            await self._speaker.send(command, PATIENCE_MS, view=_revision(state))

    def _choose(
        self,
        state: RegionState,
        template: Template,
        tenant: str,
        rooms: dict[Revision, Room],
        why: dict[str, int],
        *,
        firm: bool,
    ) -> Node | None:
        """A node that fits by this view and by what it has given away itself; the emptiest, by chance among equals."""
        found: list[tuple[int, float, Node]] = []
        for uid, node in state.nodes.items():
            room = rooms.get(uid) or state.rooms.get(uid) or EMPTY_ROOM
            misfit: Misfit | None = admits(node, template, tenant) or fits(node, room, template, (), (), firm=firm)
            if misfit is None:
                found.append((room.all.cpu, self._chance.random(), node))
            else:
                why[misfit.code.value] = why.get(misfit.code.value, 0) + 1
        if not found:
            return None
        why.clear()
        node = min(found, key=lambda one: one[:2])[2]
        room = rooms.get(node.uid) or state.rooms.get(node.uid) or EMPTY_ROOM
        firm_ = add(room.firm, template.need) if firm else room.firm
        rooms[node.uid] = msgspec.structs.replace(room, all=add(room.all, template.need), firm=firm_)
        return node

    async def _lives(self) -> bool:
        """Whether its session does: it lives by heartbeats, whatever else is said in it."""
        boot = self._process.clock.boot()
        if boot - self._renewed >= RENEW_MS and await self._speaker.renew():
            self._renewed = boot
        return bool(self._speaker.session)


def scheduler(store: str, servers: list[str], heard: Heard, refused: dict[str, int]) -> Program:
    """The program of a scheduler. What is refused of a proposal that is accepted otherwise is counted by its code."""

    async def run(process: Process) -> None:
        await Scheduler(process, store, servers, heard, refused).run()

    return run


def _revision(state: RegionState) -> Revision:
    return revision(state.facts.seq, INDEX_MAX)
