"""When a fence is past: nothing that an agent held in an ended session can run any more (RULES 24).

    session ended ──────── fence time ────────▶ past                    in one term
    session ended ──╳── term started ──────── fence time ────────▶ past  after a change of leader

Ledger time runs evenly within a term and may leap between two, by as much as the next leader's clock is ahead: what
lies between a session's end and the start of the present term may have lasted no time at all. So only what this term
has seen pass counts. However many leaders come, and however far each of their clocks is ahead, the last of them waits a
whole fence time by itself; that others waited before it costs time and no safety.
"""

from __future__ import annotations

from holdfast.core.model.shapes import Instant
from holdfast.core.model.topology import Node
from holdfast.core.region.state import RegionState


def falls_at(state: RegionState, node: Node, since: Instant = 0) -> Instant:
    """From when on nothing of the node's last ended session runs; `since` is a later time to count from."""
    return max(node.session_ended, since, state.facts.term_at) + state.facts.settings.fence_time


def is_past(state: RegionState, node: Node, at: Instant) -> bool:
    """Whether the fence of the node's last ended session is past."""
    return at >= falls_at(state, node)
