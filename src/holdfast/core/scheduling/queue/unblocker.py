"""Who is woken by what: a group that sleeps is looked at again when something has changed that can cure why it waits.

    nodes    a node came, changed, lost a slot, or has more free than before, and by the filters it would take such a
             slot; or what its rules count over domains is another number, what this scheduler proposes included;
             or a member that it must share a node with stands where something changed, and there is room beside it
    gate     its payers can pay for one more, or less is kept for others; or a slot of it is charged already
    assignment    what the platform asks for has changed, or other slots of it wait
    behind   the view has the revision that the ledger named
    refused  what an account of it was granted has changed; or by time
    any      what is told of it may not be so any more (`rechecks`)
    paused, stale, plugin    by time; and all of them by any change of policies, overrides, classes

Whatever is missed is caught by the resync, and counted there.
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
from holdfast.core.scheduling.queue.in_flight import InFlight, ProposedPart
from holdfast.core.scheduling.queue.quota_gates import payer_gate, protected_gate
from holdfast.core.scheduling.queue.rechecks import Rechecks
from holdfast.core.scheduling.queue.request_groups import RequestGroup
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason, SchedulingQueue
from holdfast.core.scheduling.selection import apply_filters

#: More rows than so many are not picked out: all rows are asked.
ROWS_MAX = 16
#: So many who sleep are asked at once: each takes a tenth of a millisecond, and there may be thousands.
ASKED_MAX = 64


class _Asking:
    """What those who sleep are asked about at one time, and by kind of slot what was found."""

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
        #: Which gates are shut for whom was asked last.
        self.shut: list[str] = []


class Unblocker:
    """Wakes groups of one queue."""

    def __init__(self, table: NodeTable, queue: SchedulingQueue, flight: InFlight) -> None:
        self._table = table
        self._queue = queue
        self._flight = flight
        #: On which nodes something changed or grew since somebody was not asked: by uid, as rows move.
        self._stirred: dict[Revision, None] = {}
        self._grown: dict[Revision, None] = {}
        self._changed: dict[Revision, None] = {}
        self._doubts = Rechecks(queue)

    def all(self) -> None:
        """Something changed that may cure anything."""
        self._queue.unblock_all()
        self._queue.backoff.changed()

    def assigned(self, assignment: Revision) -> None:
        """What is asked for is another thing than before, or other slots of it wait."""
        for group in self._queue.groups_of(assignment):
            blocked = self._queue.blocked.get(group.key)
            if blocked is not None and blocked.why is BlockReason.ASSIGNMENT:
                self._queue.unblock(group.key)

    def doubt(self, assignment: Revision, now: Instant) -> None:
        """Whether it may run here may be another thing than was told, though all of its groups sleep for others."""
        for group in self._queue.groups_of(assignment):
            self._doubts.note(group.key, now)

    def look_again(self, now: Instant) -> None:
        """Let those be looked at of whom something may be told that is not so, once all were asked what cures them."""
        if not self.has_unasked:
            self._doubts.look_again(now)

    def go_back(self) -> None:
        """Time is lower than it was said to be, and all who sleep are looked at for that, or pause."""
        self._doubts.go_back()

    def granted(self, account: str) -> None:
        """An account has more, or less: what was refused may go through. Gates are asked at every change."""
        for key in self._queue.blocked.refused_by(account):
            self._queue.unblock(key)
        self._queue.backoff.granted(account)

    def heard(self, state: RegionState, rules: SchedulingProfile, now: Instant) -> None:
        """The view is newer, or something that was proposed counts no more."""
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
        """Slots count where they were proposed, before anybody has answered: who must be near them, or waits until the
        emptiest domain has one more, may be placed beside them at once."""
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
        """Whether some who sleep were not asked yet whether what was heard cures them."""
        return self._queue.blocked.has_unasked()

    def ask(self, state: RegionState, rules: SchedulingProfile, now: Instant) -> None:
        """Ask those who sleep, the longest unasked first and not too many at once, whether what was heard cures them.

        Whoever is asked later is asked about all that was heard since anybody was left unasked.
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
            asking.shut = self._shut(state, group, asking.now)
            return not asking.shut
        if blocked.why is not BlockReason.NODES:
            return False
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
        """Whether what is told of it, which was just asked whether it is cured, may not be so any more."""
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

    def _shut(self, state: RegionState, group: RequestGroup, now: Instant) -> list[str]:
        """The codes of all gates that are shut for it."""
        pay = payer_gate(state, group.accounts, group.ask.template.need, now, self._flight.spent)
        kept = protected_gate(state, group.ask, self._flight.firm, self._flight.owed)
        shut = [gate for gate in (pay, kept) if not gate.most]
        if pay in shut:
            for entry in group.entries.values():
                entry.look_up(state)
                if entry.charged - entry.proposed:
                    shut.remove(pay)  # it needs no payer
                    break
        return [gate.code.value for gate in shut if gate.code is not None]

    def _takes(self, ask: SlotAsk, rows: Numbers, rules: SchedulingProfile, avoided: tuple[str, ...]) -> bool:
        """Whether one of the rows would take such a slot by the filters."""
        table = self._table
        try:
            if not len(rows):
                return False
            if len(rows) > ROWS_MAX:
                return bool(apply_filters(rules, all_rows(table, ask, avoided), {})[rows].any())
            return bool(apply_filters(rules, NodeWindow(table, ask, rows, avoided), {}).any())
        except PluginError:
            return True
