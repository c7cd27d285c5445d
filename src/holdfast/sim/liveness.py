"""Whether everything came to rest where it should, after the faults had stopped: its own verdict, apart from safety."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.core.ledger.state import LedgerState
from holdfast.core.model.allotment import ACTIVE, Assignment, Purpose
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import EMPTY_ROOM
from holdfast.core.model.runs import numbers
from holdfast.core.model.topology import RegionHealth, usable
from holdfast.core.platform.state import PlatformState
from holdfast.core.reconcilers.wanted import plan
from holdfast.core.region.charging import affordable
from holdfast.core.region.feasible import feasible
from holdfast.core.region.kinds import ordinals_of
from holdfast.core.region.occupancy import tenants_on
from holdfast.core.region.state import RegionState
from holdfast.host.ledger import Role
from holdfast.sim.audit import Finding
from holdfast.sim.scene import PLATFORM_NAME, Scene, old_server

#: Reasons for which a request may wait for ever: nothing that is there could place it.
TYPED = ("capacity", "one-tenant", "over-grant", "protected")


def unsettled(scene: Scene) -> Iterator[str]:
    """What is not yet as it should be, one sentence each."""
    platform: PlatformState = scene.audits[PLATFORM_NAME].state
    found = scene.servers.ledgers
    for ledger, names in scene.cast.servers.items():
        roles = sorted(found[name].role.value if name in found else "missing" for name in names)
        if roles != sorted([Role.LEADING.value, *[Role.FOLLOWING.value] * (len(names) - 1)]):
            yield f"{ledger} has servers that are {', '.join(roles)}: one should lead and all others follow"
    for name in scene.scenario.topology.behind:
        old = scene.servers.ledgers[old_server(name)]
        if old.role is not Role.STOPPED:
            yield f"{old_server(name)} cannot read the log and is {old.role}: it should have stopped"
    yield from _platform(scene, platform)
    for name in scene.cast.nodes:
        region: RegionState = scene.audits[name].state
        yield from (f"{name}: {what}" for what in _region(scene, name, region, platform))


def _platform(scene: Scene, state: PlatformState) -> Iterator[str]:
    now = state.facts.at
    yield from _sessions(state, {f"region/{name}" for name in scene.cast.nodes})
    for name, one in state.regions.items():
        if one.status.health is not RegionHealth.HEALTHY:
            yield f"region {name} is {one.status.health}"
    yield from (f"override {uid} should have ended" for uid, one in state.overrides.items() if one.ends <= now)
    for uid, workload in state.workloads.items():
        if workload.meta.deletion is not None:
            yield f"workload {uid} {workload.meta.name} is still being deleted"
    if scene.people is None or not scene.people.done:
        yield "people are not done: somebody waits for an answer"
        return
    wanted = scene.people.wanted
    if wanted.keys() != scene.scenario.workloads.keys():
        yield f"people want {sorted(wanted)} and should want {sorted(scene.scenario.workloads)}"
    for name, workload in wanted.items():
        uid = state.workload_names.get(f"{workload.meta.tenant}/{name}") or 0
        stored = state.workloads.get(uid)
        if stored is None or stored.spec != workload.spec:
            yield f"workload {name} is not what was acknowledged"
            continue
        shares = [a.shares for a in state.assignments.values() if a.workload == uid and _serves(a)]
        assigned = sum(share.count for named in shares for share in named)
        if assigned != workload.spec.replicas:
            yield f"workload {name} has {assigned} of {workload.spec.replicas} replicas assigned"


def _asked(assignment: Assignment) -> int:
    return sum(share.count for share in assignment.shares) if assignment.stage is ACTIVE else 0


def _serves(assignment: Assignment) -> bool:
    return assignment.purpose is Purpose.SERVING and assignment.stage is ACTIVE


def _region(scene: Scene, name: str, state: RegionState, platform: PlatformState) -> Iterator[str]:
    now = state.facts.at
    for node in state.nodes.values():
        if not usable(node):
            yield f"{node.name} takes no work: {node.health}, session {node.session}, cordoned {node.cordoned}"
    theirs = {uid: a for uid, a in platform.assignments.items() if a.region == name}
    ours = dict(state.assignments.items())
    if {uid: a.revision for uid, a in theirs.items()} != {uid: a.revision for uid, a in ours.items()}:
        yield f"has assignments {sorted(ours)}, and the platform {sorted(theirs)}"
    for account, allowance in state.allowances.items():
        grant = platform.grants.get(f"{name}|{account}")
        if grant is None or grant.acknowledged != allowance.version or grant.version != allowance.version:
            yield f"its grant of {account} is not settled"
    for uid, assignment in ours.items():
        wanted = plan(state, assignment, now).templates()
        if len(wanted) != _asked(assignment) and not _waiting(state, uid):
            yield f"assignment {uid} wants {len(wanted)} replicas where {_asked(assignment)} are asked for"
        yield from _slots(state, uid, wanted)
    yield from (f"hold {uid} should have ended" for uid, hold in state.holds.items() if hold.ends <= now)
    yield from (f"override {uid} should have ended" for uid, one in state.overrides.items() if one.ends <= now)
    speaking = {f"agent/{node}" for node in scene.cast.nodes[name]}
    speaking |= {f"scheduler/{scheduler}" for scheduler in scene.cast.schedulers[name]}
    yield from _sessions(state, speaking)
    yield from _processes(scene, name, state)


def _sessions(state: LedgerState, speaking: set[str]) -> Iterator[str]:
    """Everybody who is there has a session, and nobody else."""
    found = {session.principal for session in state.sessions.values()}
    if found != speaking:
        yield f"sessions of {sorted(found - speaking)} should have ended, {sorted(speaking - found)} have none"


def _slots(state: RegionState, assignment: int, wanted: dict[int, str]) -> Iterator[str]:
    workload, waiting = state.assignments[assignment].workload, _waiting(state, assignment)
    for ordinal in sorted({*wanted, *numbers(ordinals_of(state, assignment))}):
        slot = state.slots.get((workload, ordinal))
        if slot is None or ordinal not in wanted:
            yield f"slot {workload}/{ordinal} is {'missing' if slot is None else 'not wanted any more'}"
            continue
        # While others of it wait for room, what serves is not stopped for a newer template.
        serves = slot.phase is Phase.SERVING and bool(waiting or slot.template == wanted[ordinal])
        if not serves and not (slot.phase is Phase.PENDING and slot.template in waiting):
            yield f"slot {workload}/{ordinal} is {slot.phase} since {slot.since} by {slot.by} for {slot.cause!r}"


def _waiting(state: RegionState, assignment: int) -> list[str]:
    """Templates whose requests carry a typed reason that is true: no node has room for one more, or nobody pays."""
    requests = state.requests.get(assignment) or ()
    told = [one.template for one in requests if one.reasons and one.reasons[0].code in TYPED]
    return [template for template in told if not _could_be_placed(state, assignment, template)]


def _could_be_placed(state: RegionState, assignment: int, digest: str) -> bool:
    wanted, template, at = state.assignments[assignment], state.templates[digest], state.facts.at
    cls = state.classes.get(wanted.priority_class)
    firm = cls is None or not cls.spec.reclaimable
    fits = any(
        feasible(node, room, template, wanted.tenant, firm=firm, there=tenants_on(state, node)) is None
        for node, room in ((node, state.rooms.get(uid) or EMPTY_ROOM) for uid, node in state.nodes.items())
    )
    # What waits again keeps its charge: it needs room alone.
    slots = [state.slots[(wanted.workload, ordinal)] for ordinal in numbers(ordinals_of(state, assignment))]
    charged = any(slot.phase is Phase.PENDING and slot.template == digest and slot.account for slot in slots)
    return fits and (charged or any(affordable(state, one, at, template.need) > 0 for one in wanted.accounts))


def same_states(scene: Scene) -> list[Finding]:
    """Servers that have folded the whole log and hold another state than the audit: none should."""
    found = []
    for ledger, names in scene.cast.servers.items():
        state = scene.audits[ledger].state
        there = [name for name in names if name in scene.servers.ledgers]
        servers = [(name, scene.servers.ledgers[name].durable.state) for name in there]
        found += [
            Finding("same-state", f"{name} differs from the fold of its log at {state.facts.seq}")
            for name, theirs in servers
            if theirs.facts.seq == state.facts.seq and not _equal(theirs, state)
        ]
    return found


def _equal(mine: LedgerState, theirs: LedgerState) -> bool:
    """Whether two states have the same rows in every stored table.

    Not in derived ones: a state that was loaded has no row where one that was folded may have a row of nothing.
    """
    names = [spec.name for spec in mine.TABLES if not spec.derived]
    return all(dict(mine.table(name).unordered()) == dict(theirs.table(name).unordered()) for name in names)


def _processes(scene: Scene, name: str, state: RegionState) -> Iterator[str]:
    """What the nodes really run is what the ledger says."""
    for metal in scene.metals.values():
        if metal.region != name:
            continue
        uid = state.node_names.get(metal.name) or 0
        bound = {(k, s.epoch) for k, s in state.slots.items() if s.node == uid and s.phase is Phase.SERVING}
        runs = {(live.slot, live.epoch) for live in metal.running()}
        if bound != runs:
            yield f"{metal.name} runs {sorted(runs)}, and {sorted(bound)} serve there"
