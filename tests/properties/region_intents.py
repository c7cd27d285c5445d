"""What somebody with good reasons would send next: each intent reads the model and returns an envelope, or nothing.

An intent may still be refused: its view of the rules is a sketch. `Walker.step` draws a few and prefers one that the
model accepts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger import house
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.revision import INDEX_MAX, revision
from holdfast.core.model.allotment import Purpose, Stage
from holdfast.core.model.control import Action
from holdfast.core.model.lifecycle import EDGES, ON_NODE, STOP_CAUSES, STOPPABLE, Phase
from holdfast.core.model.placement import HoldPurpose, PendingReason
from holdfast.core.model.resources import Resources
from holdfast.core.model.settings import DEFAULTS
from holdfast.core.model.topology import Effect, NodeHealth, Taint
from holdfast.core.region import commands as c
from tests.properties.region_model import Node, Slot
from tests.properties.region_model_objects import asks_for
from tests.properties.region_model_slots import valid_policy
from tests.properties.region_program import Program
from tests.properties.region_world import DIGESTS, KINDS, NODES, OPERATORS, SCHEDULERS, SECOND

Intent = Callable[[Program], Envelope[Any] | None]
BY_OTHERS = (Phase.RESERVED, Phase.BOUND, Phase.TERMINATING, Phase.PENDING)


def node_named(p: Program, name: str) -> Node | None:
    return next((node for node in p.model.nodes.values() if node.said.name == name), None)


def a_scheduler(p: Program) -> str | None:
    alive = [actor for actor in SCHEDULERS if p.session_of(actor)]
    return p.chance.pick(alive) if alive else None


# Sessions and nodes


def open_session(p: Program) -> Envelope[Any] | None:
    actors = [*SCHEDULERS, *(f"agent/{name}" for name in NODES)]
    silent = [actor for actor in actors if not p.session_of(actor)]
    known = [actor for actor in silent if node_named(p, actor.removeprefix("agent/")) or actor in SCHEDULERS]
    if not known and not p.chance.one_in(6):
        return None
    return p.envelope(p.chance.pick(known or silent or actors), house.OpenSession())


def end_session(p: Program) -> Envelope[Any] | None:
    uids = sorted(p.model.sessions)
    if not uids:
        return None
    uid = p.chance.pick(uids)
    actor = p.chance.pick(("controller/node-health", "controller/sessions", "ledger", p.model.sessions[uid].principal))
    return p.envelope(actor, house.EndSession(uid, "silent"))


def register_node(p: Program) -> Envelope[Any] | None:
    """A node that is not registered in its agent's session, or one that is now of another size or shape."""
    names = [name for name in NODES if p.session_of(f"agent/{name}")]
    if not names:
        return None
    behind = [n for n in names if (node := node_named(p, n)) is None or node.session != p.session_of(f"agent/{n}")]
    if not behind and not p.chance.one_in(3):
        return None
    name = p.chance.pick(behind or names)
    command = NODES[name]
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
        )
    return p.envelope(f"agent/{name}", command)


def administer_node(p: Program) -> Envelope[Any] | None:
    if not p.model.nodes:
        return None
    uid, chance = p.chance.pick(sorted(p.model.nodes)), p.chance
    plain = c.AdministerNode(uid)
    taint = Taint("dedicated", chance.pick(("db", "web")), chance.pick((Effect.REFUSE, Effect.EVICT)))
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
    return p.envelope(chance.pick(OPERATORS), command)


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
    held = {hold.node for hold in p.model.holds.values()}
    empty = [
        uid for uid, n in sorted(p.model.nodes.items()) if not n.session and not p.model.on(uid) and uid not in held
    ]
    return p.envelope(p.chance.pick(OPERATORS), c.RemoveNode(p.chance.pick(empty))) if empty else None


# Wanted ordinals


