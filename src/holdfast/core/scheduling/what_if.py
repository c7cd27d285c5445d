"""What-if: the production scheduler and the given controllers on a fork of the state.

    fork ──▶ decide the change ──▶ controllers and scheduler, until both are idle ──▶ result

All decisions are made by production code. Only nodes do not act: bound slots stay bound, and slots to be stopped stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.ledger.reconciler import Reconciler, WatchKey, keys_to_wake, principal
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import WATCH_KEYS
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.queue.request_groups import RequestKey
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.view import SchedulerView

#: Limit of rounds, more than any run needs.
ROUNDS_MAX = 10_000

_unmet = msgspec.msgpack.Decoder(list[RefusedPart])


class WhatIf(Struct, frozen=True):
    """The result: refusals of the change, placements by slot, and waiting requests with reasons.

    `state` is the fork at the end.
    """

    refused: tuple[Refused, ...]
    placed: dict[SlotKey, Revision]
    waiting: dict[RequestKey, tuple[PendingReason, ...]]
    state: RegionState


class _Fork:
    """A fork of the state, with the keys touched since they were last taken."""

    def __init__(self, state: RegionState, now: Instant) -> None:
        self.state: RegionState = state.fork()
        self.now = max(now, state.info.at)
        self.touched: dict[WatchKey, None] = {}

    def submit(self, *envelopes: Envelope[Any]) -> list[Committed | Refused]:
        """Decide commands in one batch."""
        draft = BatchDraft(REGION, self.state)
        answers = [draft.add(envelope, self.now) for envelope in envelopes]
        draft.seal()
        seq = self.state.info.seq + 1
        number = 0
        for record in draft.batch().records:
            for event in record.events:
                self.touched.update(dict.fromkeys(WATCH_KEYS[type(event)](event, pack_revision(seq, number))))
                number += 1
        draft.commit()
        return [answer for answer in answers if isinstance(answer, Committed | Refused)]

    def heard(self) -> list[WatchKey]:
        """Return the keys touched since the last call."""
        touched, self.touched = list(self.touched), {}
        return touched


def what_if(
    state: RegionState,
    change: Sequence[Envelope[Any]],
    plugins: Plugins,
    now: Instant,
    controllers: Sequence[Reconciler[RegionState]] = (),
) -> WhatIf:
    """Return what the region would do if these commands were sent now."""
    fork = _Fork(state, now)
    refused = [answer for answer in fork.submit(*change) if isinstance(answer, Refused)] if change else []
    scheduler = Scheduler(plugins)
    scheduler.load(fork.state)
    placed: dict[SlotKey, Revision] = {}
    waiting: dict[RequestKey, tuple[PendingReason, ...]] = {}
    keys = {controller.name: list(controller.keys(fork.state)) for controller in controllers}
    fork.heard()
    for _ in range(ROUNDS_MAX):
        busy = _control(fork, controllers, keys)
        busy |= _schedule(fork, scheduler, placed, waiting)
        touched = fork.heard()
        scheduler.observe(fork.state, touched, pack_revision(fork.state.info.seq, INDEX_MAX), fork.now)
        for controller in controllers:
            keys[controller.name] = list(dict.fromkeys(keys_to_wake(controller, fork.state, touched)))
        if not busy:
            break
    still = {key: reasons for key, reasons in waiting.items() if scheduler.queue.entry(key) is not None}
    return WhatIf(tuple(refused), placed, still, fork.state)


def _control(fork: _Fork, controllers: Sequence[Reconciler[RegionState]], keys: dict[str, list[Any]]) -> bool:
    """Reconcile each controller's keys. Return whether a command was accepted."""
    envelopes = [
        Envelope(principal(one.name), wanted.command, fork.now, cause=wanted.cause)
        for one in controllers
        for key in keys[one.name]
        for wanted in one.reconcile(fork.state, key, fork.now).commands
    ]
    return bool(envelopes) and any(isinstance(answer, Committed) for answer in fork.submit(*envelopes))


def _schedule(
    fork: _Fork,
    scheduler: Scheduler,
    placed: dict[SlotKey, Revision],
    waiting: dict[RequestKey, tuple[PendingReason, ...]],
) -> bool:
    """Run one cycle. Return whether its proposal was accepted, or more groups are active."""
    attempt, waits = scheduler.run_cycle(SchedulerView(fork.state, fork.now))
    for one in waits:
        waiting[one.entry.key] = one.reasons
    if attempt is None:
        return scheduler.has_more
    envelope = Envelope(principal("scheduler"), attempt.command, fork.now, view=attempt.view, policy=attempt.policy)
    (answer,) = fork.submit(envelope)
    if isinstance(answer, Refused):
        parts = [RefusedPart(*one) for one in answer.facts.get("refused", ())]
        scheduler.on_refused(attempt, answer.code, parts, 0)
        return False
    scheduler.on_accepted(attempt, answer.revision, _unmet.decode(answer.answer) if answer.answer else [])
    for group, workload in zip(attempt.command.groups, attempt.workloads, strict=True):
        for placement in group.placements:
            slot = fork.state.slots.get((workload, placement.ordinal))
            if slot is not None and slot.node == placement.node:
                placed[workload, placement.ordinal] = placement.node
    return True
