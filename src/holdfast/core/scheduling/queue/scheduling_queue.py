"""What waits to be placed: requests in groups of equal ones, awake or asleep.

    request ──▶ its group: one kind of slot, one urgency, one tenant, the same payers
    awake, best first ──▶ looked at ──▶ placed, or asleep until something can cure why it was not

All of it follows from the state: a scheduler that starts again has the same queue. Equal requests are looked at, and
sleep, together: what does not fit for one fits for none of them. Among equals the oldest is served first.

Size: a queue and what stands in it, which change together.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from enum import StrEnum
from heapq import heappop, heappush
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.model.values.structs import Duration, Instant, Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk, ask_of
from holdfast.core.scheduling.queue.backoff import GroupBackoff
from holdfast.core.scheduling.queue.blocked_groups import BlockedIndex
from holdfast.core.scheduling.queue.fair_share import FairOrder, dominant_share, tenant_usage, turns_at, urgency
from holdfast.core.scheduling.queue.request_groups import GroupKey, QueuedRequest, RequestGroup, RequestKey

#: So many turns of deadlines that hold no more are left in their order, beside as many as do.
STALE_TURNS_MAX = 64
#: So many whose time has come are woken at once: thousands may have fallen asleep in the same second.
DUE_MAX = 1_000


class BlockReason(StrEnum):
    """What a group waits for, asleep."""

    NODES = "nodes"
    GATE = "gate"
    ASSIGNMENT = "assignment"
    PAUSED = "paused"
    STALE = "stale"
    BEHIND = "behind"
    REFUSED = "refused"
    PLUGIN = "plugin"


class BlockedGroup(Struct, frozen=True):
    """Why a group is not looked at, up to which revision it was, and when to look at it whatever happens.

    For one that is behind, the revision is the one to wait for. `counts` are those of its domains, where its rules
    count over them; `scopes` is what they count of which one more may cure it. With `resync` its time is nothing that
    is known to cure it: whatever does should have woken it. `reason` is the code that is told first, borne out by
    `kept` nodes, or as many as are left of these: `stirs` is how often nodes had changed by then (`rechecks`).
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


