"""Whatever is done at the platform and whatever breaks meanwhile: once all is whole, the region has what it should.

Programs mix changes of every kind that is shipped with cuts, lost answers, messages twice or never, servers of either
side that are killed and replaced, and a platform that snapshots and trims its log all the time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.assignments import AssignmentPurpose, AssignmentStage, Share
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import ASSIGNMENT, GRANT
from holdfast.core.region.decide import full_list
from holdfast.core.region.definition import REGION
from holdfast.host.errors import Unavailable
from holdfast.host.ledger.ledger import Role
from holdfast.host.link.platform import server as platform_server
from holdfast.host.ports.transport import NoAnswer
from holdfast.host.protocol.shipments import Shipment, read_message
from holdfast.host.storage.snapshots import SnapshotPolicy
from tests.support.hosts.ledger_world import until
from tests.support.hosts.link_world import LinkWorld, PlatformServer, RegionServer, differences, linked
from tests.support.ledgers.platform import (
    ROOT,
    a_class,
    a_pool,
    a_principal,
    a_quota,
    a_region,
    a_template,
    a_tenant,
    a_token,
    a_workload,
    cpu,
)

KEEPING = SnapshotPolicy(log_batches=6, retention_ms=0)
HOUR = 3_600_000
numbers = st.integers(0, 3)
CHANGES = (
    "principal", "drop-principal", "token", "class", "place", "override", "end-override", "pool", "drop-pool",
    "policy", "workload", "assign", "assign", "assign", "end-assignment", "drop-workload", "grant",
)  # fmt: skip
FAULTS = ("cut", "heal", "lose", "twice", "drop", "break", "kill-platform", "kill-region", "wait")


class Play:
    """One program at work."""

    def __init__(self, world: LinkWorld) -> None:
        self.world = world
        self.platforms: list[PlatformServer] = []
        self.regions: list[RegionServer] = []
        self._named = 0
        self._keys = 0

    async def begin(self) -> None:
        for _ in range(2):
            self._start_platform()
            self._start_region()
        platform = await self.leader()
        for thing in (
            a_principal("region/*"), a_principal("tenant/*", Permission.WRITE), a_class("normal"),
            a_tenant("acme", "normal"), a_quota("acme", cpu(10_000)), a_region("eu", "EU"), a_region("us", "US"),
        ):  # fmt: skip
            await platform.put(thing)
        for number in range(3):
            await self.change("workload", number, number)

    def _start_platform(self) -> None:
        self._named += 1
        self.platforms.append(self.world.platform(f"p{len(self.platforms)}", policy=KEEPING))

    def _start_region(self) -> None:
        self._named += 1
        self.regions.append(self.world.region(f"r{self._named}", ("p0", "p1")))

    async def leader(self) -> PlatformServer:
        def leading() -> list[PlatformServer]:
            return [server for server in self.platforms if server.ledger.role is Role.LEADING]

        await until(leading, self.world.clock)
        return leading()[0]

    async def region(self) -> RegionServer:
        def leading() -> list[RegionServer]:
            return [server for server in self.regions if server.ledger.role is Role.LEADING]

        await until(leading, self.world.clock)
        return leading()[0]

    async def send(self, actor: str, command: Any) -> Committed | Refused | None:
        """What may be refused, and may find nobody who leads."""
        server = await self.leader()
        self._keys += 1
        key = f"key{self._keys}" if actor.partition("/")[0] in ("person", "tenant") else ""
        try:
            answer = await server.ledger.submit(Envelope(actor, command, self.world.clock.wall(), key=key))
        except Unavailable:
            return None
        return answer if isinstance(answer, Committed | Refused) else None

    # Changes

    async def change(self, what: str, a: int, b: int) -> None:
        state = (await self.leader()).state
        uid = state.workload_names.get(f"acme/w{a}") or 0
        overrides = [one for one, _ in state.overrides.items()]
        assigned = [one.uid for one in state.assignments.values() if one.stage is not AssignmentStage.ENDED]
        where = "us" if b == 3 else "eu"
        token = a_token(f"t{a}", ROOT, expires=self.world.clock.wall() + HOUR, revoked=b > 1)
        shares = (Share(template_digest(state.workloads[uid].spec.template), b + 1),) if uid else ()
        commands: dict[str, tuple[str, Any]] = {
            "principal": (ROOT, p.Put(a_principal(f"person/{a}", tuple(Permission)[b]))),
            "drop-principal": (ROOT, p.Delete("Principal", f"person/{a}")),
            "token": (ROOT, p.Put(token)),
            "class": (ROOT, p.Put(a_class(f"c{a}", 10 + b))),
            "place": (ROOT, p.Put(a_region("eu", f"EU{b}"))),
            "override": (
                ROOT,
                OpenOverride(
                    tuple(OverrideAction)[a], ("", "eu", "us")[b % 3], "", "why", self.world.clock.wall() + HOUR
                ),
            ),
            "end-override": (ROOT, EndOverride(overrides[0] if overrides else 0, "done")),
            "pool": (ROOT, p.Put(a_pool(f"p{a}", where, cost=b))),
            "drop-pool": (ROOT, p.Delete("NodePool", f"p{a}")),
            "policy": (ROOT, p.PublishPolicy("packed", PolicyDocument(scores=(("packing", b),)))),
            "workload": ("tenant/acme", p.PutWorkload(a_workload(f"w{a}", template=a_template(100 + b)))),
            "assign": (ASSIGNMENT, p.Assign(uid, where, AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, shares)),
            "end-assignment": (ASSIGNMENT, p.EndAssignment(assigned[a % len(assigned)] if assigned else 0)),
            "drop-workload": ("tenant/acme", p.DeleteWorkload("acme", f"w{a}")),
            "grant": (GRANT, p.OfferGrant("quota/acme", where, cpu(100 * b), self.world.clock.wall() + HOUR)),
        }
        answer = await self.send(*commands[what])
        if what == "policy" and isinstance(answer, Committed):
            await self.send(ROOT, p.ActivatePolicy(answer.revision, "eu"))

    # Faults

    async def fault(self, what: str, a: int, b: int) -> None:
        region = await self.region()
        if what in ("cut", "heal"):
            for server in self.regions:
                server.line.is_cut = what == "cut"
        elif what == "lose":
            region.line.loses_answers = not region.line.loses_answers
        elif what == "twice":
            region.line.fate = lambda message: [message, message]
        elif what == "drop":
            region.line.fate = lambda message: [] if isinstance(read_message(message), Shipment) else [message]
        elif what == "break":
            region.line.fate = _breaking_after(a + b)
        elif what == "kill-platform":
            await self._replace(self.platforms, await self.leader())
        elif what == "kill-region":
            await self._replace(self.regions, region)
        await self.world.clock.sleep((0, 20, 700, 15_000)[b] if what == "wait" else 0)

    async def _replace(self, servers: list[Any], server: Any) -> None:
        await server.stop()
        place = servers.index(server)
        if isinstance(server, PlatformServer):
            servers[place] = self.world.platform(server.name, policy=KEEPING)
        else:
            servers[place] = self.world.region(server.name, ("p0", "p1"))
            servers[place].line.is_cut = server.line.is_cut

    async def end(self) -> None:
        """All is whole again: the region comes to have everything, and what is changed from then on."""
        for server in self.regions:
            server.line.is_cut = server.line.loses_answers = False
            server.line.fate = lambda message: [message]
        for name in ("person/last", "person/very-last"):
            await (await self.leader()).put(a_principal(name))
            await self.world.same(await self.leader(), await self.region(), 60_000)
        platform, region = await self.leader(), await self.region()
        assert differences(platform.state, region.state) == []
        assert check(region.state, REGION.invariants) == []
        await until(lambda: platform.state.regions["eu"].status.cursor == region.state.region.cursor, self.world.clock)


def _breaking_after(messages: int) -> Callable[[bytes], list[bytes]]:
    """A stream that breaks after so many messages, once."""
    left = [messages]

    def fate(message: bytes) -> list[bytes]:
        left[0] -= 1
        if left[0] == 0:
            raise NoAnswer("the stream broke")
        return [message]

    return fate


steps = st.one_of(
    st.tuples(st.just("change"), st.sampled_from(CHANGES), numbers, numbers),
    st.tuples(st.just("fault"), st.sampled_from(FAULTS), numbers, numbers),
)


@settings(max_examples=25)
@given(st.lists(steps, max_size=30), st.sampled_from((2, platform_server.STEP_OBJECTS)))
def test_after_any_changes_and_faults_the_region_has_what_the_platform_has_for_it(
    program: list[tuple[str, str, int, int]], step_objects: int
) -> None:
    async def story(world: LinkWorld) -> None:
        play = Play(world)
        await play.begin()
        for kind, what, a, b in program:
            await (play.change if kind == "change" else play.fault)(what, a, b)
        await play.end()

    with (
        mock.patch.object(platform_server, "STEP_OBJECTS", step_objects),
        mock.patch.object(platform_server, "PART_OBJECTS", 2),  # every list comes in parts
        mock.patch.object(full_list, "REMOVED_MAX", 1),
    ):
        linked(story)
