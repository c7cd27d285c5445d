"""What is sent by mistake, late, twice, in another's name, or by who knows no better: gates are shut on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import log, sessions
from holdfast.core.ledger.builtin.audit import RecordDenials
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.objects.isolation import Capability
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.records.lifecycle import STOP_CAUSES, Phase
from holdfast.core.model.records.nodes import Machine, NodeHealth
from holdfast.core.model.records.slots import PendingReason, ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region import commands as c
from tests.properties.region import intents
from tests.properties.region import shipments as links
from tests.properties.region import slot_intents as slots
from tests.properties.region.model.senders import CONTROLLERS
from tests.properties.region.program import Program
from tests.properties.region.world import (
    DIGESTS,
    KINDS,
    NODES,
    OPERATORS,
    PEOPLE,
    SCHEDULERS,
    SECOND,
    TEMPLATES,
    an_assignment_of,
)

ACTORS = (
    *(f"controller/{name}" for name in CONTROLLERS),
    *(f"agent/{name}" for name in NODES),
    *(person.meta.name for person in PEOPLE),
    *SCHEDULERS,
    *("person/root", "person/nobody", "tenant/beta", "region/us", "ledger", "controller/unheard-of", "stranger"),
)
_TOO_MANY = tuple((1, ordinal) for ordinal in range(1001))
_ENDLESS = tuple(c.RemovedObject("token", f"t{number}") for number in range(10_001))
_BUSHY = tuple(PendingReason("capacity", number) for number in range(257))
_NO_NODE = pack_revision(1, 999)


def in_anothers_name(p: Program) -> Envelope[Any] | None:
    meant = p.chance.weighed(COMMON)(p)
    return None if meant is None else p.envelope(p.chance.pick(ACTORS), meant.command, view=meant.view)


def badly_addressed(p: Program) -> Envelope[Any] | None:
    """A session that is over or another's, a key where none belongs, a number out of the window, a letter years old."""
    meant, chance = p.chance.weighed(COMMON)(p), p.chance
    if meant is None:
        return None
    kind = meant.actor.partition("/")[0]
    if kind in ("controller", "ledger"):
        return changed(p, meant, {"session": 7}, {"key": "k"}, {"sent": p.at - 90_000_000}, {"sent": p.at + 300_001})
    if kind == "person":
        used = [(actor, key) for actor, key in p.model.keys if actor == meant.actor]
        again = {"key": chance.pick(used)[1]} if used else {"key": ""}
        ahead = {"sent": p.at + chance.pick((300_000, 300_001))}
        return changed(p, meant, {"key": ""}, {"key": "k" * 257}, {"session": 7}, again, again, ahead)
    high = meant.sequence - 1
    return changed(
        p,
        meant,
        {"session": 0},
        {"session": chance.pick(sorted(p.model.sessions)) if p.model.sessions else 9},
        {"sequence": 0},
        {"sequence": high + 257},
        {"sequence": high + 256},
        {"sequence": max(1, high - chance.below(300))},
        {"sent": p.at - 90_000_000},
        {"actor": "agent/" + "n" * 251},
    )


def changed(p: Program, meant: Envelope[Any], *wrong: dict[str, Any]) -> Envelope[Any]:
    return replace(meant, **p.chance.pick(wrong))


def too_much(p: Program) -> Envelope[Any] | None:
    chance, scheduler = p.chance, intents.a_scheduler(p) or SCHEDULERS[0]
    keys = chance.pick(((), _TOO_MANY))
    group = c.PlacementGroup(100, DIGESTS["web-1"], tuple(c.SlotPlacement(ordinal, 1) for _, ordinal in keys))
    requests = sorted(p.model.open_requests()) or [(100, DIGESTS["web-1"])]
    uid = chance.pick(sorted(p.model.nodes) or [_NO_NODE])
    labels = tuple((f"l{number}", "x") for number in range(65))
    ordinals = tuple(ordinal for _, ordinal in keys)
    many: tuple[tuple[str, Any], ...] = (
        (scheduler, c.Bind(keys)),
        (scheduler, c.Unreserve(keys)),
        (scheduler, c.Propose((group,), p.at + 1)),
        (scheduler, c.ReportPending(*chance.pick(requests), pack_revision(p.model.seq), _BUSHY)),
        ("ledger", c.Expire(keys)),
        ("controller/repair", c.Move(tuple(c.MoveSlot(key, 1, Phase.FAILED, "fenced") for key in keys))),
        ("controller/drain", c.Stop(keys, "drain")),
        ("controller/replica", c.OpenSlots(100, DIGESTS["web-1"], ordinals)),
        ("controller/replica", c.WithdrawSlots(100, ordinals)),
        ("controller/replica", c.AdoptSlots(100, ordinals)),
        (chance.pick(OPERATORS), c.AdministerNode(uid, labels=labels)),
    )
    return links.step(p, gone=_ENDLESS) if chance.one_in(12) else p.envelope(*chance.pick(many))


