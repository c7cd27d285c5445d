"""The link, judged by both logs: each step is applied once and in its turn, and at its cursor a region has what was
meant.

A region that misses a step never hears of it again: the cursor is its acknowledgement (RULES 14). So what the platform
means it to have at or before that place must be here, at every moment and not only in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.core.ledger.codec import Batch
from holdfast.core.ledger.revision import revision, show
from holdfast.core.model.allotment import Stage
from holdfast.core.platform.state import PlatformState
from holdfast.core.region import events as e
from holdfast.core.region.state import RegionState
from holdfast.sim.audit import Finding


class Steps:
    """The judge of the steps in one region's log."""

    def __init__(self, where: str, find: Callable[[Finding], None]) -> None:
        self._where = where
        self._find = find
        self._log = ""
        self._cursor = 0
        self._lists = False

    def take(self, batch: Batch[Any]) -> None:
        """The next batch."""
        position = revision(batch.header.seq)
        for record in batch.records:
            for event in record.events:
                match event:
                    case e.ListTaken() | e.ListSwept():
                        self._lists = True
                    case e.CursorMoved(log_id, _, cursor):
                        self._move(log_id, cursor, f"{self._where} {show(position)}")
                position += 1

    def _move(self, log_id: str, cursor: int, place: str) -> None:
        """A list may begin again where the cursor is; a step never does."""
        if log_id == self._log and not self._lists and cursor <= self._cursor:
            told = f"a step to {show(cursor)} is applied, and the cursor was at {show(self._cursor)}"
            self._find(Finding("step-once", f"{place}: {told}"))
        self._log, self._cursor, self._lists = log_id, cursor, False


def missed(platform: PlatformState, regions: Mapping[str, RegionState]) -> Iterator[Finding]:
    """What regions should have by their cursors, and have not."""
    for name, state in regions.items():
        place = state.place
        if place.listing is not None or place.platform_log != platform.facts.log_id:
            continue
        for uid, assignment in platform.assignments.items():
            if assignment.region != name or assignment.revision > place.cursor or assignment.stage is Stage.ENDED:
                continue
            here = state.assignments.get(uid)
            if here is None or here.revision < assignment.revision:
                told = f"assignment {uid} of {show(assignment.revision)}"
                yield Finding("step-missed", f"{name} is at {show(place.cursor)} and has not {told}")
        for grant in platform.grants.values():
            if grant.region == name and grant.revision <= place.cursor:
                known = state.allowances.get(grant.account)
                if known is None or known.version < grant.version:
                    told = f"version {grant.version} of {grant.account}"
                    yield Finding("step-missed", f"{name} is at {show(place.cursor)} and has not {told}")
