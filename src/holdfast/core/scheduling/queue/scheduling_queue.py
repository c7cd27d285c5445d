"""The scheduling queue: waiting requests in groups of equal ones, active or blocked.

    request ──▶ its group: equal ask, urgency, tenant and accounts
    active, best first ──▶ tried ──▶ placed, or blocked until a change that may cure the cause

The queue follows from the state, so a restarted scheduler has the same one. Equal requests are all feasible or none, so
they are tried and blocked together. The oldest is served first.

Size: a queue and what stands in it, which change together.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from enum import StrEnum
from heapq import heappop, heappush

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.structs import Duration, Instant, Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.queue.backoff import GroupBackoff
from holdfast.core.scheduling.queue.blocked_groups import BlockedIndex
from holdfast.core.scheduling.queue.fair_share import FairOrder
from holdfast.core.scheduling.queue.peers import PeerShare
from holdfast.core.scheduling.queue.request_groups import (
    GroupKey,
    QueuedRequest,
    RequestGroup,
    RequestKey,
    group_key,
    turns_at,
)
from holdfast.core.scheduling.queue.tenant_shares import TenantShares

#: Stale deadline turns, beyond the number of valid ones.
STALE_TURNS_MAX = 64
#: Due groups unblocked at once: thousands may be due in the same second.
DUE_MAX = 1_000


class BlockReason(StrEnum):
    """The cause for which a blocked group waits."""

    NODES = "nodes"
    GATE = "gate"
    ASSIGNMENT = "assignment"
    PAUSED = "paused"
    STALE = "stale"
    BEHIND = "behind"
    REFUSED = "refused"
    PLUGIN = "plugin"
    PEERS = "peers"


class BlockedGroup(Struct, frozen=True):
    """Why a group is blocked, the revision of its last attempt, and when it is due in any case.

    For a group that is behind, `examined` is the revision to wait for. `counts` are its domain counts, and `scopes`
    those in which one more slot may cure it. With `resync`, time is no cure: a placement is a resync hit. `reason` is
    the first reported code, supported by `kept` nodes; `stirs` was the count of node changes then (`rechecks`).
    `gated`: how many slots of a gang must be paid for, and must leave protected capacity free, together.
    """

    why: BlockReason
    examined: Revision
    until: Instant
    counts: tuple[object, ...] = ()
    resync: bool = False
    reason: str = ""
    kept: int = 0
    stirs: int = 0
    scopes: tuple[str, ...] = ()
    gated: tuple[int, int] | None = None


class SchedulingQueue:
    """All waiting requests of a region."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, RequestGroup] = {}
        self.share = PeerShare()
        self.blocked = BlockedIndex()
        self.backoff = GroupBackoff()
        self._group_of: dict[RequestKey, RequestGroup] = {}
        self._by_assignment: dict[Revision, tuple[str, ...]] = {}
        #: Assignments with a request of which the state lacks a part.
        self._unknown: set[Revision] = set()
        #: Groups active without an observed change: a placement shows a missing unblock rule.
        self._unprompted: dict[GroupKey, None] = {}
        #: Requests with slots in flight that no longer wait, since `take_shown`.
        self._shown: dict[QueuedRequest, None] = {}
        #: Groups that changed since they were ordered; and active groups with open slots, in order.
        self._news: list[RequestGroup] = []
        self.turns = FairOrder(self._is_open)
        self._shares = TenantShares(RegionState())
        #: The time for deadlines; and each assignment's next deadline turn, with a heap that may contain stale ones.
        self._now: Instant = 0
        self._turns_at: dict[Revision, Instant] = {}
        self._turning: list[tuple[Instant, Revision]] = []

    def __len__(self) -> int:
        return len(self._group_of)

    def entry(self, key: RequestKey) -> QueuedRequest | None:
        """Return a waiting request."""
        group = self._group_of.get(key)
        return group.get(key) if group is not None else None

    def group(self, key: RequestKey) -> RequestGroup | None:
        """Return the group of a request."""
        return self._group_of.get(key)

    def groups_of(self, assignment: Revision) -> list[RequestGroup]:
        """Return the groups of an assignment's requests."""
        keys = [(assignment, template) for template in self._by_assignment.get(assignment, ())]
        return [self._group_of[key] for key in keys if key in self._group_of]

    def load(self, state: RegionState) -> None:
        """Load all requests of a state, at its time."""
        self.begin_load(state)
        gone = [uid for uid in self._by_assignment if uid not in state.requests]
        for uid in (*gone, *state.requests.keys()):
            self.update(state, uid)

    def begin_load(self, state: RegionState) -> None:
        """Use the time of a state for deadlines."""
        self._now = max(self._now, state.info.at)

    def update(self, state: RegionState, assignment: Revision) -> None:
        """Load the requests of one assignment."""
        requests = state.requests.get(assignment) or ()
        known = self._by_assignment.get(assignment, ())
        self._unknown.discard(assignment)
        for template in known:
            if all(request.template != template for request in requests):
                gone = self._drop((assignment, template))
                if gone is not None and gone.proposed:
                    gone.close()
                    self._shown[gone] = None
        if requests:
            self._by_assignment[assignment] = tuple(request.template for request in requests)
        else:
            self._by_assignment.pop(assignment, None)
        self._note_turn(state, assignment, waits=bool(requests))
        for request in requests:
            self._put(state, request)

    def take_shown(self) -> list[QueuedRequest]:
        """Return the requests with slots in flight that no longer wait, since the last call."""
        shown, self._shown = self._shown, {}
        return list(shown)

    def assignments(self) -> list[Revision]:
        """Return the assignments with requests in the queue."""
        return list(self._by_assignment)

    @property
    def known(self) -> Container[Revision]:
        """The assignments with requests in the queue."""
        return self._by_assignment

    def differs(self, state: RegionState, assignment: Revision) -> bool:
        """Whether an assignment's requests differ from the state, or are in the wrong groups."""
        requests = state.requests.get(assignment) or ()
        if tuple([request.template for request in requests]) != self._by_assignment.get(assignment, ()):
            return True
        for request in requests:
            group, place = self._group_of.get((assignment, request.template)), group_key(state, request, self._now)
            if group is None or place is None:
                if (group is None) != (place is None):
                    return True
            elif group.key != place[0] or group.get((assignment, request.template)).request != request:
                return True
        return False

    def take_unknown(self, state: RegionState) -> None:
        """Load requests of which a part was missing, as far as the state has it."""
        for assignment in sorted(self._unknown):
            self.update(state, assignment)

    def pass_time(self, state: RegionState, now: Instant) -> None:
        """Regroup and unblock requests whose deadline is now near, or missed."""
        self._now = max(self._now, now)
        while (turn := self._next_turn()) is not None and turn <= self._now:
            _, assignment = heappop(self._turning)
            del self._turns_at[assignment]
            self.update(state, assignment)
            for group in self.groups_of(assignment):
                self.unblock(group.key)

    def go_back(self, state: RegionState, step: Duration) -> None:
        """Adjust to a ledger time lower by `step`: evaluate deadlines again and unblock all, except refused groups,
        whose back-offs keep their length."""
        self._now = max(self._now - step, state.info.at)
        self.backoff.go_back(step)
        for key, blocked in list(self.blocked.items()):
            if blocked.why in (BlockReason.REFUSED, BlockReason.BEHIND):
                self.blocked[key] = replace(blocked, until=blocked.until - step)
            else:
                self.unblock(key)
        self.load(state)

    def _note_turn(self, state: RegionState, assignment: Revision, *, waits: bool) -> None:
        known = state.assignments.get(assignment) if waits else None
        at = turns_at(known, self._now) if known is not None else None
        if at is None:
            self._turns_at.pop(assignment, None)
        elif self._turns_at.get(assignment) != at:
            self._turns_at[assignment] = at
            heappush(self._turning, (at, assignment))
            if len(self._turning) > 2 * len(self._turns_at) + STALE_TURNS_MAX:
                self._turning = sorted((at, uid) for uid, at in self._turns_at.items())

    def _next_turn(self) -> Instant | None:
        """Return the next time at which a deadline becomes urgent, or passes."""
        while self._turning and self._turns_at.get(self._turning[0][1]) != self._turning[0][0]:
            heappop(self._turning)
        return self._turning[0][0] if self._turning else None

    def _put(self, state: RegionState, request: SchedulingRequest) -> None:
        key = (request.assignment, request.template)
        place = group_key(state, request, self._now)
        old = self._group_of.get(key)
        if place is None or (old is not None and old.key != place[0]):
            entry = self._drop(key)
            if place is None:
                self._unknown.add(request.assignment)
                return
        else:
            entry = old.get(key) if old is not None else None
        if entry is None:
            entry = QueuedRequest(request)
        since, grew = entry.request.since, request.open > entry.request.open
        entry.take(state, request)
        if entry.proposed and entry.has_shown:
            self._shown[entry] = None
        group = self._group_of.get(key)
        if group is None:
            self._join(place, entry)
        elif since != request.since:
            group.remove(key)
            group.add(entry)
        else:
            group.note()
            blocked = self.blocked.get(group.key) if grew and group.ask.gang is not None else None
            if blocked is not None and blocked.why is not BlockReason.REFUSED:
                self.unblock(group.key)  # of a gang that lost a member, fewer are placed together

    def _join(self, place: tuple[GroupKey, SlotAsk], entry: QueuedRequest) -> None:
        """Add a request to its group, and unblock the group unless it was refused, as its equal would be."""
        key, ask = place
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = RequestGroup(key, ask, self._news, self.share)
            left = self.backoff.come_back(key)
            if left is not None:
                group.attempts = left.attempts
                if left.until > self._now:
                    self.blocked[key] = BlockedGroup(BlockReason.REFUSED, 0, left.until)
        group.add(entry)
        self._group_of[entry.key] = group
        blocked = self.blocked.get(key)
        if blocked is not None and blocked.why is not BlockReason.REFUSED:
            self.unblock(key)

    def _drop(self, key: RequestKey) -> QueuedRequest | None:
        group = self._group_of.pop(key, None)
        if group is None:
            return None
        entry = group.remove(key)
        self.share.forget(key)
        if not group:
            self.groups.pop(group.key, None)
            blocked = self.blocked.pop(group.key, None)
            if group.attempts:
                pauses = blocked is not None and blocked.why is BlockReason.REFUSED
                self.backoff.leave(group.key, group.attempts, blocked.until if pauses else 0)
        return entry

    def block(self, group: RequestGroup, blocked: BlockedGroup) -> None:
        """Block a group until it is unblocked, or due."""
        if group.key in self.groups:
            self.blocked[group.key] = blocked

    def attempts(self, key: GroupKey) -> int:
        """Return a group's failed proposals in a row, in the queue or not."""
        group = self.groups.get(key)
        return group.attempts if group is not None else self.backoff.attempts(key)

    def back_off(self, key: GroupKey, blocked: BlockedGroup) -> None:
        """Count a refusal, and block the group for its back-off, in the queue or not."""
        group, tries = self.groups.get(key), self.attempts(key) + 1
        if group is not None:
            group.attempts = tries
            self.block(group, blocked)
        else:
            self.backoff.leave(key, tries, blocked.until)

    def come_through(self, key: GroupKey) -> None:
        """Reset a group's failed proposals in a row."""
        group = self.groups.get(key)
        if group is not None:
            group.attempts = 0
        else:
            self.backoff.come_back(key)

    def unblock(self, key: GroupKey) -> None:
        """Make a group active."""
        if self.blocked.pop(key, None) is not None:
            self._unblocked(key)

    def _unblocked(self, key: GroupKey) -> None:
        group = self.groups[key]
        group.resynced = False
        group.note()

    def unblock_due(self, now: Instant) -> int:
        """Unblock due groups, at most `DUE_MAX`. Return their number."""
        count = 0
        while count < DUE_MAX and (due := self.blocked.take_due(now)) is not None:
            key, blocked = due
            self._unblocked(key)
            if blocked.resync and blocked.until <= now:
                self._unprompt(key)
            count += 1
        return count

    def unblock_all(self) -> None:
        """Make all groups due, for this cycle or later ones: there may be 100,000."""
        self.blocked.call_all()

    def look_again(self, key: GroupKey) -> None:
        """Make a group active without a change that may cure it."""
        self.unblock(key)
        self._unprompt(key)

    def _unprompt(self, key: GroupKey) -> None:
        self.groups[key].resynced = True
        self._unprompted[key] = None

    def prompt(self) -> None:
        """Note an observed change: groups may be active because of it, so none is a resync hit."""
        for key in self._unprompted:
            if key in self.groups:
                self.groups[key].resynced = False
        self._unprompted = {}

    def next_unblock_at(self) -> Instant | None:
        """Return when the first blocked group becomes due, or a deadline turns."""
        due = [time for time in (self.blocked.next_due(), self._next_turn()) if time is not None]
        return min(due, default=None)

    def begin(
        self, state: RegionState, taken: Mapping[str, Resources], now: Instant = 0, waits: Callable[[], int] = lambda: 0
    ) -> None:
        """Order all active groups with open slots. In flight are `taken`, by tenant, and slots that still `waits`."""
        news, self._news[:] = self._news[:], ()
        for group in news:
            group.noted()
            if group and self._is_open(group):
                self.turns.put(group)
        self._shares = shares = TenantShares(state, taken)
        self.turns.begin(shares.share, len(self.groups), now, lambda: state.region.placed + waits())

    def _is_open(self, group: RequestGroup) -> bool:
        """Whether a group is active and has open slots. Keys are long: it avoids hashing them."""
        return group.has_open() and not (len(self.blocked) and group.key in self.blocked)

    def take(self, state: RegionState) -> RequestGroup | None:
        """Return the next group, by current shares of tenants; None at the end."""
        while (group := self.turns.take()) is not None:
            group.note()  # reorder it after this cycle
            if group and self._is_open(group) and self._is_there(state, group):
                return group
        return None

    def most(self, group: RequestGroup) -> int:
        """Return how many slots of the group just taken may be placed before others have their turn."""
        return self.turns.most(lambda other: self._shares.quantum(group.tenant, group.ask.template.need, other))

    def served(self, group: RequestGroup, placed: int, *, is_cut: bool) -> None:
        """Count the placements of a group's turn. If it was cut short, the group waits for its next turn."""
        self.turns.served(placed)
        if is_cut and self._is_open(group):
            self.turns.put(group)

    def _is_there(self, state: RegionState, group: RequestGroup) -> bool:
        """Drop requests whose assignment has left the state. Return whether some remain."""
        for uid in [uid for uid, _ in group.entries if uid not in state.assignments]:
            self.update(state, uid)
        return bool(group)

    def place(self, state: RegionState, group: RequestGroup) -> tuple[int, Instant, int, Instant, RequestKey, GroupKey]:
        """Return a group's sort key by current shares."""
        return (*group.key[:2], TenantShares(state).share(group.tenant), *group.oldest(), group.key)
