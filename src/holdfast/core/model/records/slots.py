"""Slots, scheduling requests, finished ordinals and standalone reservations of a region."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.ranges import Ranges
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Instant, Revision, Row, SlotKey


class Failure(Row, frozen=True):
    """The agent's last report of why a slot failed or was declined, and when."""

    cause: str
    detail: str
    at: Instant


class PreemptionReceipt(Row, frozen=True):
    """What a victim is told: who took its place, by which rule, with which priorities, and when.

    `rule` is `priority`, or `reclaimed`: recovery takes back what reclaimable work borrowed. `priority` is that of the
    successor's class, `own` that of the victim's. Names are those of that time: the successor may be gone.
    """

    successor: SlotKey
    tenant: str
    workload_name: str
    rule: str
    priority: int
    own: int
    at: Instant


class PreemptionWindow(Row, frozen=True):
    """How many slots were preempted in a region since the window began."""

    since: Instant = 0
    count: int = 0


class Slot(Row, frozen=True):
    """One ordinal of a workload. Its identity is (workload uid, ordinal).

    The slot runs `template`; its ordinal gets `next_template` once the slot is released, empty: the ordinal is no
    longer wanted. `epoch` is the revision of the current binding. `waits_for` names the slots that must end before this
    one starts; `successor` is the slot that waits for this one. `account` is the account that is charged; empty: none.
    `by`, `since`, `cause` and `evidence` are the actor of the last move, its time, its cause and the revision of the
    actor's view; `detail` is the actor's comment. `failure` is the last failure, under this epoch or an earlier one of
    the same template. `firm` work stays; other work may be reclaimed. `reported` is the revision of the binding, or of
    the agent's last report. `attempts` counts how often agents gave up the ordinal under this template. `bound_at` is
    the time of the binding, 0 without one. `preempted` is the receipt of the ordinal's last preemption, and `victims`
    are the slots after which this one was placed: their receipts name it.
    """

    workload: Revision
    ordinal: int
    assignment: Revision
    template: str
    next_template: str
    phase: Phase
    revision: Revision
    since: Instant
    by: str
    cause: str = ""
    evidence: Revision = 0
    epoch: Revision = 0
    node: Revision = 0
    devices: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    account: str = ""
    ends: Instant = 0
    restarts: int = 0
    waits_for: tuple[SlotKey, ...] = ()
    successor: SlotKey | None = None
    firm: bool = True
    reported: Revision = 0
    detail: str = ""
    failure: Failure | None = None
    attempts: int = 0
    bound_at: Instant = 0
    preempted: PreemptionReceipt | None = None
    victims: tuple[SlotKey, ...] = ()

    ADDED: ClassVar[Mapping[str, int]] = {"bound_at": 3, "preempted": 3, "victims": 3}


class FinishedOrdinals(Row, frozen=True):
    """The finished ordinals of batch work of one template: succeeded, or failed for good.

    The cause of the last failure is `why`.
    """

    template: str
    done: Ranges = ()
    failed: Ranges = ()
    why: str = ""


class PendingReason(Row, frozen=True):
    """One node of the tree of reasons why a request is pending: a code, a count, and the nodes below it."""

    code: str
    count: int
    message: str = ""
    below: tuple[PendingReason, ...] = ()


class SchedulingRequest(Row, frozen=True):
    """The open slots of one assignment and template: they are equivalent by construction."""

    uid: Revision
    assignment: Revision
    template: str
    open: int
    since: Instant
    examined: Revision = 0
    attempts: int = 0
    reasons: tuple[PendingReason, ...] = ()


class ReservationPurpose(StrEnum):
    """Why capacity is held without a slot."""

    PLACEHOLDER = "placeholder"
    DATED = "dated"
    ROOM = "room"
    OFFER = "offer"


class Reservation(Row, frozen=True):
    """Capacity held on one node without a slot, until an end. `assignment` 0: it belongs to no standby assignment."""

    uid: Revision
    purpose: ReservationPurpose
    owner: str
    tenant: str
    assignment: Revision
    template: str
    node: Revision
    need: Resources
    devices: tuple[int, ...]
    device_milli: int
    account: str
    ends: Instant
    revision: Revision = 0

    ADDED: ClassVar[Mapping[str, int]] = {"revision": 2}


def changed_at(hold: Reservation) -> Revision:
    """Return the revision of a hold's last change; in logs of level 1, which lack it, that of its creation."""
    return hold.revision or hold.uid