def naming_nothing(p: Program) -> Envelope[Any]:
    chance, scheduler = p.chance, intents.a_scheduler(p) or SCHEDULERS[0]
    operator, key = chance.pick(OPERATORS), (9, 9)
    node = chance.pick(sorted(p.model.nodes) or [_NO_NODE])
    usable = [uid for uid, one in sorted(p.model.nodes.items()) if one.usable]
    group = c.PlacementGroup(
        chance.pick((999, 100)), chance.pick((DIGESTS["web-1"], "no-digest")), (c.SlotPlacement(77, node),)
    )
    lone = c.PlacementGroup(100, DIGESTS["web-1"], (c.SlotPlacement(chance.below(4), _NO_NODE),))
    placeholder = c.Hold(
        ReservationPurpose.PLACEHOLDER, chance.pick((node, _NO_NODE)), "quota/acme", p.at + 9, assignment=999
    )
    many: tuple[tuple[str, Any], ...] = (
        (scheduler, c.Propose((group,), p.at + 1)),
        (scheduler, c.Propose((lone,), p.at + 1)),
        (scheduler, c.Bind((key,))),
        (scheduler, c.Unreserve((key,))),
        ("ledger", c.Expire((key,), (_NO_NODE,))),
        ("controller/endpoints", c.Move((c.MoveSlot(key, 1, Phase.SERVING, "published"),))),
        ("controller/drain", c.Stop((key,), "drain")),
        ("controller/drain", c.Stop((key,), "drain", "no-digest")),
        ("controller/replica", c.OpenSlots(999, "no-digest", (0,))),
        ("controller/replica", c.WithdrawSlots(chance.pick((999, 100)), (900,))),
        ("controller/replica", c.AdoptSlots(chance.pick((999, 100)), (900,))),
        ("controller/replica", c.StandDown("retired")),
        ("controller/link", c.ForgetAssignment(999)),
        ("controller/replica", c.ForgetAssignment(chance.pick(list(KINDS)))),
        ("controller/repair", c.CloseBreach("region.capacity", "node/1/cpu")),
        ("controller/node-health", c.JudgeNode(_NO_NODE, NodeHealth.LOST)),
        ("controller/node-health", sessions.EndSession(7, "silent")),
        (scheduler, c.ReportPending(999, "no-digest", 1, ())),
        (operator, c.AdministerNode(_NO_NODE)),
        (operator, c.RemoveNode(_NO_NODE)),
        (operator, c.DropHold(_NO_NODE)),
        (operator, c.ExtendHold(_NO_NODE, p.at + 9)),
        (operator, EndOverride(_NO_NODE, "done")),
        (operator, placeholder),
        (operator, c.RemoveNode(chance.pick(usable or [_NO_NODE]))),
    )
    return p.envelope(*chance.pick(many), policy=0)


