"""Sessions in a region: the end of an agent's session also changes its node and starts its fence.

The change of the node is an event of its own, with the node's watch key.
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
    """Open a session. An older session of the same principal ends in the same commit."""
    return _with_node(state, sessions.open_session(state, command, ctx), ctx)


def end_session(state: RegionState, command: sessions.EndSession, ctx: CommandContext) -> Accepted | Refused:
    """End a session. Node health and the ledger may end any session, a machine only its own."""
    return _with_node(state, sessions.end_session(state, command, ctx), ctx)


def _with_node(state: RegionState, answer: Accepted | Refused, ctx: CommandContext) -> Accepted | Refused:
    """Add to the answer the agent's node as the end of its session leaves it."""
    if isinstance(answer, Refused):
        return answer
    ended = next((event for event in answer.events if isinstance(event, sessions.SessionEnded)), None)
    if ended is None or not ended.principal.startswith("agent/"):
        return answer
    node = state.nodes.get(state.node_names.get(ended.principal.removeprefix("agent/")) or 0)
    if node is None:
        return answer
    # An agent that did not register its node in this session may still have runs there: count from here.
    session = 0 if node.session == ended.session else node.session
    fence = _fence_of(state, ended.session, node, ctx)
    after = replace(node, session=session, session_ended=ctx.at, fence=fence, revision=ctx.revision)
    return Accepted((*answer.events, NodeStored(after)), answer.answer)


def _fence_of(state: RegionState, session: Revision, node: Node, ctx: CommandContext) -> Duration:
    """Return the fence time from the end of this session, or an earlier session's unexpired fence time, if longer.

    A session opened in a log of level 1 does not store its fence time: it uses the current setting.
    """
    earlier = 0 if is_past(state, node, ctx.at) else node.fence
    return max(earlier, state.sessions[session].fence or state.info.settings.fence_time)


def configure(state: RegionState, command: log.Configure, ctx: CommandContext) -> Accepted | Refused:
    """Refuse settings that contradict the region's promises, beyond the built-in checks.

    - a grace below the platform's, by which exclusive work is admitted
    - a shorter fence time, while a fence of unknown length runs
    - longer times than those for which the platform waits, if it may have to
    - a session lease that some agent cannot keep
    """
    grace, least = command.settings.grace, state.region.grace
    if grace < least:
        message = f"a grace of {grace} ms is below the platform's, which admits work here: lower that first"
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
    """Refuse longer times while identities are leased to this region.

    The platform reassigns a leased right after the times with which the region joined. Agents use longer times at once,
    but a region that is cut off cannot report them. So they may grow only while no leased identity is here.
    """
    now, then = outlasting(state.info.settings), outlasting(settings)
    if then <= now:
        return None
    rows = (row for _, row in state.assignments.unordered() if row.right_until)
    leased = [row.uid for row in rows if row.ordinals or row.returning or has_slots(state, row.uid)]
    if not leased:
        return None
    first = state.assignments[min(leased)]
    message = (
        f"identities of {first.tenant}/{first.workload_name} are leased to this region, and the platform waits "
        f"{now} ms after their end; two session leases and the fence time would be {then} ms: move them elsewhere first"
    )
    facts = {"assignments": len(leased), "outlasting": then, "most": now}
    return Refused(Code.CONTRADICTORY, message, facts)


def _refuse_overrun(state: RegionState, settings: Settings) -> Refused | None:
    """Refuse a longer lease while an agent with an earlier grace would end exclusive work after its fence."""
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
                f"{node.name} has exclusive work, which its agent ends {node.overrun} ms after its lease: raise the "
                "fence time with the lease, or lower the grace first and wait until agents use it"
            )
            return Refused(Code.CONTRADICTORY, message, {"node": node.name, "overrun": node.overrun})
    return None


def _refuse_shorter(state: RegionState, ctx: CommandContext) -> Refused | None:
    """Refuse a shorter fence time while fences from level 1 run: their length is that of the setting."""
    if state.info.level < 2:
        message = "below level 2 this log does not store the agents' fence times: raise its level first"
        return Refused(Code.LEVEL, message, {"level": state.info.level})
    running = [fenced_at(state, node) for node in state.nodes.values() if node.session_ended and not node.fence]
    until = max(running, default=0)
    if ctx.at < until:
        message = f"a fence from before the level was raised runs until {until}: try again then"
        return Refused(Code.TOO_EARLY, message, {"until": until})
    return None
