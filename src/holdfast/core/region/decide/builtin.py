"""Sessions in a region: when an agent's life ends its node takes no new work, and its fences are counted from there.

What that means for the node is an event of its own, so that whoever watches the node is told.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.builtin import log, sessions
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.records.node_usage import EMPTY_USAGE, slot_keys
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.values.settings import Settings, outlasting, with_drift
from holdfast.core.model.values.structs import Duration, Revision
from holdfast.core.region.events import NodeStored
from holdfast.core.region.queries.fence import fenced_at, is_past
from holdfast.core.region.state.slot_kinds import has_slots
from holdfast.core.region.state.tables import RegionState


def open_session(state: RegionState, command: sessions.OpenSession, ctx: CommandContext) -> Accepted | Refused:
    """One life at a time: the older session of the same name ends in the same commit."""
    return _with_node(state, sessions.open_session(state, command, ctx), ctx)


def end_session(state: RegionState, command: sessions.EndSession, ctx: CommandContext) -> Accepted | Refused:
    """Node health and the ledger may end any session, a machine only its own."""
    return _with_node(state, sessions.end_session(state, command, ctx), ctx)


def _with_node(state: RegionState, answer: Accepted | Refused, ctx: CommandContext) -> Accepted | Refused:
    """The answer, and the node of the agent whose session ends in it as that leaves it."""
    if isinstance(answer, Refused):
        return answer
    ended = next((event for event in answer.events if isinstance(event, sessions.SessionEnded)), None)
    if ended is None or not ended.principal.startswith("agent/"):
        return answer
    node = state.nodes.get(state.node_names.get(ended.principal.removeprefix("agent/")) or 0)
    if node is None:
        return answer
    # An agent that never registered its node in this session may still have kept what ran there: count from here.
    session = 0 if node.session == ended.session else node.session
    fence = _fence_of(state, ended.session, node, ctx)
    after = replace(node, session=session, session_ended=ctx.at, fence=fence, revision=ctx.revision)
    return Accepted((*answer.events, NodeStored(after)), answer.answer)


def _fence_of(state: RegionState, session: Revision, node: Node, ctx: CommandContext) -> Duration:
    """The fence time that counts from the end of this session: of an earlier one whose fence is not past, if longer.

    A session that began in a log of level 1 does not know its own: it has been told those that are in force.
    """
    earlier = 0 if is_past(state, node, ctx.at) else node.fence
    return max(earlier, state.sessions[session].fence or state.info.settings.fence_time)


def configure(state: RegionState, command: log.Configure, ctx: CommandContext) -> Accepted | Refused:
    """Beside what is unsafe in itself: a grace below the platform's, with which exclusive work is admitted; a lower
    fence time while one runs of which it is not kept how long it is; longer times than the platform waits for where it
    may have to; a lease with which an agent could not keep it."""
    grace, least = command.settings.grace, state.region.grace
    if grace < least:
        message = f"a grace of {grace} ms is below the platform's, by which work is admitted here: lower that first"
        return Refused(Code.CONTRADICTORY, message, {"grace": grace, "least": least})
    if command.settings.fence_time < state.info.settings.fence_time:
        refused = _refuse_shorter(state, ctx)
        if refused is not None:
            return refused
    return (
        _refuse_unreported(state, command.settings)
        or _refuse_overrun(state, command.settings)
        or log.configure(state, command, ctx)
    )


def _refuse_unreported(state: RegionState, settings: Settings) -> Refused | None:
    """The platform gives a leased right away by the times with which this region has joined. Agents go by longer ones
    at once, and a region that is cut off then cannot tell it: it raises them while nothing here runs by a lease."""
    now, then = outlasting(state.info.settings), outlasting(settings)
    if then <= now:
        return None
    rows = (row for _, row in state.assignments.unordered() if row.right_until)
    leased = [row.uid for row in rows if row.ordinals or row.returning or has_slots(state, row.uid)]
    if not leased:
        return None
    first = state.assignments[min(leased)]
    message = (
        f"identities of {first.tenant}/{first.workload_name} are leased to this region, and the platform waits for "
        f"{now} ms after their end; two session leases and the fence time would be {then} ms: move them elsewhere first"
    )
    facts = {"assignments": len(leased), "outlasting": then, "most": now}
    return Refused(Code.CONTRADICTORY, message, facts)


def _refuse_overrun(state: RegionState, settings: Settings) -> Refused | None:
    """With a longer lease an agent that goes by an earlier grace would end what it has after the fence."""
    lease = with_drift(settings.session_lease, settings)
    if lease <= with_drift(state.info.settings.session_lease, state.info.settings):
        return None
    for node in state.nodes.values():
        session = state.sessions.get(node.session)
        if session is None or lease + node.overrun <= max(session.fence, settings.fence_time):
            continue
        slots = (state.slots[key] for key in slot_keys(state.node_usage.get(node.uid) or EMPTY_USAGE))
        if any(state.assignments[slot.assignment].exclusive for slot in slots):
            message = (
                f"{node.name} has exclusive work, and its agent ends that {node.overrun} ms after its lease: raise the "
                "fence time with the lease, or lower the grace first, until agents keep it"
            )
            return Refused(Code.CONTRADICTORY, message, {"node": node.name, "overrun": node.overrun})
    return None


def _refuse_shorter(state: RegionState, ctx: CommandContext) -> Refused | None:
    """Fences that began at level 1 are as long as the settings say: a lower number would end them before their time."""
    if state.info.level < 2:
        message = "below level 2 it is not kept by which fence time agents act: raise the level of this log first"
        return Refused(Code.LEVEL, message, {"level": state.info.level})
    running = [fenced_at(state, node) for node in state.nodes.values() if node.session_ended and not node.fence]
    until = max(running, default=0)
    if ctx.at < until:
        message = f"a fence runs until {until} by the present time, from before the level of this log was raised"
        return Refused(Code.TOO_EARLY, message, {"until": until})
    return None
