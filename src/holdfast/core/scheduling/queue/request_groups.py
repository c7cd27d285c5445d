"""Request groups: equal requests, oldest first, which are tried, proposed and blocked together.

Groups are ordered by level (priority class, then deadline), then the tenant's share (`tenant_shares`), then age. A
missed deadline is not urgent: such work comes after all that can still be in time. Nor is a distant one: a deadline in
ten years must not outrank all work without one.

Size: a request and its group, each of which is half of the other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.domains import has_domain_rules
from holdfast.core.model.records.lifecycle import PENDING
from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.bitsets import Bitset, bitset_of, each, lowest, masks, minus, shared, union
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.queries.assignments import is_late
from holdfast.core.region.state.gangs import gangs_of, members_of
from holdfast.core.region.state.slot_kinds import block_kinds
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import AskKind, SlotAsk, ask_of
from holdfast.core.scheduling.queue.peers import RUN, PeerShare

_PENDING = PENDING.value
#: Later than every deadline.
NEVER = 1 << 62
#: Time before a deadline at which it becomes urgent.
HURRY_MS = 3_600_000
#: A request: its assignment and its template.
RequestKey = tuple[Revision, str]
#: The values by which requests are equal: urgency, tenant, ask, accounts, priority class.
GroupKey = tuple[int, Instant, str, AskKind, tuple[str, ...], str]
#: Negated priority and deadline, most urgent first.
Level = tuple[int, Instant]
Lane = tuple[Level, str]


class QueuedRequest:
    """One request in the queue, with its waiting and its proposed ordinals."""

    __slots__ = (
        "_known", "_seen", "_under_way", "_whole", "_whole_of", "charged", "group", "is_left", "key", "lacks_charged",
        "proposed", "request", "waiting",
    )  # fmt: skip

    def __init__(self, request: SchedulingRequest) -> None:
        self.key: RequestKey = (request.assignment, request.template)
        self.request = request
        #: Lowest first; None before a lookup.
        self.waiting: list[int] | None = None
        #: Those of them that are charged already.
        self.charged: set[int] = set()
        #: Ordinals in flight; and those of them that still wait by the view, which may be ahead of the answer.
        self.proposed: set[int] = set()
        self._under_way: set[int] = set()
        #: The group it waits in.
        self.group: RequestGroup | None = None
        #: Whether the last lookup found open slots, which are all left to other schedulers.
        self.is_left = False
        #: Whether it found some, and charged ones are left to others: those may be the only ones that can be placed.
        self.lacks_charged = False
        #: All open ordinals that this region may run, proposed or not; and the rows they were found from.
        self._known: Bitset = {}
        #: Whether all its slots have one owner, by this row of its assignment.
        self._whole = False
        self._whole_of: Assignment | None = None
        self._seen: tuple[SchedulingRequest | None, Assignment | None] = (None, None)

    @property
    def open(self) -> int:
        """Number of slots that wait for a proposal."""
        return self.request.open - len(self._under_way)

    @property
    def under_way(self) -> int:
        """Number of slots in flight that still wait by the view."""
        return len(self._under_way)

    def take(self, state: RegionState, request: SchedulingRequest) -> None:
        """Set the request, whose waiting ordinals may have changed."""
        if request.open > self.request.open and self.group is not None:
            self.group.share.grew(self.group.key)
        self.request = request
        self.forget()
        if self.proposed:
            waits = union([ordinals for _, ordinals in self._pending(state)])
            self._under_way = {*each(shared(masks(self.proposed), waits))}

    def forget(self) -> None:
        """Look up its waiting ordinals again when they are needed."""
        self.waiting, self.is_left, self.lacks_charged = None, False, False

    def close(self) -> None:
        """Mark the request as removed from the queue: none of its ordinals waits."""
        self._under_way = set()

    @property
    def has_shown(self) -> bool:
        """Whether some ordinals in flight no longer wait."""
        return len(self._under_way) < len(self.proposed)

    def shown(self) -> set[int]:
        """Return the ordinals in flight that no longer wait."""
        return self.proposed - self._under_way

    def give_back(self, ordinals: Iterable[int]) -> None:
        """Remove ordinals that are no longer in flight."""
        self.proposed.difference_update(ordinals)
        self._under_way &= self.proposed
        self.waiting = None
        if self.group is not None:
            self.group.note()

    def look_up(self, state: RegionState) -> list[int]:
        """Return the ordinals to propose: all charged ones, and as many of the lowest others as a proposal may contain,
        of gangs to the end of the last one.

        They are open, not proposed, and this region may run them. The request's row changes whenever a slot opens or
        closes. While it and the assignment stay the same, so does the result. Of several schedulers, each finds its
        own slots.
        """
        if self.waiting is None or self.is_left or self.lacks_charged:
            uid, template = self.key
            assignment = state.assignments.get(uid)
            leaves = self._leaves(assignment)
            if leaves and assignment is not None and not assignment.exclusive:
                self.is_left, self.waiting = True, []
                return self.waiting
            row = next((one for one in state.requests.get(uid) or () if one.template == template), None)
            if row is None or row is not self._seen[0] or assignment is not self._seen[1]:
                self._seen = row, assignment
                self._known = self._find(state, assignment)
            open_ = minus(self._known, masks(self.proposed)) if self.proposed else self._known
            if self.group is not None and not self.group.share.is_alone:
                there, charged = bool(open_), shared(masks(self.charged), open_) if self.charged else {}
                open_ = {} if leaves else self.group.share.mine(self.key, open_, charged, whole=self._whole)
                self.is_left, self.lacks_charged = there and not open_, bool(open_ and minus(charged, open_))
            first = lowest(open_, PARTS_MAX)
            if self.group is not None and self.group.ask.gang is not None:
                size = self.group.ask.gang.size
                first = shared(open_, members_of(gangs_of(first, size), size))
            self.waiting = [*each(union((first, shared(open_, masks(self.charged)))) if self.charged else first)]
        return self.waiting

    def leaves(self, state: RegionState) -> bool:
        """Return whether its open slots are all left to other schedulers."""
        if (self.waiting is None or self.is_left) and self._leaves(state.assignments.get(self.key[0])):
            self.is_left = True
            return True
        return not self.look_up(state) and self.is_left

    def has_charged(self, state: RegionState) -> bool:
        """Whether a waiting slot is charged already. No lookup finds out while all slots are left to others."""
        if self.waiting is None or self.is_left:
            self._find(state, state.assignments.get(self.key[0]))
        return bool(self.charged - self.proposed)

    def _leaves(self, assignment: Assignment | None) -> bool:
        """Return whether it has one owner, and that is another scheduler. Small requests and gangs have one owner, and
        rules over domains, which two schedulers would count differently."""
        group = self.group
        if group is None or assignment is None or group.share.is_alone:
            return False
        if assignment is not self._whole_of:
            count = sum([share.count for share in assignment.shares if share.template == self.key[1]])
            is_joint = assignment.gang is not None or has_domain_rules(group.ask.template)
            self._whole, self._whole_of = count <= RUN or is_joint, assignment
        return self._whole and group.share.leaves(self.key, self.request)

    def propose(self, ordinals: set[int]) -> None:
        """Mark ordinals as proposed. When all of them are, the next call looks up more."""
        self.proposed |= ordinals
        self._under_way |= ordinals
        if self.waiting is not None:
            self.waiting = [ordinal for ordinal in self.waiting if ordinal not in ordinals] or None

    def take_back(self, ordinals: set[int], waiting: list[int] | None) -> None:
        """Undo `propose`: its ordinals were waiting, among those that the last lookup had found."""
        self.proposed -= ordinals
        self._under_way -= ordinals
        self.waiting = waiting

    def _find(self, state: RegionState, assignment: Assignment | None) -> Bitset:
        """Find open ordinals by the kinds of the assignment's slots, without reading slots."""
        self.charged = set()
        if assignment is None:
            return {}  # the assignment left a state that is newer than the observed changes
        waits = self._pending(state)
        if assignment.exclusive:
            rights = bitset_of(assignment.ordinals)
            waits = [(account, shared(ordinals, rights)) for account, ordinals in waits]
        self.charged = {*each(union([ordinals for account, ordinals in waits if account]))}
        return union([ordinals for _, ordinals in waits])

    def _pending(self, state: RegionState) -> list[tuple[str, Bitset]]:
        """Return its waiting ordinals by block and charged account."""
        uid, template = self.key
        return [
            (account, {block: bits})
            for block, row in block_kinds(state, uid)
            for (phase, made_of, _, account), bits in row
            if phase == _PENDING and made_of == template
        ]

    @property
    def age(self) -> tuple[Instant, RequestKey]:
        """Its place among equals: since when it waits."""
        return self.request.since, self.key


