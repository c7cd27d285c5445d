"""Time of a fence: after it nothing of an ended session can run (RULES 24).

    session ended ──────── fence time ────────▶ passed                           in one term
    session ended ──╳── term started ──────── fence time ────────▶ passed        after a change of leader

Ledger time is steady within a term, but may jump between two, by the lead of the next leader's clock. The time from a
session's end to the present term may thus have lasted no time at all. So only time in this term counts: the last leader
waits a complete fence time, which costs time and no safety. The fence time is the session's: an agent uses the settings
received there, whatever the settings are now.
"""

from __future__ import annotations

from holdfast.core.ledger.answers import Code
from holdfast.core.model.records.nodes import Node
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.settings import Settings, with_drift
from holdfast.core.model.values.structs import Duration, Instant
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.state.tables import RegionState


def fenced_at(state: RegionState, node: Node, since: Instant = 0) -> Instant:
    """Return when nothing of the node's last ended session runs any more; `since` is a later time to count from."""
    return max(node.session_ended, since, state.info.term_at) + (node.fence or state.info.settings.fence_time)


def is_past(state: RegionState, node: Node, at: Instant) -> bool:
    """Return whether the fence of the node's last ended session has passed."""
    return at >= fenced_at(state, node)


def longest(state: RegionState, at: Instant) -> Duration:
    """Return the longest fence time in force: of the settings, a session, or a fence that has not passed. It bounds the
    wait for the end of everything that runs here."""
    sessions = (session.fence for _, session in state.sessions.unordered())
    running = (node.fence for _, node in state.nodes.unordered() if not is_past(state, node, at))
    return max((state.info.settings.fence_time, *sessions, *running))


def is_of_this_machine(node: Node, slot: Slot) -> bool:
    """Return whether the node's agent is on the machine, in the same boot, that got the slot or last reported it.

    Only then can it report what became of the run (RULES 23): another machine finds nothing, which proves nothing. The
    slot stores no machine, but the revision of its binding or of its agent's last report. Without machine or boot id,
    and in a log of level 1, every session may be on another machine.
    """
    is_named = node.machine.id and node.machine.boot
    return slot.reported > (node.machine_since if is_named else max(node.machine_since, node.session))


def overrun_max(settings: Settings) -> Duration:
    """Return how long exclusive work may at most outlive its lease, for the fence to be safe."""
    return settings.fence_time - with_drift(settings.session_lease, settings)


def why_unfenced(node: Node, settings: Settings) -> Infeasible | None:
    """Refuse a node on which exclusive work would outlive its fence: its agent does not keep the region's times."""
    most = overrun_max(settings)
    if node.overrun <= most:
        return None
    why = f"its agent ends exclusive work {node.overrun} ms after its lease, and the fence allows for {most} ms"
    return Infeasible(Code.NODE_UNAVAILABLE, why)