def badly_put(p: Program) -> Envelope[Any]:
    """Contradictions, impossible numbers, things said twice, things said without a reason."""
    chance, operator = p.chance, p.chance.pick(OPERATORS)
    name = chance.pick([name for name in NODES if p.session_of(f"agent/{name}")] or ["n1"])
    node, uid = NODES[name], chance.pick(sorted(p.model.nodes) or [_NO_NODE])
    nodes = (
        replace(node, zone=""),
        replace(node, zone="z" * chance.pick((256, 257))),
        replace(node, ports=(9, 3)),
        replace(node, ports=(0, 9)),
        replace(node, capacity=replace(node.capacity, cpu=-1)),
        replace(node, capacity=replace(node.capacity, gpu=1)),
        replace(node, name="n9"),
        replace(node, machine=Machine("m" * 65)),
        replace(node, machine=Machine("m", "a\nb")),
        replace(node, overrun=-1),
        replace(node, capabilities=(Capability.USERS, Capability.CPU_LIMIT)),
        replace(node, tenant="a/b"),
        replace(node, address="http://n1/"),
        replace(node, capacity=replace(node.capacity, extended=(("b", 1), ("a", 1)))),
    )
    reports = (
        c.ReportNode(name, 15, 0),
        c.ReportNode(name, 0, 110),
        c.ReportNode(name, 0, 0, ("b", "a")),
        c.ReportNode(name, 0, 0, ("",)),
        c.ReportNode(name, 0, 0, tuple(f"f{number:03}" for number in range(129))),
        c.ReportNode("n9", 0, 0),
    )
    ends = p.at + 1000
    holds = (
        c.Hold(ReservationPurpose.DATED, uid, "quota/acme", ends, Resources(1, 1, 1)),
        c.Hold(ReservationPurpose.DATED, uid, "quota/acme", ends, Resources(1, 1, 1, 5), tenant="acme"),
        c.Hold(ReservationPurpose.DATED, uid, "quota/acme", ends, Resources(1, 1, 1, 0, (("fpga", 0),)), tenant="acme"),
        c.Hold(ReservationPurpose.DATED, uid, "quota/acme", p.at, Resources(1, 1, 1), tenant="acme"),
        c.Hold(ReservationPurpose.DATED, uid, "quota/acme", ends, Resources(1, 1, 1, 2000), (0, 0), 1000, "acme"),
        c.Hold(ReservationPurpose.PLACEHOLDER, uid, "quota/x", ends, assignment=100, template=DIGESTS["web-1"]),
    )
    scheduler, requests = intents.a_scheduler(p) or SCHEDULERS[0], sorted(p.model.open_requests()) or [(100, "")]
    many: tuple[tuple[str, Any], ...] = (
        (scheduler, c.ReportPending(*chance.pick(requests), pack_revision(p.model.seq + 1), ())),
        (f"agent/{name}", chance.pick(nodes)),
        (f"agent/{name}", chance.pick(reports)),
        (operator, chance.pick(holds)),
        (operator, c.AdministerNode(uid, cordoned=True)),
        (operator, c.AdministerNode(uid, note="n" * 1_001)),
        (operator, EndOverride(_NO_NODE, "r" * 1_001)),
        (operator, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", " ", ends)),
        (operator, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "", "which", ends)),
        (operator, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "n1", "of one node", ends)),
        (operator, OpenOverride(OverrideAction.DECLARE_LOST, "eu", "eu", "by itself", ends)),
        (operator, OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", "late", p.at - chance.below(2) * 10**12)),
        (operator, log.Configure(replace(DEFAULTS, fence_time=chance.pick((0, 5000))))),
        (operator, log.Configure(replace(DEFAULTS, lost_after=5000))),
        (operator, log.Configure(p.model.settings)),
        (operator, log.RaiseLevel(chance.pick((0, 9)))),
        ("controller/replica", c.OpenSlots(chance.pick(list(KINDS)), DIGESTS["web-1"], (1, 1))),
        ("controller/replica", c.OpenSlots(chance.pick(list(KINDS)), DIGESTS["web-1"], (-1,))),
        ("controller/drain", c.Stop(((1, 0),), "boredom")),
        ("controller/drain", c.Stop(((1, 0),), "rollout")),
        (scheduler, c.Stop(((1, 0),), chance.pick(("preempted", "reclaimed")))),
        ("controller/replica", c.Stop(((1, 0),), "scaled-down", DIGESTS["web-1"])),
        ("ledger", log.StartLog("log-eu", "region/eu", "person/root")),
        ("ledger", log.StartTerm(p.model.term, "server-2")),
        ("ledger", log.StartTerm(p.model.term + 1, "server-2", 9)),
        ("ledger", log.RecordDigest(p.model.seq + 1, b"")),
        ("ledger", RecordDenials((Denial("person/nobody", "configure", "no-right", "", 0, p.at, p.at),))),
        ("ledger", RecordDenials(())),
    )
    return p.envelope(*chance.pick(many))


def out_of_scope(p: Program) -> Envelope[Any]:
    chance, uid = p.chance, p.chance.pick(sorted(p.model.nodes) or [_NO_NODE])
    other = SCHEDULERS[1 - chance.below(2)]
    hold = chance.pick(sorted(p.model.holds) or [_NO_NODE])
    room = Resources(500, 512, 10)
    many: tuple[tuple[str, Any], ...] = (
        ("person/elsewhere", c.AdministerNode(uid, labels=(("x", "y"),))),
        ("person/n1", c.AdministerNode(uid, labels=(("x", "y"),))),
        ("person/n1", c.RemoveNode(uid)),
        ("person/acme", c.AdministerNode(uid, labels=(("x", "y"),))),
        ("person/n1", c.Hold(ReservationPurpose.DATED, uid, "quota/acme", p.at + 9, room, tenant="acme")),
        ("person/n1", c.DropHold(hold)),
        (chance.pick(("person/acme", "person/n1")), log.Configure(replace(p.model.settings, reservation_life=777))),
        ("person/acme", c.Hold(ReservationPurpose.DATED, uid, "quota/beta", p.at + 9, room, tenant="beta")),
        ("person/acme", c.Hold(ReservationPurpose.DATED, uid, "quota/acme", p.at + 9, room, tenant="acme")),
        ("person/acme", c.DropHold(hold)),
        ("person/here", OpenOverride(OverrideAction.AVOID_ZONE, "us", "a", "a storm", p.at + 9)),
        ("person/reader", c.RemoveNode(uid)),
        ("person/acme", OpenOverride(OverrideAction.AVOID_ZONE, "eu", "a", "a storm", p.at + 9)),
        (other, c.DropHold(hold)),
        ("controller/repair", c.DropHold(hold)),
        (other, c.ExtendHold(hold, p.at + 9999)),
        (other, sessions.EndSession(chance.pick(sorted(p.model.sessions) or [7]), "mine now")),
    )
    return p.envelope(*chance.pick(many))


