"""Move: every edge that neither places nor stops, by its one owner.

The edge table names the owner of each edge. In addition, a move names its binding epoch. An agent moves slots of its
own node in its present session. A successor starts once its victims have ended. Repair waits for the fence.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.ledger.partial import RefusedPart, partial_answer, wrong_count
from holdfast.core.model.objects.workloads import restarts_allowed
from holdfast.core.model.records.lifecycle import EDGE_BY_KEY, Phase, PhaseEdge
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region.commands import Move, MoveSlot
from holdfast.core.region.decide.reservations import finish_events, release_of
from holdfast.core.region.events import OrdinalsFinished, SlotMove, SlotRelease, SlotsMoved, SlotsReleased
from holdfast.core.region.limits import DETAIL_MAX
from holdfast.core.region.queries.assignments import may_start
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.queries.fence import fenced_at, is_of_this_machine, why_unfenced
from holdfast.core.region.queries.gates import REPAIR, refuse_repair
from holdfast.core.region.state.node_usage import remaining_victims
from holdfast.core.region.state.tables import RegionState

#: Target phases that other commands commit; Move refuses them.
_BY_OTHER_COMMANDS = (Phase.RESERVED, Phase.BOUND, Phase.TERMINATING, Phase.PENDING)


def move(state: RegionState, command: Move, ctx: CommandContext) -> Accepted | Refused:
    """Move slots, each decided alone."""
    refused = wrong_count(len(command.moves))
    if refused is not None:
        return refused
    moves: list[SlotMove] = []
    releases: list[SlotRelease] = []
    ended: list[tuple[Slot, str]] = []
    lost: list[RefusedPart] = []
    seen: set[SlotKey] = set()
    pause = refuse_repair(active_overrides(state, ctx.at)) if ctx.actor == REPAIR else None
    for index, one in enumerate(command.moves):
        slot = state.slots.get(one.slot)
        misfit = _refuse(state, ctx, one, slot, pause, repeated=one.slot in seen)
        if misfit is not None or slot is None:
            code, detail = misfit or (Code.NOT_FOUND, "no such slot")
            lost.append(RefusedPart(0, index, code, f"slot {one.slot}: {detail}"))
            continue
        seen.add(one.slot)
        if one.target is Phase.RELEASED:
            releases.append(release_of(state, slot, one.cause, one.detail))
            ended.append((slot, one.cause))
        else:
            moves.append(SlotMove(one.slot, slot.node, one.target, one.cause, one.detail))
    events: list[SlotsMoved | SlotsReleased | OrdinalsFinished] = []
    if moves:
        events.append(SlotsMoved(tuple(moves)))
    if releases:
        events += [SlotsReleased(tuple(releases)), *finish_events(state, ended)]
    return partial_answer(tuple(events), lost, ctx.envelope.view)


def _refuse(
    state: RegionState,
    ctx: CommandContext,
    one: MoveSlot,
    slot: Slot | None,
    pause: Infeasible | None,
    *,
    repeated: bool,
) -> Infeasible | None:
    if slot is None:
        return Infeasible(Code.NOT_FOUND, "no such slot")
    edge = EDGE_BY_KEY.get((slot.phase, one.target, one.cause))
    if edge is None or one.target in _BY_OTHER_COMMANDS or repeated or not slot.node:
        return Infeasible(Code.WRONG_PHASE, f"is {slot.phase}: no edge to {one.target} by {one.cause}")
    if len(one.detail) > DETAIL_MAX or not one.detail.isprintable():
        return Infeasible(Code.MALFORMED, f"a detail is one line of at most {DETAIL_MAX} characters")
    if slot.epoch != one.epoch:
        return Infeasible(Code.STALE, f"has binding epoch {slot.epoch}, not {one.epoch}")
    if edge.owner not in (ctx.actor, ctx.kind):
        return Infeasible(Code.NOT_OWNER, f"{edge.owner} owns {edge.source} -> {edge.target} by {edge.cause}")
    if pause is not None:
        return pause
    node = state.nodes[slot.node]
    if edge.owner == "agent":
        return _refuse_agent(state, ctx, edge, slot, node)
    if edge.cause == "fenced":
        return _refuse_fence(state, ctx, slot, node)
    if edge.cause == "session-ended":
        return _refuse_unknown(slot, node)
    return None


def _refuse_unknown(slot: Slot, node: Node) -> Infeasible | None:
    """Refuse `unknown` for a slot whose agent still has its session, and for a fenced slot, which has surely ended."""
    if slot.cause == "fenced":
        return Infeasible(Code.WRONG_PHASE, "was fenced: its run has ended")
    if node.session and slot.reported > node.session:
        return Infeasible(Code.TOO_EARLY, f"the agent of {node.name} has session {node.session}")
    return None


def _refuse_agent(
    state: RegionState, ctx: CommandContext, edge: PhaseEdge, slot: Slot, node: Node
) -> Infeasible | None:
    if ctx.actor != f"agent/{node.name}" or ctx.envelope.session != node.session:
        return Infeasible(Code.NOT_OWNER, f"it is on {node.name}, whose session is {node.session}")
    if edge.target in (Phase.STARTING, Phase.RUNNING) and slot.waits_for and remaining_victims(state, slot):
        return Infeasible(Code.TOO_EARLY, "its victims must end first")
    assignment = state.assignments[slot.assignment]
    if assignment.exclusive and edge.cause != "collected":
        misfit = _refuse_report(state, ctx, edge, slot, node)
        if misfit is not None:
            return misfit
    if edge.cause == "restarted" and not may_start(state, assignment, ctx.at):
        return Infeasible(Code.NOT_ASSIGNED, "this region's right to it has lapsed, or was not shipped in this term")
    if edge.cause == "restarted" and slot.restarts >= restarts_allowed(state.templates[slot.template]):
        return Infeasible(Code.CONTRADICTORY, f"was restarted {slot.restarts} times, its policy's limit")
    if edge.cause == "completed" and not assignment.batch:
        return Infeasible(Code.CONTRADICTORY, "only batch work completes, and it is not batch work")
    return None


def _refuse_report(
    state: RegionState, ctx: CommandContext, edge: PhaseEdge, slot: Slot, node: Node
) -> Infeasible | None:
    """Check an agent's report about an exclusive run. `found-again` counts only before the fence, and if the agent can
    end the run in time. Any other report counts from the machine that had the run, or after the fence."""
    deadline = fenced_at(state, node)
    if edge.cause == "found-again":
        if ctx.at >= deadline:
            return Infeasible(Code.FENCE, f"its fence expired at {deadline}: it may not be adopted")
        misfit = why_unfenced(node, state.info.settings)
        return None if misfit is None else Infeasible(Code.FENCE, misfit.detail)
    if ctx.at < deadline and not is_of_this_machine(node, slot):
        return Infeasible(Code.FENCE, f"another machine, or an earlier boot, had it: its fence expires at {deadline}")
    return None


def _refuse_fence(state: RegionState, ctx: CommandContext, slot: Slot, node: Node) -> Infeasible | None:
    """Check repair of a slot whose agent's session ended: only after the fence of that session.

    An agent with a new session from before the fence may have adopted the run: then only its own report counts.
    """
    if slot.phase is Phase.FAILED and slot.cause == "fenced":
        return None
    deadline = fenced_at(state, node)
    if ctx.at < deadline:
        return Infeasible(Code.FENCE, f"its fence expires at {deadline}, and the time is {ctx.at}")
    session = state.sessions.get(state.session_of.get(f"agent/{node.name}") or 0)
    if session is not None and (session.opened < deadline or slot.reported > session.uid):
        return Infeasible(Code.FENCE, f"the agent of {node.name} has a session, may have adopted it, and must report")
    return None
