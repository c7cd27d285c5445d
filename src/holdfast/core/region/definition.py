"""A region's ledger put together: one rule per command, one function per event, the invariants, the readers."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import log, overrides, registry
from holdfast.core.ledger.builtin import sessions as builtin_sessions
from holdfast.core.ledger.codec import BatchReader, EnvelopeReader
from holdfast.core.ledger.commit.definition import Book
from holdfast.core.ledger.commit.rules import Lane, Rule
from holdfast.core.region import commands as c
from holdfast.core.region import subjects
from holdfast.core.region.decide import (
    breaches,
    builtin,
    holds,
    nodes,
    proposals,
    reservations,
    shipments,
    slots,
    stops,
    transitions,
)
from holdfast.core.region.decide.coalesced_proposals import ProposalsInARow
from holdfast.core.region.events import RegionEvent
from holdfast.core.region.invariants.catalog import INVARIANTS
from holdfast.core.region.queries.gates import REPAIR
from holdfast.core.region.state.evolve import APPLY
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import KEYS, KINDS

_MOVERS = ("agent", "controller/endpoints", "controller/node-health", "controller/repair")
#: Schedulers in processes of their own, and the one beside the leader.
_SCHEDULERS = ("scheduler", "controller/scheduler")
_STOPPERS = (
    "controller/rollout", "controller/replica", "controller/drain", "scheduler", "controller/rebalance",
    "controller/evacuation", "controller/failback", "controller/repair", "controller/rights", "controller/grant",
    "controller/provisional",
)  # fmt: skip

_OWN: tuple[Rule[Any], ...] = (
    Rule(c.RegisterNode, nodes.register_node, ("agent",), Lane.REPORTS, "a node can take work", "RemoveNode once drained; what a smaller node breaks is opened as a breach for repair"),
    Rule(c.ReportNode, nodes.report_node, ("agent",), Lane.REPORTS, "a node ranks better or worse for new work", "the next report"),
    Rule(c.AdministerNode, nodes.administer_node, ("person",), Lane.OPERATORS, "a node takes other work, or none", "AdministerNode with what was before; what it breaks is a breach for repair", subject=subjects.of_node),
    Rule(c.JudgeNode, nodes.judge_node, ("controller/node-health",), Lane.REPORTS, "a node takes no work, or takes it again", "JudgeNode once its agent speaks again"),
    Rule(c.RemoveNode, nodes.remove_node, ("person", "controller/node-health"), Lane.OPERATORS, "a node is gone", "RegisterNode, under a new uid", subject=subjects.of_node),
    Rule(c.OpenSlots, slots.open_slots, ("controller/replica",), Lane.RECONCILERS, "ordinals wait to be placed", "WithdrawSlots", subject=subjects.of_slots),
    Rule(c.WithdrawSlots, slots.withdraw_slots, ("controller/replica",), Lane.RECONCILERS, "ordinals are wanted no more", "OpenSlots", subject=subjects.of_slots),
    Rule(c.ForgetAssignment, slots.forget_assignment, ("controller/link",), Lane.RECONCILERS, "an ended assignment is gone here", "Ship, when the platform assigns again"),
    Rule(c.AdoptSlots, slots.adopt_slots, ("controller/replica",), Lane.RECONCILERS, "recovered slots are charged to their tenant", "a new recovery assignment; the charge is returned when the slot is released"),
    Rule(c.Propose, proposals.propose, _SCHEDULERS, Lane.PROPOSALS, "slots take room and charge on nodes; victims must end", "Unreserve or Expire before binding, Stop after; repair fences what an agent no longer answers for", in_a_row=ProposalsInARow),
    Rule(c.Bind, reservations.bind, _SCHEDULERS, Lane.PROPOSALS, "agents may start slots", "Stop, or the agent declines"),
    Rule(c.Unreserve, reservations.unreserve, _SCHEDULERS, Lane.PROPOSALS, "reserved slots wait again", "Propose"),
    Rule(c.Expire, reservations.expire, ("ledger",), Lane.RECONCILERS, "room of ended reservations is free", "Propose, or Hold again"),
    Rule(c.Move, transitions.move, _MOVERS, Lane.REPORTS, "a slot is known to be further along, failed or gone", "the next move of its owner; repair for what nobody answers for"),
    Rule(c.Stop, stops.stop, _STOPPERS, Lane.RECONCILERS, "agents must end slots", "the ordinal waits again where it is still wanted", pressing=stops.is_pressing, subject=subjects.of_stop),
    Rule(c.ReportPending, slots.report_pending, _SCHEDULERS, Lane.PROPOSALS, "people see why a request waits", "the next report"),
    Rule(c.Hold, holds.hold, (*_SCHEDULERS, "person"), Lane.RECONCILERS, "room is kept without a slot", "DropHold, or Expire at its end"),
    Rule(c.ExtendHold, holds.extend_hold, (*_SCHEDULERS, "person"), Lane.RECONCILERS, "room is kept longer", "DropHold, or Expire at its end", subject=subjects.of_hold),
    Rule(c.DropHold, holds.drop_hold, (*_SCHEDULERS, "person", REPAIR), Lane.RECONCILERS, "held room is free", "Hold again", subject=subjects.of_hold),
    Rule(c.CloseBreach, breaches.close_breach, ("controller/repair",), Lane.RECONCILERS, "a broken promise counts as whole", "it opens again with the next fact that breaks it"),
    Rule(c.Ship, shipments.ship, ("controller/link",), Lane.RECONCILERS, "the platform's word holds here", "the platform's next word; a full list replaces everything", copies=True),
    Rule(c.StandDown, shipments.stand_down, ("controller/link",), Lane.RECONCILERS, "everything here ends and nothing is paid for", "a new log of this region joins the platform, with nothing"),
)  # fmt: skip

#: Commands of every ledger that mean more in a region: an agent's session is also its node's.
_HERE: dict[type, Any] = {
    builtin_sessions.OpenSession: builtin.open_session, builtin_sessions.EndSession: builtin.end_session, log.Configure: builtin.configure,
}  # fmt: skip
_HOUSE = tuple(
    replace(rule, handler=_HERE.get(rule.command, rule.handler)) for rule in registry.rules("agent", "scheduler")
)

RULES: dict[type, Rule[Any]] = {rule.command: rule for rule in (*_HOUSE, *overrides.RULES, *_OWN)}

REGION: Book[RegionState] = Book(
    name="region",
    empty=RegionState,
    rules=RULES,
    apply=APPLY,
    keys=KEYS,
    kinds=KINDS,
    invariants=INVARIANTS,
    batches=BatchReader(RegionEvent),
    envelopes=EnvelopeReader(c.RegionCommand),
)
