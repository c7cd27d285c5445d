"""Sessions in a region: when an agent's life ends its node takes no new work, and its fences are counted from there.

What that means for the node is an event of its own, so that whoever watches the node is told.
"""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger import house
from holdfast.core.ledger.answers import Accepted, Refused
from holdfast.core.ledger.registry import Case
from holdfast.core.model.shapes import Duration, Revision
from holdfast.core.model.topology import Node
from holdfast.core.region.events import NodeStored
from holdfast.core.region.fence import is_past
from holdfast.core.region.state import RegionState


def open_session(state: RegionState, command: house.OpenSession, case: Case) -> Accepted | Refused:
    """One life at a time: the older session of the same name ends in the same commit."""
    return _with_node(state, house.open_session(state, command, case), case)


def end_session(state: RegionState, command: house.EndSession, case: Case) -> Accepted | Refused:
    """Node health and the ledger may end any session, a machine only its own."""
    return _with_node(state, house.end_session(state, command, case), case)


def _with_node(state: RegionState, answer: Accepted | Refused, case: Case) -> Accepted | Refused:
    """The answer, and the node of the agent whose session ends in it as that leaves it."""
    if isinstance(answer, Refused):
        return answer
    ended = next((event for event in answer.events if isinstance(event, house.SessionEnded)), None)
    if ended is None or not ended.principal.startswith("agent/"):
        return answer
    node = state.nodes.get(state.node_names.get(ended.principal.removeprefix("agent/")) or 0)
    if node is None:
        return answer
    # An agent that never registered its node in this session may still have kept what ran there: count from here.
    session = 0 if node.session == ended.session else node.session
    fence = _fence_of(state, ended.session, node, case)
    after = replace(node, session=session, session_ended=case.at, fence=fence, revision=case.revision)
    return Accepted((*answer.events, NodeStored(after)), answer.answer)


def _fence_of(state: RegionState, session: Revision, node: Node, case: Case) -> Duration:
    """The fence time that counts from the end of this session: of an earlier one whose fence is not past, if longer.

    A session that began in a log of level 1 does not know its own: it has been told those that are in force.
    """
    earlier = 0 if is_past(state, node, case.at) else node.fence
    return max(earlier, state.sessions[session].fence or state.facts.settings.fence_time)
