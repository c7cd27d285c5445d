"""The limits of a region's ledger, and how each case ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.bench.limits import case
from holdfast.core.ledger import partial
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.objects.topology import PRESENT_MAX, PRESENT_NAME_MAX, Taint
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.nodes import Device
from holdfast.core.model.records.slots import PendingReason, ReservationPurpose
from holdfast.core.model.values import limits
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region import commands as c
from holdfast.core.region.limits import HOLDS_MAX, NAME_MAX, PORT_MAX, REASONS_MAX, STEPS_MAX
from holdfast.core.region.state.tables import RegionState

LINK, REPLICA, DRAIN, SCHEDULER = "controller/link", "controller/replica", "controller/drain", "scheduler/bench"
NAMED_MAX = partial.PARTS_MAX
HOUR = 3_600_000
SERVE = Template(command=("serve",), need=Resources(1, 1, 1))
WITH_PORTS = Template(command=("serve",), need=Resources(1, 1, 1), ports=limits.PORTS_MAX)
#: Slots that use all ports of a node, and nodes that one command fills.
CROWD = limits.NODE_PORTS_MAX // limits.PORTS_MAX
CROWDED = NAMED_MAX // CROWD
NODES = [f"n{number}" for number in range(1, CROWDED + 1)]
FIRST_PORT = PORT_MAX - limits.NODE_PORTS_MAX + 1
UID, WORKLOAD = 100, 1
#: A prime near the golden section of the largest number of replicas: steps of this size separate neighbors.
STRIDE = 61_819
PLENTY_NODE = Resources(2**39, 2**39, 2**39)
#: The items of the platform's first shipment.
_FIRST: tuple[c.ShippedItem, ...] = (
    *(c.ShippedTemplate(template_digest(one), one) for one in (SERVE, WITH_PORTS)),
    c.ShippedRegion("bench", "eu"),
    c.ShippedPriorityClass(case.a_class()),
    c.ShippedGrant("quota/acme", 1, case.PLENTY, 2**60),
    *(c.ShippedPrincipal(case.a_principal(f"{kind}/*")) for kind in ("agent", "scheduler")),
)


def founded() -> case.Story:
    """Create a region with a class, a grant, a scheduler and large nodes."""
    yield from case.founding("region/bench")
    yield [(LINK, c.Ship("platform", 1, 0, 1, _FIRST))]
    yield [(SCHEDULER, OpenSession()), *((f"agent/{name}", OpenSession()) for name in NODES)]
    ports = (FIRST_PORT, PORT_MAX)
    yield [(f"agent/{name}", c.RegisterNode(name, "pool", "zone", PLENTY_NODE, ports=ports)) for name in NODES]


def shipped(state: RegionState, *puts: Any, gone: tuple[c.RemovedObject, ...] = ()) -> tuple[str, Any]:
    cursor = state.region.cursor
    return LINK, c.Ship("platform", 1, cursor, cursor + 1, puts, gone)


def an_assignment(template: Template, count: int, stage: AssignmentStage = AssignmentStage.ACTIVE) -> Assignment:
    shares = (Share(template_digest(template), count),) if stage is AssignmentStage.ACTIVE else ()
    return Assignment(
        UID, UID, WORKLOAD, "web", "acme", "bench", AssignmentPurpose.SERVING, stage, 1, shares, ("quota/acme",),
        "normal"
    )  # fmt: skip


def opened(state: RegionState, template: Template, count: int) -> case.Story:
    """Ship an assignment and open its slots."""
    yield [shipped(state, c.ShippedAssignment(an_assignment(template, count)))]
    digest = template_digest(template)
    for first in range(0, count, NAMED_MAX):
        yield [(REPLICA, c.OpenSlots(UID, digest, tuple(range(first, min(count, first + NAMED_MAX)))))]


def ended(state: RegionState, stride: int = 1) -> case.Story:
    """End the assignment: bound slots stop, waiting ones are withdrawn, and the assignment is forgotten."""
    yield [shipped(state, c.ShippedAssignment(an_assignment(SERVE, 0, AssignmentStage.ENDED)))]
    count = len(state.slots)
    order = [number * stride % count for number in range(count)]
    for first in range(0, count, NAMED_MAX):
        keys = [(WORKLOAD, ordinal) for ordinal in order[first : first + NAMED_MAX]]
        bound = [key for key in keys if state.slots[key].phase is Phase.BOUND]
        yield [(REPLICA, c.WithdrawSlots(UID, tuple(ordinal for _, ordinal in keys)))]
        if bound:
            yield [(REPLICA, c.Stop(tuple(bound), "scaled-down"))]
            yield list(_moved(state, bound))
    yield [(LINK, c.ForgetAssignment(UID))]


def scattered(state: RegionState) -> case.Story:
    """End the assignment in an order in which each removed slot has neighbors that stay."""
    yield from ended(state, stride=STRIDE)


def _moved(state: RegionState, keys: list[SlotKey]) -> Iterator[tuple[str, Any]]:
    """Yield each agent's report that its slots have ended."""
    by_node: dict[str, list[c.MoveSlot]] = {}
    for key in keys:
        slot = state.slots[key]
        moves = by_node.setdefault(state.nodes[slot.node].name, [])
        moves.append(c.MoveSlot(key, slot.epoch, Phase.RELEASED, "stopped"))
    for name, moves in by_node.items():
        yield f"agent/{name}", c.Move(tuple(moves))


