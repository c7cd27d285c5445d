"""What somebody with good reasons would send next: each intent reads the model and returns an envelope, or nothing.

An intent may still be refused: what it knows of the rules is a sketch. `region_walk` draws a few and prefers one that
the model accepts. What is done with slots is in `region_intents_slots`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import log, sessions
from holdfast.core.ledger.builtin.audit import RecordDenials
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.servers import RevokeServer
from holdfast.core.ledger.envelope import ABSENT, PRESENT, Envelope
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.objects.isolation import STRICT, Capability
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import Taint, TaintEffect
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.records.nodes import NO_MACHINE, Machine, NodeHealth
from holdfast.core.model.records.slots import PendingReason, ReservationPurpose
from holdfast.core.model.values.ranges import expanded
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import commands as c
from tests.properties import servers_model
from tests.properties.region.model.holds import is_in_vain
from tests.properties.region.model.records import Node, Slot
from tests.properties.region.program import Program
from tests.properties.region.world import KINDS, NODES, OPERATORS, SCHEDULERS, SECOND, Chance

Intent = Callable[[Program], Envelope[Any] | None]


#: What agents run on: machines that take a node's name from each other, and are started anew.
MACHINES = (
    NO_MACHINE,
    Machine("a", "host", "1"),
    Machine("a", "host", "2"),
    Machine("b", "host", "1"),
    Machine("b", "host"),
)
#: Sets of times that are safe: the defaults, shorter ones that not every agent keeps, and longer ones.
TIMES: tuple[dict[str, Any], ...] = (
    {"session_lease": 10_000, "grace": 10_000, "fence_time": 25_000},
    {"session_lease": 10_000, "grace": 10_000, "fence_time": 25_000},
    {"session_lease": 3_000, "grace": 2_000, "fence_time": 6_100},
    {"session_lease": 10_000, "grace": 10_000, "fence_time": 40_000},
    {"session_lease": 20_000, "grace": 2_000, "fence_time": 25_000},
)


def node_named(p: Program, name: str) -> Node | None:
    return next((node for node in p.model.nodes.values() if node.said.name == name), None)


def a_scheduler(p: Program) -> str | None:
    alive = [actor for actor in SCHEDULERS if p.session_of(actor)]
    return p.chance.pick(alive) if alive else None


def distinct(p: Program, many: list[int], count: int) -> list[int]:
    left, found = list(many), list[int]()
    while left and len(found) < count:
        found.append(left.pop(p.chance.below(len(left))))
    return found


# Sessions and nodes


def open_session(p: Program) -> Envelope[Any] | None:
    actors = [*SCHEDULERS, *(f"agent/{name}" for name in NODES)]
    silent = [actor for actor in actors if not p.session_of(actor)]
    known = [actor for actor in silent if node_named(p, actor.removeprefix("agent/")) or actor in SCHEDULERS]
    if not known and not p.chance.one_in(6):
        return None
    return p.envelope(p.chance.pick(known or silent or actors), sessions.OpenSession())


def end_session(p: Program) -> Envelope[Any] | None:
    uids = sorted(p.model.sessions)
    if not uids:
        return None
    uid = p.chance.pick(uids)
    actor = p.chance.pick(("controller/node-health", "controller/sessions", "ledger", p.model.sessions[uid].principal))
    return p.envelope(actor, sessions.EndSession(uid, "silent"))


def keeping_apart(chance: Chance) -> dict[str, Any]:
    """What an agent says of how it keeps tenants apart: most can all of it."""
    everything = tuple(sorted(Capability))
    return {
        "capabilities": chance.pick((everything, STRICT, (Capability.USERS,), ())),
        "tenant": chance.pick(("", "", "", "", "", "", "beta")),
        "shares_user": chance.one_in(2),
    }


def register_node(p: Program) -> Envelope[Any] | None:
    """A node that is not registered in its agent's session, or one that is now of another size or shape."""
    names = [name for name in NODES if p.session_of(f"agent/{name}")]
    if not names:
        return None
    behind = [n for n in names if (node := node_named(p, n)) is None or node.session != p.session_of(f"agent/{n}")]
    if not behind and not p.chance.one_in(3):
        return None
    name = p.chance.pick(behind or names)
    known = node_named(p, name)
    is_kept = known is not None and not p.chance.one_in(4)
    machine = known.said.machine if known is not None and is_kept else p.chance.pick(MACHINES)
    command = replace(
        NODES[name], machine=machine, overrun=p.chance.pick((11_000, 11_000, 11_000, 3_000)), **keeping_apart(p.chance)
    )
    if not behind or p.chance.one_in(5):
        capacity, factor = command.capacity, p.chance.pick((25, 50, 75, 150))
        devices = command.devices[: p.chance.below(len(command.devices) + 1)]
        extended = tuple((what, 1 + p.chance.below(3)) for what, _ in capacity.extended if not p.chance.one_in(3))
        command = replace(
            command,
            capacity=Resources(
                capacity.cpu * factor // 100, capacity.memory, capacity.disk, 1000 * len(devices), extended
            ),
            devices=devices,
            zone=p.chance.pick((command.zone, command.zone, "b")),
            address=p.chance.pick(("", f"{name}.example", "10.0.0.7", "fe80::1")),
        )
    return p.envelope(f"agent/{name}", command)


