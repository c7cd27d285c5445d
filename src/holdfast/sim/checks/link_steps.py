"""The link, judged by both logs: each step is applied once and in its turn, and at its cursor a region has what was
meant.

A region that misses a step never hears of it again: the cursor is its acknowledgement (RULES 14). So what the platform
means it to have at or before that place must be here, at every moment and not only in the end. What is gone there is
gone here soon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.ledger.state.table import Table
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region import events as e
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.deadlines import PROMPT_MS, Unconverged
from holdfast.sim.checks.ledger_audit import Finding

#: Who has made what every log begins with: each ledger has its own.
OWN = "ledger"


class LinkStepCheck:
    """The judge of the steps in one region's log."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        self._log = ""
        self._cursor = 0
        self._lists = False

    def take(self, batch: Batch[Any]) -> None:
        """The next batch."""
        position = pack_revision(batch.header.seq)
        for record in batch.records:
            for event in record.events:
                match event:
                    case e.ListTaken() | e.ListSwept():
                        self._lists = True
                    case e.CursorMoved(log_id, _, cursor):
                        self._move(log_id, cursor, f"{self._where} {format_revision(position)}")
                position += 1

    def _move(self, log_id: str, cursor: int, place: str) -> None:
        """A list may begin again where the cursor is; a step never does."""
        if log_id == self._log and not self._lists and cursor <= self._cursor:
            told = (
                f"a step to {format_revision(cursor)} is applied, and the cursor was at {format_revision(self._cursor)}"
            )
            self._find(Finding("step-once", f"{place}: {told}"))
        self._log, self._cursor, self._lists = log_id, cursor, False


def missed_steps(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Finding]:
    """What regions should have by their cursors, and have not."""
    for name, state in regions.items():
        place = state.region
        if place.listing is not None or place.platform_log != platform.info.log_id:
            continue
        for told in (*_own(platform, name, state), *_everybodys(platform, name, state)):
            yield Finding("step-missed", f"{name} is at {format_revision(place.cursor)} and has not {told}")


def _own(platform: PlatformState, name: str, state: RegionState) -> Iterator[str]:
    """What is meant for one region alone."""
    cursor = state.region.cursor
    for uid, assignment in platform.assignments.items():
        if assignment.region != name or assignment.revision > cursor or assignment.stage is AssignmentStage.ENDED:
            continue
        here = state.assignments.get(uid)
        if here is None or here.revision < assignment.revision:
            yield f"assignment {uid} of {format_revision(assignment.revision)}"
    for grant in platform.grants.values():
        if grant.region == name and grant.revision <= cursor:
            known = state.accepted_grants.get(grant.account)
            if known is None or known.version < grant.version:
                yield f"version {grant.version} of {grant.account}"


def _everybodys(platform: PlatformState, name: str, state: RegionState) -> Iterator[str]:
    """What every region has a copy of: who may act, by what secret, in which order; policies; and overrides, but those
    of other regions."""
    cursor = state.region.cursor
    for kind, there, here in _copied(platform, state):
        for key, one in there.items():
            if one.meta.revision <= cursor and one.meta.created_by != OWN:
                known = here.get(key)
                if known is None or known.meta.revision < one.meta.revision:
                    yield f"{kind} {key} of {format_revision(one.meta.revision)}"
    for uid in overrides_for(platform, name):
        if uid <= cursor and uid not in state.platform_overrides:
            yield f"override {format_revision(uid)}"
    for policy in platform.policies.values():
        if policy.revision <= cursor and policy.revision not in state.policies:
            yield f"policy {format_revision(policy.revision)}"


def leftover_copies(platform: PlatformState, name: str, state: RegionState) -> Iterator[Unconverged]:
    """Copies of what the platform has no more, or has otherwise: told soon, though no cursor says when."""
    for kind, there, here in _copied(platform, state):
        more = [key for key, one in here.items() if key not in there and one.meta.created_by != OWN]
        if more:
            yield Unconverged("shipped", f"{name} {kind}", f"is there for {sorted(more)}, which are gone", PROMPT_MS)
    more_of = {uid for uid, _ in state.platform_overrides.items()} - {*overrides_for(platform, name)}
    if more_of:
        yield Unconverged("shipped", f"{name} override", f"is there for {sorted(more_of)}, which are gone", PROMPT_MS)
    meant = {one.scope: one.revision for one in platform.validities.values() if one.region == name}
    valid = dict(state.validities.items())
    if meant != valid:
        yield Unconverged("shipped", f"{name} policies", f"are valid as {valid}, and meant as {meant}", PROMPT_MS)


def overrides_for(platform: PlatformState, name: str) -> list[Revision]:
    """Overrides of a region, or of all."""
    return [uid for uid, one in platform.overrides.items() if one.region in ("", name)]


def _copied(platform: PlatformState, state: RegionState) -> tuple[tuple[str, Table[str, Any], Table[str, Any]], ...]:
    """By kind: the platform's objects, and a region's copies of them."""
    return (
        ("principal", platform.principals, state.principals),
        ("token", platform.tokens, state.tokens),
        ("priority class", platform.priority_classes, state.priority_classes),
    )