def replicas(state: RegionState) -> case.Story:
    """Open the maximum replicas of one workload in one region; one node has the maximum that it accepts."""
    yield from opened(state, SERVE, limits.IDENTITIES_MAX)
    node = state.node_names["n1"]
    for first in range(0, limits.NODE_SLOTS_MAX, NAMED_MAX):
        placements = tuple(c.SlotPlacement(ordinal, node) for ordinal in range(first, first + NAMED_MAX))
        group = c.PlacementGroup(UID, template_digest(SERVE), placements)
        yield [(SCHEDULER, c.Propose((group,), state.info.at + 60_000))]


def ports(state: RegionState) -> case.Story:
    """Use every port of the maximum number of nodes that one command can fill."""
    yield from opened(state, WITH_PORTS, CROWD * CROWDED)
    placements = []
    for ordinal in range(CROWD * CROWDED):
        uid, place = state.node_names[NODES[ordinal // CROWD]], FIRST_PORT + ordinal % CROWD * limits.PORTS_MAX
        placements.append(c.SlotPlacement(ordinal, uid, ports=tuple(range(place, place + limits.PORTS_MAX))))
    group = c.PlacementGroup(UID, template_digest(WITH_PORTS), tuple(placements))
    yield [(SCHEDULER, c.Propose((group,), state.info.at + 60_000))]


# A node with the maximum of everything


def node(state: RegionState) -> case.Story:
    many, name = range(limits.MARKS_MAX), "n" * NAME_MAX
    agent = f"agent/{name}"
    devices = tuple(Device("m" * limits.TEXT_MAX) for _ in range(limits.DEVICES_MAX))
    labels = tuple((f"label-{number}", "v" * limits.TEXT_MAX) for number in many)
    extended = tuple((f"unit-{number:02}", 1) for number in many)
    capacity = Resources(1, 1, 1, 1000 * limits.DEVICES_MAX, extended)
    yield [(agent, OpenSession())]
    command = c.RegisterNode(
        name,
        "p" * limits.TEXT_MAX,
        "z" * limits.TEXT_MAX,
        capacity,
        devices,
        (FIRST_PORT, PORT_MAX),
        labels,
        "a" * NAME_MAX,
    )
    yield [(agent, command)]
    present = tuple(f"{number:03}{'p' * (PRESENT_NAME_MAX - 3)}" for number in range(PRESENT_MAX))
    yield [(agent, c.ReportNode(name, 10, 10, present))]
    taints = tuple(Taint(f"taint-{number}", "v" * limits.TEXT_MAX) for number in many)
    tenancy = tuple(f"tenant-{number}" for number in many)
    uid = state.node_names[name]
    yield [(case.OPERATOR, c.AdministerNode(uid, True, True, taints, labels, tenancy, "n" * limits.REASON_MAX))]


def no_node(state: RegionState) -> case.Story:
    name = "n" * NAME_MAX
    session = state.session_of[f"agent/{name}"]
    yield [(f"agent/{name}", EndSession(session, "r" * limits.REASON_MAX))]
    yield [(case.OPERATOR, c.RemoveNode(state.node_names[name]))]


# Reservations, reasons, and shipped items


def holds(state: RegionState) -> case.Story:
    uid, ends = state.node_names["n1"], state.info.at + HOUR
    one = c.Hold(ReservationPurpose.DATED, uid, "quota/acme", ends, Resources(1, 1, 1), tenant="acme")
    yield from case.in_steps([(SCHEDULER, one) for _ in range(HOLDS_MAX)])


def no_holds(state: RegionState) -> case.Story:
    yield from case.in_steps([(SCHEDULER, c.DropHold(uid)) for uid, _ in state.holds.items()])


def expired(state: RegionState) -> case.Story:
    yield case.TimePasses(HOUR)
    uids = [uid for uid, _ in state.holds.items()]
    for first in range(0, len(uids), NAMED_MAX):
        yield [("ledger", c.Expire(holds=tuple(uids[first : first + NAMED_MAX])))]


def reasons(state: RegionState) -> case.Story:
    yield from opened(state, SERVE, 1)
    inner = PendingReason("leaf", 1, "m" * limits.REASON_MAX)
    for _ in range(limits.DEPTH_MAX // 2 - 1):
        inner = PendingReason("below", 1, "", (inner,))
    others = (PendingReason("beside", 1, "m" * limits.REASON_MAX),) * (REASONS_MAX - limits.DEPTH_MAX // 2)
    seen = state.info.seq << 20
    yield [(SCHEDULER, c.ReportPending(UID, template_digest(SERVE), seen, (inner, *others)))]


def pools(state: RegionState) -> case.Story:
    yield [shipped(state, *(c.ShippedPool(f"pool-{number}", number) for number in range(STEPS_MAX)))]


def no_pools(state: RegionState) -> case.Story:
    yield [shipped(state, gone=tuple(c.RemovedObject("node-pool", f"pool-{number}") for number in range(STEPS_MAX)))]


def missing(state: RegionState) -> case.Story:
    """Ship a full list without the pools: each record removes some of them."""
    cursor = state.region.cursor
    part = c.Ship("platform", 1, 0, cursor + 1, _FIRST, full=True)
    yield [(LINK, part)]
    while state.region.listing is not None:
        yield [(LINK, part)]


CASES = (
    case.LimitCase("replicas", "region", (
        "partial.PARTS_MAX", "limits.IDENTITIES_MAX", "platform.COUNT_MAX",
        "limits.NODE_SLOTS_MAX"), replicas, ended),
    case.LimitCase("scattered", "region", ("limits.IDENTITIES_MAX",), replicas, scattered),
    case.LimitCase("ports", "region", ("limits.PORTS_MAX", "region.PORT_MAX", "limits.NODE_PORTS_MAX"), ports, ended),
    case.LimitCase("node", "region", (
        "limits.DEVICES_MAX", "limits.MARKS_MAX", "region.NAME_MAX", "region.ADDRESS_MAX", "topology.PRESENT_MAX",
        "topology.PRESENT_NAME_MAX", "limits.TEXT_MAX", "limits.REASON_MAX"), node, no_node),
    case.LimitCase("holds", "region", ("limits.ENTRIES_MAX", "region.HOLDS_MAX"), holds, no_holds),
    case.LimitCase("expiry", "region", ("limits.ENTRIES_MAX",), holds, expired, is_timed=False),
    case.LimitCase("reasons", "region", ("region.REASONS_MAX", "limits.DEPTH_MAX"), reasons, ended),
    case.LimitCase("step", "region", ("region.STEPS_MAX",), pools, no_pools),
    case.LimitCase("list", "region", ("region.REMOVED_MAX",), pools, missing),
)  # fmt: skip
