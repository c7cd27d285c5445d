"""Definition of a region's ledger: a rule per command, a function per event, invariants, readers."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.builtin import log, overrides, registry
from holdfast.core.ledger.builtin import sessions as builtin_sessions
from holdfast.core.ledger.codec import BatchReader, EnvelopeReader
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.rules import CommandLane, CommandRule
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
from holdfast.core.region.decide.coalesced_proposals import ProposalCoalescer
from holdfast.core.region.events import RegionEvent
from holdfast.core.region.invariants.catalog import INVARIANTS
from holdfast.core.region.queries.gates import REPAIR
from holdfast.core.region.state.evolve import APPLY
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import WATCH_KEYS, WATCH_KINDS

_MOVERS = ("agent", "controller/endpoints", "controller/node-health", "controller/repair")
#: Standalone schedulers, and the leader's embedded one.
_SCHEDULERS = ("scheduler", "controller/scheduler")
_STOPPERS = (
    "controller/rollout", "controller/replica", "controller/drain", "scheduler", "controller/rebalance",
    "controller/evacuation", "controller/failback", "controller/repair", "controller/rights", "controller/grant",
    "controller/provisional",
)  # fmt: skip

_OWN: tuple[CommandRule[Any], ...] = (
    CommandRule(c.RegisterNode, nodes.register_node, ("agent",), CommandLane.REPORTS, "a node can accept work", "RemoveNode after a drain; overcommitment of a node that shrinks becomes a breach for repair"),
    CommandRule(c.ReportNode, nodes.report_node, ("agent",), CommandLane.REPORTS, "a node ranks higher or lower for new work", "the next report"),
    CommandRule(c.AdministerNode, nodes.administer_node, ("person",), CommandLane.OPERATORS, "a node accepts other work, or none", "AdministerNode with the old values; placements that it forbids become a breach for repair", subject=subjects.of_node),
    CommandRule(c.JudgeNode, nodes.judge_node, ("controller/node-health",), CommandLane.REPORTS, "a node accepts no new work, or accepts it again", "JudgeNode, once its agent has a session again"),
    CommandRule(c.RemoveNode, nodes.remove_node, ("person", "controller/node-health"), CommandLane.OPERATORS, "a node is deleted", "RegisterNode, under a new uid", subject=subjects.of_node),
    CommandRule(c.OpenSlots, slots.open_slots, ("controller/replica",), CommandLane.RECONCILERS, "ordinals wait for placement", "WithdrawSlots", subject=subjects.of_slots),
    CommandRule(c.WithdrawSlots, slots.withdraw_slots, ("controller/replica",), CommandLane.RECONCILERS, "pending ordinals are released; bound ones do not return after their end", "OpenSlots", subject=subjects.of_slots),
    CommandRule(c.ForgetAssignment, slots.forget_assignment, ("controller/link",), CommandLane.RECONCILERS, "an ended assignment is deleted in the region", "Ship, when the platform assigns again"),
    CommandRule(c.AdoptSlots, slots.adopt_slots, ("controller/replica",), CommandLane.RECONCILERS, "recovered slots are charged to their tenant", "a new recovery assignment; the charge is returned when the slot is released"),
    CommandRule(c.Propose, proposals.propose, _SCHEDULERS, CommandLane.PROPOSALS, "slots use node capacity and are charged; victims stop", "Unreserve or Expire before binding, Stop after; repair fences slots whose agent has no session", coalescer=ProposalCoalescer),
    CommandRule(c.Bind, reservations.bind, _SCHEDULERS, CommandLane.PROPOSALS, "agents may start slots", "Stop, or the agent declines"),
    CommandRule(c.Unreserve, reservations.unreserve, _SCHEDULERS, CommandLane.PROPOSALS, "reserved slots are pending again", "Propose"),
    CommandRule(c.Expire, reservations.expire, ("ledger",), CommandLane.RECONCILERS, "capacity of expired reservations is free", "Propose, or Hold again"),
    CommandRule(c.Move, transitions.move, _MOVERS, CommandLane.REPORTS, "a slot has another phase, or is released", "the next move of its owner; repair, once the owner has no session"),
    CommandRule(c.Stop, stops.stop, _STOPPERS, CommandLane.RECONCILERS, "agents must end slots", "the ordinal is pending again, if it is still assigned", pressing=stops.is_urgent_stop, subject=subjects.of_stop),
    CommandRule(c.ReportPending, slots.report_pending, _SCHEDULERS, CommandLane.PROPOSALS, "the request shows why it is pending", "the next report"),
    CommandRule(c.Hold, holds.hold, (*_SCHEDULERS, "person"), CommandLane.RECONCILERS, "capacity is held without a slot", "DropHold, or Expire at its end"),
    CommandRule(c.ExtendHold, holds.extend_hold, (*_SCHEDULERS, "person"), CommandLane.RECONCILERS, "capacity is held longer", "DropHold, or Expire at its end", subject=subjects.of_hold),
    CommandRule(c.DropHold, holds.drop_hold, (*_SCHEDULERS, "person", REPAIR), CommandLane.RECONCILERS, "held capacity is free", "Hold again", subject=subjects.of_hold),
    CommandRule(c.CloseBreach, breaches.close_breach, ("controller/repair",), CommandLane.RECONCILERS, "a breach is closed", "the next fact that breaks the invariant opens it again"),
    CommandRule(c.Ship, shipments.ship, ("controller/link",), CommandLane.RECONCILERS, "the platform's changes are applied in the region", "the next shipment; a full list replaces everything", copies=True),
    CommandRule(c.StandDown, shipments.stand_down, ("controller/link",), CommandLane.RECONCILERS, "all assignments and grants of the region end", "a new, empty log of this region joins the platform"),
)  # fmt: skip

#: Built-in commands with more effect in a region: the session of an agent is also its node's session.
_HERE: dict[type, Any] = {
    builtin_sessions.OpenSession: builtin.open_session, builtin_sessions.EndSession: builtin.end_session, log.Configure: builtin.configure,
}  # fmt: skip
_HOUSE = tuple(
    replace(rule, handler=_HERE.get(rule.command, rule.handler)) for rule in registry.rules("agent", "scheduler")
)

RULES: dict[type, CommandRule[Any]] = {rule.command: rule for rule in (*_HOUSE, *overrides.RULES, *_OWN)}

REGION: LedgerDefinition[RegionState] = LedgerDefinition(
    name="region",
    empty=RegionState,
    rules=RULES,
    apply=APPLY,
    keys=WATCH_KEYS,
    kinds=WATCH_KINDS,
    invariants=INVARIANTS,
    batches=BatchReader(RegionEvent),
    envelopes=EnvelopeReader(c.RegionCommand),
)