def open_slots(p: Program) -> Envelope[Any] | None:
    active = [a for _, a in sorted(p.model.assignments.items()) if a.stage is Stage.ACTIVE and a.shares]
    if not active:
        return None
    assignment = p.chance.pick(active)
    first = 10 if assignment.uid == SECOND and not p.chance.one_in(4) else 0
    wanted = assignment.ordinals or tuple(
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
    ended = [s for _, s in sorted(p.model.slots.items()) if p.model.assignments[s.assignment].stage is Stage.ENDED]
    return ended if p.chance.one_in(2) else []


def forget_assignment(p: Program) -> Envelope[Any] | None:
    ended = [uid for uid, a in sorted(p.model.assignments.items()) if a.stage is Stage.ENDED]
    bare = [uid for uid in ended if not p.model.of(uid)]
    return p.envelope("controller/replica", c.ForgetAssignment(p.chance.pick(bare or ended))) if ended else None


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
    return p.envelope(actor, c.ReportPending(uid, template, revision(p.model.seq), reasons))


# Placing


def propose(p: Program) -> Envelope[Any] | None:
    actor, requests = a_scheduler(p), sorted(p.model.open_requests())
    asked = [one for one in requests if asks_for(p.model.assignments[one[0]], one[1])]
    requests = asked if asked and not p.chance.one_in(10) else requests
    nodes = [node for _, node in sorted(p.model.nodes.items()) if node.usable] or list(p.model.nodes.values())
    if actor is None or not requests or not nodes:
        return None
    chosen = p.chance.some(requests, 2) if p.chance.one_in(5) else [p.chance.pick(requests)]
    groups = tuple(a_group(p, uid, template, nodes) for uid, template in chosen)
    command = c.Propose(
        groups, p.at + p.chance.pick((1, 1000, 5000)), p.chance.one_in(6), not p.chance.one_in(4)
    )  # fmt: skip
    return p.envelope(actor, command, policy=policy_for(p, chosen[0][0]), view=a_view(p))


def policy_for(p: Program, assignment: int) -> int:
    return valid_policy(p.model, p.model.assignments[assignment].tenant)


def a_view(p: Program) -> int:
    """None, the newest, or one that is some batches behind. A view ends with a batch."""
    behind = p.chance.pick((None, 0, 0, 1, 3, 8))
    return 0 if behind is None else revision(max(1, p.model.seq - behind), INDEX_MAX)


def a_group(p: Program, uid: int, template: str, nodes: list[Node]) -> c.Group:
    waiting = sorted(s.ordinal for s in p.model.of(uid) if s.phase is Phase.PENDING and s.template == template)
    ordinals = p.chance.some(waiting, 3) if waiting else [0]
    return c.Group(uid, template, tuple(a_placement(p, uid, template, one, p.chance.pick(nodes)) for one in ordinals))


def a_placement(p: Program, uid: int, digest: str, ordinal: int, node: Node) -> c.Placement:
    template, chance = p.model.templates[digest], p.chance
    there = [slot for slot in p.model.on(node.uid) if slot.phase in (*STOPPABLE, Phase.TERMINATING)]
    weaker = [slot for slot in there if priority(p, slot.assignment) < priority(p, uid)] or there
    after = tuple(slot.key for slot in chance.some(weaker, 2)) if there and wants_room(p, uid) else ()
    holds = [h for _, h in sorted(p.model.holds.items()) if h.node == node.uid and h.assignment in (0, uid)]
    hold = chance.pick(holds) if holds and chance.one_in(2) else None
    room = p.model.room(node.uid, after, hold.uid if hold else 0)
    first, last = node.said.ports
    ports = [port for port in range(first, last + 1) if port not in room.ports or chance.one_in(6)]
    indexes = list(range(len(node.said.devices)))
    devices = (
        hold.devices if hold and len(hold.devices) == template.gpus else tuple(distinct(p, indexes, template.gpus))
    )
    return c.Placement(
        ordinal, node.uid, devices, tuple(distinct(p, ports, template.ports)), after, hold.uid if hold else 0
    )


def priority(p: Program, uid: int) -> int:
    cls = p.model.classes.get(p.model.assignments[uid].priority_class)
    return cls.spec.priority if cls else 0


def wants_room(p: Program, uid: int) -> bool:
    """Those that may take others' room try it now and then, the others hardly ever."""
    assignment = p.model.assignments[uid]
    cls = p.model.classes.get(assignment.priority_class)
    may = assignment.purpose is Purpose.RECOVERY or (cls is not None and cls.spec.may_preempt)
    return p.chance.one_in(2 if may else 12)


def distinct(p: Program, many: list[int], count: int) -> list[int]:
    left, found = list(many), list[int]()
    while left and len(found) < count:
        found.append(left.pop(p.chance.below(len(left))))
    return found


def reserved(p: Program) -> list[Slot]:
    return [slot for _, slot in sorted(p.model.slots.items()) if slot.phase is Phase.RESERVED]


def bind(p: Program) -> Envelope[Any] | None:
    actor, slots = a_scheduler(p), reserved(p)
    if actor is None or not slots:
        return None
    some = p.chance.some(slots, 3)
    policy = policy_for(p, some[0].assignment)
    return p.envelope(actor, c.Bind(tuple(slot.key for slot in some)), policy=policy)


def unreserve(p: Program) -> Envelope[Any] | None:
    actor, slots = a_scheduler(p), reserved(p)
    if actor is None or not slots:
        return None
    return p.envelope(actor, c.Unreserve(tuple(slot.key for slot in p.chance.some(slots, 2))))


def expire(p: Program) -> Envelope[Any] | None:
    over = [slot.key for slot in reserved(p) if slot.ends <= p.at]
    holds = [uid for uid, hold in sorted(p.model.holds.items()) if hold.ends <= p.at]
    if not over and not holds:
        return None
    return p.envelope("ledger", c.Expire(tuple(over[:3]), tuple(holds[:3])))


# Moving and stopping


def advance(p: Program) -> Envelope[Any] | None:
    """The agent of a node, or endpoints, moves several slots one step along their usual way."""
    usual = {
        Phase.BOUND: (Phase.STARTING, "started"),
        Phase.STARTING: (Phase.RUNNING, "running"),
        Phase.RUNNING: (Phase.READY, "probe-passed"),
        Phase.TERMINATING: (Phase.RELEASED, "stopped"),
        Phase.SUCCEEDED: (Phase.RELEASED, "collected"),
        Phase.UNKNOWN: (Phase.RUNNING, "found-again"),
        Phase.FAILED: (Phase.STARTING, "restarted"),
    }
    ready = [slot for slot in p.model.standing() if slot.phase is Phase.READY]
    if ready and p.chance.one_in(3):
        some = p.chance.some(sorted(ready, key=lambda slot: slot.key), 3)
        return moves(p, "controller/endpoints", [(slot, Phase.SERVING, "published") for slot in some])
    slots = [slot for _, slot in sorted(p.model.slots.items()) if slot.phase in usual and speaks(p, slot)]
    if not slots:
        return None
    node = p.chance.pick(slots).node
    some = p.chance.some([slot for slot in slots if slot.node == node], 4)
    return moves(p, agent_of(p, node), [(slot, *(done(p, slot) or usual[slot.phase])) for slot in some])


def done(p: Program, slot: Slot) -> tuple[Phase, str] | None:
    """Batch work that runs is done half of the time."""
    batch = slot.phase is Phase.RUNNING and p.model.assignments[slot.assignment].batch
    return (Phase.SUCCEEDED, "completed") if batch and p.chance.one_in(2) else None


def speaks(p: Program, slot: Slot) -> bool:
    return p.model.nodes[slot.node].session != 0


def agent_of(p: Program, node: int) -> str:
    return f"agent/{p.model.nodes[node].said.name}"


def moves(p: Program, actor: str, many: list[tuple[Slot, Phase, str]]) -> Envelope[Any]:
    return p.envelope(actor, c.Move(tuple(c.MoveSlot(s.key, s.epoch, target, cause) for s, target, cause in many)))


def any_edge(p: Program) -> Envelope[Any] | None:
    """Any edge that a move commits, by its owner."""
    found = []
    for _, slot in sorted(p.model.slots.items()):
        if slot.phase in ON_NODE:
            found += [(slot, e) for e in EDGES if e.source is slot.phase and e.target not in BY_OTHERS]
    found = [(slot, edge) for slot, edge in found if edge.owner != "controller/replica"]
    if not found:
        return None
    slot, edge = p.chance.pick(found)
    actor = agent_of(p, slot.node) if edge.owner == "agent" else edge.owner
    return moves(p, actor, [(slot, edge.target, edge.cause)])


def mourn(p: Program) -> Envelope[Any] | None:
    """Node health and repair act on what a node without a session held."""
    dead = [slot for _, slot in sorted(p.model.slots.items()) if slot.node and not speaks(p, slot)]
    judged = [slot for slot in dead if slot.phase in STOPPABLE and slot.phase is not Phase.UNKNOWN]
    if judged and p.chance.one_in(2):
        some = p.chance.some(judged, 4)
        return moves(p, "controller/node-health", [(slot, Phase.UNKNOWN, "session-ended") for slot in some])
    lost = [slot for slot in dead if slot.phase in (Phase.UNKNOWN, Phase.FAILED, Phase.SUCCEEDED, Phase.TERMINATING)]
    if not lost:
        return None
    targets = [(s, Phase.FAILED if s.phase is Phase.UNKNOWN else Phase.RELEASED, "fenced") for s in lost]
    return moves(p, "controller/repair", p.chance.some(targets, 4))


def stop(p: Program) -> Envelope[Any] | None:
    slots = [slot for _, slot in sorted(p.model.slots.items()) if slot.phase in STOPPABLE]
    if not slots:
        return None
    cause = STOP_CAUSES[p.chance.pick([name for name in STOP_CAUSES if name not in ("preempted", "reclaimed")])]
    some, template = p.chance.some([s for s in unwanted(p) if s in slots] or slots, 2), ""
    if cause.again and p.chance.one_in(2):
        kind = KINDS.get(100 * some[0].workload)
        known = [DIGESTS[name] for name in kind.templates if DIGESTS[name] in p.model.templates] if kind else []
        template = p.chance.pick(known) if known else ""
    actor = a_scheduler(p) if cause.owner == "scheduler" else cause.owner
    return p.envelope(actor or "scheduler/main", c.Stop(tuple(s.key for s in some), cause.name, template))


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
        a for _, a in sorted(p.model.assignments.items()) if a.stage is not Stage.ENDED and a.shares and a.accounts
    ]
    if keepers and chance.one_in(2):
        assignment = chance.pick(keepers)
        digest = chance.pick([share.template for share in assignment.shares])
        devices = tuple(distinct(p, indexes, p.model.templates[digest].gpus))
        account = chance.pick(assignment.accounts)
        command = c.Hold(
            HoldPurpose.PLACEHOLDER, uid, account, ends, devices=devices, assignment=assignment.uid, template=digest
        )
    else:
        tenant = chance.pick(("acme", "beta"))
        devices = tuple(distinct(p, indexes, chance.below(2)))
        milli = chance.pick((1000, 400))
        need = Resources(chance.pick((500, 1500)), 512, 10, len(devices) * milli)
        purpose = chance.pick((HoldPurpose.DATED, HoldPurpose.ROOM, HoldPurpose.OFFER))
        command = c.Hold(purpose, uid, f"quota/{tenant}", ends, need, devices, milli, tenant)
    return p.envelope(actor, command)


