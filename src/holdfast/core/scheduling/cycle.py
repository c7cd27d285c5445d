"""One scheduling cycle: request groups in order, one pass each, until the proposal is full or no group is left.

    group ──▶ paused? view stale? assigned? ──▶ payers, protected capacity ──▶ select nodes ──▶ placements
                                                       what is not placed is blocked, with its reasons

A proposal has one policy, and either binds or reserves. Groups of the other kind wait for the next cycle.

Size: a look is one story, from the first group to the proposal.
"""

from __future__ import annotations

from functools import partial

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.model.objects.policies import BUILT_IN_POLICY, SchedulerPolicy
from holdfast.core.model.records.decisions import SchedulingPass
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.queries.assignments import why_not_runnable
from holdfast.core.region.queries.feasibility import Infeasible
from holdfast.core.region.state.lookups import valid_policy
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.evidence import NOTHING_CHOSEN, pass_evidence
from holdfast.core.scheduling.framework import PluginError, Plugins, SchedulingProfile, waits_to_bind
from holdfast.core.scheduling.gang_trial import GangTrial, try_gangs
from holdfast.core.scheduling.nodes.domain_rules import DomainRules
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.nodes.tie_break import seed_of
from holdfast.core.scheduling.pending_reasons import GangMiss, domains_that_hold, members_end, nearest_fit, node_reasons
from holdfast.core.scheduling.proposal_builder import ProposalBuilder
from holdfast.core.scheduling.queue.domain_cures import domain_counts, may_cure, scopes_that_cure
from holdfast.core.scheduling.queue.in_flight import InFlight
from holdfast.core.scheduling.queue.peers import HELP_MS
from holdfast.core.scheduling.queue.quota_gates import QuotaGate, pause_gate, payer_gate, protected_gate
from holdfast.core.scheduling.queue.request_groups import QueuedRequest, RequestGroup
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue
from holdfast.core.scheduling.scores.fragmentation import learned_profile
from holdfast.core.scheduling.scores.own_part import shared_profile
from holdfast.core.scheduling.selection import NodeSelection, PassContext, select_nodes
from holdfast.core.scheduling.shortlist import Shortlists
from holdfast.core.scheduling.victims.stage import PreemptionStage
from holdfast.core.scheduling.view import SchedulerView, UnplacedRequest

#: Period in which every blocked group is tried again, whatever changed (RULES 21).
RESYNC_MS = 60_000
#: Groups without a placement after which a cycle ends: each has examined all nodes.
RESTED_MAX = 16
#: Placed groups after which a cycle ends: its process does nothing else meanwhile.
PLACED_MAX = 250
#: Nodes walked by the ledger after which a cycle ends. It walks over all once per distinct ask with spread rules, to
#: find the domains that count (`node_kinds`), at 0.2 to 0.4 microseconds per node.
WALKED_MAX = 100_000
#: Groups left to other schedulers after which a cycle ends.
LEFT_MAX = 2_000
STALE_MS = 500  # wait of a group whose view was stale