def too_early(p: Program) -> Envelope[Any] | None:
    chance = p.chance
    overrides, nodes = sorted(p.model.overrides), sorted(p.model.nodes.items())
    many: list[tuple[str, Any]] = [("ledger", c.Expire((), tuple(sorted(p.model.holds)[:2])))]
    many += [("controller/override", EndOverride(uid, "tired of it")) for uid in overrides]
    many += [("ledger", c.Expire(tuple(slot.key for slot in slots.reserved(p)[:2])))]
    for uid, node in nodes:
        many += [("controller/node-health", c.JudgeNode(uid, NodeHealth.LOST if node.session else NodeHealth.READY))]
    standing = [slot for _, slot in sorted(p.model.slots.items()) if slot.node and slot.phase is not Phase.RESERVED]
    if standing and chance.one_in(2):
        slot = chance.pick(standing)
        repair = slot.phase in (Phase.UNKNOWN, Phase.FAILED, Phase.TERMINATING, Phase.SUCCEEDED)
        target, cause = (Phase.RELEASED, "fenced") if repair else (Phase.UNKNOWN, "session-ended")
        target = Phase.FAILED if slot.phase is Phase.UNKNOWN else target
        return slots.moves(p, "controller/repair" if repair else "controller/node-health", [(slot, target, cause)])
    return p.envelope(*chance.pick(many))


def wrong_moves(p: Program) -> Envelope[Any] | None:
    """An old epoch, another's slot, an edge that is not there, the same slot twice, a policy that is not valid."""
    meant, chance = p.chance.pick((slots.advance, slots.any_edge, slots.bind, slots.propose))(p), p.chance
    if meant is None:
        return None
    command = meant.command
    if isinstance(command, c.Move):
        one = chance.pick(command.moves)
        wrong = (
            replace(one, epoch=one.epoch + chance.pick((-1, 1))),
            replace(one, target=chance.pick(list(Phase))),
            replace(one, detail=chance.pick(("x" * 201, "two\nlines"))),
            replace(one, cause=chance.pick([*STOP_CAUSES, "exit", "withdrawn", "bound"])),
            one,
        )
        return replace(meant, command=c.Move((one, chance.pick(wrong)) if chance.one_in(2) else (chance.pick(wrong),)))
    if isinstance(command, c.Bind):
        return changed(p, meant, {"policy": 9}, {"command": c.Bind(command.slots * 2)})
    if isinstance(command, c.Propose):
        group = command.groups[0]
        twice = replace(command, groups=(replace(group, placements=group.placements * 2),))
        late = replace(command, valid_until=p.at + chance.pick((0, 5001)))
        other = replace(command, groups=(replace(group, template=DIGESTS[chance.pick(list(TEMPLATES))]),))
        crossed = {100: SECOND, SECOND: 100}.get(group.assignment, 100)
        through = replace(command, groups=(replace(group, assignment=crossed),))
        return changed(p, meant, {"policy": 9}, *({"command": one} for one in (twice, late, other, through)))
    return None


def wrong_places(p: Program) -> Envelope[Any] | None:
    """Placements that somebody who has not looked would ask for: any node, any device, any port, any victim."""
    meant, chance = slots.propose(p), p.chance
    if meant is None or not isinstance(meant.command, c.Propose):
        return None
    nodes = sorted(p.model.nodes)
    victims = [key for key, slot in sorted(p.model.slots.items()) if slot.node] or [(9, 9)]
    group = meant.command.groups[0]
    placements = []
    for one in group.placements:
        wrong: tuple[dict[str, Any], ...] = (
            {"node": chance.pick(nodes)},
            {"devices": (chance.below(3),)},
            {"devices": (0, 0)},
            {"ports": (30_000 + chance.below(5),)},
            {"ports": (30_000, 30_000)},
            {"waits_for": tuple(chance.some(victims, 2))},
            {"waits_for": (victims[0], victims[0])},
            {"hold": chance.pick(sorted(p.model.holds) or [_NO_NODE])},
        )
        placements.append(replace(one, **chance.pick(wrong)))
    return replace(meant, command=replace(meant.command, groups=(replace(group, placements=tuple(placements)),)))


