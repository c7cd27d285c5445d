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

from holdfast.core.ledger import house
from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.registry import Case
from holdfast.core.model.placement import EMPTY_ROOM, Slot, standing
from holdfast.core.model.settings import Settings, drifted, outlasting
from holdfast.core.model.shapes import Duration, Instant
from holdfast.core.model.topology import Node
from holdfast.core.region.feasible import Misfit
from holdfast.core.region.kinds import has_slots
from holdfast.core.region.state import RegionState


def falls_at(state: RegionState, node: Node, since: Instant = 0) -> Instant:
    """From when on nothing of the node's last ended session runs; `since` is a later time to count from."""
    return max(node.session_ended, since, state.facts.term_at) + (node.fence or state.facts.settings.fence_time)


def is_past(state: RegionState, node: Node, at: Instant) -> bool:
    """Whether the fence of the node's last ended session is past."""
    return at >= falls_at(state, node)


def longest(state: RegionState, at: Instant) -> Duration:
    """The longest fence time that counts here now: of the settings, of a session, or of a fence that is not past. Who
    waits for all that runs here to have ended waits for that one."""
    sessions = (session.fence for _, session in state.sessions.unordered())
    running = (node.fence for _, node in state.nodes.unordered() if not is_past(state, node, at))
    return max((state.facts.settings.fence_time, *sessions, *running))


def configure(state: RegionState, command: house.Configure, case: Case) -> Accepted | Refused:
    """Beside what is unsafe in itself: a grace below the platform's, with which exclusive work is admitted; a lower
    fence time while one runs of which it is not kept how long it is; longer times than the platform waits for where it
    may have to; a lease with which an agent could not keep it."""
    grace, least = command.settings.grace, state.place.grace
    if grace < least:
        message = f"a grace of {grace} ms is below the platform's, by which work is admitted here: lower that first"
        return Refused(Code.CONTRADICTORY, message, {"grace": grace, "least": least})
    if command.settings.fence_time < state.facts.settings.fence_time:
        refused = _refuse_shorter(state, case)
        if refused is not None:
            return refused
    return (
        _refuse_untold(state, command.settings)
        or _refuse_overrun(state, command.settings)
        or house.configure(state, command, case)
    )


def _refuse_untold(state: RegionState, settings: Settings) -> Refused | None:
    """The platform gives a leased right away by the times with which this region has joined. Agents go by longer ones
    at once, and a region that is cut off then cannot tell it: it raises them while nothing here runs by a lease."""
    now, then = outlasting(state.facts.settings), outlasting(settings)
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
    lease = drifted(settings.session_lease, settings)
    if lease <= drifted(state.facts.settings.session_lease, state.facts.settings):
        return None
    for node in state.nodes.values():
        session = state.sessions.get(node.session)
        if session is None or lease + node.overrun <= max(session.fence, settings.fence_time):
            continue
        slots = (state.slots[key] for key in standing(state.rooms.get(node.uid) or EMPTY_ROOM))
        if any(state.assignments[slot.assignment].exclusive for slot in slots):
            message = (
                f"{node.name} has exclusive work, and its agent ends that {node.overrun} ms after its lease: raise the "
                "fence time with the lease, or lower the grace first, until agents keep it"
            )
            return Refused(Code.CONTRADICTORY, message, {"node": node.name, "overrun": node.overrun})
    return None


def _refuse_shorter(state: RegionState, case: Case) -> Refused | None:
    """Fences that began at level 1 are as long as the settings say: a lower number would end them before their time."""
    if state.facts.level < 2:
        message = "below level 2 it is not kept by which fence time agents act: raise the level of this log first"
        return Refused(Code.LEVEL, message, {"level": state.facts.level})
    running = [falls_at(state, node) for node in state.nodes.values() if node.session_ended and not node.fence]
    until = max(running, default=0)
    if case.at < until:
        message = f"a fence runs until {until} by the present time, from before the level of this log was raised"
        return Refused(Code.TOO_EARLY, message, {"until": until})
    return None


def is_of_this_machine(node: Node, slot: Slot) -> bool:
    """Whether the machine that the node's agent runs on, in this life of it, was given the slot or spoke of it last.

    Only then can it tell what became of its process (RULES 23): another one finds nothing, and that says nothing. The
    slot keeps no name of a machine: the revision of its binding, or of its agent's last word, tells under which it was.
    Of an agent that names no machine or no life of it, and in logs of level 1, nobody knows that it is the same one as
    in another session.
    """
    is_named = node.machine.id and node.machine.boot
    return slot.reported > (node.machine_since if is_named else max(node.machine_since, node.session))


def overrun_most(settings: Settings) -> Duration:
    """For how long at most what is exclusive may live on after its lease, for the fence to be one."""
    return settings.fence_time - drifted(settings.session_lease, settings)


def unfenced(node: Node, settings: Settings) -> Misfit | None:
    """Whether exclusive work would outlive its fence there: the agent does not keep the region's times."""
    most = overrun_most(settings)
    if node.overrun <= most:
        return None
    why = f"its agent ends exclusive work {node.overrun} ms after its lease, and the fence allows for {most} ms"
    return Misfit(Code.NODE_UNAVAILABLE, why)
