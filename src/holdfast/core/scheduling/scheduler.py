"""The scheduler without clock and connections: it observes changes, runs cycles and processes answers.

    observe ──▶ table and queue ──▶ cycle: groups in order, one pass each ──▶ proposal ──▶ answer

A proposal carries the revision of its view and stays deducted until the view shows its outcome. A group that cannot be
placed is blocked, with the revision of the attempt, until a change that may cure it.

Size: what is heard, proposed and answered changes one table, one queue and one flight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.commit.watch import OVERRIDE
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.model.values.structs import Duration, Instant, Revision, SlotKey
from holdfast.core.region import watch
from holdfast.core.region.commands import Propose
from holdfast.core.region.queries.preemptions import BY_PRIORITY, BY_RECOVERY
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.cycle import SchedulingCycle
from holdfast.core.scheduling.framework import Plugins, SchedulingProfile
from holdfast.core.scheduling.nodes.quarantine import NodeQuarantine
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.queue.in_flight import InFlight
from holdfast.core.scheduling.queue.request_groups import GroupKey
from holdfast.core.scheduling.queue.scheduling_queue import DUE_MAX, BlockedGroup, BlockReason, SchedulingQueue
from holdfast.core.scheduling.queue.unblocker import Unblocker
from holdfast.core.scheduling.resync import Resync
from holdfast.core.scheduling.view import SchedulerView, UnplacedRequest

#: Back-off after a refusal without a stale view; it doubles each time.
BACKOFF_MS, BACKOFF_MOST_MS = 200, 30_000
#: Nodes and requests that are loaded at once, in about 50 ms. More are loaded in pieces of this size.
LOADED_AT_ONCE = 5_000
#: Refusals that show that this view and the ledger disagree about a node.
_OF_NODES = (
    Code.CAPACITY, Code.DEVICE, Code.PORT, Code.LABELS, Code.TAINT, Code.TENANCY, Code.ONE_TENANT, Code.ISOLATION,
    Code.NODE_UNAVAILABLE,
)  # fmt: skip
#: Kinds of objects, other than nodes and workloads, whose change may cure any group.
_OTHERS = (watch.POLICY, watch.VALIDITY, watch.PRIORITY_CLASS, watch.PLATFORM_OVERRIDE, OVERRIDE, watch.REGION)
WATCHES = (
    watch.NODE, watch.NODE_REPORT, watch.WORKLOAD, watch.ASSIGNMENT, watch.TEMPLATE, watch.NODE_POOL, watch.GRANT,
    *_OTHERS,
)  # fmt: skip


class Proposal(Struct, frozen=True):
    """A proposal to send, with its local number; and the ask, workload and request group of each of its groups."""

    number: int
    command: Propose
    view: Revision
    policy: Revision
    decision: DecisionEvidence
    asks: tuple[SlotAsk, ...]
    workloads: tuple[Revision, ...]
    waited: tuple[GroupKey, ...]


class Scheduler:
    """One scheduler of a region."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self._filters = SchedulingProfile(plugins.filters, (), True)
        self.table = NodeTable()
        self.queue = SchedulingQueue()
        self.flight = InFlight(self.table)
        self.quarantine = NodeQuarantine()
        self.waking = Unblocker(self.table, self.queue, self.flight)
        self.resync = Resync(self.table, self.queue)
        self._number = 0
        #: The time of the last cycle.
        self._now: Instant = 0
        #: Refusals by code.
        self.refused: dict[str, int] = {}
        self._resync_hits = 0
        #: Whether active groups are left, so that the next cycle should follow soon.
        self.has_more = False

    def load(self, state: RegionState) -> None:
        """Reload everything from the state."""
        gone = [uid for uid in self.table.rows if uid not in state.nodes]
        uids = state.nodes.keys()
        at = pack_revision(state.info.seq, INDEX_MAX)
        self.queue.load(state)
        self.flight.settle(at, state.info.at)
        self.flight.show(self.queue.take_shown())
        self.table.refresh(state, [*gone, *uids], at)
        self.waking.all()

    def pieces(self, state: RegionState) -> Iterator[list[WatchKey]]:
        """Yield all keys in pieces for a reload; nothing if `load` can take all at once."""
        if len(state.nodes) + len(state.requests) > LOADED_AT_ONCE:
            yield from self.resync.pieces(state, LOADED_AT_ONCE)

    def load_piece(self, state: RegionState, named: Sequence[WatchKey]) -> None:
        """Reload one piece. No cycle runs before `loaded`."""
        self.queue.begin_load(state)
        nodes = [key for kind, key in named if kind == watch.NODE]
        for kind, key in named:
            if kind != watch.NODE:
                self.queue.update(state, key)  # type: ignore[arg-type]
        self.table.refresh(state, nodes, self.table.revision)  # type: ignore[arg-type]

    def loaded(self, state: RegionState, at: Revision) -> None:
        """Finish a reload in pieces, from states at or after this revision. Later changes are observed afterwards."""
        self.flight.settle(at, state.info.at)
        self.table.refresh(state, self.flight.show(self.queue.take_shown()), at)
        self.waking.all()

    def observe(self, state: RegionState, touched: Iterable[WatchKey], at: Revision, now: Instant) -> None:
        """Apply changes up to a revision, and unblock the groups that they may cure."""
        nodes: list[Revision] = []
        reported: list[Revision] = []
        kinds: set[str] = set()
        for kind, key in touched:
            kinds.add(kind)
            if kind == watch.NODE:
                nodes.append(key)  # type: ignore[arg-type]
            elif kind == watch.NODE_REPORT:
                reported.append(key)  # type: ignore[arg-type]
            elif kind == watch.WORKLOAD:
                for uid in state.assignments_of.get(key) or ():  # type: ignore[arg-type]
                    self.queue.update(state, uid)
                    self.waking.assigned(uid)
            elif kind == watch.ASSIGNMENT:
                self.queue.update(state, key)  # type: ignore[arg-type]
                self.waking.assigned(key)  # type: ignore[arg-type]
                self.waking.doubt(key, now)  # type: ignore[arg-type]
            elif kind == watch.GRANT:
                self.waking.granted(key)  # type: ignore[arg-type]
            elif kind in _OTHERS:
                self.waking.all()
        if watch.PRIORITY_CLASS in kinds:
            self.queue.load(state)
        elif watch.TEMPLATE in kinds:
            self.queue.take_unknown(state)
        # First settle proposals, then load what replaced them: no capacity seems free in between.
        self.flight.settle(max(at, self.table.revision), state.info.at)
        nodes += self.flight.show(self.queue.take_shown())
        self.table.refresh(state, nodes, at)
        self.table.hint(state, reported)
        self._wake(state, now)

    def _wake(self, state: RegionState, now: Instant) -> None:
        for assignment in self.flight.take_returned():
            self.waking.returned(assignment)
        self.waking.heard(state, self._filters, now)

    def catch(self, state: RegionState, named: Iterable[WatchKey], now: Instant) -> None:
        """Reload keys whose changes were missed, and count them as resync hits."""
        nodes: list[Revision] = []
        for kind, key in named:
            self._resync_hits += 1
            if kind == watch.NODE:
                nodes.append(key)  # type: ignore[arg-type]
                continue
            self.queue.update(state, key)  # type: ignore[arg-type]
            for group in self.queue.groups_of(key):  # type: ignore[arg-type]
                self.queue.unblock(group.key)
        nodes += self.flight.show(self.queue.take_shown())
        self.table.refresh(state, nodes, self.table.revision)
        self._wake(state, now)

    def run_cycle(self, view: SchedulerView) -> tuple[Proposal | None, list[UnplacedRequest]]:
        """Run one cycle. Return the next proposal, if any, and the requests that wait."""
        if view.now < self._now:
            self._go_back(view.state, self._now - view.now)
        self._now = view.now
        self.queue.pass_time(view.state, view.now)
        self.waking.share_with(view.peers, view.now)
        # The view is complete up to its age: proposals that it does not show by their deadline can no longer commit.
        self.flight.settle(self.table.revision, view.now - view.age_ms)
        woken = self.queue.unblock_due(view.now)
        if self.quarantine.release_due(self.table, view.now) or self.flight.has_returned:
            self._wake(view.state, view.now)
        elif self.waking.has_unasked:
            self.waking.ask(view.state, self._filters, view.now)
        self.waking.look_again(view.now)
        look = SchedulingCycle(self._plugins, self.table, self.queue, self.flight, view)
        look.run()
        self.waking.proposed(look.draft.parts, view.state, self._filters, view.now)
        self.has_more = look.is_cut or self.waking.has_unasked or woken == DUE_MAX
        self._resync_hits += look.resync_hits
        if not look.draft.groups:
            return None, look.waits
        self._number += 1
        settings = view.state.info.settings
        valid_until = view.now + settings.proposal_life * 4 // 5
        command = Propose(tuple(look.draft.groups), valid_until, bind=not look.waits_to_bind)
        in_flight = tuple(self.flight.parts)
        self.flight.take(self._number, look.draft.parts, command.valid_until)
        assert look.rules is not None
        decision = DecisionEvidence(
            self.table.revision, look.policy.revision, tuple(look.passes), in_flight, look.rules.plugins
        )
        workloads = tuple(view.state.assignments[group.assignment].workload for group in command.groups)
        seen, policy = self.table.revision, look.policy.revision
        asks, waited = tuple(look.draft.asks), tuple(look.draft.waited)
        return Proposal(self._number, command, seen, policy, decision, asks, workloads, waited), look.waits

    def _go_back(self, state: RegionState, step: Duration) -> None:
        """Adjust to a new leader's time, lower by `step`: evaluate again, with back-offs of the same length. Deadlines
        of proposals are in ledger time and stay."""
        self.queue.go_back(state, step)
        self.waking.go_back()
        self.flight.go_back()
        self.quarantine.go_back(step)

    def take_resync_hits(self) -> int:
        """Return the resync hits since the last call: slots placed though only the resync unblocked them, and missed
        changes of nodes and requests."""
        caught, self._resync_hits = self._resync_hits, 0
        return caught

    def on_accepted(self, attempt: Proposal, at: Revision, unmet: list[RefusedPart]) -> None:
        """Process the acceptance of a proposal, except for the `unmet` parts."""
        self.flight.land(attempt.number, at)
        for one in unmet:
            self._count(one.code)
        self._agree(attempt, unmet)
        self._disagree(attempt, unmet)
        if unmet:
            self._landed_in_part(attempt, unmet)
        elif attempt.command.bind:
            self.on_bound(attempt)

    def preempted_by(self, attempt: Proposal, unmet: list[RefusedPart]) -> dict[str, int]:
        """Return how many slots a proposal has preempted, by rule, except for the `unmet` parts."""
        groups, found = attempt.command.groups, dict[str, int]()
        lost = {
            (groups[one.group].assignment, groups[one.group].template, groups[one.group].placements[one.index].ordinal)
            for one in unmet
        }
        for part in self.flight.parts.get(attempt.number, ()):
            slots = [(*entry.key, one.ordinal) for entry, placements in part.placed for one in placements]
            for slot, claim in zip(slots, part.claims, strict=False):
                taken = claim.takeover
                for rule, count in ((BY_PRIORITY, taken.limited), (BY_RECOVERY, taken.reclaimed)):
                    if count and slot not in lost:
                        found[rule] = found.get(rule, 0) + count
        return found

    def _landed_in_part(self, attempt: Proposal, unmet: list[RefusedPart]) -> None:
        """Back off groups without a placement; reset the back-off of groups placed in full."""
        lost: dict[int, list[RefusedPart]] = {}
        for one in unmet:
            lost.setdefault(one.group, []).append(one)
        refused: dict[GroupKey, list[RefusedPart]] = {}
        landed: dict[GroupKey, int] = {}
        for number, (key, named) in enumerate(zip(self._places(attempt), attempt.command.groups, strict=True)):
            parts = lost.get(number, [])
            refused.setdefault(key, []).extend(parts)
            landed[key] = landed.get(key, 0) + len(named.placements) - len(parts)
        for key, parts in refused.items():
            if not landed[key]:
                self._wait_for(key, max(one.catch_up_to for one in parts))
            elif attempt.command.bind and not parts:
                self.queue.come_through(key)

    def on_refused(self, attempt: Proposal, code: Code, unmet: list[RefusedPart], catch_up_to: Revision) -> None:
        """Process a refusal. `catch_up_to` is the revision to wait for if the view was stale.

        Until the view has it, the placements stay deducted: others have taken that capacity, or those slots.
        """
        self._count(code.value)
        if catch_up_to > self.table.revision:
            self.flight.overtake(attempt.number, catch_up_to)
        else:
            self.flight.refuse(attempt.number)
        self._disagree(attempt, unmet)
        for key in dict.fromkeys(self._places(attempt)):
            self._wait_for(key, catch_up_to)

    def on_bound(self, attempt: Proposal, declined: Collection[SlotKey] = ()) -> None:
        """Reset the back-off of groups whose slots were all bound."""
        lost = self._of(attempt, declined)
        for key in dict.fromkeys(self._places(attempt)):
            if key not in lost:
                self.queue.come_through(key)

    def on_declined(self, attempt: Proposal, slots: Collection[SlotKey]) -> None:
        """Back off groups whose reserved slots a plugin declined."""
        for key in self._of(attempt, slots):
            self._back_off(key)

    def _places(self, attempt: Proposal) -> list[GroupKey]:
        """Return the current group of each request of a proposal; the former one if nothing waits."""
        found = [self.queue.group((one.assignment, one.template)) for one in attempt.command.groups]
        return [then if now is None else now.key for now, then in zip(found, attempt.waited, strict=True)]

    def _of(self, attempt: Proposal, slots: Collection[SlotKey]) -> dict[GroupKey, None]:
        """Return the groups of the requests to which these slots belong."""
        named = zip(self._places(attempt), attempt.command.groups, attempt.workloads, strict=True)
        return {
            key: None
            for key, one, workload in (named if slots else ())
            if any((workload, placement.ordinal) in slots for placement in one.placements)
        }

    def _wait_for(self, key: GroupKey, catch_up_to: Revision) -> None:
        """Block a group until the view has this revision; back off if it has it, or none is given."""
        group = self.queue.groups.get(key)
        if catch_up_to <= self.table.revision:
            self._back_off(key)
        elif group is not None:
            self.queue.block(group, BlockedGroup(BlockReason.BEHIND, catch_up_to, self._now + BACKOFF_MOST_MS))

    def _back_off(self, key: GroupKey) -> None:
        pause = min(BACKOFF_MOST_MS, BACKOFF_MS << min(self.queue.attempts(key), 10))
        self.queue.back_off(key, BlockedGroup(BlockReason.REFUSED, self.table.revision, self._now + pause))

    def _count(self, code: str) -> None:
        self.refused[code] = self.refused.get(code, 0) + 1

    def _disagree(self, attempt: Proposal, unmet: list[RefusedPart]) -> None:
        """Record refusals that a stale view does not explain, for the quarantine."""
        said: dict[Revision, str] = {}
        for one in unmet:
            if one.code in _OF_NODES and not one.catch_up_to:
                placement = attempt.command.groups[one.group].placements[one.index]
                said.setdefault(placement.node, f"{one.code}: {one.detail}")
        for node, why in said.items():
            self.quarantine.record_refusal(self.table, node, why, self._now)

    def _agree(self, attempt: Proposal, unmet: list[RefusedPart]) -> None:
        """Reset refusals in a row of nodes with an accepted placement."""
        if self.quarantine.any_strikes:
            lost = {(one.group, one.index) for one in unmet}
            for number, group in enumerate(attempt.command.groups):
                for index, placement in enumerate(group.placements):
                    if (number, index) not in lost:
                        self.quarantine.record_success(placement.node)
