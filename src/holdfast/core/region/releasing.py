"""The end of a binding epoch: what an ordinal becomes, whether it keeps its charge, and which are over for good.

    succeeded ──released──▶ done                               does not come back
    failed ──given up, for the last time──▶ failed             neither, of batch work
           ──given up, fenced──▶ pending                       waits again, while it is wanted

Batch work that fails wherever it is placed would be started for ever: after so many attempts, each on a node and with
all restarts that its template allows there, its ordinal is given up. A node that is lost is not the work's fault.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.model.allotment import Stage
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import Slot
from holdfast.core.model.resources import exceeded
from holdfast.core.model.runs import has
from holdfast.core.model.shapes import Revision
from holdfast.core.region.events import OrdinalsFinished, Released
from holdfast.core.region.state import RegionState

#: So often an ordinal of batch work is placed and given up by an agent.
ATTEMPTS_MAX = 3


def released(state: RegionState, slot: Slot, cause: str, detail: str = "") -> Released:
    """The release of a slot. What is over for good does not come back; what is still wanted waits again.

    A charge belongs to a slot (RULES 7): it is kept unless the next template needs more than was paid for.
    """
    key = (slot.workload, slot.ordinal)
    is_over = slot.phase is Phase.SUCCEEDED or _has_failed(state, slot, cause)
    following = "" if is_over else slot.next_template
    if not following:
        return Released(key, slot.node, cause, "", "", detail)
    kept = slot.account
    if following != slot.template and exceeded(state.templates[following].need, state.templates[slot.template].need):
        kept = ""
    return Released(key, slot.node, cause, following, kept, detail)


def finished(state: RegionState, ended: Sequence[tuple[Slot, str]]) -> list[OrdinalsFinished]:
    """Which of these slots, each released for a cause, are over for good: of templates that are asked for, or of an
    assignment that has ended and has yet to tell what it did."""
    done: dict[tuple[Revision, str], list[int]] = {}
    failed: dict[tuple[Revision, str], list[int]] = {}
    why: dict[tuple[Revision, str], str] = {}
    for slot, cause in ended:
        name = slot.assignment, slot.template
        if not _is_told(state, slot):
            continue
        if slot.phase is Phase.SUCCEEDED:
            done.setdefault(name, []).append(slot.ordinal)
        elif _has_failed(state, slot, cause):
            failed.setdefault(name, []).append(slot.ordinal)
            why[name] = slot.cause
    return [
        OrdinalsFinished(
            uid, state.assignments[uid].workload, template,
            tuple(sorted(done.get((uid, template), ()))), tuple(sorted(failed.get((uid, template), ()))),
            why.get((uid, template), ""),
        )
        for uid, template in sorted({*done, *failed})
    ]  # fmt: skip


def is_finished(state: RegionState, assignment: Revision, ordinal: int) -> bool:
    """Whether an ordinal is over for good."""
    return any(has(row.done, ordinal) or has(row.failed, ordinal) for row in state.finished.get(assignment) or ())


def _has_failed(state: RegionState, slot: Slot, cause: str) -> bool:
    """Whether it was given up for the last time. Not if it is wanted no more, or is to become something else."""
    is_last = cause == "given-up" and slot.attempts + 1 >= ATTEMPTS_MAX
    return is_last and slot.next_template == slot.template and state.assignments[slot.assignment].batch


def _is_told(state: RegionState, slot: Slot) -> bool:
    assignment = state.assignments[slot.assignment]
    return assignment.stage is Stage.ENDED or any(share.template == slot.template for share in assignment.shares)
