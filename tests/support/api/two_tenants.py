"""A platform and a region with two tenants: shop asks, and every name and text of the other holds the word `MARK`.

The principals that ask: `tenant/shop` and `person/clerk`, who is scoped to shop and has every right.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.api.serialization.scalars import format_instant
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.ledger.state.sparse_rows import add_to_list
from holdfast.core.model.objects.policies import (
    EVERYWHERE,
    Override,
    OverrideAction,
    PolicyDocument,
    PolicyStage,
    Validity,
)
from holdfast.core.model.objects.policies import SchedulerPolicy as Policy
from holdfast.core.model.objects.principals import Permission, Scope
from holdfast.core.model.objects.topology import Region, RegionSpec, RegionStatus, Taint
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.model.records.grants import Grant, grant_key
from holdfast.core.model.records.region_reports import Nodes, RegionSummary, StoredSummary, Trouble
from holdfast.core.model.records.slots import PendingReason, ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.host.ports.store import Store
from tests.support.api.api_cluster import ALL_RIGHTS, OPERATOR, V1, Part, World, a_class, a_tenant, a_workload
from tests.support.ledgers.deciding_region import SCHEDULER, DecidingRegion, template_of
from tests.support.ledgers.region import a_principal

MARK = "zebra"
#: Every right but the one that shows other tenants.
ALL_BUT_OTHERS = tuple(right for right in Permission if right is not Permission.SEE_OTHER_TENANTS)
#: Tokens of those who ask, by what they are.
TENANT, PERSON = "shop", "clerk"
ASKING = {TENANT: ("tenant/shop", Scope()), PERSON: ("person/clerk", Scope(tenant="shop"))}
TAINTS = (Taint("dedicated", MARK), Taint("gpu", "yes"))
LABELS = (("arch", "arm"), ("team", MARK))
NOTE = f"kept until {MARK} has moved"
#: Uids on the platform that a region knows too: overrides of both tenants.
EMERGENCY, PAUSE = 9_001, 9_002
NEAREST = f"nearest fit is {MARK}-1: taint dedicated={MARK}"
REASONS = (PendingReason("taint", 2, NEAREST, (PendingReason(f"dedicated={MARK}", 2),)),)
AMOUNT = Resources(1_000, 1_000, 1_000, 0)


def an_object(kind: str, name: str, marked: str = "", **spec: Any) -> dict[str, Any]:
    marks = {"labels": {"team": marked}, "annotations": {"why": f"made for {marked}"}} if marked else {}
    return {"apiVersion": V1, "kind": kind, "metadata": {"name": name, **marks}, "spec": spec}


def _objects() -> list[tuple[str, dict[str, Any]]]:
    both, hard = ["shop", MARK], {"cpu": "10", "memory": "10Gi"}
    return [
        ("priorityclasses/standard", a_class() | {"metadata": {"name": "standard", "labels": {"for": MARK}}}),
        *[(f"tenants/{name}", a_tenant(name)) for name in both],
        *[(f"quotas/{name}", an_object("Quota", name, MARK if name == MARK else "", hard=hard)) for name in both],
        ("regions/eu", an_object("Region", "eu", MARK, jurisdiction="eu")),
        ("nodepools/general", an_object("NodePool", "general", MARK, region="eu")),
        ("recoverybudgets/both", an_object("RecoveryBudget", "both", MARK, regions=["eu"], each=hard, tenants=both)),
        (
            f"recoverybudgets/{MARK}-budget",
            an_object("RecoveryBudget", f"{MARK}-budget", regions=["eu"], each=hard, tenants=[MARK]),
        ),
        ("workloads/shop/web", a_workload()),
        (f"workloads/{MARK}/{MARK}-api", a_workload(f"{MARK}-api", MARK)),
        ("policies/common", an_object("SchedulerPolicy", "common", strategy="spread")),
        (f"policies/{MARK}-policy", an_object("SchedulerPolicy", f"{MARK}-policy", strategy="pack")),
    ]


async def two_tenants(
    world: World, of_platform: Store | None = None, of_region: Store | None = None
) -> tuple[Part, Part]:
    """The platform and region eu, over stores of their own or over these."""
    platform, region = await world.platform(store=of_platform), await world.region("eu", store=of_region)
    await _on_platform(world, platform)
    await _in_region(world, region)
    return platform, region


async def _on_platform(world: World, part: Part) -> None:
    for path, body in _objects():
        answer = await world.ask("PUT", f"/v1/{path}", body)
        assert answer.status == 201, (path, answer)
    for token, (name, bound) in ASKING.items():
        await world.principal(part, name, *ALL_BUT_OTHERS, token=token, scope=bound)
    await world.principal(part, f"tenant/{MARK}", Permission.READ, Permission.WRITE)
    await world.principal(part, f"person/{MARK}-admin", *ALL_RIGHTS, scope=Scope(tenant=MARK))
    await world.principal(part, "person/keeper", *ALL_RIGHTS, token=f"{MARK}-token", scope=Scope(tenant=MARK))
    ends = world.clock.wall() + 3_600_000
    for body in (
        {"action": "emergency-quota", "reason": f"{MARK} grows", "facts": {"tenant": MARK, "cpu": "100"}},
        {"action": "pause-scheduling", "target": MARK, "reason": f"{MARK} asked"},
        {"action": "avoid-zone", "region": "eu", "target": "a", "reason": f"{MARK} floods it"},
        {"action": "pause-scheduling", "target": "shop", "reason": f"after {MARK} complained"},
    ):
        answer = await world.ask(
            "POST", "/v1/commands/open-override", {"region": "", "target": "", "ends": format_instant(ends)} | body
        )
        assert answer.status == 200, answer
    for name, scope in ((f"{MARK}-policy", MARK), ("common", MARK), ("common", "shop")):
        uid = (await world.ask("GET", f"/v1/policies/{name}")).json["metadata"]["uid"]
        body = {"revision": uid, "region": "eu", "scope": scope, "stage": "active"}
        assert (await world.ask("POST", "/v1/commands/activate-policy", body)).status == 200
    _told_by_regions(world, part)


def _told_by_regions(world: World, part: Part) -> None:
    """What only regions and controllers bring about: put there by hand, as nobody asks how it came."""
    state, now = part.state, world.clock.wall()
    override = min(state.overrides.unordered())[0]
    for account in (f"quota/{MARK}", f"reclaimable/{MARK}", f"emergency/{override}", "quota/shop", "recovery/both"):
        grant = Grant(1, 1, account, "eu", 2, AMOUNT, AMOUNT, now + 1_000)
        state.grants.put(grant_key("eu", account), grant)
        add_to_list(state.granted_in, "eu", account)
    nodes = Nodes("general", LABELS, TAINTS, (MARK,), (), 1, AMOUNT, AMOUNT, (), ())
    trouble = Trouble("node-lost", 1, now, f"{MARK}-1 is lost")
    summary = RegionSummary(nodes=(nodes,), uses=((f"quota/{MARK}", AMOUNT),), troubles=(trouble,))
    state.summaries.put("eu", StoredSummary("eu", 1, now, summary))
    old = state.regions["eu"]
    status = RegionStatus(address="r-eu", since=now, heard_at=now)
    state.regions.put("eu", Region(meta=old.meta, spec=RegionSpec(jurisdiction="eu"), status=status))
    state.breaches.put(("quota", f"quota/{MARK}"), Breach("quota", f"quota/{MARK}", 1, "controller/quota", now, now))


async def _in_region(world: World, part: Part) -> None:
    deciding = await DecidingRegion(part, world.clock.wall).prepared()
    people = [a_principal(name, *ALL_BUT_OTHERS, tenant=scope.tenant) for name, scope in ASKING.values()]
    others = [a_principal(f"tenant/{MARK}", Permission.READ), a_principal("person/keeper", *ALL_RIGHTS, tenant=MARK)]
    tokens = [world._token(token, name) for token, (name, _) in ASKING.items()]
    tokens.append(world._token(f"{MARK}-token", "person/keeper"))
    await deciding.ship(*map(c.ShippedPrincipal, (*people, *others)), *map(c.ShippedToken, tokens))
    web = await deciding.workload("web")
    api = await deciding.workload(f"{MARK}-api", MARK)
    await deciding.node(f"{MARK}-1")
    alone = await deciding.node("alone")
    part.state.nodes.put(alone, replace(part.state.nodes[alone], tenant=MARK))  # as its agent may say of itself
    await deciding.place(api, (0, "n1"), (1, f"{MARK}-1"))
    await deciding.place(web, (0, "n1"), (1, "n2"))
    await _decided(deciding, web)
    now = world.clock.wall()
    hold = c.Hold(ReservationPurpose.ROOM, part.state.node_names["n2"], f"quota/{MARK}", now + 60_000,
                  Resources(cpu=10),
                  tenant=MARK)  # fmt: skip
    await part.submit(OPERATOR, hold, key="hold")
    for name, tenancy in (("n1", ("shop", MARK)), (f"{MARK}-1", (MARK,)), ("n3", ())):
        uid = part.state.node_names[name]
        told = c.AdministerNode(uid, name == "n3", False, TAINTS, LABELS, tenancy, NOTE)
        await part.submit(OPERATOR, told, key=f"administer-{name}")
    breach = Breach("tenancy", f"assignment/{api.uid}/{MARK}", 1, f"agent/{MARK}-1", now, now)
    part.state.breaches.put(("tenancy", breach.key), breach)
    await deciding.ship(*_shipped(now))


def _shipped(now: int) -> list[c.ShippedItem]:
    """What the platform ships of policies, overrides and grants."""
    puts: list[c.ShippedItem] = []
    for number, name, scope in ((800, f"{MARK}-policy", MARK), (801, "common", EVERYWHERE)):
        policy = Policy(
            revision=number, name=name, document=PolicyDocument(), stage=PolicyStage.ACTIVE,
            author=f"person/{MARK}-admin", at=now,
        )  # fmt: skip
        puts += [c.ShippedPolicy(policy), c.ShippedValidity(Validity("eu", scope, number))]
    for uid, action, facts in (
        (EMERGENCY, OverrideAction.EMERGENCY_QUOTA, (("cpu", "100"), ("tenant", MARK))),
        (PAUSE, OverrideAction.PAUSE_REPAIR, ()),
    ):
        override = Override(
            uid=uid, action=action, region="", target="", reason=f"for {MARK}", owner="person/keeper",
            opened=now, ends=now + 3_600_000, facts=facts,
        )  # fmt: skip
        puts.append(c.ShippedOverride(override))
    for account in (f"reclaimable/{MARK}", f"emergency/{EMERGENCY}", "recovery/both"):
        puts.append(c.ShippedGrant(account, 1, AMOUNT, now + 86_400_000))
    return puts


async def _decided(deciding: DecidingRegion, web: Any) -> None:
    """Why what is shop's waits, in words that name the other."""
    view = pack_revision(deciding.state.info.seq, INDEX_MAX)
    rejected = (("taint", f"dedicated={MARK}", 2), ("disruption", f"the budget of {MARK}-api is spent", 1))
    found = deciding.a_pass(web, outcome="waiting", nearest=NEAREST, candidates=(), rejected=rejected)
    said = encode(DecisionEvidence(view, 0, (found,)))
    report = c.ReportPending(web.uid, template_of(web), view, REASONS)
    await deciding.server.submit(SCHEDULER, report, evidence=said)
