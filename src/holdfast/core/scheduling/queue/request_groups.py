"""Requests that wait, in groups of equal ones, oldest first: what is looked at, proposed and put to sleep together."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from holdfast.core.ledger.partial import PARTS_MAX
from holdfast.core.model.records.assignments import Assignment
from holdfast.core.model.records.lifecycle import PENDING
from holdfast.core.model.records.slots import SchedulingRequest
from holdfast.core.model.values.bitsets import Bitset, bitset_of, each, lowest, masks, minus, shared, union
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.state.slot_kinds import block_kinds
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import AskKind, SlotAsk

_PENDING = PENDING.value
#: A request: its assignment and its template.
RequestKey = tuple[Revision, str]
#: What requests are equal by: urgency, tenant, kind, who pays, priority class.
GroupKey = tuple[int, Instant, str, AskKind, tuple[str, ...], str]
#: Priority, highest first, and deadline.
Level = tuple[int, Instant]
Lane = tuple[Level, str]


class QueuedRequest:
    """One request in the queue: which ordinals wait, and which of them are proposed."""

    __slots__ = ("_known", "_seen", "_under_way", "charged", "group", "key", "proposed", "request", "waiting")

    def __init__(self, request: SchedulingRequest) -> None:
        self.key: RequestKey = (request.assignment, request.template)
        self.request = request
        #: Lowest first; None: to be looked up.
        self.waiting: list[int] | None = None
        #: Those of them that are charged already.
        self.charged: set[int] = set()
        #: Those that a proposal under way names; and of these the ones that still wait here. What the view shows to be
        #: placed is no more among what waits, though nobody has said yet what became of the proposal.
        self.proposed: set[int] = set()
        self._under_way: set[int] = set()
        #: With whom it waits.
        self.group: RequestGroup | None = None
        #: All open ordinals that this region may run, proposed or not, and the rows of which they hold.
        self._known: Bitset = {}
        self._seen: tuple[SchedulingRequest | None, Assignment | None] = (None, None)

    @property
    def open(self) -> int:
        """How many slots wait for a proposal."""
        return self.request.open - len(self._under_way)

    def take(self, state: RegionState, request: SchedulingRequest) -> None:
        """It is this now: as many may be others."""
        self.request, self.waiting = request, None
        if self.proposed:
            waits = union([ordinals for _, ordinals in self._pending(state)])
            self._under_way = {*each(shared(masks(self.proposed), waits))}

    def close(self) -> None:
        """Nothing of it waits any more: it has left the queue."""
        self._under_way = set()

    @property
    def has_shown(self) -> bool:
        """Whether something waits no more that a proposal under way names."""
        return len(self._under_way) < len(self.proposed)

    def shown(self) -> set[int]:
        """What waits no more of what proposals under way name: it was placed, or can be no more."""
        return self.proposed - self._under_way

    def give_back(self, ordinals: Iterable[int]) -> None:
        """No proposal names these any more."""
        self.proposed.difference_update(ordinals)
        self._under_way &= self.proposed
        self.waiting = None
        if self.group is not None:
            self.group.note()

    def look_up(self, state: RegionState) -> list[int]:
        """Its open ordinals that are not proposed and that this region may run, and which of them are charged: all of
        these, and of the others as many of the lowest as one proposal may name.

        Whenever a slot of a request opens or closes, its row is another one: while it is the same, and so is the
        assignment's, what was found last holds, whatever else happens to the workload.
        """
        if self.waiting is None:
            uid, template = self.key
            assignment = state.assignments.get(uid)
            row = next((one for one in state.requests.get(uid) or () if one.template == template), None)
            if row is None or row is not self._seen[0] or assignment is not self._seen[1]:
                self._seen = row, assignment
                self._known = self._find(state, assignment)
            open_ = minus(self._known, masks(self.proposed)) if self.proposed else self._known
            first = lowest(open_, PARTS_MAX)
            self.waiting = [*each(union((first, shared(open_, masks(self.charged)))) if self.charged else first)]
        return self.waiting

    def propose(self, ordinals: set[int]) -> None:
        """Count these as proposed. When all that was looked up is, the next are looked up."""
        self.proposed |= ordinals
        self._under_way |= ordinals
        if self.waiting is not None:
            self.waiting = [ordinal for ordinal in self.waiting if ordinal not in ordinals] or None

    def _find(self, state: RegionState, assignment: Assignment | None) -> Bitset:
        """By the kinds of its assignment's slots: no slot is looked at."""
        self.charged = set()
        if assignment is None:
            return {}  # it has left a state that is newer than what was heard
        waits = self._pending(state)
        if assignment.exclusive:
            rights = bitset_of(assignment.ordinals)
            waits = [(account, shared(ordinals, rights)) for account, ordinals in waits]
        self.charged = {*each(union([ordinals for account, ordinals in waits if account]))}
        return union([ordinals for _, ordinals in waits])

    def _pending(self, state: RegionState) -> list[tuple[str, Bitset]]:
        """Its ordinals that wait, block by block, by who pays for them already."""
        uid, template = self.key
        return [
            (account, {block: bits})
            for block, row in block_kinds(state, uid)
            for (phase, made_of, _, account), bits in row
            if phase == _PENDING and made_of == template
        ]

    @property
    def age(self) -> tuple[Instant, RequestKey]:
        """Since when it waits: its place among equals."""
        return self.request.since, self.key