class RequestGroup:
    """Equal requests, oldest first. When its place in the order may have changed, it adds itself to `news`, once."""

    __slots__ = (
        "_entries",
        "_is_noted",
        "_is_ordered",
        "_news",
        "ask",
        "attempts",
        "key",
        "lane",
        "listed",
        "resynced",
        "share",
    )

    def __init__(self, key: GroupKey, ask: SlotAsk, news: list[RequestGroup], share: PeerShare) -> None:
        self.key = key
        self.ask = ask
        self.share = share
        #: The level and tenant within which groups are ordered by age alone.
        self.lane: Lane = key[:2], key[2]
        #: Its place in `FairOrder`; None without one.
        self.listed: object = None
        self._news = news
        self._is_noted = False
        self._entries: OrderedDict[RequestKey, QueuedRequest] = OrderedDict()
        self._is_ordered = True
        #: Number of failed proposals in a row.
        self.attempts = 0
        #: Whether only the resync made it active.
        self.resynced = False

    @property
    def tenant(self) -> str:
        """The tenant of all its requests."""
        return self.key[2]

    @property
    def accounts(self) -> tuple[str, ...]:
        """The accounts that pay, in order of use."""
        return self.key[4]

    @property
    def priority_class(self) -> str:
        """The priority class of all its requests."""
        return self.key[5]

    def oldest(self) -> tuple[Instant, RequestKey]:
        """Return the age of its oldest request."""
        return next(iter(self.entries.values())).age

    def note(self) -> None:
        """Note that its open slots or age may have changed since it was ordered."""
        if not self._is_noted:
            self._is_noted = True
            self._news.append(self)

    def noted(self) -> None:
        """Mark it as ordered."""
        self._is_noted = False

    def has_open(self) -> bool:
        """Whether it has a slot that waits for a proposal."""
        for entry in self._entries.values():  # noqa: SIM110  a generator costs more than most of them have entries
            if entry.open > 0:
                return True
        return False

    def has_one_open(self) -> bool:
        """Whether it has one request, and that one open slot: most groups of large queues are such."""
        return len(self._entries) == 1 and next(iter(self._entries.values())).open == 1

    def is_left(self, state: RegionState) -> bool:
        """Whether all its open slots are left to other schedulers."""
        left = False
        for entry in self._entries.values():
            if entry.open > 0:
                if not entry.leaves(state):
                    return False
                left = True
        return left

    @property
    def entries(self) -> OrderedDict[RequestKey, QueuedRequest]:
        """Its requests, oldest first. Sorted on access, since many may arrive before that."""
        if not self._is_ordered:
            self._entries = OrderedDict((one.key, one) for one in sorted(self._entries.values(), key=_age))
            self._is_ordered = True
        return self._entries

    def get(self, key: RequestKey) -> QueuedRequest:
        """Return one of its requests."""
        return self._entries[key]

    def add(self, entry: QueuedRequest) -> None:
        """Add a request."""
        if self._entries and next(reversed(self._entries.values())).age >= entry.age:
            self._is_ordered = False
        self._entries[entry.key] = entry
        entry.group = self
        self.note()

    def remove(self, key: RequestKey) -> QueuedRequest:
        """Remove a request."""
        self.note()
        entry = self._entries.pop(key)
        entry.group = None
        return entry

    def __bool__(self) -> bool:
        """Whether it has requests."""
        return bool(self._entries)


