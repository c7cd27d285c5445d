"""What of batch work is over: as regions have told last, and what those did that hold nothing of it any more.

Ordinals of batch work are a region's own, so counts are enough: what is done in a region is part of what the region was
assigned, and does not move with the rest. When its assignment goes, the platform remembers how much was done there
(`done_before`), so that nobody does it again; what had failed there may be tried elsewhere.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.core.ledger.codec import template_digest
from holdfast.core.model.workload import Workload
from holdfast.core.platform.state import PlatformState


class Completed(NamedTuple):
    """How many of a workload's replicas are done, and how many have failed for good, the last of them for `why`."""

    done: int
    failed: int
    why: str

    @property
    def over(self) -> int:
        """How many do not run any more."""
        return self.done + self.failed


NOTHING_OVER = Completed(0, 0, "")


def completed(state: PlatformState, workload: Workload) -> Completed:
    """Of its present template, everywhere: what a lost region has done stays done. Of a service, nothing."""
    if not workload.spec.batch:
        return NOTHING_OVER
    digest, uid = template_digest(workload.spec.template), workload.meta.uid
    counts = [c for one in state.observed.get(uid) or () for c in one.seen.counts if c.template == digest]
    before = done_before(state, workload)
    why = next((count.why for count in counts if count.failed), "")
    return Completed(before + sum(c.done for c in counts), sum(c.failed for c in counts), why)


def done_before(state: PlatformState, workload: Workload) -> int:
    """How many of its present template were done by assignments that are gone."""
    kept = state.done_before.get(workload.meta.uid)
    return dict(kept).get(template_digest(workload.spec.template), 0) if kept else 0
