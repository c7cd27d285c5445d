"""People: operators who set a platform up and operate it, tenants who ask for things, readers, and whoever storms.

They speak through the API client, tenants with tokens that the operator made for them. Everybody names a key for each
command and repeats it under that key until it is answered.

Size: everything that people do, one method for each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from msgspec.structs import replace

from holdfast.api.resources.command_catalog import render_command, tag_of
from holdfast.api.resources.platform_types import SchedulerPolicyView
from holdfast.api.resources.writable import render_object
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
from holdfast.replay.run_plan import PlannedAction
from holdfast.sim.actors.initial_objects import ScenarioObjects
from holdfast.sim.actors.server_files import token_source
from holdfast.sim.actors.user_client import ROOT, UserConnection
from holdfast.sim.variety import part
from holdfast.sim.world.world import SimProcess

#: The ledger that most is asked of.
PLATFORM = "platform"
#: How often, and how many times, somebody looks whether a node is there.
NODE_MS, NODE_TRIES = 500, 12
TOKEN_LIFE_MS = 30 * 86_400_000
#: In place of the revision of something that is gone.
ENDED = "1.0"


class Users:
    """Those who act, one after the other, on one machine."""

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
        #: What they want now, by workload.
        self.wanted: dict[str, Workload] = {}
        self.policy = 0
        #: Everything they had in mind is done and answered.
        self.done = False

    async def open(self) -> None:
        """Set the platform up, say what nodes are for once they are there, and ask for the first workloads."""
        for one in self._wishes.opening():
            await self.send(PLATFORM, ROOT, p.Put(one))
        for tenant in self._wishes.tenants:
            await self._admit(f"tenant/{tenant}")
        for node in self._wishes.to_administer():
            await self._administer(node)
        for workload in self._wishes.workloads:
            await self.put(workload)

    async def _administer(self, node: str) -> None:
        """Say what a node is for, once it is there; not everybody waits for it for ever."""
        region = node.partition("-")[0]
        for _ in range(NODE_TRIES):
            uid = dict(await self._nodes(region)).get(node, 0)
            if uid:
                await self.send(region, ROOT, c.AdministerNode(uid, **self._wishes.meant(node)))
                return
            await self._process.clock.sleep(NODE_MS)

    async def _admit(self, actor: str) -> None:
        """Make a token for somebody."""
        part, secret = self._draw()
        name = f"{actor.replace('/', '-')}-{part[:8]}"
        spec = TokenSpec(principal=actor, hash=hash_secret(secret), expires=self._process.clock.wall() + TOKEN_LIFE_MS)
        await self.send(PLATFORM, ROOT, p.Put(Token(meta=Meta(name=name), spec=spec)))
        self._tokens[actor] = format_token(name, secret)

    async def live(self, acts: tuple[PlannedAction, ...]) -> None:
        """Do this and that at its time, or as soon as what comes before is done."""
        for act in acts:
            await self._process.clock.sleep(act.at - self._now())
            await self.do(act.kind, Random(act.draw))
        self.done = True

    async def do(self, kind: str, chance: Random) -> None:
        """One thing of a kind."""
        named = chance.choice(sorted(one.meta.name for one in self._wishes.workloads))
        region = chance.choice(self._wishes.regions)
        match kind:
            case "scale" | "roll" | "recreate" | "freeze" if named not in self.wanted:
                return
            case "scale":
                await self._scale(named, chance)
            case "roll":
                await self._roll(named, chance)
            case "recreate":
                await self._recreate(named, chance)
            case "cordon":
                await self._cordon(region, chance)
            case "taint":
                await self._taint(region, chance)
            case "emergency":
                await self._emergency(region, chance)
            case "quota":
                await self._requota(chance.choice(self._wishes.tenants), chance)
            case "policy":
                await self._policy(region, chance)
            case "override":
                await self._override(region, chance)
            case "freeze":
                await self._freeze(named, chance)
            case other:
                raise ValueError(f"nobody knows how to do {other!r}")

    async def put(self, workload: Workload) -> None:
        """Ask for a workload as it is to be."""
        if await self.send(PLATFORM, f"tenant/{workload.meta.tenant}", p.PutWorkload(workload)):
            self.wanted[workload.meta.name] = workload

    async def _scale(self, name: str, chance: Random) -> None:
        before = self.wanted[name]
        replicas = chance.randint(1, self._wishes.most(name))
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
        """Somebody looks at a node, and then no more."""
        name, uid = chance.choice(await self._nodes(region) or [("", 0)])
        if uid:
            meant = self._wishes.meant(name)
            await self.send(region, ROOT, c.AdministerNode(uid, cordoned=True, note="looking at it", **meant))
            await self._process.clock.sleep(chance.randrange(1_000, 8_000))
            await self.send(region, ROOT, c.AdministerNode(uid, **meant))

    async def _taint(self, region: str, chance: Random) -> None:
        """Somebody keeps a node free of everything for a while: what stands there is evicted."""
        name, uid = chance.choice(await self._nodes(region) or [("", 0)])
        if uid:
            meant, drill = self._wishes.meant(name), Taint("drill", "", TaintEffect.EVICT)
            await self.send(region, ROOT, c.AdministerNode(uid, **{**meant, "taints": (*meant["taints"], drill)}))
            await self._process.clock.sleep(chance.randrange(2_000, 10_000))
            await self.send(region, ROOT, c.AdministerNode(uid, **meant))

    async def _nodes(self, region: str) -> list[tuple[str, Revision]]:
        """The nodes of a region by name, if anybody there says so."""
        try:
            found = await self._client(region, ROOT).list("Node")
        except HoldfastError:
            return []
        return [(one["metadata"]["name"], _revision(one["metadata"]["uid"])) for one in found.items]

    async def _emergency(self, region: str, chance: Random) -> None:
        """Somebody lends a tenant more than its quota for a while."""
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
        """Publish a policy, try it, and take it back if there was one before."""
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
        """Take authority over something for a while."""
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
        """Ask for more of a workload, and think better of it: nothing of its tenant is to be scheduled for a while.
        Who sees the one and not yet the other proposes what is refused."""
        before, most = self.wanted[name], self._wishes.most(name)
        await self.put(replace(before, spec=replace(before.spec, replicas=most)))
        await self._process.clock.sleep(chance.randrange(100, 2_000))
        ends = self._process.clock.wall() + chance.randrange(4_000, 8_000)
        for region in self._wishes.regions:
            pause = OpenOverride(OverrideAction.PAUSE_SCHEDULING, region, before.meta.tenant, "a second thought", ends)
            await self.send(PLATFORM, ROOT, pause)

    async def send(self, ledger: str, actor: str, command: Any) -> Revision:
        """Send a command under a key of its own until it is answered; the revision that came of it, 0: refused."""
        self._number += 1
        key = f"{self._process.name}-{self._number}"
        while True:
            try:
                return _revision(await self._once(self._client(ledger, actor), command, key))
            except RefusedError as refused:
                if refused.problem.code != "unauthenticated":
                    return 0
            except (UnavailableError, OutcomeUnknownError):  # people have all the patience there is
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
    assert found is not None, f"{text!r} was answered, and is no revision"
    return found
