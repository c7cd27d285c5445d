"""What schedulers, agents and controllers would do with slots next: place, bind, move, stop."""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.assignments import AssignmentPurpose
from holdfast.core.model.records.lifecycle import EDGES, ON_NODE, STOP_CAUSES, STOPPABLE, Phase
from holdfast.core.region import commands as c
from tests.properties.region.intents import a_scheduler, distinct, unwanted
from tests.properties.region.model.objects import asks_for
from tests.properties.region.model.proposals import valid_policy
from tests.properties.region.model.records import Node, Slot
from tests.properties.region.program import Program
from tests.properties.region.world import DIGESTS, KINDS

BY_OTHERS = (Phase.RESERVED, Phase.BOUND, Phase.TERMINATING, Phase.PENDING)


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
    return 0 if behind is None else pack_revision(max(1, p.model.seq - behind), INDEX_MAX)


def a_group(p: Program, uid: int, template: str, nodes: list[Node]) -> c.PlacementGroup:
    waiting = sorted(s.ordinal for s in p.model.of(uid) if s.phase is Phase.PENDING and s.template == template)
    ordinals = p.chance.some(waiting, 3) if waiting else [0]
    gang = p.model.assignments[uid].gang
    if gang is not None and not p.chance.one_in(4):
        ordinals = [one for one in waiting if any(one // gang.size == other // gang.size for other in ordinals)] or [0]
    return c.PlacementGroup(
        uid, template, tuple(a_placement(p, uid, template, one, p.chance.pick(nodes)) for one in ordinals)
    )


def a_placement(p: Program, uid: int, digest: str, ordinal: int, node: Node) -> c.SlotPlacement:
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
    return c.SlotPlacement(
        ordinal, node.uid, devices, tuple(distinct(p, ports, template.ports)), after, hold.uid if hold else 0
    )


def priority(p: Program, uid: int) -> int:
    cls = p.model.classes.get(p.model.assignments[uid].priority_class)
    return cls.spec.priority if cls else 0


def wants_room(p: Program, uid: int) -> bool:
    """Those that may take others' room try it now and then, the others hardly ever."""
    assignment = p.model.assignments[uid]
    cls = p.model.classes.get(assignment.priority_class)
    may = assignment.purpose is AssignmentPurpose.RECOVERY or (cls is not None and cls.spec.may_preempt)
    return p.chance.one_in(2 if may else 12)


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
        Phase.UNKNOWN: p.chance.pick(((Phase.RUNNING, "found-again"), (Phase.FAILED, "gone"))),
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
    """Batch work that runs is done half of the time, else it mostly fails, and is given up soon."""
    if not p.model.assignments[slot.assignment].batch:
        return None
    if slot.phase is Phase.RUNNING and p.chance.one_in(2):
        return Phase.SUCCEEDED, "completed"
    if slot.phase is Phase.RUNNING and not p.chance.one_in(4):
        return Phase.FAILED, "exit"
    return (Phase.RELEASED, "given-up") if slot.phase is Phase.FAILED and p.chance.one_in(2) else None


def doom(p: Program) -> Envelope[Any] | None:
    """The replica of batch work that was given up most often is brought a step nearer to the next time."""
    steps = {
        Phase.BOUND: (Phase.STARTING, "started"),
        Phase.STARTING: (Phase.FAILED, "exit"),
        Phase.RUNNING: (Phase.FAILED, "exit"),
        Phase.FAILED: (Phase.RELEASED, "given-up"),
    }
    batch = [s for _, s in sorted(p.model.slots.items()) if p.model.assignments[s.assignment].batch]
    slots = [s for s in batch if s.phase is Phase.PENDING or (s.phase in steps and speaks(p, s))]
    if not slots:
        return None
    slot = max(slots, key=lambda slot: slot.given_up)
    if slot.phase is not Phase.PENDING:
        return moves(p, agent_of(p, slot.node), [(slot, *steps[slot.phase])])
    actor, nodes = a_scheduler(p), [node for _, node in sorted(p.model.nodes.items()) if node.usable]
    if actor is None or not nodes:
        return None
    placed = a_placement(p, slot.assignment, slot.template, slot.ordinal, p.chance.pick(nodes))
    command = c.Propose((c.PlacementGroup(slot.assignment, slot.template, (placed,)),), p.at + 1000)
    return p.envelope(actor, command, policy=policy_for(p, slot.assignment))


def speaks(p: Program, slot: Slot) -> bool:
    return p.model.nodes[slot.node].session != 0


def agent_of(p: Program, node: int) -> str:
    return f"agent/{p.model.nodes[node].said.name}"


def moves(p: Program, actor: str, many: list[tuple[Slot, Phase, str]]) -> Envelope[Any]:
    said = p.chance.pick(("", "", "exit code 3"))
    return p.envelope(actor, c.Move(tuple(c.MoveSlot(s.key, s.epoch, target, why, said) for s, target, why in many)))


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