def report_node(p: Program) -> Envelope[Any] | None:
    """How a node fares that is registered in its agent's session: its load, and at times what lies ready there."""
    known = [node for _, node in sorted(p.model.nodes.items()) if node.session]
    if not known:
        return None
    node, chance = p.chance.pick(known), p.chance
    present = node.fares[0].present if node.fares else ()
    if chance.one_in(2):
        present = tuple(sorted(chance.some(("model-7", "python-3.11", "web"), 2)))
    load = [10 * chance.below(11) for _ in range(2)]
    return p.envelope(f"agent/{node.said.name}", c.ReportNode(node.said.name, load[0], load[1], present))


def administer_node(p: Program) -> Envelope[Any] | None:
    if not p.model.nodes:
        return None
    uid, chance = p.chance.pick(sorted(p.model.nodes)), p.chance
    plain = c.AdministerNode(uid)
    taint = Taint("dedicated", chance.pick(("db", "web")), chance.pick((TaintEffect.REFUSE, TaintEffect.EVICT)))
    command = chance.pick(
        (
            plain,
            plain,
            replace(plain, cordoned=True, note="disk replaced"),
            replace(plain, draining=True, note="leaves"),
            replace(plain, taints=(taint,)),
            replace(plain, tenancy=(chance.pick(("acme", "beta")),)),
            replace(plain, labels=(("disk", chance.pick(("ssd", "hdd"))),)),
        )
    )
    return p.envelope(chance.pick(OPERATORS), command, expect=expected(p, uid) if chance.one_in(3) else 0)


def expected(p: Program, node: int) -> int:
    """What an operator has read of a node: mostly what it is, now and then what it was, or that there is one."""
    read = p.bench.state.nodes[node].revision
    return p.chance.pick((read, read, read, read - pack_revision(1), PRESENT, ABSENT))


def judge_node(p: Program) -> Envelope[Any] | None:
    if not p.model.nodes:
        return None
    uid = p.chance.pick(sorted(p.model.nodes))
    node = p.model.nodes[uid]
    health = NodeHealth.READY if node.session else NodeHealth.LOST
    if node.health is health or p.chance.one_in(4):
        health = NodeHealth.SILENT
    return p.envelope("controller/node-health", c.JudgeNode(uid, health))


def remove_node(p: Program) -> Envelope[Any] | None:
    empty = [uid for uid, n in sorted(p.model.nodes.items()) if not n.session and not p.model.on(uid)]
    actor = p.chance.pick((*OPERATORS, "controller/node-health"))
    return p.envelope(actor, c.RemoveNode(p.chance.pick(empty))) if empty else None


# Wanted ordinals


