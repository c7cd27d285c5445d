"""Breaches that a fact opens, and their end."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused, not_found
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.commands import CloseBreach
from holdfast.core.region.events import BreachOpened, RegionBreachClosed
from holdfast.core.region.queries.breaches import Overshoots, breach_object, overshoot_now, overshoots_of
from holdfast.core.region.state.tables import RegionState


def breach_events(state: RegionState, found: Overshoots, at: Instant) -> list[BreachOpened]:
    """Return a breach for each overshoot that is new or has grown. A grown breach keeps its deadline. An overshoot that
    was cured, with its breach not closed yet, opens a new one."""
    events = []
    now: dict[str, Overshoots] = {}  # Each object is checked once, however many breaches it has.
    for (invariant, key), overshoot in sorted(found.items()):
        known = state.breaches.get((invariant, key))
        if known is not None and breach_object(key) not in now:
            now[breach_object(key)] = overshoots_of(state, key)
        if known is None or not now[breach_object(key)].get((invariant, key)):
            deadline = at + state.info.settings.breach_deadline
            events.append(BreachOpened(Breach(invariant, key, overshoot, "controller/repair", at, deadline)))
        elif known.overshoot < overshoot:
            events.append(BreachOpened(replace(known, overshoot=overshoot)))
    return events


def close_breach(state: RegionState, command: CloseBreach, ctx: CommandContext) -> Accepted | Refused:
    """Close a breach only once its overshoot is gone."""
    if (command.invariant, command.key) not in state.breaches:
        return not_found("breach", f"{command.invariant} of {command.key}")
    left = overshoot_now(state, command.invariant, command.key)
    if left:
        return Refused(Code.TOO_EARLY, f"{command.key} still has an overshoot of {left}", {"overshoot": left})
    return Accepted((RegionBreachClosed(command.invariant, command.key),))
