"""Whether the cluster converged after the faults stopped; judged separately from safety.

The expected number of replicas is counted from the platform's assignments. An oracle (`checks.placement`) judges slots
that wait: they cannot be placed, and their pending reason is among the real ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import OnDeadline, Workload
from holdfast.core.model.records.assignments import ACTIVE, Assignment
from holdfast.core.model.records.lifecycle import STOPPABLE, Phase
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.state.tables import RegionState
from holdfast.host.ledger.ledger import Role
from holdfast.replay.recording import PLATFORM_NAME
from holdfast.sim.checks.assignment.relocation import unrelocated_work
from holdfast.sim.checks.assignment.reported_status import ENDING_MS, overdue_breaches, wrong_status
from holdfast.sim.checks.assignment.surplus import is_moving, is_spent, serves
from holdfast.sim.checks.deadlines import PROMPT_MS, Unconverged
from holdfast.sim.checks.link_steps import leftover_copies
from holdfast.sim.checks.placement.oracle import PlacementOracle
from holdfast.sim.checks.placement.usage import is_open
from holdfast.sim.checks.region.gangs import failed_with_gang, late_gangs
from holdfast.sim.cluster.cluster import SimulatedCluster, old_server
from holdfast.sim.cluster.process_state import process_mismatches, unnoticed_failures

#: One step of a rollout: a replica starts and gets ready, and an old one ends; or the start fails.
STEP_MS = 60_000


def unconverged(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """Yield everything that has not converged."""
    platform: PlatformState = scene.audits[PLATFORM_NAME].state
    yield from leaderless(scene)
    for name in scene.scenario.topology.behind:
        old = scene.servers.ledgers[old_server(name)]
        if old.role is not Role.STOPPED:
            yield Unconverged(
                "leads", old_server(name), f"cannot read the log and is {old.role}: it should have stopped"
            )
    yield from _platform(scene, platform)
    yield from wrong_status(platform, _regions(scene))
    yield from unrelocated_work(platform, _regions(scene))
    for name in scene.cast.nodes:
        region: RegionState = scene.audits[name].state
        yield from _region(scene, name, region, platform)


def leaderless(scene: SimulatedCluster) -> Iterator[Unconverged]:
    """Yield ledgers without one leader and followers otherwise. Until then no other limit can hold."""
    found = scene.servers.ledgers
    for ledger, names in scene.cast.servers.items():
        roles = sorted(found[name].role.value if name in found else "missing" for name in names)
        if roles != sorted([Role.LEADING.value, *[Role.FOLLOWING.value] * (len(names) - 1)]):
            detail = f"has servers that are {', '.join(roles)}: one should lead and all others follow"
            yield Unconverged("leads", ledger, detail)


def _platform(scene: SimulatedCluster, state: PlatformState) -> Iterator[Unconverged]:
    now = state.info.at
    yield from _sessions(PLATFORM_NAME, state, {f"region/{name}" for name in scene.cast.nodes})
    for name, one in state.regions.items():
        if one.status.health is not RegionHealth.HEALTHY:
            yield Unconverged("healthy", f"region {name}", f"is {one.status.health}")
    yield from _over("override", PLATFORM_NAME, {uid: one.ends for uid, one in state.overrides.items()}, now)
    for uid, workload in state.workloads.items():
        if workload.meta.deletion is not None:
            yield Unconverged("deleted", f"workload {uid} {workload.meta.name}", "is still being deleted")
    if scene.users is None or not scene.users.done:
        yield Unconverged("answered", "people", "are not done: an action waits for its answer")
        return
    wanted = scene.users.wanted
    if wanted.keys() != scene.scenario.workloads.keys():
        yield Unconverged(
            "wanted", "people", f"want {sorted(wanted)} and should want {sorted(scene.scenario.workloads)}"
        )
    for name, workload in wanted.items():
        uid = state.workload_names.get(f"{workload.meta.tenant}/{name}") or 0
        stored = state.workloads.get(uid)
        if stored is None or stored.spec != workload.spec:
            yield Unconverged("wanted", f"workload {name}", "is not what was acknowledged")
            continue
        shares = [a.shares for a in state.assignments.values() if a.workload == uid and serves(a)]
        assigned = sum(share.count for named in shares for share in named)
        least, most = _asked_for(stored, now)
        if not least <= assigned <= most and not is_moving(state, _regions(scene), stored, assigned - most):
            yield Unconverged("assigned", f"workload {name}", f"has {assigned} replicas assigned, of {least} to {most}")


def _regions(scene: SimulatedCluster) -> dict[str, RegionState]:
    return {name: scene.audits[name].state for name in scene.cast.nodes}


def _asked_for(workload: Workload, now: Instant) -> tuple[int, int]:
    """Return the least and the most replicas to assign. Successful batch work needs no assignment; neither does
    unfinished work that failed at its deadline."""
    spec, status = workload.spec, workload.status
    if not spec.batch:
        return spec.replicas, spec.replicas
    fails = spec.on_deadline is OnDeadline.FAIL and workload.meta.created + spec.deadline <= now
    return 0 if fails else spec.replicas - status.succeeded, max(spec.replicas, status.succeeded + status.failed)


def _over(kind: str, where: str, ends: dict[int, int], now: int) -> Iterator[Unconverged]:
    """Yield what should have ended and is still listed."""
    for uid, end in ends.items():
        if end <= now:
            yield Unconverged("ended", f"{where} {kind} {uid}", "should have ended", PROMPT_MS)


def _region(scene: SimulatedCluster, name: str, state: RegionState, platform: PlatformState) -> Iterator[Unconverged]:
    now = state.info.at
    for node in state.nodes.values():
        if not is_open(node):
            told = f"accepts no work: {node.health}, session {node.session}, cordoned {node.cordoned}"
            yield Unconverged("healthy", node.name, told)
    yield from _shipped(name, state, platform)
    yield from _over("hold", name, {uid: one.ends for uid, one in state.holds.items()}, now)
    yield from _over("override", name, {uid: one.ends for uid, one in state.overrides.items()}, now)
    for uid, assignment in state.assignments.items():
        workload = platform.workloads.get(assignment.workload)
        stays = assignment.exclusive and workload is not None and is_spent(_regions(scene), workload)
        yield from _replicas(name, state, uid, assignment, stays=stays)
        yield from late_gangs(name, state, uid, assignment)
    yield from _unpaid(name, state)
    yield from _slots(scene, name, state, PlacementOracle(state, now))
    speaking = {f"agent/{node}" for node in scene.cast.nodes[name]}
    speaking |= {f"scheduler/{scheduler}" for scheduler in scene.cast.schedulers[name]}
    yield from _sessions(name, state, speaking)
    metals = [metal for metal in scene.metals.values() if metal.region == name]
    yield from (*process_mismatches(state, metals), *unnoticed_failures(name, state, metals))
    yield from overdue_breaches(name, state)


def _unpaid(name: str, state: RegionState) -> Iterator[Unconverged]:
    """Yield slots that run on an ended emergency account. No other account ends like this."""
    for slot in state.slots.values():
        if slot.account.startswith("emergency/") and slot.phase in STOPPABLE:
            paid = state.accepted_grants.get(slot.account)
            if paid is None or paid.ends <= state.info.at:
                subject = f"{name} slot {slot.workload}/{slot.ordinal} under {slot.epoch}"
                yield Unconverged("repaid", subject, f"runs on {slot.account}, which has ended", PROMPT_MS)


def _shipped(name: str, state: RegionState, platform: PlatformState) -> Iterator[Unconverged]:
    """Yield where a region lacks what the platform shipped, or the platform its acknowledgement."""
    theirs = {uid: a.revision for uid, a in platform.assignments.items() if a.region == name}
    ours = {uid: a.revision for uid, a in state.assignments.items()}
    if theirs != ours:
        yield Unconverged(
            "shipped", name, f"has assignments {sorted(ours)}, the platform has {sorted(theirs)}", PROMPT_MS
        )
    for account, allowance in state.accepted_grants.items():
        grant = platform.grants.get(f"{name}|{account}")
        if grant is None or grant.acknowledged != allowance.version or grant.version != allowance.version:
            yield Unconverged("granted", f"{name} {account}", "is not settled", PROMPT_MS)
    yield from leftover_copies(platform, name, state)


def _sessions(where: str, state: LedgerState, speaking: set[str]) -> Iterator[Unconverged]:
    """Yield missing sessions, and sessions that should have ended."""
    found = {session.principal for session in state.sessions.values()}
    if found != speaking:
        more, less = sorted(found - speaking), sorted(speaking - found)
        yield Unconverged("sessions", where, f"has some of {more} that should have ended, and none of {less}")


def _replicas(
    where: str, state: RegionState, uid: int, assignment: Assignment, *, stays: bool
) -> Iterator[Unconverged]:
    """Check the number of slots of each template against the assignment, without finished ordinals. While new slots are
    pending, old ones serve and a surge of at most the disruption budget is allowed. With `stays`, identities whose
    budget is used up may serve with an older template."""
    asked = {share.template: share.count for share in assignment.shares if assignment.stage is ACTIVE and share.count}
    size = assignment.gang.size if assignment.gang is not None else 1
    for row in state.finished.get(uid) or ():
        over = sum(after - first for first, after in (*row.done, *row.failed))
        over += failed_with_gang(row, size)
        asked[row.template] = max(0, asked.get(row.template, 0) - over)
    slots = [slot for slot in state.slots.values() if slot.assignment == uid]
    there = Counter(slot.template for slot in slots)
    if there == Counter(asked) or (stays and len(slots) == sum(asked.values())):
        named = {ordinal for first, after in assignment.ordinals for ordinal in range(first, after)}
        if assignment.exclusive and named != {slot.ordinal for slot in slots}:
            yield Unconverged("replicas", f"{where} assignment {uid}", f"has other ordinals than {sorted(named)}")
        return
    wanted, subject = sum(asked.values()), f"{where} assignment {uid}"
    surge = 0 if assignment.exclusive else max(size, assignment.disruption)
    detail = f"has {len(slots)} slots, {wanted} are required"
    leaving = [slot for slot in slots if slot.phase in (Phase.TERMINATING, Phase.UNKNOWN)]
    if len(slots) < wanted or len(slots) - len(leaving) > wanted + surge:
        yield Unconverged("replicas", subject, detail, PROMPT_MS)
    elif leaving or not any(slot.phase is Phase.PENDING for slot in slots):
        # The longest time without a change: a rollout of many replicas takes longer, but changes in between.
        told = ", ".join(f"{count} of {template[:8]}" for template, count in sorted(there.items()))
        promise = "rolled" if there.keys() - asked.keys() else "replicas"
        yield Unconverged(promise, f"{subject} with {told}", detail, STEP_MS)


def _slots(scene: SimulatedCluster, where: str, state: RegionState, oracle: PlacementOracle) -> Iterator[Unconverged]:
    """Check that every slot serves, or waits for a true reason."""
    for slot in state.slots.values():
        subject = f"{where} slot {slot.workload}/{slot.ordinal}"
        if slot.phase is Phase.SERVING:
            continue
        if slot.phase is not Phase.PENDING:
            serves = not state.assignments[slot.assignment].batch
            answers = serves and slot.phase is Phase.READY and _answers(scene, state, slot)
            detail = f"is {slot.phase} since {slot.since} by {slot.by} for {slot.cause!r}"
            within = ENDING_MS if slot.phase is Phase.TERMINATING else PROMPT_MS if answers else 0
            named = f"{subject} {slot.phase}" if within else subject
            yield Unconverged("served" if answers else "runs", named, detail, within)
            continue
        verdict, told = oracle.verdict(slot), _told(state, slot)
        if verdict.node:
            yield Unconverged(
                "placed", subject, f"waits for {told or 'nothing'}, but {verdict.node} would accept it", PROMPT_MS
            )
        elif told not in verdict.shut:
            yield Unconverged(
                "reason-true", subject, f"waits for {told!r}, but is excluded by {sorted(verdict.shut)}", PROMPT_MS
            )


def _told(state: RegionState, slot: Slot) -> str:
    """Return the reported reason code of a pending slot; empty: none is reported."""
    requests = [one for one in state.requests.get(slot.assignment) or () if one.template == slot.template]
    return next((one.reasons[0].code for one in requests if one.reasons), "")


def _answers(scene: SimulatedCluster, state: RegionState, slot: Slot) -> bool:
    return scene.metals[state.nodes[slot.node].name].answers((slot.workload, slot.ordinal), slot.epoch)
