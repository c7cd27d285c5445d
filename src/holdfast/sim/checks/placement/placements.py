"""Checks every placement in a region's log against the log before it, without the ledger's gates.

- spread: it does not exceed the skew that its workload's rule allows
- policy-valid: it was decided under the policy that is valid for its tenant
- meant, given, apart, near: its template accepts the node (`node_rules`)
- paused: no override paused its tenant's scheduling or avoids its zone; repair does nothing while it is paused
- queue-order: no request that could be placed is passed over by one of lower priority (`queue_order`), or in one
  proposal by an equal one that waits for less long
- turns: tenants take turns by their weighted shares, and each one's requests by age (`fair_share`)
- aged: of sixty-four placements one goes to the request that has waited longest (`aging`)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from holdfast.core.ledger.codec import Batch, Evidence, LogRecord, read_evidence
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.events import SlotsBound, SlotsPlaced, SlotsReleased
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.placement.aging import AgingCheck
from holdfast.sim.checks.placement.excuses import CommandNumber
from holdfast.sim.checks.placement.fair_share import FairShareCheck
from holdfast.sim.checks.placement.log_view import RegionLogView
from holdfast.sim.checks.placement.node_rules import broken_node_rules, placement_errors
from holdfast.sim.checks.placement.queue_order import QueueOrderCheck
from holdfast.sim.checks.placement.usage import place_of

PROPOSE = "propose"
UNRESERVE = "unreserve"
#: The repair controller, and its commands that an override can pause; it may close breaches at any time.
REPAIR = "controller/repair"
PAUSABLE = ("move", "stop", "drop-hold")


class PlacementCheck:
    """Checks the placements of one region. `state` is the audited state after each batch.

    The order of the queue is checked only while schedulers receive all changes (`hears`): otherwise they cannot have
    all requests. `acted` counts the codes that excluded nodes. `past` returns the state after an earlier batch.
    """

    def __init__(
        self,
        where: str,
        state: RegionState,
        find: Callable[[Finding], None],
        hears: Callable[[], bool],
        acted: Counter[str],
        clock: Callable[[], int],
        past: Callable[[int], RegionState],
        *,
        alone: bool,
    ) -> None:
        self._acted = acted
        self._hears = hears
        self._where = where
        self._find = find
        self._state = state
        self._log = RegionLogView()
        self.queue = QueueOrderCheck(state, self._log, clock, past)
        self._turns = FairShareCheck(state, self._log, past, alone=alone)
        self._aging = AgingCheck(state) if alone else None
        #: Proposals of this batch, to be judged by the state after it.
        self._decided: list[tuple[LogRecord[Any], DecisionEvidence, CommandNumber, Revision]] = []
        self.judged = 0

    def take(self, batch: Batch[Any], evidence: Callable[[], Iterable[Evidence]]) -> None:
        """Check the next batch; `evidence` is read only if a proposal is in it."""
        proposals = any(record.command == PROPOSE for record in batch.records)
        said = {one.record: one.payload for one in evidence()} if proposals else {}
        position = pack_revision(batch.header.seq)
        for where, told in self.queue.confirmed():
            if self._hears():
                self._tell("queue-order", where, told)
        for number, record in enumerate(batch.records):
            self._judge_repair(record, position)
            for event in record.events:
                if isinstance(event, SlotsPlaced):
                    self._judge_placed(event, record.at, position)
                elif isinstance(event, SlotsBound):
                    for one in event.slots:
                        self._judge_bound(one.slot, one.node, record.at, position)
                    self.queue.excused.bound(record.actor, [one.slot for one in event.slots])
                elif isinstance(event, SlotsReleased):
                    given = [one.slot for one in event.releases if record.command == UNRESERVE]
                    self.queue.excused.declined((record.actor, record.session, record.sequence), given, record.at)
                self._log.take(event)
                position += 1
            if record.command == PROPOSE:
                self._judge_decided(record, said.get(number, b""), position)
        self._judge_turns()
        self.queue.look(batch.records[-1].at if batch.records else 0)
        self._turns.look()

    def _judge_placed(self, placed: SlotsPlaced, at: Instant, position: Revision) -> None:
        template, tenant = self._log.templates[placed.template], self._log.assignments[placed.assignment].tenant
        for one in placed.placements:
            self.judged += 1
            self._log.position(placed, one.ordinal, one.node)
            slot = placed.workload, one.ordinal
            self._judge_pause(slot, one.node, at, position)
            for promise, why in placement_errors(self._log, template, tenant, one):
                self._tell(promise, position, f"slot {slot}: {why}")
            for rule in template.spread:
                counts = self._log.spread(placed.workload, rule.key)
                domains = self._log.domains(placed, rule.key, at, self._state.info.settings)
                here = counts[place_of(self._log.nodes[one.node], rule.key)]
                least = min((counts.get(where, 0) for where in domains), default=here)
                if here - least > rule.max_skew:
                    told = f"{counts} over {rule.key} {sorted(domains)}, and the allowed skew is {rule.max_skew}"
                    self._tell("spread", position, f"slot {slot} makes it {told}")

    def _judge_bound(self, slot: SlotKey, node: Revision, at: Instant, position: Revision) -> None:
        """Check the binding of a reserved slot: the rules must still hold."""
        self._judge_pause(slot, node, at, position)
        stands = self._log.stands[slot]
        template, tenant = self._log.templates[stands.template], self._log.assignments[stands.assignment].tenant
        for promise, why in broken_node_rules(self._log, template, tenant, self._log.nodes[node]):
            self._tell(promise, position, f"slot {slot}: {why}")

    def _judge_pause(self, slot: SlotKey, node: Revision, at: Instant, position: Revision) -> None:
        tenant = self._log.assignments[self._log.stands[slot].assignment].tenant
        if self._log.in_force(OverrideAction.PAUSE_SCHEDULING, at) & {"", tenant}:
            self._tell("paused", position, f"slot {slot} was placed while scheduling is paused for {tenant}")
        zone = self._log.nodes[node].zone
        if zone in self._log.in_force(OverrideAction.AVOID_ZONE, at):
            self._tell("paused", position, f"slot {slot} was placed in zone {zone}, which is avoided")

    def _judge_repair(self, record: LogRecord[Any], position: Revision) -> None:
        """Check that repair does nothing while an override pauses it."""
        if (
            record.actor == REPAIR
            and record.command in PAUSABLE
            and self._log.in_force(OverrideAction.PAUSE_REPAIR, record.at)
        ):
            self._tell("paused", position, f"repair sent {record.command} while it is paused")

    def _judge_decided(self, record: LogRecord[Any], evidence: bytes, position: Revision) -> None:
        decision, by = _decision(evidence), self.queue.excused.number(record, evidence)
        for code, _, count in [one for found in decision.passes for one in found.rejected]:
            self._acted[f"shut.{code}"] += count
        tenants = [self._log.assignments[one.assignment].tenant for one in _placed(record)]
        wrong = [tenant for tenant in tenants if decision.passes and decision.policy != self._log.valid(tenant)]
        if wrong:
            told = f"{format_revision(self._log.valid(wrong[0]))} is valid for {wrong[0]}"
            self._tell(
                "policy-valid", position, f"it was decided by policy {format_revision(decision.policy)}, and {told}"
            )
        wrongly = self.queue.take(record, by, decision, position)
        if wrongly and self._hears():
            self._tell("queue-order", position, wrongly)
        self._decided.append((record, decision, by, position))

    def _judge_turns(self) -> None:
        """After a batch: check the turns of tenants, and whether somebody is passed over for too long."""
        decided, self._decided = self._decided, []
        for number, (record, decision, by, position) in enumerate(decided):

            def excused(
                slot: Slot, by: CommandNumber = by, decision: DecisionEvidence = decision, at: Instant = record.at
            ) -> bool:
                request, view = (slot.assignment, slot.template), (decision.view, at)
                return self.queue.excused.is_excused(by, decision.in_flight, request, slot.ordinal, view, at)

            wrong = "" if number else self._turns.judge(record, decision, excused)
            starved = self._aging.look(_placed(record), record.at, excused) if self._aging is not None else ""
            for promise, why in (("turns", wrong), ("aged", starved)):
                if why and self._hears():
                    self._tell(promise, position, why)

    def _tell(self, promise: str, position: Revision, detail: str) -> None:
        self._find(Finding(promise, f"{self._where} {format_revision(position)}: {detail}"))


def _placed(record: LogRecord[Any]) -> list[SlotsPlaced]:
    return [event for event in record.events if isinstance(event, SlotsPlaced)]


def _decision(payload: bytes) -> DecisionEvidence:
    """Decode the scheduler's evidence; return an empty one if it is of another type or truncated."""
    try:
        found = read_evidence(payload) if payload else None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        found = None
    return found if isinstance(found, DecisionEvidence) else DecisionEvidence(0, 0, ())
