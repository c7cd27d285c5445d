"""What a region holds: slots, scheduling requests, reservations, and the room they take on nodes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.values.ranges import Ranges
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Instant, Revision, Row, SlotKey


class Failure(Row, frozen=True):
    """What an agent said last of why a slot failed, or was declined, and when."""

    cause: str
    detail: str
    at: Instant


class Slot(Row, frozen=True):
    """One ordinal of a workload. Its identity is (workload uid, ordinal).

    `template` is what it runs now, `next_template` what its ordinal becomes once it is released: empty means that it
    is not wanted any more. `epoch` is the revision of its present binding. `after` names the slots whose room it
    waits for, `heir` the slot that waits for this one. `account` is what it is charged to; empty means uncharged.
    `by`, `since`, `cause` and `evidence` tell who made the last move, when, why, and on which revision of its view;
    `detail` is what the mover said besides. `failure` is how it failed last, under this epoch or an earlier one of the
    same template. `firm` work stays; work that is not may be reclaimed. `reported` is the revision of the binding, or
    of its agent's last word. `attempts` counts how often its ordinal was placed under this template and given up by an
    agent.
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


class FinishedOrdinals(Row, frozen=True):
    """Which ordinals of batch work are over for good, of one template: done, or failed too often.

    `why` is the cause for which the last of those has failed.
    """

    template: str
    done: Ranges = ()
    failed: Ranges = ()
    why: str = ""


class PendingReason(Row, frozen=True):
    """One node of the tree of why a request waits: a code, a count, and what lies below it."""

    code: str
    count: int
    message: str = ""
    below: tuple[PendingReason, ...] = ()


class SchedulingRequest(Row, frozen=True):
    """The open slots of one assignment and template: an equivalence class by construction."""

    uid: Revision
    assignment: Revision
    template: str
    open: int
    since: Instant
    examined: Revision = 0
    attempts: int = 0
    reasons: tuple[PendingReason, ...] = ()


class ReservationPurpose(StrEnum):
    """Why room is held without a slot."""

    PLACEHOLDER = "placeholder"
    DATED = "dated"
    ROOM = "room"
    OFFER = "offer"


class Reservation(Row, frozen=True):
    """Room held on one node, standing alone, until its end. `assignment` 0: it belongs to nobody's standby."""

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
    """The revision of its last change: in logs of level 1 that is not known, and the one of its beginning stands in."""
    return hold.revision or hold.uid
