"""A platform and its region with work in it: what controllers, schedulers and agents would do, done step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import RegionSummary, WorkloadReport
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import ASSIGNMENT, GRANT
from holdfast.core.platform.state.lookups import last_report
from holdfast.core.region import commands as c
from tests.support.hosts.ledger_world import until
from tests.support.hosts.link_world import LinkWorld, PlatformServer, RegionServer
from tests.support.ledgers.platform import a_class, a_principal, a_quota, a_region, a_tenant, cpu

HOUR = 3_600_000
REPLICA = "controller/replica"
SCHEDULER = "scheduler/main"


class LinkActors:
    """The two of them. `platform` and `region` are the servers that lead; whoever replaces one says so here."""

    def __init__(self, world: LinkWorld, platform: PlatformServer, region: RegionServer) -> None:
        self.world = world
        self.platform = platform
        self.region = region
        self._numbers: dict[str, tuple[int, int]] = {}

    async def soon(self, holds: Callable[[], object], within_ms: int = 200) -> None:
        """Wait for what comes to be by itself, and soon."""
        await until(lambda: bool(holds()), self.world.clock, within_ms)

    def counted(self, name: str, **labels: str) -> int:
        return self.region.ledger.metrics.counted(name, **labels)

    # The platform

    async def put(self, workload: Workload) -> int:
        return await self.platform.accept("tenant/acme", p.PutWorkload(workload))

    async def assign(self, workload: int, count: int = 0, ordinals: tuple[int, ...] = ()) -> int:
        """Assign to the region, wait until it is there (what follows from it may be there, too), and give its uid."""
        template = template_digest(self.platform.state.workloads[workload].spec.template)
        total = count or len(ordinals)
        shares = (Share(template, total),) if total else ()
        assign = p.Assign(workload, "eu", AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, shares, ordinals)
        revision = await self.platform.accept(ASSIGNMENT, assign)

        def there() -> list[int]:
            known = self.region.state.assignments.values()
            return [a.uid for a in known if a.workload == workload and a.revision >= revision]

        await self.soon(there)
        return there()[0]

    async def grant(self, milli: int) -> None:
        ends = self.world.clock.wall() + HOUR
        await self.platform.accept(GRANT, p.OfferGrant("quota/acme", "eu", cpu(milli), ends))

    def settled(self) -> tuple[int, Resources]:
        grant = self.platform.state.grants["eu|quota/acme"]
        return grant.acknowledged, grant.settled

    def seen(self, workload: int) -> WorkloadReport | None:
        """What the platform knows that the region sees of a workload."""
        found = last_report(self.platform.state, workload, "eu")
        return None if found is None else found.seen

    def summary(self) -> RegionSummary | None:
        found = self.platform.state.summaries.get("eu")
        return None if found is None else found.summary

    # The region

    async def machine(self, actor: str, command: Any) -> int:
        """A command of an agent or a scheduler, in its session."""
        if actor not in self._numbers:
            await self.region.accept(actor, OpenSession())
            self._numbers[actor] = self.region.state.session_of[actor], 0
        session, number = self._numbers[actor]
        self._numbers[actor] = session, number + 1
        envelope = Envelope(actor, command, self.world.clock.wall(), session=session, sequence=number + 1)
        self.region.ledger.renew(actor, session)
        answer = await self.region.ledger.submit(envelope)
        assert isinstance(answer, Committed), answer
        return answer.revision

    async def node(self, name: str, milli: int = 8_000) -> int:
        await self.machine(f"agent/{name}", c.RegisterNode(name, "general", "a", cpu(milli)))
        return self.region.state.node_names[name]

    def assignment(self, uid: int) -> Assignment:
        return self.region.state.assignments[uid]

    async def open(self, uid: int, *ordinals: int) -> None:
        template = self.assignment(uid).shares[0].template
        await self.region.accept(REPLICA, c.OpenSlots(uid, template, ordinals))

    async def wait_in_vain(self, uid: int, code: str = "capacity") -> None:
        """The scheduler has looked, and says why nothing came of it."""
        template, examined = self.assignment(uid).shares[0].template, self.region.state.info.seq << 20
        reasons = (PendingReason(code, 1, "in a test"),)
        await self.machine(SCHEDULER, c.ReportPending(uid, template, examined, reasons))

    async def place(self, uid: int, node: int, *ordinals: int) -> None:
        template = self.assignment(uid).shares[0].template
        placements = tuple(c.SlotPlacement(ordinal, node) for ordinal in ordinals)
        valid = self.world.clock.wall() + 5_000
        await self.machine(SCHEDULER, c.Propose((c.PlacementGroup(uid, template, placements),), valid))

    async def serve(self, workload: int, *ordinals: int) -> None:
        """Bound replicas come to serve."""
        steps = ((Phase.STARTING, "started"), (Phase.RUNNING, "running"), (Phase.READY, "probe-passed"))
        for target, cause in steps:
            await self._move(workload, ordinals, target, cause)
        moves = self._moves(workload, ordinals, Phase.SERVING, "published")
        await self.region.accept("controller/endpoints", c.Move(moves))

    async def end(self, workload: int, *ordinals: int) -> None:
        """Replicas are stopped for good, and their agents say that they are gone."""
        uid = self.region.state.slots[workload, ordinals[0]].assignment
        await self.region.accept(REPLICA, c.WithdrawSlots(uid, ordinals))
        slots = tuple((workload, ordinal) for ordinal in ordinals)
        await self.region.accept(REPLICA, c.Stop(slots, "scaled-down"))
        await self._move(workload, ordinals, Phase.RELEASED, "stopped")

    async def says(self, workload: int, ordinal: int, target: Phase, cause: str, detail: str = "") -> None:
        """The agent of a replica moves it, and says why."""
        await self._move(workload, (ordinal,), target, cause, detail)

    async def _move(
        self, workload: int, ordinals: tuple[int, ...], target: Phase, cause: str, detail: str = ""
    ) -> None:
        node = self.region.state.nodes[self.region.state.slots[workload, ordinals[0]].node]
        await self.machine(f"agent/{node.name}", c.Move(self._moves(workload, ordinals, target, cause, detail)))

    def _moves(
        self, workload: int, ordinals: tuple[int, ...], target: Phase, cause: str, detail: str = ""
    ) -> tuple[c.MoveSlot, ...]:
        slots = [self.region.state.slots[workload, ordinal] for ordinal in ordinals]
        return tuple(c.MoveSlot((workload, slot.ordinal), slot.epoch, target, cause, detail) for slot in slots)


async def link_actors(world: LinkWorld) -> LinkActors:
    """A platform with a tenant that may have 10 cpu, and its region, which has caught up."""
    platform = await world.a_platform()
    for thing in (
        a_principal("tenant/*", Permission.WRITE), a_principal("agent/*"), a_principal("scheduler/*"),
        a_class("normal"),
        a_tenant("acme", "normal"), a_quota("acme", cpu(10_000)), a_region("us", "US"),
    ):  # fmt: skip
        await platform.put(thing)
    region = world.region()
    await region.leads()
    await world.same(platform, region)
    return LinkActors(world, platform, region)