def open_slots(p: Program) -> Envelope[Any] | None:
    active = [a for _, a in sorted(p.model.assignments.items()) if a.stage is AssignmentStage.ACTIVE and a.shares]
    if not active:
        return None
    assignment = p.chance.pick(active)
    first = 10 if assignment.uid == SECOND and not p.chance.one_in(4) else 0
    wanted = expanded(assignment.ordinals) or tuple(
        range(first, first + KINDS[min(KINDS, key=lambda k: abs(k - assignment.uid))].count)
    )
    waiting = {s.ordinal for s in p.model.slots.values() if s.workload == assignment.workload and not s.node}
    free = [ordinal for ordinal in wanted if ordinal not in waiting]
    if not free:
        return None
    template = p.chance.pick([share.template for share in assignment.shares])
    command = c.OpenSlots(assignment.uid, template, tuple(p.chance.some(free, 4)))
    return p.envelope("controller/replica", command)


def withdraw_slots(p: Program) -> Envelope[Any] | None:
    if not p.model.slots:
        return None
    slot = p.chance.pick(unwanted(p) or list(p.model.slots.values()))
    ordinals = sorted(other.ordinal for other in p.model.of(slot.assignment))
    return p.envelope("controller/replica", c.WithdrawSlots(slot.assignment, tuple(p.chance.some(ordinals, 2))))


def unwanted(p: Program) -> list[Slot]:
    """Slots of assignments that have ended, half of the time: somebody clears up after them."""
    ended = [
        s for _, s in sorted(p.model.slots.items()) if p.model.assignments[s.assignment].stage is AssignmentStage.ENDED
    ]
    return ended if p.chance.one_in(2) else []


def forget_assignment(p: Program) -> Envelope[Any] | None:
    ended = [uid for uid, a in sorted(p.model.assignments.items()) if a.stage is AssignmentStage.ENDED]
    bare = [uid for uid in ended if not p.model.of(uid)]
    return p.envelope("controller/link", c.ForgetAssignment(p.chance.pick(bare or ended))) if ended else None


def adopt_slots(p: Program) -> Envelope[Any] | None:
    foreign = [
        slot
        for _, slot in sorted(p.model.slots.items())
        if slot.account and slot.account not in p.model.assignments[slot.assignment].accounts
    ]
    if not foreign:
        return None
    uid = p.chance.pick(foreign).assignment
    ordinals = [slot.ordinal for slot in foreign if slot.assignment == uid]
    return p.envelope("controller/replica", c.AdoptSlots(uid, tuple(p.chance.some(ordinals, 3))))


def report_pending(p: Program) -> Envelope[Any] | None:
    actor, requests = a_scheduler(p), sorted(p.model.open_requests())
    if actor is None or not requests:
        return None
    uid, template = p.chance.pick(requests)
    reasons = (PendingReason("capacity", 3, "too little cpu", (PendingReason("taint", 1),)),)
    return p.envelope(actor, c.ReportPending(uid, template, pack_revision(p.model.seq), reasons))


# Holds


def hold(p: Program) -> Envelope[Any] | None:
    nodes = [uid for uid, node in sorted(p.model.nodes.items()) if node.usable]
    if not nodes:
        return None
    actor = p.chance.pick((*OPERATORS, a_scheduler(p) or "person/root"))
    uid, chance = p.chance.pick(nodes), p.chance
    ends = p.at + chance.pick((500, 20_000, 3_600_000))
    indexes = list(range(len(p.model.nodes[uid].said.devices)))
    keepers = [
        a
        for _, a in sorted(p.model.assignments.items())
        if a.stage is not AssignmentStage.ENDED and a.shares and a.accounts
    ]
    if keepers and chance.one_in(2):
        assignment = chance.pick(keepers)
        digest = chance.pick([share.template for share in assignment.shares])
        devices = tuple(distinct(p, indexes, p.model.templates[digest].gpus))
        account = chance.pick(assignment.accounts)
        command = c.Hold(
            ReservationPurpose.PLACEHOLDER,
            uid,
            account,
            ends,
            devices=devices,
            assignment=assignment.uid,
            template=digest,
        )
    else:
        tenant = chance.pick(("acme", "beta"))
        devices = tuple(distinct(p, indexes, chance.below(2)))
        milli = chance.pick((1000, 400))
        need = Resources(chance.pick((500, 1500)), 512, 10, len(devices) * milli)
        purpose = chance.pick((ReservationPurpose.DATED, ReservationPurpose.ROOM, ReservationPurpose.OFFER))
        command = c.Hold(purpose, uid, f"quota/{tenant}", ends, need, devices, milli, tenant)
    return p.envelope(actor, command)


