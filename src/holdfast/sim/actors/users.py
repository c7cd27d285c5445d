"""Operators who set up and operate a platform, and tenants who create and change workloads.

They use the API client; the operator issues tokens to tenants. Each command has an idempotency key and is retried under
it until it is answered.

Size: everything that people do, one method for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from holdfast.api.resources.platform_types import SchedulerPolicyView
from holdfast.api.resources.schemas import render_command, render_object, tag_of
from holdfast.client.async_client import AsyncClient
from holdfast.client.errors import HoldfastError, OutcomeUnknownError, RefusedError, UnavailableError
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.ledger.revision import parse_revision
from holdfast.core.model.objects.policies import OverrideAction, PlacementStrategy, PolicyDocument
from holdfast.core.model.objects.principals import Token, TokenSpec, format_token, hash_secret
from holdfast.core.model.objects.tenants import Quota
from holdfast.core.model.objects.topology import Taint, TaintEffect
from holdfast.core.model.objects.workloads import Workload
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import elementwise_min
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform import commands as p
from holdfast.core.region import commands as c
from holdfast.replay.recording import PlannedAction
from holdfast.sim.actors.background_clients import ROOT, UserConnection
from holdfast.sim.actors.initial_objects import ScenarioObjects
from holdfast.sim.actors.server_files import token_source
from holdfast.sim.variety import part
from holdfast.sim.world.world import SimProcess

#: The ledger that receives most commands.
PLATFORM = "platform"
#: Interval and number of the attempts to find a node.
NODE_MS, NODE_TRIES = 500, 12
TOKEN_LIFE_MS = 30 * 86_400_000
#: Stands for the revision of a deleted object.
ENDED = "1.0"


class Users:
    """All operators and tenants of a run, on one machine, one action at a time."""

    def __init__(
        self,
        process: SimProcess,
        wishes: ScenarioObjects,
        lines: Mapping[str, UserConnection],
        token: str,
        now: Callable[[], int],
    ) -> None:
        self._process = process
        self._now = now
        self._wishes = wishes
        self._lines = lines
        self._chance = process.chance("people")
        self._draw = token_source(process.chance("tokens"))
        self._tokens = {ROOT: token}
        self._clients: dict[tuple[str, str], AsyncClient] = {}
        self._number = 0
        #: By workload: the spec that its tenant requested last.
        self.wanted: dict[str, Workload] = {}
        self.policy = 0
        #: Whether all actions of the run plan are done and answered.
        self.done = False

    async def open(self) -> None:
        """Set up the platform, administer nodes once they register, and create the first workloads."""
        for one in self._wishes.opening():
            await self.send(PLATFORM, ROOT, p.Put(one))
        for tenant in self._wishes.tenants:
            await self._admit(f"tenant/{tenant}")
        for node in self._wishes.to_administer():
            await self._administer(node)
        for workload in self._wishes.workloads:
            await self.put(workload)

    async def _administer(self, node: str) -> None:
        """Administer a node once it has registered; stop after some attempts."""
        region = node.partition("-")[0]
        for _ in range(NODE_TRIES):
            uid = dict(await self._nodes(region)).get(node, 0)
            if uid:
                await self.send(region, ROOT, c.AdministerNode(uid, **self._wishes.meant(node)))
                return
            await self._process.clock.sleep(NODE_MS)

    async def _admit(self, actor: str) -> None:
        """Issue a token to a principal."""
        part, secret = self._draw()
        name = f"{actor.replace('/', '-')}-{part[:8]}"
        spec = TokenSpec(principal=actor, hash=hash_secret(secret), expires=self._process.clock.wall() + TOKEN_LIFE_MS)
        await self.send(PLATFORM, ROOT, p.Put(Token(meta=Meta(name=name), spec=spec)))
        self._tokens[actor] = format_token(name, secret)

    async def live(self, acts: tuple[PlannedAction, ...]) -> None:
        """Perform each action at its time, or after the action before it."""
        for act in acts:
            await self._process.clock.sleep(act.at - self._now())
            await self.do(act.kind, Random(act.draw))
        self.done = True

    async def do(self, kind: str, chance: Random) -> None:
        """Perform one action of a kind."""
        named = chance.choice(sorted(one.meta.name for one in self._wishes.workloads))
        region = chance.choice(self._wishes.regions)
        of_workload = {"scale": self._scale, "roll": self._roll, "recreate": self._recreate, "freeze": self._freeze}
        of_region = {
            "cordon": self._cordon, "taint": self._taint, "emergency": self._emergency, "policy": self._policy,
            "override": self._override,
        }  # fmt: skip
        if kind in of_workload:
            if named in self.wanted:
                await of_workload[kind](named, chance)
        elif kind in of_region:
            await of_region[kind](region, chance)
        elif kind == "quota":
            await self._requota(chance.choice(self._wishes.tenants), chance)
        else:
            raise ValueError(f"unknown action {kind!r}")

    async def put(self, workload: Workload) -> None:
        """Create or replace a workload."""
        if await self.send(PLATFORM, f"tenant/{workload.meta.tenant}", p.PutWorkload(workload)):
            self.wanted[workload.meta.name] = workload

    async def _scale(self, name: str, chance: Random) -> None:
        before = self.wanted[name]
        replicas, unit = chance.randint(1, self._wishes.most(name)), before.spec.unit
        replicas = max(1, replicas // unit) * unit
        await self.put(replace(before, spec=replace(before.spec, replicas=replicas)))

    async def _roll(self, name: str, chance: Random) -> None:
        before = self.wanted[name]
        template, number = before.spec.template, str(chance.getrandbits(16))
        template = replace(template, command=(template.command[0], name, number))
        await self.put(replace(before, spec=replace(before.spec, template=template)))

    async def _recreate(self, name: str, chance: Random) -> None:
        before = self.wanted.pop(name)
        await self.send(PLATFORM, f"tenant/{before.meta.tenant}", p.DeleteWorkload(before.meta.tenant, name))
        await self._process.clock.sleep(chance.randrange(0, 3_000))
        await self.put(before)

    async def _cordon(self, region: str, chance: Random) -> None:
        """Cordon a node and later uncordon it."""
        name, uid = chance.choice(await self._nodes(region) or [("", 0)])
        if uid:
            meant = self._wishes.meant(name)
            await self.send(region, ROOT, c.AdministerNode(uid, cordoned=True, note="looking at it", **meant))
            await self._process.clock.sleep(chance.randrange(1_000, 8_000))
            await self.send(region, ROOT, c.AdministerNode(uid, **meant))

    async def _taint(self, region: str, chance: Random) -> None:
        """Put an evicting taint on a node for a while: its slots are evicted."""
        name, uid = chance.choice(await self._nodes(region) or [("", 0)])
        if uid:
            meant, drill = self._wishes.meant(name), Taint("drill", "", TaintEffect.EVICT)
            await self.send(region, ROOT, c.AdministerNode(uid, **{**meant, "taints": (*meant["taints"], drill)}))
            await self._process.clock.sleep(chance.randrange(2_000, 10_000))
            await self.send(region, ROOT, c.AdministerNode(uid, **meant))

    async def _nodes(self, region: str) -> list[tuple[str, Revision]]:
        """Return name and uid of a region's nodes, or nothing if no server answers."""
        try:
            found = await self._client(region, ROOT).list("Node")
        except HoldfastError:
            return []
        return [(one["metadata"]["name"], _revision(one["metadata"]["uid"])) for one in found.items]

    async def _emergency(self, region: str, chance: Random) -> None:
        """Give a tenant emergency quota for a while."""
        tenant = chance.choice(self._wishes.tenants)
        more = self._wishes.emergency(tenant)
        facts = (("tenant", tenant), ("cpu", str(more.cpu)), ("memory", str(more.memory)))
        ends = self._process.clock.wall() + chance.randrange(8_000, 25_000)
        emergency = OpenOverride(OverrideAction.EMERGENCY_QUOTA, region, "", "a storm", ends, facts)
        await self.send(PLATFORM, ROOT, emergency)

    async def _requota(self, tenant: str, chance: Random) -> None:
        before = self._wishes.quotas[tenant]
        hard = part(before.hard, chance.choice((50, 75, 100, 125)))
        spec = replace(before, hard=hard, protected=elementwise_min(before.protected, hard))
        await self.send(PLATFORM, ROOT, p.Put(Quota(meta=Meta(name=tenant), spec=spec)))

    async def _policy(self, region: str, chance: Random) -> None:
        """Publish and activate a policy; roll it back if another one was active."""
        document = PolicyDocument(
            strategy=chance.choice(list(PlacementStrategy)), scores=(("balance", chance.randint(0, 3)),)
        )
        name = f"trial-{chance.randrange(1_000_000)}"
        published = await self.send(PLATFORM, ROOT, p.PublishPolicy(name, document))
        if not published:
            return
        before, self.policy = self.policy, published
        await self.send(PLATFORM, ROOT, p.ActivatePolicy(self.policy, region))
        await self._process.clock.sleep(chance.randrange(500, 6_000))
        if before:
            await self.send(PLATFORM, ROOT, p.RollBackPolicy(self.policy, before, "it was a trial"))
            self.policy = before

    async def _override(self, region: str, chance: Random) -> None:
        """Open an override for a while."""
        tenant = chance.choice(self._wishes.tenants)
        zone = str(chance.randint(1, 2))
        kinds = (
            (OverrideAction.PAUSE_SCHEDULING, tenant),
            (OverrideAction.AVOID_ZONE, zone),
            (OverrideAction.PAUSE_REPAIR, ""),
        )
        action, target = chance.choice(kinds)
        ends = self._process.clock.wall() + chance.randrange(8_000, 25_000)
        await self.send(PLATFORM, ROOT, OpenOverride(action, region, target, "a drill", ends))

    async def _freeze(self, name: str, chance: Random) -> None:
        """Scale a workload up and then pause the scheduling of its tenant. A scheduler that has only the first change
        proposes what is refused."""
        before, most = self.wanted[name], self._wishes.most(name)
        unit = before.spec.unit
        await self.put(replace(before, spec=replace(before.spec, replicas=max(1, most // unit) * unit)))
        await self._process.clock.sleep(chance.randrange(100, 2_000))
        ends = self._process.clock.wall() + chance.randrange(4_000, 8_000)
        for region in self._wishes.regions:
            pause = OpenOverride(OverrideAction.PAUSE_SCHEDULING, region, before.meta.tenant, "a second thought", ends)
            await self.send(PLATFORM, ROOT, pause)

    async def send(self, ledger: str, actor: str, command: Any) -> Revision:
        """Send a command under a new idempotency key until it is answered. Return its revision; 0: refused."""
        self._number += 1
        key = f"{self._process.name}-{self._number}"
        while True:
            try:
                return _revision(await self._once(self._client(ledger, actor), command, key))
            except RefusedError as refused:
                if refused.problem.code != "unauthenticated":
                    return 0
            except (UnavailableError, OutcomeUnknownError):  # users retry without end
                pass
            await self._process.clock.sleep(self._chance.randrange(20, 300))

    async def _once(self, client: AsyncClient, command: Any, key: str) -> str:
        match command:
            case p.Put(one) | p.PutWorkload(one):
                return (await client.put(render_object(one, secrets=True), idempotency_key=key)).revision or ENDED
            case p.PublishPolicy(name, document):
                policy = SchedulerPolicyView(meta=Meta(name=name), spec=document)
                return (await client.put(render_object(policy), idempotency_key=key)).revision
            case p.DeleteWorkload(tenant, name):
                return (await client.delete("Workload", name, tenant, idempotency_key=key)).revision or ENDED
        fields = render_command(command)
        return (await client.command(tag_of(type(command)), idempotency_key=key, **fields)).revision

    def _client(self, ledger: str, actor: str) -> AsyncClient:
        if (ledger, actor) not in self._clients:
            self._clients[ledger, actor] = self._lines[ledger].client(actor, self._tokens[actor])
        return self._clients[ledger, actor]


def _revision(text: str) -> Revision:
    found = parse_revision(text)
    assert found is not None, f"the reply contains {text!r}, which is not a revision"
    return found