class SchedulingCycle:
    """The progress of one scheduling cycle."""

    def __init__(
        self, plugins: Plugins, table: NodeTable, queue: SchedulingQueue, flight: InFlight, view: SchedulerView
    ) -> None:
        self._plugins = plugins
        self._table = table
        self._queue = queue
        self._flight = flight
        self._state, self._now, self._age_ms = view.state, view.now, view.age_ms
        self._peers = view.peers
        self._overrides = active_overrides(view.state, view.now)
        #: The valid policy by tenant.
        self._valid: dict[str, Revision] = {}
        self.policy: SchedulerPolicy = BUILT_IN_POLICY
        self.rules: SchedulingProfile | None = None
        self.draft = ProposalBuilder(view.state, view.now, table, flight)
        self._shortlists = Shortlists(table)
        self._preemptions = PreemptionStage(self.draft, table, flight, view.state, view.now, plugins.victims)
        #: Whether the proposal reserves and binds later.
        self.waits_to_bind = False
        self.passes: list[SchedulingPass] = []
        self.waits: list[UnplacedRequest] = []
        #: Slots placed from groups that only the resync had unblocked.
        self.resync_hits = 0
        #: Asks for which the nodes were walked to find the domains that count; and those of them that were placed.
        self._searched: set[tuple[str, str, bool]] = set()
        self._walks: set[tuple[str, str, bool]] = set()
        #: Blocked groups so far; and whether active groups are left for the next cycle.
        self._rested = 0
        self.is_cut = False
        self._left = 0
        #: Slots that may still be placed in this turn.
        self._most = 0

    def run(self) -> None:
        """Try all active groups in order, until the proposal is full."""
        self._queue.begin(self._state, self._flight.taken, self._now, self._flight.waiting)
        while self.draft.left:
            group = self._queue.take(self._state)
            if group is None:
                return
            if self._is_enough():
                self.is_cut = True
                return
            try:
                if not self._queue.turns.is_aged and self._is_held(group):
                    return
                if self._same_proposal(group):
                    self._take_turn(group)
                if self.is_cut:
                    return
            except PluginError as error:
                self._block_failed(group, error)

    def _take_turn(self, group: RequestGroup) -> None:
        """Place a group's quantum: then the shares of tenants are compared again."""
        before, self._most = self.draft.left, 1 if group.has_one_open() else self._queue.most(group)
        self._schedule_group(group)
        self._queue.served(group, before - self.draft.left, is_cut=self._most <= 0 or self.is_cut)

    def _block_failed(self, group: RequestGroup, error: PluginError) -> None:
        """Block a group for which a plugin raised."""
        entries = list(group.entries.values())
        reason = PendingReason(ConditionReason.PLUGIN_FAILED.value, sum(one.open for one in entries), str(error))
        self._block(group, entries, BlockReason.PLUGIN, (reason,), self._now + RESYNC_MS)

    def _is_enough(self) -> bool:
        """Whether the remaining groups are left for the next cycle."""
        if self._rested >= RESTED_MAX or self._left >= LEFT_MAX or len(self.passes) >= PLACED_MAX:
            return True
        return bool(self._walks) and len(self._walks) * self._table.count >= WALKED_MAX

    def _same_proposal(self, group: RequestGroup) -> bool:
        """Whether the group fits this proposal's policy and binding mode. The first group placed sets both."""
        policy = self._state.policies.get(self._policy_of(group.tenant)) or BUILT_IN_POLICY
        waits = waits_to_bind(self._plugins.binds, group.ask)
        if not self.draft.groups:
            if self.rules is None or policy.revision != self.policy.revision:
                rules = learned_profile(self._plugins, policy.document, self._table, self._state)
                self.policy, self.rules = policy, shared_profile(rules, self._peers)
            self.waits_to_bind = waits
        return policy.revision == self.policy.revision and waits == self.waits_to_bind

    def _schedule_group(self, group: RequestGroup) -> None:
        is_alone = self._queue.share.is_alone
        if not is_alone and group.is_left(self._state):
            self._leave(group)
            return
        entries = self._admitted(group)
        while entries:
            self.is_cut = group.ask.gang is not None and len(self.passes) >= PLACED_MAX  # gangs are placed one by one
            if not is_alone and self._are_left(entries):
                self._leave(group)
                return
            if not self.draft.left or self._most <= 0 or self.is_cut or not self._place(group, entries):
                return
            entries = [one for one in entries if one.open > 0 and (one.look_up(self._state) or one.is_left)]

    def _are_left(self, entries: list[QueuedRequest]) -> bool:
        """Whether the requests have open slots, and none of their own."""
        return not any(entry.look_up(self._state) for entry in entries) and any(entry.is_left for entry in entries)

    def _leave(self, group: RequestGroup) -> None:
        """Leave the open slots of a group to other schedulers, once none is its own."""
        self._left += 1
        self._queue.block(group, BlockedGroup(BlockReason.PEERS, self._table.revision, self._now + HELP_MS))

    def _is_held(self, group: RequestGroup) -> bool:
        """Whether slots of a higher priority are left to other schedulers, which can place them now."""
        queue = self._queue
        if queue.share.is_alone:
            return False
        while (first := queue.blocked.most_urgent_left()) is not None and first[0] < group.key[0]:
            if self._is_enough():
                self.is_cut = True
                return True
            known, urgent = queue.blocked[first], queue.groups[first]
            queue.unblock(first)
            try:
                is_held = not self._same_proposal(urgent) or self._could_place(urgent)
            except PluginError as error:
                self._block_failed(urgent, error)
                continue
            if is_held:
                queue.block(urgent, known)
                return queue.share.holds(group.key[0])
        queue.share.passes(group.key[0])
        return False

    def _could_place(self, group: RequestGroup) -> bool:
        """Whether a group that is left to others can be placed. Otherwise it is blocked for its own cause."""
        entries = self._admitted(group)
        if not entries:
            return False
        ask, spent = group.ask, self._flight.spent
        pay = payer_gate(self._state, group.accounts, ask.template.need, self._now, spent)
        kept = protected_gate(self._state, ask, self._flight.firm, self._flight.owed)
        count = ask.gang.needed if ask.gang is not None else 1
        has_charged = any(entry.has_charged(self._state) for entry in entries)
        is_open = kept.most >= count and (pay.most >= count or has_charged)
        seed = seed_of(group.oldest()[1], self._table.revision)
        choice = self._choose(group, seed, count, least=count) if is_open else NOTHING_CHOSEN
        if len(choice.rows) < count:
            gate = pay if pay.most < kept.most else kept
            trial = GangTrial(0, choice, GangMiss(0, count, len(choice.rows))) if count > 1 else None
            self._block_unplaced(group, entries, choice, seed, is_open, gate, trial)
        return len(choice.rows) >= count

    def _admitted(self, group: RequestGroup) -> list[QueuedRequest]:
        """Return the requests that may be placed now, by what concerns the whole group. Without any it is blocked."""
        pause, unknown = pause_gate(group.tenant, self._overrides), self._unknown(group)
        if not pause.most:
            self._block(group, list(group.entries.values()), BlockReason.PAUSED, (pause.reason(0),), pause.opens)
            return []
        if unknown is not None:
            reason = PendingReason(unknown.code.value, 0, unknown.detail)
            self._block(group, list(group.entries.values()), BlockReason.ASSIGNMENT, (reason,))
            return []
        if self._is_stale(group):
            reason = PendingReason(
                ConditionReason.STALE_VIEW.value, 0, f"the scheduler's view is {self._age_ms} ms old"
            )
            self._block(group, list(group.entries.values()), BlockReason.STALE, (reason,), self._now + STALE_MS)
            return []
        return self._assigned(group)

    def _unknown(self, group: RequestGroup) -> Infeasible | None:
        """Return the policy, class or account that the group needs and the region lacks."""
        valid = self._policy_of(group.tenant)
        if valid != self.policy.revision:
            return Infeasible(Code.POLICY, f"the region has not received the valid policy, revision {valid}")
        if group.priority_class not in self._state.priority_classes:
            return Infeasible(Code.NOT_FOUND, f"the region has not received priority class {group.priority_class}")
        return None if group.accounts else Infeasible(Code.OVER_GRANT, "no account pays for it")

    def _policy_of(self, tenant: str) -> Revision:
        if tenant not in self._valid:  # a tenant has many groups
            self._valid[tenant] = valid_policy(self._state, tenant)
        return self._valid[tenant]

    def _is_stale(self, group: RequestGroup) -> bool:
        most = dict(self.policy.document.freshness)
        limit = most.get(group.priority_class, most.get("", 0))
        return bool(limit) and self._age_ms > limit

    def _assigned(self, group: RequestGroup) -> list[QueuedRequest]:
        """Return the requests that may run here now. The others wait, with the reason."""
        found: list[QueuedRequest] = []
        shut: list[QueuedRequest] = []
        for entry in group.entries.values():
            if entry.open > 0:
                uid, template = entry.key
                known = self._state.assignments[uid]
                misfit = why_not_runnable(self._state, known, template, self._now)
                if misfit is None and known.exclusive and not entry.look_up(self._state) and not entry.is_left:
                    misfit = Infeasible(Code.NOT_ASSIGNED, "this region has no right to its ordinals")
                if misfit is None:
                    found.append(entry)
                else:
                    shut.append(entry)
                    reason = PendingReason(misfit.code.value, entry.open, misfit.detail)
                    self._wait(entry, (reason,), pass_evidence(self._state, group, [entry], "waiting"))
        if shut and not found:
            self._rested += 1
            self._queue.block(
                group, BlockedGroup(BlockReason.ASSIGNMENT, self._table.revision, self._now + RESYNC_MS, resync=True)
            )
        return found

    def _place(self, group: RequestGroup, entries: list[QueuedRequest]) -> bool:
        """Place what gates and nodes allow, or block the group. Return whether a slot was placed."""
        ask, spent = group.ask, self._flight.spent
        pay = payer_gate(self._state, group.accounts, ask.template.need, self._now, spent)
        kept = protected_gate(self._state, ask, self._flight.firm, self._flight.owed)
        wanted = sum(entry.open for entry in entries)
        mixed_by = () if self._queue.share.is_alone else (self._peers.name,)  # several have different orders of ties
        seed = seed_of(group.oldest()[1], self._table.revision, *mixed_by)
        before, gate, trial, cut = len(self.draft.groups), pay if pay.most < kept.most else kept, None, False
        if ask.gang is None:
            slots = self.draft.slots(entries, pay.most, min(kept.most, self._most))
            choice, has_slots = self._choose(group, seed, len(slots)) if slots else NOTHING_CHOSEN, len(slots) > 0
            placed = self.draft.add(group, slots, choice.rows, pay.each) if choice.rows else 0
            if not placed and pay.most and not self.waits_to_bind:
                placed = self._preemptions.place(group, entries, self._most, lambda: self._passing(group, seed))
                cut = not placed and self._preemptions.is_cut
        else:
            # A gang is placed in one turn, however small its tenant's quantum is.
            trial = try_gangs(self._state, self.draft, group, entries, (pay, kept), partial(self._choose, group, seed))
            cut = trial.is_full
            placed, choice, has_slots = trial.placed, trial.choice, trial.miss is not None
            gate = pay if trial.gated is not None and pay.most < trial.gated[0] else kept
        self.is_cut |= cut
        if not placed:
            if not cut:
                self._block_unplaced(group, entries, choice, seed, has_slots, gate, trial)
            return False
        self._most -= placed
        # Who may preempt is tried again at times, whatever changed.
        if group.resynced and choice.rows and not may_cure(self.draft.parts[:-1], ask):
            self.resync_hits += placed
        if self._searched:
            self._walks.update(self._searched & {ask.searched_as})
        outcome = "placed" if placed == wanted else "placed in part"
        keys = {(one.assignment, one.template) for one in self.draft.groups[before:]}
        mine = [one for one in entries if one.key in keys]
        preempted = 0 if choice.rows else self.draft.victims_since(before)
        self.passes.append(pass_evidence(self._state, group, mine, outcome, choice, seed, preempted=preempted))
        return True

    def _choose(self, group: RequestGroup, seed: int, count: int, *, least: int = 1) -> NodeSelection:
        passing = self._passing(group, seed, least)
        if count == 1 and passing.domains is None:
            return self._shortlists.choose(passing)
        return select_nodes(passing, count)

    def _passing(self, group: RequestGroup, seed: int, least: int = 1) -> PassContext:
        assert self.rules is not None
        avoided = tuple(sorted(self._overrides.zones))
        return PassContext(self._table, group.ask, self.rules, seed, self._domains(group.ask), avoided, least)

    def _domains(self, ask: SlotAsk) -> DomainRules | None:
        if not has_domain_rules(ask.template):
            return None
        return DomainRules(self._state, ask, self._flight.members, self._overrides.zones, partial(self._search, ask))

    def _search(self, ask: SlotAsk) -> dict[str, list[str]]:
        self._searched.add(ask.searched_as)
        return domains_that_hold(self._table, ask, self._overrides.zones)

    def _block_unplaced(
        self,
        group: RequestGroup,
        entries: list[QueuedRequest],
        choice: NodeSelection,
        seed: int,
        lacks_nodes: bool,
        gate: QuotaGate,
        trial: GangTrial | None = None,
    ) -> None:
        """Block requests for which no node is feasible or a gate is closed."""
        waiting, until = sum(entry.open for entry in entries), 0
        if trial is not None and trial.miss is None and trial.gated is None:
            self._block(group, entries, BlockReason.ASSIGNMENT, (members_end(waiting),))
            return
        if not lacks_nodes:
            why, nearest = BlockReason.GATE, ""
            reasons: tuple[PendingReason, ...] = (gate.reason(waiting),)
            if any(entry.lacks_charged for entry in entries):
                until = self._now + HELP_MS  # others may leave those, which need no payer
        else:
            why = BlockReason.NODES
            nearest = nearest_fit(self._table, group.ask, self._overrides, self._domains(group.ask))
            until = min((one.ends for one in self._overrides.zones.values()), default=0)
            miss = trial.miss if trial is not None else None
            reasons = node_reasons(self._table, group.ask, choice.rejected, waiting, nearest, miss)
        retry = self._preemptions.retry_at(group) if trial is None else 0
        until = min([time for time in (until, retry) if time], default=0)
        found = pass_evidence(self._state, group, entries, "waiting", choice, seed, nearest)
        self._block(group, entries, why, reasons, until, found, trial.gated if trial is not None else None)

    def _block(
        self,
        group: RequestGroup,
        entries: list[QueuedRequest],
        why: BlockReason,
        reasons: tuple[PendingReason, ...],
        until: Instant = 0,
        found: SchedulingPass | None = None,
        gated: tuple[int, int] | None = None,
    ) -> None:
        self._rested += 1
        anew = self._now + RESYNC_MS
        resync = not until or until > anew
        counts, scopes = tuple[object, ...](), tuple[str, ...]()
        table, first = self._table, reasons[0]
        if why is BlockReason.NODES:
            counts = domain_counts(self._state, table, group.ask, self._flight.members, self._overrides.zones)
            scopes = scopes_that_cure(group.ask)
        kept = max(1, min(first.count, table.count))
        blocked = BlockedGroup(
            why, table.revision, anew if resync else until, counts, resync, first.code, kept, table.stirs, scopes, gated
        )
        self._queue.block(group, blocked)
        found = found or pass_evidence(self._state, group, entries, "waiting")
        for entry in entries:
            if entry.open > 0:
                self._wait(entry, reasons, found)

    def _wait(self, entry: QueuedRequest, reasons: tuple[PendingReason, ...], found: SchedulingPass) -> None:
        self.waits.append(UnplacedRequest(entry, reasons, found, self.policy.revision))
