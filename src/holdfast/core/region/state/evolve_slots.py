"""Effects of events on slots: opened, bound, moved, stopped, released."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.core.ledger.envelope import Stamp
from holdfast.core.model.records.lifecycle import BOUND, PENDING, Phase
from holdfast.core.model.records.slots import Failure, FinishedOrdinals, Slot
from holdfast.core.model.values.bitsets import bitset_of
from holdfast.core.model.values.ranges import count_numbers, numbers, with_numbers
from holdfast.core.region import events as e
from holdfast.core.region.state.indexes import count_open, count_phases, count_template, replace_slot
from holdfast.core.region.state.lookups import RECEIPTS_SINCE, preemption_window
from holdfast.core.region.state.slot_kinds import count_kind, count_kinds
from holdfast.core.region.state.tables import RegionState


def slots_opened(state: RegionState, event: e.SlotsOpened, stamp: Stamp) -> None:
    workload, template, assignment = event.workload, event.template, event.assignment
    for ordinal in numbers(event.ordinals):
        slot = Slot(
            workload, ordinal, assignment, template, template, PENDING, stamp.revision, stamp.at, stamp.actor, "opened"
        )  # fmt: skip
        state.slots.put((workload, ordinal), slot)
    count = count_numbers(event.ordinals)
    count_phases(state, assignment, {PENDING: count})
    count_open(state, assignment, template, count, stamp.revision, stamp.at)
    count_kinds(state, assignment, None, (PENDING.value, template, template, ""), bitset_of(event.ordinals))
    count_template(state, template, 2 * count)


def slots_retargeted(state: RegionState, event: e.SlotsRetargeted, stamp: Stamp) -> None:
    for one in event.slots:
        old = state.slots[one.slot]
        new = replace(old, next_template=event.template, revision=stamp.revision)
        state.slots.put(one.slot, new)
        count_kind(state, old, new)
        count_template(state, event.template, 1)
        count_template(state, old.next_template, -1)


def slots_bound(state: RegionState, event: e.SlotsBound, stamp: Stamp) -> None:
    bound_at = stamp.at if state.info.level >= RECEIPTS_SINCE else 0
    for one in event.slots:
        old = state.slots[one.slot]
        new = replace(
            old, phase=BOUND, epoch=stamp.revision, reported=stamp.revision, ends=0, revision=stamp.revision,
            since=stamp.at, by=stamp.actor, cause="bound", detail="", bound_at=bound_at,
        )  # fmt: skip
        replace_slot(state, old, new, stamp.revision, stamp.at)


def slots_moved(state: RegionState, event: e.SlotsMoved, stamp: Stamp) -> None:
    by_agent = stamp.actor.startswith("agent/")
    for move in event.moves:
        old = state.slots[move.slot]
        failed = by_agent and move.phase is Phase.FAILED
        new = replace(
            old, phase=move.phase, cause=move.cause, detail=move.detail, revision=stamp.revision, since=stamp.at,
            by=stamp.actor,
            restarts=old.restarts + (move.cause == "restarted"),
            waits_for=() if move.phase is Phase.STARTING else old.waits_for,
            reported=stamp.revision if by_agent else old.reported,
            failure=Failure(move.cause, move.detail, stamp.at) if failed else old.failure,
        )  # fmt: skip
        replace_slot(state, old, new, stamp.revision, stamp.at)


def slots_stopping(state: RegionState, event: e.SlotsStopping, stamp: Stamp) -> None:
    for stop in event.stops:
        old = state.slots[stop.slot]
        new = replace(
            old, phase=Phase.TERMINATING, cause=event.cause, detail="", next_template=stop.next_template,
            revision=stamp.revision, since=stamp.at, by=stamp.actor, preempted=stop.receipt or old.preempted,
        )  # fmt: skip
        replace_slot(state, old, new, stamp.revision, stamp.at)
    if event.cause == "preempted" and state.info.level >= RECEIPTS_SINCE:
        window = preemption_window(state, stamp.at)
        state.region = replace(state.region, preempted=replace(window, count=window.count + len(event.stops)))


def slots_released(state: RegionState, event: e.SlotsReleased, stamp: Stamp) -> None:
    for release in event.releases:
        old = state.slots[release.slot]
        new = None
        if release.next_template:
            template = release.next_template
            failure = old.failure if template == old.template else None
            if release.cause == "declined":
                failure = Failure(release.cause, release.detail, stamp.at)
            new = Slot(
                old.workload, old.ordinal, old.assignment, template, template, PENDING, stamp.revision, stamp.at,
                stamp.actor, release.cause, account=release.account, detail=release.detail, failure=failure,
                attempts=old.attempts + (release.cause == "given-up") if template == old.template else 0,
                preempted=old.preempted,
            )  # fmt: skip
        replace_slot(state, old, new, stamp.revision, stamp.at)


def ordinals_finished(state: RegionState, event: e.OrdinalsFinished, stamp: Stamp) -> None:
    rows = {row.template: row for row in state.finished.get(event.assignment) or ()}
    before = rows.get(event.template) or FinishedOrdinals(event.template)
    rows[event.template] = FinishedOrdinals(
        event.template,
        with_numbers(before.done, event.done),
        with_numbers(before.failed, event.failed),
        event.why or before.why,
    )
    state.finished.put(event.assignment, tuple(rows[template] for template in sorted(rows)))


def slots_adopted(state: RegionState, event: e.SlotsAdopted, stamp: Stamp) -> None:
    for one in event.slots:
        old = state.slots[one.slot]
        replace_slot(state, old, replace(old, account=event.account, revision=stamp.revision), stamp.revision, stamp.at)


def pending_reported(state: RegionState, event: e.PendingReported, stamp: Stamp) -> None:
    requests = tuple(
        replace(r, examined=event.examined, attempts=r.attempts + 1, reasons=event.reasons)
        if r.template == event.template
        else r
        for r in state.requests[event.assignment]
    )
    state.requests.put(event.assignment, requests)
