"""Checks the link by both logs: a region applies each step once and in order, and has everything up to its cursor.

A region never receives a missed step again, since the cursor is its acknowledgement (RULES 14). So at every moment the
region must have all that the platform shipped up to the cursor. Objects deleted on the platform must be deleted in the
region soon.
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

#: Creator of the objects that every log begins with: each ledger has its own.
OWN = "ledger"


class LinkStepCheck:
    """Checks the steps in one region's log."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        self._log = ""
        self._cursor = 0
        self._lists = False

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
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
        """Check a cursor move: a full list may start at the cursor, but a step must be beyond it."""
        if log_id == self._log and not self._lists and cursor <= self._cursor:
            told = (
                f"a step to {format_revision(cursor)} is applied, but the cursor was at {format_revision(self._cursor)}"
            )
            self._find(Finding("step-once", f"{place}: {told}"))
        self._log, self._cursor, self._lists = log_id, cursor, False


def missed_steps(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Finding]:
    """Yield objects up to a region's cursor that the region does not have."""
    for name, state in regions.items():
        place = state.region
        if place.listing is not None or place.platform_log != platform.info.log_id:
            continue
        for told in (*_own(platform, name, state), *_everybodys(platform, name, state)):
            yield Finding("step-missed", f"{name} is at {format_revision(place.cursor)} but lacks {told}")


def _own(platform: PlatformState, name: str, state: RegionState) -> Iterator[str]:
    """Yield missing objects that are for one region only."""
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
    """Yield missing copies that every region needs: principals, tokens, priority classes, policies, and overrides
    except those of other regions."""
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
    """Yield copies of objects that the platform has deleted or changed: a region must follow soon, though no cursor
    sets a time."""
    for kind, there, here in _copied(platform, state):
        more = [key for key, one in here.items() if key not in there and one.meta.created_by != OWN]
        if more:
            yield Unconverged("shipped", f"{name} {kind}", f"remains for deleted {sorted(more)}", PROMPT_MS)
    more_of = {uid for uid, _ in state.platform_overrides.items()} - {*overrides_for(platform, name)}
    if more_of:
        yield Unconverged("shipped", f"{name} override", f"remains for deleted {sorted(more_of)}", PROMPT_MS)
    meant = {one.scope: one.revision for one in platform.validities.values() if one.region == name}
    valid = dict(state.validities.items())
    if meant != valid:
        yield Unconverged("shipped", f"{name} policies", f"are valid as {valid}, but should be {meant}", PROMPT_MS)


def overrides_for(platform: PlatformState, name: str) -> list[Revision]:
    """Return the uids of overrides for this region or for all regions."""
    return [uid for uid, one in platform.overrides.items() if one.region in ("", name)]


def _copied(platform: PlatformState, state: RegionState) -> tuple[tuple[str, Table[str, Any], Table[str, Any]], ...]:
    """Return, by kind, the platform's objects and the region's copies."""
    return (
        ("principal", platform.principals, state.principals),
        ("token", platform.tokens, state.tokens),
        ("priority class", platform.priority_classes, state.priority_classes),
    )
