"""Gangs in a cycle: which of them is tried, in which order, and what is left of the tries.

    broken ones ──▶ those that did not start, lowest number first ──▶ further members of those that have enough
         each, behind a savepoint of the draft: place its members ──▶ enough? kept : taken back in full

`least` members of a gang must be placed together. Nothing is held for a gang that is taken back, and after it only
those are tried that need fewer. Members in flight count as there: if their proposal is refused, the ledger also refuses
what was to follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from msgspec import Struct

from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.values.bitsets import masks, union
from holdfast.core.region.state.gangs import failed_members, members_in, standing_members
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.evidence import NOTHING_CHOSEN
from holdfast.core.scheduling.pending_reasons import GangMiss
from holdfast.core.scheduling.proposal_builder import ProposalBuilder, Waiting
from holdfast.core.scheduling.queue.quota_gates import QuotaGate
from holdfast.core.scheduling.queue.request_groups import QueuedRequest, RequestGroup
from holdfast.core.scheduling.selection import NodeSelection


class WaitingGang(NamedTuple):
    """A gang with waiting members, and how many of them must be placed together at least."""

    entry: QueuedRequest
    number: int
    ordinals: tuple[int, ...]
    least: int

    @property
    def gated(self) -> tuple[int, int]:
        """How many slots must be paid for, and leave protected capacity free."""
        charged = sum(ordinal in self.entry.charged for ordinal in self.ordinals)
        return max(0, self.least - charged), self.least

    def slots(self, payable: int, most: int) -> list[Waiting]:
        """Return the members that can be paid for, charged ones first."""
        charged = [ordinal for ordinal in self.ordinals if ordinal in self.entry.charged]
        others = [ordinal for ordinal in self.ordinals if ordinal not in self.entry.charged]
        return [(self.entry, ordinal) for ordinal in (*charged, *others[:payable])][:most]


class GangTrial(Struct):
    """The result of a trial of one group's gangs.

    If none is placed: the gang that did not fit, and the needs of the gang that no account pays for. Neither: too few
    members wait. If it `is_full`, the next gang belongs into another proposal.
    """

    placed: int = 0
    choice: NodeSelection = NOTHING_CHOSEN
    miss: GangMiss | None = None
    gated: tuple[int, int] | None = None
    is_full: bool = False


class Choose(Protocol):
    """Select nodes for a number of slots, of which fewer than `least` are of no use."""

    def __call__(self, count: int, *, least: int) -> NodeSelection: ...


def try_gangs(
    state: RegionState,
    draft: ProposalBuilder,
    group: RequestGroup,
    entries: Iterable[QueuedRequest],
    gates: tuple[QuotaGate, QuotaGate],
    choose: Choose,
) -> GangTrial:
    """Add the first gang that gates and nodes allow to the draft. `gates`: of payers, and of protected capacity."""
    gang, (pay, kept), found = group.ask.gang, gates, GangTrial()
    assert gang is not None
    for one in waiting_gangs(state, gang, entries):
        if len(one.ordinals) > draft.left:
            found.is_full = True
            break
        slots = one.slots(pay.most, kept.most)
        if len(slots) < one.least:
            found.gated = one.gated if found.gated is None else min(one.gated, found.gated)
            continue
        if found.miss is not None and one.least >= found.miss.least:
            continue
        savepoint, choice = draft.savepoint(), choose(len(slots), least=one.least)
        fits = len(choice.rows)
        if fits >= one.least:
            fits = draft.add(group, slots, choice.rows, pay.each)
        if fits >= one.least:
            draft.keep(savepoint)
            return GangTrial(fits, choice)
        draft.take_back(savepoint)
        found.miss, found.choice = GangMiss(one.number, one.least, fits), choice
    return found


def waiting_gangs(state: RegionState, gang: Gang, entries: Iterable[QueuedRequest]) -> list[WaitingGang]:
    """Return the gangs of which enough members wait, in the order in which they are tried."""
    found: list[tuple[int, WaitingGang]] = []
    for entry in entries:
        assignment = state.assignments[entry.key[0]]
        standing = union((standing_members(state, assignment.uid), masks(entry.proposed)))
        failed = failed_members(state, assignment)
        by_gang: dict[int, list[int]] = {}
        for ordinal in entry.look_up(state):
            by_gang.setdefault(ordinal // gang.size, []).append(ordinal)
        for number, ordinals in by_gang.items():
            there = members_in(standing, number, gang.size)
            one = WaitingGang(entry, number, tuple(ordinals), max(1, gang.needed - there))
            if len(ordinals) >= one.least and not members_in(failed, number, gang.size):
                found.append((0 if 0 < there < gang.needed else 1 if not there else 2, one))
    return [one for _, one in sorted(found, key=lambda ranked: ranked[0])]
