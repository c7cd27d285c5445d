"""What keeps a proposal that is repeated from being done twice, each guard with the plant that takes it away.

number    a repeat is known by its number, and gets the first answer
phase     a slot that does not wait is not placed
port      a port that is taken, be it by the slot itself, is not given again
count     of a request no more is placed than waits: that is a mistake of ours, and its batch is never written
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.commit import authorization
from holdfast.core.ledger.commit.dedup import find_duplicate
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.model.records.lifecycle import PENDING
from holdfast.core.model.records.slots import Slot
from holdfast.core.model.values.structs import SlotKey
from holdfast.core.region.commands import Propose, SlotPlacement
from holdfast.core.region.decide import coalesced_proposals, proposals
from holdfast.core.region.decide.proposal_scratch import ProposalScratch
from holdfast.core.region.decide.proposal_terms import GroupTerms
from holdfast.core.region.queries import feasibility
from holdfast.core.region.state import evolve_placements
from holdfast.core.region.state.indexes import count_open
from holdfast.sim.runs.run import RunReport


def number_ignored(patch: pytest.MonkeyPatch) -> None:
    """RULES 12: nobody looks whether a proposal was answered before. Every other command is looked at."""

    def planted(state: Any, ctx: CommandContext) -> Any:
        return None if isinstance(ctx.command, Propose) else find_duplicate(state, ctx)

    patch.setattr(authorization, "find_duplicate", planted)


def phase_ignored(patch: pytest.MonkeyPatch) -> None:
    """The ledger believes schedulers that a slot waits."""
    place = proposals.check_placement

    def planted(trial: ProposalScratch, terms: GroupTerms, placement: SlotPlacement) -> Any:
        said, slot_of = (terms.workload, placement.ordinal), trial.slot_of

        def as_said(key: SlotKey) -> Slot | None:
            slot = slot_of(key)
            return replace(slot, phase=PENDING) if slot is not None and key == said else slot

        trial.slot_of = as_said
        try:
            return place(trial, terms, placement)
        finally:
            trial.slot_of = slot_of

    for where in (proposals, coalesced_proposals):
        patch.setattr(where, "check_placement", planted)


def port_ignored(patch: pytest.MonkeyPatch) -> None:
    """The ledger believes schedulers that ports are free."""
    patch.setattr(feasibility, "fits_ports", lambda *_args: None)


def count_ignored(patch: pytest.MonkeyPatch) -> None:
    """RULES 16: a batch is written although what it says cannot be."""

    def planted(*args: Any) -> None:
        with suppress(AssertionError):
            count_open(*args)

    patch.setattr(evolve_placements, "count_open", planted)


GUARDS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "number": number_ignored,
    "phase": phase_ignored,
    "port": port_ignored,
    "count": count_ignored,
}


@contextmanager
def guarded_by(*names: str) -> Iterator[None]:
    """Only these guards are left."""
    with pytest.MonkeyPatch.context() as patch:
        for name, take_away in GUARDS.items():
            if name not in names:
                take_away(patch)
        yield


def done_twice(report: RunReport) -> list[str]:
    """The proposals that a run has twice in its logs."""
    return [one.detail for one in report.findings if one.promise == "once" and one.detail.startswith("propose ")]