class SchedulingQueue:
    """Every request of a region."""

    def __init__(self) -> None:
        self.groups: dict[GroupKey, RequestGroup] = {}
        self.blocked = BlockedIndex()
        self.backoff = GroupBackoff()
        self._group_of: dict[RequestKey, RequestGroup] = {}
        self._by_assignment: dict[Revision, tuple[str, ...]] = {}
        #: Assignments with a request of which something is not known here yet.
        self._unknown: set[Revision] = set()
        #: Those awake for no change that was heard: what is placed of them somebody should have been woken for.
        self._unprompted: dict[GroupKey, None] = {}
        #: Requests of which something waits no more that is under way, since somebody asked.
        self._shown: dict[QueuedRequest, None] = {}
        #: Groups of which something is new since they were ordered; and all that have something to propose, in order.
        self._news: list[RequestGroup] = []
        self._turns = FairOrder(self._is_open)
        #: The time by which deadlines are judged; by assignment when its own is judged otherwise, and these in order,
        #: with some that hold no more.
        self._now: Instant = 0
        self._turns_at: dict[Revision, Instant] = {}
        self._turning: list[tuple[Instant, Revision]] = []

    def __len__(self) -> int:
        return len(self._group_of)

    def entry(self, key: RequestKey) -> QueuedRequest | None:
        """A request that waits."""
        group = self._group_of.get(key)
        return group.get(key) if group is not None else None

    def group(self, key: RequestKey) -> RequestGroup | None:
        """With whom a request waits."""
        return self._group_of.get(key)

    def groups_of(self, assignment: Revision) -> list[RequestGroup]:
        """With whom the requests of an assignment wait."""
        keys = [(assignment, template) for template in self._by_assignment.get(assignment, ())]
        return [self._group_of[key] for key in keys if key in self._group_of]

    def load(self, state: RegionState) -> None:
        """Take all requests of a state, in its time."""
        self.begin_load(state)
        gone = [uid for uid in self._by_assignment if uid not in state.requests]
        for uid in (*gone, *state.requests.keys()):
            self.update(state, uid)

    def begin_load(self, state: RegionState) -> None:
        """From now on deadlines are judged by the time of a state."""
        self._now = max(self._now, state.info.at)

    def update(self, state: RegionState, assignment: Revision) -> None:
        """Take the requests of an assignment as they are now."""
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
        """Requests of which something waits no more that is under way, since this was asked last."""
        shown, self._shown = self._shown, {}
        return list(shown)

    def assignments(self) -> list[Revision]:
        """Those that have requests here."""
        return list(self._by_assignment)

    @property
    def known(self) -> Container[Revision]:
        """Assignments that have requests here."""
        return self._by_assignment

    def differs(self, state: RegionState, assignment: Revision) -> bool:
        """Whether its requests are others here than in a state, or wait among others than they should."""
        requests = state.requests.get(assignment) or ()
        if tuple([request.template for request in requests]) != self._by_assignment.get(assignment, ()):
            return True
        for request in requests:
            group, place = self._group_of.get((assignment, request.template)), _group_key(state, request, self._now)
            if group is None or place is None:
                if (group is None) != (place is None):
                    return True
            elif group.key != place[0] or group.get((assignment, request.template)).request != request:
                return True
        return False

    def take_unknown(self, state: RegionState) -> None:
        """Take the requests of which something was not known, as far as it is now."""
        for assignment in sorted(self._unknown):
            self.update(state, assignment)

    def pass_time(self, state: RegionState, now: Instant) -> None:
        """Let those whose deadline is near now go before others, those whose deadline has passed behind those who can
        still be in time; all of them are looked at."""
        self._now = max(self._now, now)
        while (turn := self._next_turn()) is not None and turn <= self._now:
            _, assignment = heappop(self._turning)
            del self._turns_at[assignment]
            self.update(state, assignment)
            for group in self.groups_of(assignment):
                self.unblock(group.key)

    def go_back(self, state: RegionState, step: Duration) -> None:
        """Time is lower by so much than it was said to be: deadlines are judged by it again, and whoever sleeps is
        looked at, but for those who pause after a refusal, for as long as they were to."""
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
        """When the first deadline begins to hurry, or passes."""
        while self._turning and self._turns_at.get(self._turning[0][1]) != self._turning[0][0]:
            heappop(self._turning)
        return self._turning[0][0] if self._turning else None

    def _put(self, state: RegionState, request: SchedulingRequest) -> None:
        key = (request.assignment, request.template)
        place = _group_key(state, request, self._now)
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
        since = entry.request.since
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

    def _join(self, place: tuple[GroupKey, SlotAsk], entry: QueuedRequest) -> None:
        """Put a request into its group. That is looked at, unless it was refused: so would this one be, its equal."""
        key, ask = place
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = RequestGroup(key, ask, self._news)
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
        if not group:
            self.groups.pop(group.key, None)
            blocked = self.blocked.pop(group.key, None)
            if group.attempts:
                pauses = blocked is not None and blocked.why is BlockReason.REFUSED
                self.backoff.leave(group.key, group.attempts, blocked.until if pauses else 0)
        return entry

    # Awake and asleep

    def block(self, group: RequestGroup, blocked: BlockedGroup) -> None:
        """Do not look at a group until it is woken, or until its time."""
        if group.key in self.groups:
            self.blocked[group.key] = blocked

    def attempts(self, key: GroupKey) -> int:
        """How often in a row what was proposed of a group was in vain, wherever it is now."""
        group = self.groups.get(key)
        return group.attempts if group is not None else self.backoff.attempts(key)

    def back_off(self, key: GroupKey, blocked: BlockedGroup) -> None:
        """A group was refused once more: leave it alone for a while, also if it has left and comes back."""
        group, tries = self.groups.get(key), self.attempts(key) + 1
        if group is not None:
            group.attempts = tries
            self.block(group, blocked)
        else:
            self.backoff.leave(key, tries, blocked.until)

    def come_through(self, key: GroupKey) -> None:
        """What was proposed of a group was not in vain."""
        group = self.groups.get(key)
        if group is not None:
            group.attempts = 0
        else:
            self.backoff.come_back(key)

    def unblock(self, key: GroupKey) -> None:
        """Look at a group, in its turn."""
        if self.blocked.pop(key, None) is not None:
            self._unblocked(key)

    def _unblocked(self, key: GroupKey) -> None:
        group = self.groups[key]
        group.resynced = False
        group.note()

    def unblock_due(self, now: Instant) -> int:
        """Wake those whose time has come, and not too many at once; how many."""
        count = 0
        while count < DUE_MAX and (due := self.blocked.take_due(now)) is not None:
            key, blocked = due
            self._unblocked(key)
            if blocked.resync and blocked.until <= now:
                self._unprompt(key)
            count += 1
        return count

    def unblock_all(self) -> None:
        """Look at everybody, in the next look or in those after it: there may be a hundred thousand."""
        self.blocked.call_all()

    def look_again(self, key: GroupKey) -> None:
        """Look at a group though nothing was heard that can cure it."""
        self.unblock(key)
        self._unprompt(key)

    def _unprompt(self, key: GroupKey) -> None:
        self.groups[key].resynced = True
        self._unprompted[key] = None

    def prompt(self) -> None:
        """Something was heard: whoever is awake may be so for that."""
        for key in self._unprompted:
            if key in self.groups:
                self.groups[key].resynced = False
        self._unprompted = {}

    def next_unblock_at(self) -> Instant | None:
        """When the first of those asleep is to be looked at whatever happens, or a deadline turns."""
        due = [time for time in (self.blocked.next_due(), self._next_turn()) if time is not None]
        return min(due, default=None)

    def begin(self, state: RegionState, spent: Mapping[str, Resources]) -> None:
        """Order everybody who is awake and has something to propose; `spent` is by account what is on its way."""
        news, self._news[:] = self._news[:], ()
        for group in news:
            group.noted()
            if group and self._is_open(group):
                self._turns.put(group)
        self._turns.begin(lambda tenant: _share(state, tenant, spent), len(self.groups))

    def _is_open(self, group: RequestGroup) -> bool:
        """Whether it is awake and has something to propose."""
        # Keys are long: one that need not be hashed is not.
        return group.has_open() and not (len(self.blocked) and group.key in self.blocked)

    def take(self, state: RegionState) -> RequestGroup | None:
        """The next group, by what tenants have now; None: that was all."""
        while (group := self._turns.take()) is not None:
            group.note()  # whatever becomes of it in this look
            if group and self._is_open(group) and self._is_there(state, group):
                return group
        return None

    def _is_there(self, state: RegionState, group: RequestGroup) -> bool:
        """Let go of requests whose assignment has left a state that is newer than what was heard; if some are left."""
        for uid in [uid for uid, _ in group.entries if uid not in state.assignments]:
            self.update(state, uid)
        return bool(group)

    def place(
        self, state: RegionState, group: RequestGroup, spent: Mapping[str, Resources] = MappingProxyType({})
    ) -> tuple[int, Instant, int, Instant, RequestKey, GroupKey]:
        """Where a group stands in the order, by what tenants have now; `spent` is by account what is on its way."""
        priority, deadline, tenant, *_ = group.key
        since, first = group.oldest()
        return priority, deadline, _share(state, tenant, spent), since, first, group.key


def _share(state: RegionState, tenant: str, spent: Mapping[str, Resources]) -> int:
    return dominant_share(state.totals, tenant_usage(state, tenant, spent.get(f"quota/{tenant}", ZERO)))


def _group_key(state: RegionState, request: SchedulingRequest, now: Instant) -> tuple[GroupKey, SlotAsk] | None:
    """With whom a request is equal, and what it asks for; None while something of it is not known here."""
    assignment = state.assignments.get(request.assignment)
    template = state.templates.get(request.template)
    if assignment is None or template is None:
        return None
    cls = state.priority_classes.get(assignment.priority_class)
    ask = ask_of(assignment, request.template, template, firm=cls is None or not cls.spec.reclaimable)
    priority, deadline = urgency(state, assignment.uid, now)
    return (priority, deadline, assignment.tenant, ask.kind, assignment.accounts, assignment.priority_class), ask
