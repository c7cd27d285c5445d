"""The evidence of one pass for a request group: what it read, what it found, and who acts next."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.model.records.decisions import QuotaSnapshot, SchedulingPass
from holdfast.core.region.queries.accounts import charged
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.queue.request_groups import QueuedRequest, RequestGroup
from holdfast.core.scheduling.selection import NodeSelection

NOTHING_CHOSEN = NodeSelection([], 0, {})


def pass_evidence(
    state: RegionState,
    group: RequestGroup,
    entries: Sequence[QueuedRequest],
    outcome: str,
    choice: NodeSelection = NOTHING_CHOSEN,
    seed: int = 0,
    nearest: str = "",
    preempted: int = 0,
) -> SchedulingPass:
    """Return the evidence for these requests of a group."""
    requests = tuple((uid, state.assignments[uid].generation) for uid, _ in (entry.key for entry in entries))
    seen = [(account, state.accepted_grants.get(account)) for account in group.accounts]
    return SchedulingPass(
        requests=requests,
        template=group.ask.digest,
        queued_since=min((entry.request.since for entry in entries), default=0),
        outcome=outcome,
        next_owner="agent" if outcome == "placed" else "scheduler",
        seed=seed,
        quota=tuple(QuotaSnapshot(a, charged(state, a), known.target) for a, known in seen if known is not None),
        examined=choice.examined,
        rejected=tuple((code.value, detail, count) for (code, detail), count in choice.rejected.items()),
        nearest=nearest,
        candidates=choice.candidates,
        preempted=preempted,
    )
