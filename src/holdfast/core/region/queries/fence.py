"""When a fence is past: nothing that an agent held in an ended session can run any more (RULES 24).

    session ended ──────── fence time ────────▶ past                    in one term
    session ended ──╳── term started ──────── fence time ────────▶ past  after a change of leader

Ledger time runs evenly within a term and may leap between two, by as much as the next leader's clock is ahead: what
lies between a session's end and the start of the present term may have lasted no time at all. So only what this term
has seen pass counts. However many leaders come, and however far each of their clocks is ahead, the last of them waits a
whole fence time by itself; that others waited before it costs time and no safety. The fence time is that of the
session: an agent acts by the numbers that it was given there, whatever the settings are now.
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
    """From when on nothing of the node's last ended session runs; `since` is a later time to count from."""
    return max(node.session_ended, since, state.info.term_at) + (node.fence or state.info.settings.fence_time)


def is_past(state: RegionState, node: Node, at: Instant) -> bool:
    """Whether the fence of the node's last ended session is past."""
    return at >= fenced_at(state, node)


def longest(state: RegionState, at: Instant) -> Duration:
    """The longest fence time that counts here now: of the settings, of a session, or of a fence that is not past. Who
    waits for all that runs here to have ended waits for that one."""
    sessions = (session.fence for _, session in state.sessions.unordered())
    running = (node.fence for _, node in state.nodes.unordered() if not is_past(state, node, at))
    return max((state.info.settings.fence_time, *sessions, *running))


def is_of_this_machine(node: Node, slot: Slot) -> bool:
    """Whether the machine that the node's agent runs on, in this life of it, was given the slot or spoke of it last.

    Only then can it tell what became of its process (RULES 23): another one finds nothing, and that says nothing. The
    slot keeps no name of a machine: the revision of its binding, or of its agent's last word, tells under which it was.
    Of an agent that names no machine or no life of it, and in logs of level 1, nobody knows that it is the same one as
    in another session.
    """
    is_named = node.machine.id and node.machine.boot
    return slot.reported > (node.machine_since if is_named else max(node.machine_since, node.session))


def overrun_max(settings: Settings) -> Duration:
    """For how long at most what is exclusive may live on after its lease, for the fence to be one."""
    return settings.fence_time - with_drift(settings.session_lease, settings)


def why_unfenced(node: Node, settings: Settings) -> Infeasible | None:
    """Whether exclusive work would outlive its fence there: the agent does not keep the region's times."""
    most = overrun_max(settings)
    if node.overrun <= most:
        return None
    why = f"its agent ends exclusive work {node.overrun} ms after its lease, and the fence allows for {most} ms"
    return Infeasible(Code.NODE_UNAVAILABLE, why)
