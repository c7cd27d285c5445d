"""What goes into a scheduling cycle, and what it says of requests that wait."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.model.records.decisions import SchedulingPass
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.queue.peers import ALONE, SchedulerPeers
from holdfast.core.scheduling.queue.request_groups import QueuedRequest


class UnplacedRequest(Struct, frozen=True):
    """A request with open slots left after a pass: reasons, evidence of the pass, and policy."""

    entry: QueuedRequest
    reasons: tuple[PendingReason, ...]
    found: SchedulingPass
    policy: Revision


class SchedulerView(Struct, frozen=True):
    """The input of a cycle: the state, its time, its age at most, and the other live schedulers."""

    state: RegionState
    now: Instant
    age_ms: int = 0
    peers: SchedulerPeers = ALONE