def change_hold(p: Program) -> Envelope[Any] | None:
    if not p.model.holds:
        return None
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


# People and the log


def override(p: Program) -> Envelope[Any] | None:
    chance = p.chance
    if p.model.overrides and chance.one_in(2):
        uid = chance.pick(sorted(p.model.overrides))
        over = p.model.overrides[uid].ends <= p.at
        return p.envelope("controller/override" if over else chance.pick(OPERATORS), EndOverride(uid, "done"))
    target = chance.pick(((Action.PAUSE_SCHEDULING, "acme"), (Action.AVOID_ZONE, "a"), (Action.AVOID_ZONE, "b"),
                          (Action.PAUSE_REPAIR, "")))  # fmt: skip
    command = OpenOverride(target[0], "eu", target[1], "a drill", p.at + chance.pick((200, 2000)))
    return p.envelope(chance.pick(OPERATORS), command)


def keep_house(p: Program) -> Envelope[Any]:
    """Terms, digests, levels, settings."""
    chance, settings = p.chance, p.model.settings
    others = replace(
        settings,
        keys_per_actor=DEFAULTS.keys_per_actor,
        reservation_life=chance.pick((30_000, 5_000)),
        breach_deadline=chance.pick((600_000, 1)),
    )
    actor, command = chance.pick(
        (
            ("ledger", house.StartTerm(p.model.term + 1, "server-2")),
            ("ledger", house.RecordDigest(max(1, p.model.seq - 1), b"0" * 32)),
            (chance.pick(OPERATORS), house.Configure(others)),
            ("ledger", house.RaiseLevel(chance.pick((1, 2)))),
        )
    )
    return p.envelope(actor, command)