def _age(entry: QueuedRequest) -> tuple[Instant, RequestKey]:
    return entry.age


def urgency(state: RegionState, assignment: int, now: Instant) -> tuple[int, Instant]:
    """Return the level of an assignment: negated priority, and the deadline if it is near."""
    known = state.assignments[assignment]
    cls = state.priority_classes.get(known.priority_class)
    hurries = known.deadline and known.deadline - HURRY_MS <= now and not is_late(known, now)
    return -(cls.spec.priority if cls is not None else 0), known.deadline if hurries else NEVER


def turns_at(known: Assignment, now: Instant) -> Instant | None:
    """Return when its deadline next becomes urgent, or passes; None if neither is ahead."""
    return (
        next((at for at in (known.deadline - HURRY_MS, known.deadline) if now < at), None) if known.deadline else None
    )


def group_key(state: RegionState, request: SchedulingRequest, now: Instant) -> tuple[GroupKey, SlotAsk] | None:
    """Return a request's group key and ask; None while the state lacks a part."""
    assignment = state.assignments.get(request.assignment)
    template = state.templates.get(request.template)
    if assignment is None or template is None:
        return None
    cls = state.priority_classes.get(assignment.priority_class)
    ask = ask_of(assignment, request.template, template, firm=cls is None or not cls.spec.reclaimable)
    priority, deadline = urgency(state, assignment.uid, now)
    return (priority, deadline, assignment.tenant, ask.kind, assignment.accounts, assignment.priority_class), ask