def broken_stream(p: Program) -> Envelope[Any] | None:
    """Gaps, repeats, another log, an older term, another region, unknown templates, wrong digests, contradictions."""
    meant, chance, model = links.change(p), p.chance, p.model
    command, web = meant.command, c.ShippedTemplate(DIGESTS["web-1"], TEMPLATES["web-1"])
    stray = an_assignment_of(100, shares=())
    unknown = replace(stray, shares=(replace(an_assignment_of(100).shares[0], template="no-digest"),))
    wrong = (
        replace(command, after=model.cursor + 1, to=model.cursor + 2),
        replace(command, after=model.cursor - 1, to=model.cursor),
        replace(command, log_id="log-other"),
        replace(command, term=model.platform_term - 1),
        replace(command, full=True, to=model.cursor - 1),
        replace(command, puts=(c.ShippedRegion("us", "us"),)),
        replace(command, puts=(c.ShippedAssignment(replace(stray, region="us")),)),
        replace(command, puts=(c.ShippedAssignment(unknown),)),
        replace(command, puts=(c.ShippedAssignment(replace(stray, tenant="beta")),)),
        replace(command, puts=(c.ShippedTemplate("no-digest", TEMPLATES["web-1"]),)),
        replace(command, puts=(web, web)),
        replace(command, gone=(c.RemovedObject("moon", "1"),)),
        replace(command, gone=(c.RemovedObject("assignment", "first"),)),
        replace(command, term=model.platform_term + 1),
        replace(command, part=1),
        replace(command, last=False),
        replace(command, full=True, part=-1),
        replace(command, full=True, gone=(c.RemovedObject("token", "never-was"),)),
        replace(command, full=True, part=1, log_id=chance.pick((model.platform_log, "log-other"))),
        replace(command, full=True, part=1, to=model.cursor),
    )
    if model.listing is not None and chance.one_in(2):
        return replace(meant, command=stray_part(p, command))
    return replace(meant, command=chance.pick(wrong))


def stray_part(p: Program, command: c.Ship) -> c.Ship:
    """Parts of the list under way that came already, or are not next; of another one; of an older term."""
    assert p.model.listing is not None
    log_id, term, to = p.model.listing
    number = p.chance.below(len(p.model.listed) + 3)
    stray = replace(command, log_id=log_id, term=term, to=to, full=True, part=number, last=p.chance.one_in(2))
    return p.chance.pick(
        (stray, stray, replace(stray, to=to + 1), replace(stray, term=term - 1), replace(stray, log_id="log-other"))
    )


def few_keys(p: Program) -> Envelope[Any]:
    """So few keys that somebody has used them up; or enough again, by somebody who has one left."""
    used = {actor: sum(one == actor for one, _ in p.model.keys) for actor in OPERATORS}
    actor = min(OPERATORS, key=lambda one: used[one])
    busiest = max(used.values())
    few = p.model.settings.keys_per_actor < DEFAULTS.keys_per_actor
    number = DEFAULTS.keys_per_actor if few else max(busiest, 1)
    return p.envelope(actor, log.Configure(replace(p.model.settings, keys_per_actor=number)))


Wrong = Callable[[Program], Envelope[Any] | None]
COMMON: tuple[tuple[int, intents.Intent], ...] = (
    (3, slots.propose), (3, slots.advance), (1, intents.open_slots), (1, slots.stop), (1, intents.hold),
    (1, intents.administer_node), (1, intents.register_node), (1, intents.report_node),
    (1, intents.change_hold), (1, intents.report_pending),
    (1, intents.keep_house), (1, slots.expire), (1, intents.override), (1, links.change), (1, intents.end_session),
    (1, intents.close_breach), (1, slots.bind),
)  # fmt: skip
MISCHIEF: tuple[tuple[int, Wrong], ...] = (
    (3, in_anothers_name), (5, badly_addressed), (2, too_much), (4, naming_nothing), (4, badly_put), (3, out_of_scope),
    (3, too_early), (6, wrong_moves), (8, wrong_places), (4, broken_stream), (1, few_keys),
)  # fmt: skip