def change_hold(p: Program) -> Envelope[Any] | None:
    if not p.model.holds:
        return None
    in_vain = [uid for uid, one in sorted(p.model.holds.items()) if is_in_vain(p.model, one, p.at)]
    if in_vain and p.chance.one_in(2):
        return p.envelope("controller/repair", c.DropHold(p.chance.pick(in_vain)))
    uid = p.chance.pick(sorted(p.model.holds))
    owner = p.model.holds[uid].owner
    actor = p.chance.pick((owner, *OPERATORS))
    later = p.model.holds[uid].ends + p.chance.pick((1000, 60_000))
    command: Any = c.DropHold(uid) if p.chance.one_in(3) else c.ExtendHold(uid, later)
    return p.envelope(actor, command)


def close_breach(p: Program) -> Envelope[Any] | None:
    if not p.model.breaches:
        return None
    return p.envelope("controller/repair", c.CloseBreach(*p.chance.pick(sorted(p.model.breaches))))


def stand_down(p: Program) -> Envelope[Any] | None:
    return p.envelope("controller/link", c.StandDown("retired")) if p.chance.one_in(3) else None


# People and the log


def override(p: Program) -> Envelope[Any] | None:
    chance = p.chance
    if p.model.overrides and chance.one_in(2):
        uid = chance.pick(sorted(p.model.overrides))
        over = p.model.overrides[uid].ends <= p.at
        return p.envelope("controller/override" if over else chance.pick(OPERATORS), EndOverride(uid, "done"))
    target = chance.pick(((OverrideAction.PAUSE_SCHEDULING, "acme"), (OverrideAction.AVOID_ZONE, "a"),
                          (OverrideAction.AVOID_ZONE, "b"),
                          (OverrideAction.PAUSE_REPAIR, ""), (OverrideAction.PAUSE_SCHEDULING, "")))  # fmt: skip
    command = OpenOverride(target[0], "eu", target[1], "a drill", p.at + chance.pick((200, 2000)))
    return p.envelope(chance.pick(OPERATORS), command)


def about_servers(p: Program) -> Envelope[Any]:
    """A server announced itself, is revoked, or is over."""
    command = servers_model.a_command(p.chance.below, p.model.servers, "region/eu", p.at)
    return p.envelope(p.chance.pick(OPERATORS) if isinstance(command, RevokeServer) else "controller/servers", command)


def keep_house(p: Program) -> Envelope[Any]:
    """Terms, digests, levels, settings."""
    chance, settings = p.chance, p.model.settings
    others = replace(
        settings,
        keys_per_actor=DEFAULTS.keys_per_actor,
        reservation_life=chance.pick((30_000, 5_000)),
        breach_deadline=chance.pick((600_000, 1)),
        preempt_after=chance.pick((30_000, 700, 0)),
        preempt_max=chance.pick((1_000, 1, 2)),
        **chance.pick(TIMES),
    )
    actor, command = chance.pick(
        (
            ("ledger", log.StartTerm(p.model.term + 1, "server-2")),
            ("ledger", log.RecordDigest(max(1, p.model.seq - 1), b"0" * 32)),
            (chance.pick(OPERATORS), log.Configure(others)),
            ("ledger", log.RaiseLevel(chance.pick((1, LEVEL + 1)))),
            ("ledger", RecordDenials((Denial("person/nobody", "configure", "no-right", "", 2, p.at - 1, p.at),))),
        )
    )
    return p.envelope(actor, command)