class RequestGroup:
    """Equal requests, oldest first. Whenever it may have become another one to whoever orders groups, it adds itself to
    `news`, once."""

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
    )

    def __init__(self, key: GroupKey, ask: SlotAsk, news: list[RequestGroup]) -> None:
        self.key = key
        self.ask = ask
        #: Among whom it is ordered by age alone: how urgent it is, and whose.
        self.lane: Lane = key[:2], key[2]
        #: Its place there, of `turns`; None: it has none.
        self.listed: object = None
        self._news = news
        self._is_noted = False
        self._entries: OrderedDict[RequestKey, QueuedRequest] = OrderedDict()
        self._is_ordered = True
        #: How often in a row what was proposed of it was in vain.
        self.attempts = 0
        #: Whether it is awake only because everybody is looked at now and then.
        self.resynced = False

    @property
    def tenant(self) -> str:
        """Whose requests they are."""
        return self.key[2]

    @property
    def accounts(self) -> tuple[str, ...]:
        """Who pays, in the order in which they are asked."""
        return self.key[4]

    @property
    def priority_class(self) -> str:
        """Of what class they all are."""
        return self.key[5]

    def oldest(self) -> tuple[Instant, RequestKey]:
        """Since when its first request waits."""
        return next(iter(self.entries.values())).age

    def note(self) -> None:
        """It may have slots to propose, or another age, since it was ordered last."""
        if not self._is_noted:
            self._is_noted = True
            self._news.append(self)

    def noted(self) -> None:
        """It was ordered as it is now."""
        self._is_noted = False

    def has_open(self) -> bool:
        """Whether a slot of it waits for a proposal."""
        for entry in self._entries.values():  # noqa: SIM110  a generator costs more than most of them have entries
            if entry.open > 0:
                return True
        return False

    @property
    def entries(self) -> OrderedDict[RequestKey, QueuedRequest]:
        """Its requests, oldest first. Put in order when they are looked at: many may come in any order before that."""
        if not self._is_ordered:
            self._entries = OrderedDict((one.key, one) for one in sorted(self._entries.values(), key=_age))
            self._is_ordered = True
        return self._entries

    def get(self, key: RequestKey) -> QueuedRequest:
        """One of its requests."""
        return self._entries[key]

    def add(self, entry: QueuedRequest) -> None:
        """One more request, in its place among the others."""
        if self._entries and next(reversed(self._entries.values())).age >= entry.age:
            self._is_ordered = False
        self._entries[entry.key] = entry
        entry.group = self
        self.note()

    def remove(self, key: RequestKey) -> QueuedRequest:
        """One request less."""
        self.note()
        entry = self._entries.pop(key)
        entry.group = None
        return entry

    def __bool__(self) -> bool:
        """Whether it has any."""
        return bool(self._entries)


def _age(entry: QueuedRequest) -> tuple[Instant, RequestKey]:
    return entry.age
