"""The unblock rules: a blocked group is tried again when a change may cure the cause.

    nodes    a node was added, changed, lost a slot or gained free capacity, and passes the filters;
             or a domain count of its rules changed, proposals in flight included;
             or a member that it must share a node with is on a changed node that has capacity
    gate     its accounts can pay for one more, or for a gang, or less is protected; or a slot of it is charged already
    assignment    the assignment or its waiting slots changed
    peers    its group has more open slots, or proposed ones wait again; or by time
    behind   the view has the revision that the ledger named
    refused  the grant of one of its accounts changed; or by time
    any      its reported reason may be out of date (`rechecks`)
    paused, stale, plugin    by time; and all of them by any change of policies, overrides, classes

The resync tries groups that these rules miss, and counts hits.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from holdfast.core.ledger.builtin.overrides import active_overrides
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import AskKind, SlotAsk
from holdfast.core.scheduling.framework import PluginError, SchedulingProfile
from holdfast.core.scheduling.nodes.table import NodeTable, Numbers
from holdfast.core.scheduling.nodes.window import NodeWindow, all_rows
from holdfast.core.scheduling.pending_reasons import NEVER_FITS, could_hold
from holdfast.core.scheduling.queue.domain_cures import domain_counts, shared_rows
from holdfast.core.scheduling.queue.in_flight import InFlight
from holdfast.core.scheduling.queue.peers import SchedulerPeers
from holdfast.core.scheduling.queue.proposed_parts import ProposedPart
from holdfast.core.scheduling.queue.quota_gates import payer_gate, protected_gate
from holdfast.core.scheduling.queue.rechecks import Rechecks
from holdfast.core.scheduling.queue.request_groups import RequestGroup
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue
from holdfast.core.scheduling.selection import apply_filters

#: Above this, the filters run over all rows instead of selected ones.
ROWS_MAX = 16
#: Blocked groups checked at once: each takes 0.1 ms.
ASKED_MAX = 64


class _Asking:
    """The input of one series of checks, with results by kind of ask."""

    def __init__(
        self,
        state: RegionState,
        rules: SchedulingProfile,
        now: Instant,
        grown: Numbers,
        stirred: Numbers,
        changed: Numbers,
    ) -> None:
        self.state, self.rules, self.now = state, rules, now
        self.grown, self.stirred, self.changed = grown, stirred, changed
        self.avoided = tuple(sorted(active_overrides(state, now).zones))
        self.would: dict[AskKind, bool] = {}
        self.could: dict[AskKind, bool] = {}
        #: Codes of the closed gates of the group checked last.
        self.shut: list[str] = []


class Unblocker:
    """Unblocks groups of one queue."""

    def __init__(self, table: NodeTable, queue: SchedulingQueue, flight: InFlight) -> None:
        self._table = table
        self._queue = queue
        self._flight = flight
        #: Nodes that changed or improved since the last finished round: by uid, since rows move.
        self._stirred: dict[Revision, None] = {}
        self._grown: dict[Revision, None] = {}
        self._changed: dict[Revision, None] = {}
        self._doubts = Rechecks(queue)

    def all(self) -> None:
        """Unblock all groups: a change may cure any of them."""
        self._queue.unblock_all()
        self._queue.backoff.changed()

    def share_with(self, peers: SchedulerPeers, now: Instant) -> None:
        """Use these peers from now on. When they change, other slots are left to them."""
        queue = self._queue
        if queue.share.begin(peers, now):
            for group in queue.groups.values():
                for entry in group.entries.values():
                    entry.forget()
            queue.blocked.call_left()
        for key in queue.share.take_grown():
            if queue.blocked.is_left(key):
                queue.unblock(key)

    def assigned(self, assignment: Revision) -> None:
        """Unblock groups whose assignment or waiting slots changed."""
        self._unblock_if(assignment, BlockReason.ASSIGNMENT)

    def returned(self, assignment: Revision) -> None:
        """Unblock groups of which proposed slots wait again: some may be its own."""
        self._unblock_if(assignment, BlockReason.ASSIGNMENT, BlockReason.PEERS)

    def _unblock_if(self, assignment: Revision, *reasons: BlockReason) -> None:
        for group in self._queue.groups_of(assignment):
            blocked = self._queue.blocked.get(group.key)
            if blocked is not None and blocked.why in reasons:
                self._queue.unblock(group.key)

    def doubt(self, assignment: Revision, now: Instant) -> None:
        """Note for a recheck that an assignment may now be runnable here or not."""
        for group in self._queue.groups_of(assignment):
            self._doubts.note(group.key, now)

    def look_again(self, now: Instant) -> None:
        """Unblock groups whose recheck is due, once all were checked for a cure."""
        if not self.has_unasked:
            self._doubts.look_again(now)

    def go_back(self) -> None:
        """Forget rechecks after ledger time went back. Other groups are unblocked for that, or back off."""
        self._doubts.go_back()

    def granted(self, account: str) -> None:
        """Unblock refused groups of an account whose grant changed. Gates are checked at every change."""
        for key in self._queue.blocked.refused_by(account):
            self._queue.unblock(key)
        self._queue.backoff.granted(account)

    def heard(self, state: RegionState, rules: SchedulingProfile, now: Instant) -> None:
        """Start a round of checks: the view is newer, or proposed slots were returned."""
        changed, stirred = self._table.changed(), self._table.touched_rows()
        grown = self._table.improved_rows()
        for noted, rows in ((self._changed, changed), (self._stirred, stirred), (self._grown, grown)):
            self._note(noted, rows)
        self._queue.prompt()
        self._queue.blocked.begin_round()
        self.ask(state, rules, now)

    def proposed(
        self, parts: Collection[ProposedPart], state: RegionState, rules: SchedulingProfile, now: Instant
    ) -> None:
        """Check groups that placements just proposed may cure: those that must be near them, or wait for the emptiest
        domain to fill."""
        scopes = dict.fromkeys(scope for part in parts for scope, _, _ in part.stands)
        if scopes:
            is_idle = not self.has_unasked
            self._queue.blocked.ask_counting(scopes)
            self._note(self._stirred, self._table.touched_rows())
            if is_idle:
                self.ask(state, rules, now)

    def _note(self, noted: dict[Revision, None], rows: list[int]) -> None:
        noted.update(dict.fromkeys(self._table.uids[rows].tolist()))

    @property
    def has_unasked(self) -> bool:
        """Whether groups have not been checked for the last changes."""
        return self._queue.blocked.has_unasked()

    def ask(self, state: RegionState, rules: SchedulingProfile, now: Instant) -> None:
        """Check the least recently checked groups, at most `ASKED_MAX`, and unblock the cured ones.

        Later ones are checked for all changes since the last finished round.
        """
        if self.has_unasked:
            self._ask_some(state, rules, now)
        if not self.has_unasked:
            self._stirred.clear()
            self._grown.clear()
            self._changed.clear()

    def _ask_some(self, state: RegionState, rules: SchedulingProfile, now: Instant) -> None:
        rows = self._rows(self._grown), self._rows(self._stirred), self._rows(self._changed)
        asking = _Asking(state, rules, now, *rows)
        for _ in range(ASKED_MAX):
            key = self._queue.blocked.next_asked()
            if key is None:
                break
            group, blocked = self._queue.groups[key], self._queue.blocked[key]
            if self._is_cured(asking, group, blocked):
                self._queue.unblock(key)
            elif self._is_doubtful(asking, group, blocked):
                self._doubts.note(key, now)

    def _rows(self, nodes: dict[Revision, None]) -> Numbers:
        rows = self._table.rows
        return np.array(sorted([rows[uid] for uid in nodes if uid in rows]), np.int64)

    def _is_cured(self, asking: _Asking, group: RequestGroup, blocked: BlockedGroup) -> bool:
        state, rules, avoided = asking.state, asking.rules, asking.avoided
        if blocked.why is BlockReason.BEHIND:
            return blocked.examined <= self._table.revision
        if blocked.why is BlockReason.GATE:
            asking.shut = self._shut(state, group, asking.now, blocked.gated)
            return not asking.shut
        if blocked.why is not BlockReason.NODES:
            return False
        if blocked.gated is not None and not self._shut(state, group, asking.now, blocked.gated):
            return True
        kind = group.ask.kind
        if kind not in asking.would:
            asking.would[kind] = self._takes(group.ask, asking.grown, rules, avoided)
        if asking.would[kind]:
            return True
        table, mine = self._table, self._flight.members
        if blocked.counts != domain_counts(state, table, group.ask, mine, avoided):
            return True
        return self._takes(group.ask, shared_rows(state, table, group.ask, asking.stirred, mine), rules, avoided)

    def _is_doubtful(self, asking: _Asking, group: RequestGroup, blocked: BlockedGroup) -> bool:
        """Whether the reason of a group, just checked and not cured, may be out of date."""
        if blocked.why is BlockReason.GATE:
            return blocked.reason not in asking.shut
        if blocked.why is not BlockReason.NODES:
            return False
        if blocked.reason != NEVER_FITS:
            return self._table.stirs - blocked.stirs >= blocked.kept
        if len(asking.changed) > ROWS_MAX or not self._table.count:
            return True
        kind = group.ask.kind
        if kind not in asking.could:
            asking.could[kind] = could_hold(NodeWindow(self._table, group.ask, asking.changed))
        return asking.could[kind]

    def _shut(self, state: RegionState, group: RequestGroup, now: Instant, gated: tuple[int, int] | None) -> list[str]:
        """Return the codes of all gates that are closed for a group, or for so many of its slots together."""
        pay = payer_gate(state, group.accounts, group.ask.template.need, now, self._flight.spent)
        kept = protected_gate(state, group.ask, self._flight.firm, self._flight.owed)
        paid, left = gated or (1, 1)
        shut = [gate for gate, least in ((pay, paid), (kept, left)) if gate.most < least]
        if pay in shut and any(entry.has_charged(state) for entry in group.entries.values()):
            shut.remove(pay)  # it needs no payer, or fewer
        return [gate.code.value for gate in shut if gate.code is not None]

    def _takes(self, ask: SlotAsk, rows: Numbers, rules: SchedulingProfile, avoided: tuple[str, ...]) -> bool:
        """Whether one of the rows passes the filters."""
        table = self._table
        try:
            if not len(rows):
                return False
            if len(rows) > ROWS_MAX:
                return bool(apply_filters(rules, all_rows(table, ask, avoided), {})[rows].any())
            return bool(apply_filters(rules, NodeWindow(table, ask, rows, avoided), {}).any())
        except PluginError:
            return True
