"""A scheduler, without its clock and its wires: what it hears, what it proposes next, what it makes of the answers.

    hear ──▶ table and queue ──▶ look: groups in their order, each in one pass ──▶ a proposal ──▶ answered

It stamps on each proposal the revision of its view, and deducts what it has proposed until a view shows what became of
it. What cannot be placed sleeps until something changes that can cure it, and keeps up to where it was looked at.

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
from holdfast.core.region.state.tables import RegionState
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.cycle import SchedulerView, SchedulingCycle, UnplacedRequest
from holdfast.core.scheduling.framework import Plugins, SchedulingProfile
from holdfast.core.scheduling.nodes.quarantine import NodeQuarantine
from holdfast.core.scheduling.nodes.table import NodeTable
from holdfast.core.scheduling.queue.in_flight import InFlight
from holdfast.core.scheduling.queue.request_groups import GroupKey
from holdfast.core.scheduling.queue.scheduling_queue import DUE_MAX, BlockedGroup, BlockReason, SchedulingQueue
from holdfast.core.scheduling.queue.unblocker import Unblocker
from holdfast.core.scheduling.resync import Resync

#: After a refusal that the view does not explain, so long; doubled each time.
BACKOFF_MS, BACKOFF_MOST_MS = 200, 30_000
#: Of more nodes and requests than so many no more than these are taken anew at once: some 50 ms.
LOADED_AT_ONCE = 5_000
#: Refusals that say that this view and the ledger's state do not agree about a node.
_OF_NODES = (
    Code.CAPACITY, Code.DEVICE, Code.PORT, Code.LABELS, Code.TAINT, Code.TENANCY, Code.ONE_TENANT, Code.ISOLATION,
    Code.NODE_UNAVAILABLE,
)  # fmt: skip
#: Kinds of objects that are not nodes or workloads, and whose change may cure anything.
_OTHERS = (watch.POLICY, watch.VALIDITY, watch.PRIORITY_CLASS, watch.PLATFORM_OVERRIDE, OVERRIDE, watch.REGION)
WATCHES = (
    watch.NODE, watch.NODE_REPORT, watch.WORKLOAD, watch.ASSIGNMENT, watch.TEMPLATE, watch.NODE_POOL, watch.GRANT,
    *_OTHERS,
)  # fmt: skip


class Proposal(Struct, frozen=True):
    """A proposal to send, and under which number it is known here; what each of its groups asks for, for whom, and with
    whom it waited."""

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
        #: The time of the last look.
        self._now: Instant = 0
        #: What was refused of proposals, by code.
        self.refused: dict[str, int] = {}
        self._resync_hits = 0
        #: Whether the last look left somebody for the next, so that it should come soon.
        self.has_more = False

    def load(self, state: RegionState) -> None:
        """Take everything anew."""
        gone = [uid for uid in self.table.rows if uid not in state.nodes]
        uids = state.nodes.keys()
        at = pack_revision(state.info.seq, INDEX_MAX)
        self.queue.load(state)
        self.flight.settle(at, state.info.at)
        self.flight.show(self.queue.take_shown())
        self.table.refresh(state, [*gone, *uids], at)
        self.waking.all()

    def pieces(self, state: RegionState) -> Iterator[list[WatchKey]]:
        """Everything that is here or in a state, in pieces, for who takes it anew a piece at a time; none: it is
        little, and taken at once."""
        if len(state.nodes) + len(state.requests) > LOADED_AT_ONCE:
            yield from self.resync.pieces(state, LOADED_AT_ONCE)

    def load_piece(self, state: RegionState, named: Sequence[WatchKey]) -> None:
        """Take a piece anew. Nothing is looked at before `loaded`."""
        self.queue.begin_load(state)
        nodes = [key for kind, key in named if kind == watch.NODE]
        for kind, key in named:
            if kind != watch.NODE:
                self.queue.update(state, key)  # type: ignore[arg-type]
        self.table.refresh(state, nodes, self.table.revision)  # type: ignore[arg-type]

    def loaded(self, state: RegionState, at: Revision) -> None:
        """All pieces were taken, from states that had this revision; what changed since is still to be heard."""
        self.flight.settle(at, state.info.at)
        self.table.refresh(state, self.flight.show(self.queue.take_shown()), at)
        self.waking.all()

    def observe(self, state: RegionState, touched: Iterable[WatchKey], at: Revision, now: Instant) -> None:
        """Take what has changed, up to a place in the log, and wake whom it can cure."""
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
        # First what counts no more, then what stands there instead: so nothing seems to be free in between.
        self.flight.settle(max(at, self.table.revision), state.info.at)
        nodes += self.flight.show(self.queue.take_shown())
        self.table.refresh(state, nodes, at)
        self.table.hint(state, reported)
        self._wake(state, now)

    def _wake(self, state: RegionState, now: Instant) -> None:
        for assignment in self.flight.take_returned():
            self.waking.assigned(assignment)
        self.waking.heard(state, self._filters, now)

    def catch(self, state: RegionState, named: Iterable[WatchKey], now: Instant) -> None:
        """Take what was kept from this scheduler as it is in a state, and count it."""
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
        """The next proposal, if there is something to propose; and who was looked at and waits."""
        if view.now < self._now:
            self._go_back(view.state, self._now - view.now)
        self._now = view.now
        self.queue.pass_time(view.state, view.now)
        # What this view does not show by now can land no more: it is complete up to its age.
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
        """Another leader's time is lower by so much: what was found by the later one is found anew, and a pause is as
        long as it was to be. Until when a proposal can land is said in ledger time: that stays."""
        self.queue.go_back(state, step)
        self.waking.go_back()
        self.quarantine.go_back(step)

    def take_resync_hits(self) -> int:
        """What only the resync has noticed since the last time: slots that were placed though nothing else had woken
        their request, and nodes and requests that were others in the state."""
        caught, self._resync_hits = self._resync_hits, 0
        return caught

    def on_accepted(self, attempt: Proposal, at: Revision, unmet: list[RefusedPart]) -> None:
        """A proposal was accepted at a revision, but for these parts of it."""
        self.flight.land(attempt.number, at)
        for one in unmet:
            self._count(one.code)
        self._agree(attempt, unmet)
        self._disagree(attempt, unmet)
        if unmet:
            self._landed_in_part(attempt, unmet)
        elif attempt.command.bind:
            self.on_bound(attempt)

    def _landed_in_part(self, attempt: Proposal, unmet: list[RefusedPart]) -> None:
        """Whoever got nothing waits as if all had been refused; of whom all came through nothing was in vain."""
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
        """A proposal was refused as a whole; with a revision to wait for, if its view was behind."""
        self._count(code.value)
        self.flight.refuse(attempt.number)
        self._disagree(attempt, unmet)
        for key in dict.fromkeys(self._places(attempt)):
            self._wait_for(key, catch_up_to)

    def on_bound(self, attempt: Proposal, declined: Collection[SlotKey] = ()) -> None:
        """It came through but for these slots: of whom all did, whatever was in vain before does not count any more."""
        lost = self._of(attempt, declined)
        for key in dict.fromkeys(self._places(attempt)):
            if key not in lost:
                self.queue.come_through(key)

    def on_declined(self, attempt: Proposal, slots: Collection[SlotKey]) -> None:
        """Somebody who was asked said no to slots that were reserved: they wait again, and are not tried at once."""
        for key in self._of(attempt, slots):
            self._back_off(key)

    def _places(self, attempt: Proposal) -> list[GroupKey]:
        """For each request of a proposal with whom it waits now; or with whom it did, if nothing of it waits."""
        found = [self.queue.group((one.assignment, one.template)) for one in attempt.command.groups]
        return [then if now is None else now.key for now, then in zip(found, attempt.waited, strict=True)]

    def _of(self, attempt: Proposal, slots: Collection[SlotKey]) -> dict[GroupKey, None]:
        """The places of those requests of which slots are named."""
        named = zip(self._places(attempt), attempt.command.groups, attempt.workloads, strict=True)
        return {
            key: None
            for key, one, workload in (named if slots else ())
            if any((workload, placement.ordinal) in slots for placement in one.placements)
        }

    def _wait_for(self, key: GroupKey, catch_up_to: Revision) -> None:
        """Do not try it again before the view has this revision; where it has, or none is named, some time later."""
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
        """A node that the ledger keeps refusing, though this view is not behind, is left alone for a while."""
        said: dict[Revision, str] = {}
        for one in unmet:
            if one.code in _OF_NODES and not one.catch_up_to:
                placement = attempt.command.groups[one.group].placements[one.index]
                said.setdefault(placement.node, f"{one.code}: {one.detail}")
        for node, why in said.items():
            self.quarantine.record_refusal(self.table, node, why, self._now)

    def _agree(self, attempt: Proposal, unmet: list[RefusedPart]) -> None:
        """Nodes where something was placed have no refusals in a row."""
        if self.quarantine.any_strikes:
            lost = {(one.group, one.index) for one in unmet}
            for number, group in enumerate(attempt.command.groups):
                for index, placement in enumerate(group.placements):
                    if (number, index) not in lost:
                        self.quarantine.record_success(placement.node)
