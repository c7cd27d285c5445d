"""Golden logs: what each release wrote, kept for ever. `make golden` writes those that are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
from msgspec.structs import replace

from holdfast.core.ledger.builtin.audit import RecordDenials
from holdfast.core.ledger.builtin.log import Configure, RecordDigest
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.model.objects.isolation import STRICT, Isolation
from holdfast.core.model.objects.policies import (
    Override,
    OverrideAction,
    PlacementStrategy,
    PolicyDocument,
    PolicyStage,
    SchedulerPolicy,
    Validity,
)
from holdfast.core.model.objects.principals import Token, TokenSpec
from holdfast.core.model.objects.probes import ExecProbe, HttpProbe, Probe, TcpProbe
from holdfast.core.model.objects.workloads import Apart, DriverKind, RestartPolicy, Spread
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Machine
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.records.slots import PendingReason, ReservationPurpose
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.decide import full_list
from holdfast.core.region.definition import REGION
from holdfast.core.region.limits import ATTEMPTS_MAX
from tests.support.generated.golden_defaults import keep_defaults
from tests.support.generated.golden_platform import platform_story
from tests.support.generated.golden_servers import servers_of
from tests.support.ledgers.region import LINK, REPLICA, ROOT, SCHEDULER, RegionBench, a_template, an_assignment

GOLDEN = Path(__file__).parents[2] / "golden"
BOOKS: dict[str, LedgerDefinition[Any]] = {"region": REGION, "platform": PLATFORM}
Log = list[tuple[bytes, bytes]]


def golden_names() -> list[str]:
    """The golden logs, `ledger-number`, oldest first."""
    return sorted(path.stem for path in GOLDEN.glob("*.log"))


def read_golden(name: str) -> tuple[LedgerDefinition[Any], Log, str]:
    """A golden log: its ledger, its batches with their digests, and the digest of the state it folds to."""
    batches = msgspec.msgpack.decode((GOLDEN / f"{name}.log").read_bytes(), type=list[tuple[bytes, bytes]])
    return BOOKS[name.partition("-")[0]], batches, (GOLDEN / f"{name}.digest").read_text(encoding="ascii").strip()


def level_of(name: str) -> int:
    """The level that a golden log has reached at its end."""
    definition, batches, _ = read_golden(name)
    return definition.batches.header(batches[-1][0]).level


def recorded_now(ledger: str, level: int) -> Log:
    """The log that the same commands write today, on a server of this level."""
    return _record(ledger, level)[0]


def _record(ledger: str, level: int) -> tuple[Log, str]:
    if ledger == "region":
        bench = region_story(level)
        return bench.log, state_digest(bench.state).hex()
    platform = platform_story(level)
    return platform.log, state_digest(platform.state).hex()


#: What a template says of how its process is run and watched over.
_RUN: dict[str, Any] = {
    "secrets": (("TOKEN", "file:/run/token"),),
    "driver": DriverKind.SIMULATED,
    "user": "web",
    "folder": "/srv",
    "pids": 64,
    "uses": ("model-7",),
    "startup": Probe(exec=ExecProbe(command=("true",)), delay=500),
    "readiness": Probe(http=HttpProbe(path="/health"), period=2_000),
    "liveness": Probe(tcp=TcpProbe(), timeout=2_000, failures=5),
    "grace": 5_000,
    "restart": RestartPolicy.ON_FAILURE,
}


def region_story(level: int = LEVEL) -> RegionBench:
    """A short life of a region in which every event of a level happens."""
    bench = RegionBench(level=level)
    bench.a_scheduler()
    first = bench.a_node("n1", cpu=8000, gpus=("a100", "a100"), extended=(("fpga", 2),))
    second = bench.a_node("n2", cpu=8000, zone="b")
    bench.a_grant(protected=Resources(2000, 2048))
    _work(bench, first, second)
    _batch(bench, second)
    _recovery(bench, second)
    _steering(bench)
    _endings(bench, first)
    if level >= 2:
        _machines(bench)
        _servers(bench)
    _list(bench)
    bench.accept("ledger", RecordDigest(bench.state.info.seq, state_digest(bench.state)))
    return bench


def _work(bench: RegionBench, first: int, second: int) -> None:
    spread = (Spread(key="zone", max_skew=2),)
    shape = a_template(gpus=1, gpu_milli=500, ports=1, extended=(("fpga", 1),), spread=spread, **_RUN)
    service = bench.a_workload(shape, count=2)
    bench.place(service, c.SlotPlacement(0, first, (0,), (30_000,)), c.SlotPlacement(1, first, (0,), (30_001,)))
    bench.walk(Phase.SERVING)
    plain = bench.a_workload(a_template(apart=(Apart(group="g"),)), count=3, uid=110, workload=11)
    bench.place(plain, c.SlotPlacement(0, first), c.SlotPlacement(1, second), bind=False)
    bench.accept(SCHEDULER, c.Bind(((11, 0),)))
    bench.accept(SCHEDULER, c.Unreserve(((11, 1),)))
    reason = PendingReason("apart", 2, "two nodes have one already", (PendingReason("node", 2),))
    bench.accept(SCHEDULER, c.ReportPending(110, plain.shares[0].template, 5, (reason,)))
    bench.accept(REPLICA, c.WithdrawSlots(110, (0, 2)))
    bench.accept(REPLICA, c.Stop(((11, 0),), "scaled-down"))
    bench.move("agent/n1", Phase.RELEASED, "stopped", 0, 11)


def _batch(bench: RegionBench, node: int) -> None:
    """One is done, and one is given up until it has failed for good."""
    work = bench.a_workload(a_template(cpu=100), 2, uid=130, workload=13, batch=True)
    bench.place(work, c.SlotPlacement(0, node))
    bench.walk(Phase.RUNNING, 0, 13)
    bench.move("agent/n2", Phase.SUCCEEDED, "completed", 0, 13)
    bench.move("agent/n2", Phase.RELEASED, "collected", 0, 13)
    for _ in range(ATTEMPTS_MAX):
        bench.place(work, c.SlotPlacement(1, node))
        bench.walk(Phase.RUNNING, 1, 13)
        bench.move("agent/n2", Phase.FAILED, "exit", 1, 13)
        bench.move("agent/n2", Phase.RELEASED, "given-up", 1, 13)


def _recovery(bench: RegionBench, node: int) -> None:
    bench.a_grant("recovery/critical", target=Resources(4000, 8192))
    work = bench.a_workload(uid=120, workload=12, count=2, accounts=("recovery/critical",), priority_class="critical")
    held = c.Hold(ReservationPurpose.ROOM, node, "quota/acme", bench.at + 60_000, Resources(500, 512), tenant="acme")
    hold = bench.accept(SCHEDULER, held).revision
    bench.accept(SCHEDULER, c.ExtendHold(hold, bench.at + 90_000))
    bench.place(work, c.SlotPlacement(0, node))
    bench.accept(SCHEDULER, c.DropHold(hold))
    bench.ship(c.ShippedAssignment(replace(work, accounts=("quota/acme",))))
    bench.accept(REPLICA, c.AdoptSlots(120, (0,)))
    bench.walk(Phase.RUNNING, 0, 12)
    bench.move("agent/n2", Phase.FAILED, "exit", 0, 12, "exit code 3")
    bench.move("agent/n2", Phase.RELEASED, "given-up", 0, 12, "after 3 restarts")


def _steering(bench: RegionBench) -> None:
    document = PolicyDocument(strategy=PlacementStrategy.SPREAD, scores=(("packing", 3),))
    policy = SchedulerPolicy(
        revision=7, name="spread", document=document, stage=PolicyStage.ACTIVE, author=ROOT, at=bench.at
    )
    override = Override(
        uid=9, action=OverrideAction.AVOID_ZONE, region="eu", target="c", reason="power work", owner=ROOT,
        opened=bench.at, ends=bench.at + 60_000,
    )  # fmt: skip
    token = Token(meta=Meta(name="ci"), spec=TokenSpec(principal=ROOT, hash="00" * 32, expires=bench.at + 60_000))
    bench.ship(
        c.ShippedPolicy(policy), c.ShippedValidity(Validity("eu", "acme", 7)), c.ShippedOverride(override),
        c.ShippedPool("general", 3),
        c.ShippedToken(token)
    )  # fmt: skip
    opened = bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "incident", bench.at + 60_000))
    bench.accept(ROOT, EndOverride(opened.revision, "over"))
    bench.accept(ROOT, Configure(replace(DEFAULTS, reservation_life=20_000)))


def _endings(bench: RegionBench, first: int) -> None:
    bench.a_node("n1", cpu=500, gpus=("a100", "a100"), extended=(("fpga", 2),))
    bench.a_node("n1", cpu=8000, gpus=("a100", "a100"), extended=(("fpga", 2),))
    bench.accept("controller/repair", c.CloseBreach("region.capacity", f"node/{first}/cpu"))
    bench.accept("agent/n1", c.ReportNode("n1", 40, 70, ("model-7", "python-3.11")))
    third = bench.a_node("n3", address="n3.example")
    bench.accept("agent/n3", c.ReportNode("n3", 0, 10))
    bench.accept("controller/node-health", EndSession(bench.sessions["agent/n3"], "silent"))
    bench.accept(ROOT, c.RemoveNode(third))
    plain = bench.state.assignments[110]
    template = plain.shares[0].template
    bench.ship(
        c.ShippedAssignment(replace(plain, stage=AssignmentStage.ENDED, shares=())),
        gone=(c.RemovedObject("template", template),),
    )
    bench.accept(REPLICA, c.WithdrawSlots(110, (1,)))
    bench.accept(LINK, c.ForgetAssignment(110))
    bench.ship(gone=(c.RemovedObject("token", "ci"), c.RemovedObject("override", "9")))
    denial = Denial("person/clerk", "GET /v1/nodes Node", "no-right", "", 2, bench.at, bench.at)
    bench.accept("ledger", RecordDenials((denial,)))


def _list(bench: RegionBench) -> None:
    """Everything again, in three parts, but for a policy and its validity; and the first part of another list."""
    state = bench.state
    things: tuple[c.ShippedItem, ...] = (
        c.ShippedRegion("eu", "eu"),
        *(c.ShippedTemplate(digest, one) for digest, one in state.templates.items()),
        *(c.ShippedPriorityClass(one) for one in state.priority_classes.values()),
    )
    people = tuple(c.ShippedPrincipal(one) for name, one in state.principals.items() if name != ROOT)
    work = (
        *(
            c.ShippedGrant(one.account, one.version, one.target, one.ends, one.protected)
            for one in state.accepted_grants.values()
        ),
        *(c.ShippedAssignment(one) for one in state.assignments.values()),
    )
    with mock.patch.object(full_list, "REMOVED_MAX", 1):
        bench.ship_list(things, people, work)
    cursor = state.region.cursor
    bench.accept(LINK, c.Ship("log-restored", 1, 0, cursor + 1, things, full=True, last=False))


def _servers(bench: RegionBench) -> None:
    """This region's own servers, and the platform's."""
    first, second = (ServerToken(f"p-{n}", f"platform/s{n}", "0f" * 32, bench.at + 60_000) for n in (1, 2))
    bench.ship(c.ShippedServer(first), c.ShippedServer(second))
    bench.ship(gone=(c.RemovedObject("server", "p-2"),), proof="1 0.9 p-1 c2lnbmVk")
    servers_of(bench, "region/eu", ROOT)


def _machines(bench: RegionBench) -> None:
    """What level 2 added: identities as ranges, and strict work, on a node whose machine is taken over by another one
    that isolates less."""
    bench.a_node("n4", machine=Machine("m-1", "host-1", "boot-1"), capabilities=STRICT, shares_user=False)
    shape = a_template(cpu=100, isolation=Isolation.STRICT)
    held = an_assignment(140, 14, shape, 4, exclusive=True, ordinals=(0, 1, 2, 5))
    bench.ship(c.ShippedTemplate(template_digest(shape), shape), c.ShippedAssignment(held))
    bench.accept(REPLICA, c.OpenSlots(140, template_digest(shape), (0, 1, 2, 5)))
    bench.accept(SCHEDULER, bench.proposal(held, c.SlotPlacement(0, bench.state.node_names["n4"])), policy=7)
    bench.walk(Phase.RUNNING, 0, 14)
    bench.accept("controller/node-health", EndSession(bench.sessions.pop("agent/n4"), "silent"))
    bench.a_node("n4", machine=Machine("m-2", "host-2", "boot-2"), overrun=5_000, tenant="acme", shares_user=False)


def main() -> None:
    """Write the golden logs of ledgers whose newest is not what is written today."""
    GOLDEN.mkdir(exist_ok=True)
    keep_defaults()
    for ledger in BOOKS:
        names = [name for name in golden_names() if name.startswith(ledger)]
        log, digest = _record(ledger, LEVEL)
        if names and read_golden(names[-1])[1] == log:
            continue
        name = f"{ledger}-{len(names) + 1}"
        (GOLDEN / f"{name}.log").write_bytes(msgspec.msgpack.encode(log))
        (GOLDEN / f"{name}.digest").write_text(f"{digest}\n", encoding="ascii")


if __name__ == "__main__":
    main()
