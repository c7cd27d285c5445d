"""Who is woken by what: a group that sleeps is looked at again when something has changed that can cure why it waits.

    nodes    a node came, changed, or has more free than before, and by the filters it would take such a slot;
             or what its rules count over domains is another number;
             or a member that it must share a node with stands where something changed, and there is room beside it
    gate     its payers can pay for one more, or less is kept for others; or a slot of it is charged already
    assignment    what the platform asks for has changed, or other slots of it wait
    behind   the view has the revision that the ledger named
    refused  what an account of it was granted has changed; or by time
    paused, stale, plugin    by time; and all of them by any change of policies, overrides, classes

Whatever is missed is caught by the resync, and counted there.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.core.ledger.overrides import in_force
from holdfast.core.model.shapes import Instant, Revision
from holdfast.core.model.topology import REGION_WIDE
from holdfast.core.model.workload import is_counted
from holdfast.core.region.members import scopes
from holdfast.core.region.state import RegionState
from holdfast.core.scheduling.ask import Ask, Kind
from holdfast.core.scheduling.choosing import filtered
from holdfast.core.scheduling.domains import Where
from holdfast.core.scheduling.flight import Flight
from holdfast.core.scheduling.framework import PluginError, Rulebook
from holdfast.core.scheduling.gates import paying, unprotected
from holdfast.core.scheduling.groups import Group
from holdfast.core.scheduling.queue import Queue, Why
from holdfast.core.scheduling.table import NodeTable
from holdfast.core.scheduling.window import Window, whole

#: More rows than so many are not asked one by one: all rows are asked at once.
ROWS_MAX = 16


def domain_counts(state: RegionState, ask: Ask, mine: Mapping[Where, int]) -> tuple[int, ...]:
    """What an ask's rules count over domains, and over how many."""
    if not is_counted(ask.template):
        return ()
    # With all of the region: a member counts that stands where nothing may be placed.
    names = [(REGION_WIDE, ""), *(where for where, _ in state.domains.items())]
    found = [
        (state.members.get((scope, key, name)) or 0) + mine.get((scope, key, name), 0)
        for scope, key in scopes(ask.template, ask.workload, ask.tenant)
        for kind, name in names
        if kind == key
    ]
    return (len(names), *found)


class Waking:
    """Wakes groups of one queue."""

    def __init__(self, table: NodeTable, queue: Queue, flight: Flight) -> None:
        self._table = table
        self._queue = queue
        self._flight = flight

    def all(self) -> None:
        """Something changed that may cure anything."""
        for key in list(self._queue.asleep):
            self._queue.wake(key)

    def assigned(self, assignment: Revision) -> None:
        """What is asked for is another thing than before, or other slots of it wait."""
        for group in self._queue.groups_of(assignment):
            asleep = self._queue.asleep.get(group.key)
            if asleep is not None and asleep.why is Why.ASSIGNMENT:
                self._queue.wake(group.key)

    def granted(self, account: str) -> None:
        """An account has more, or less: what was refused may go through. Gates are asked at every change."""
        for key, asleep in list(self._queue.asleep.items()):
            if asleep.why is Why.REFUSED and account in self._queue.groups[key].accounts:
                self._queue.wake(key)

    def heard(self, state: RegionState, rules: Rulebook, now: Instant) -> None:
        """The view is newer, or something that was proposed counts no more."""
        stirred, grown = self._table.stirred(), self._table.grown()
        if not self._queue.asleep:
            return
        avoided = tuple(sorted(in_force(state, now).zones))
        would: dict[Kind, bool] = {}
        for key, asleep in list(self._queue.asleep.items()):
            group = self._queue.groups[key]
            if asleep.why is Why.BEHIND:
                cures = asleep.examined <= self._table.revision
            elif asleep.why is Why.GATE:
                cures = self._opens(state, group, now)
            elif asleep.why is Why.NODES:
                kind = group.ask.kind
                if kind not in would:
                    would[kind] = self._takes(group.ask, grown, rules, avoided)
                cures = (
                    would[kind]
                    or asleep.counts != domain_counts(state, group.ask, self._flight.members)
                    or self._takes(group.ask, self._shared(state, group.ask, stirred), rules, avoided)
                )
            else:
                cures = False
            if cures:
                self._queue.wake(key)

    def _opens(self, state: RegionState, group: Group, now: Instant) -> bool:
        if not unprotected(state, group.ask, self._flight.firm).most:
            return False
        for entry in group.entries.values():
            entry.look_up(state)
            if entry.charged - entry.proposed:
                return True  # it needs no payer
        return paying(state, group.accounts, group.ask.template.need, now, self._flight.spent).most > 0

    def _shared(self, state: RegionState, ask: Ask, rows: list[int]) -> list[int]:
        """Which of the rows have a member that it must share a node with.

        Domains are too coarse for that: a member that went from one node to another may be in the same ones.
        """
        groups = [f"{ask.tenant}/{rule.group}" for rule in ask.template.near if rule.required and rule.key == "node"]
        names = [(row, self._table.nodes[row].name) for row in rows] if groups else []
        return [row for row, name in names if any(state.members.get((group, "node", name)) for group in groups)]

    def _takes(self, ask: Ask, rows: list[int], rules: Rulebook, avoided: tuple[str, ...]) -> bool:
        """Whether one of the rows would take such a slot by the filters."""
        table = self._table
        try:
            if len(rows) > ROWS_MAX:
                return bool(filtered(rules, whole(table, ask, avoided), {})[rows].any())
            return any(filtered(rules, Window(table, ask, slice(row, row + 1), avoided), {})[0] for row in rows)
        except PluginError:
            return True
