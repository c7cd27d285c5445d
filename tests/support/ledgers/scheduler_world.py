"""A scheduler that works for a region on a bench: it follows the log as far as it is told, proposes, and is answered.

bench.log ──▶ a state of its own, batch by batch ──▶ Scheduler.hear ──▶ look ──▶ bench.send ──▶ landed or lost
"""

from __future__ import annotations

from typing import Any

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.commit.watch import WatchKey
from holdfast.core.ledger.partial import RefusedPart, decode_refused_parts
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import WATCH_KEYS
from holdfast.core.scheduling.ask import SlotAsk
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.queue.peers import ALONE, peers_of
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup
from holdfast.core.scheduling.scheduler import WATCHES, Proposal, Scheduler
from holdfast.core.scheduling.view import SchedulerView, UnplacedRequest
from tests.support.ledgers.region import SCHEDULER, RegionBench


class Follower:
    """One scheduler of a bench. Its view is a state of its own, which is as old as it is told to be."""

    def __init__(self, bench: RegionBench, name: str = SCHEDULER, plugins: Plugins = BUILT_IN) -> None:
        self.bench = bench
        self.name = bench.a_scheduler(name)
        self.scheduler = Scheduler(plugins)
        self.state = RegionState()
        self.age_ms = 0
        self.peers = ALONE
        #: What the state shows and nobody has told of yet.
        self.unheard: dict[WatchKey, None] = {}
        #: Every part of a proposal that was refused.
        self.refused: list[RefusedPart] = []
        self.waits: list[UnplacedRequest] = []
        self._read(len(bench.log))
        self.scheduler.load(self.state)

    # What it hears

    def catch_up(self, behind: int = 0) -> None:
        """Hear of every batch, one by one, but for the newest so many."""
        if self.unheard:
            self.hear({})
        while self.state.info.seq < len(self.bench.log) - behind:
            self.hear(self._read(self.state.info.seq + 1))

    def catch_up_at_once(self) -> None:
        """Hear of every batch as of one."""
        self.hear(self._read(len(self.bench.log)))

    def see_ahead(self) -> None:
        """The state is the newest, but nobody has told yet what changed in it."""
        self.unheard.update(self._read(len(self.bench.log)))

    def hear(self, keys: dict[WatchKey, None]) -> None:
        keys = {**self.unheard, **keys}
        self.unheard = {}
        at = pack_revision(self.state.info.seq, INDEX_MAX)
        self.scheduler.observe(self.state, keys, at, self.bench.at)

    def _read(self, to: int) -> dict[WatchKey, None]:
        """Fold the log up to this batch; what it touched of what a scheduler watches."""
        touched: dict[WatchKey, None] = {}
        for raw, digest in self.bench.log[self.state.info.seq : to]:
            batch = REGION.batches.read(raw, self.state.info.digest, digest)
            fold(REGION, self.state, batch)
            keys = [
                key for record in batch.records for event in record.events for key in WATCH_KEYS[type(event)](event, 0)
            ]
            touched.update(dict.fromkeys(key for key in keys if key[0] in WATCHES))
        return touched

    # What it does

    def look(self) -> Proposal | None:
        """The next proposal. A look that leaves somebody for the next one is followed by that."""
        attempt = None
        while attempt is None:
            attempt, waits = self.scheduler.run_cycle(SchedulerView(self.state, self.bench.at, self.age_ms, self.peers))
            self.waits = [*self.waits, *waits]
            if not self.scheduler.has_more:
                break
        return attempt

    def send(self, attempt: Proposal) -> list[RefusedPart]:
        """Propose, and take the answer as a host does; what was refused."""
        answer = self.bench.send(
            self.name, attempt.command, view=attempt.view, policy=attempt.policy, evidence=encode(attempt.decision)
        )
        if isinstance(answer, Refused):
            unmet = [RefusedPart(*one) for one in answer.facts.get("refused", ())]
            behind = max([one.catch_up_to for one in unmet], default=int(answer.facts.get("catch_up_to", 0)))
            self.scheduler.on_refused(attempt, answer.code, unmet, behind)
            unmet = unmet or [RefusedPart(0, 0, answer.code.value, answer.message)]
        else:
            unmet = decode_refused_parts(answer.answer)
            self.scheduler.on_accepted(attempt, answer.revision, unmet)
        self.refused += unmet
        return unmet

    def step(self) -> Proposal | None:
        """Hear, look, propose and hear again; what was proposed."""
        self.catch_up()
        attempt = self.look()
        if attempt is not None:
            self.send(attempt)
            self.catch_up()
        return attempt

    def work(self, most: int = 100) -> int:
        """Go on until there is nothing to propose; in how many steps."""
        for number in range(most):
            if self.step() is None:
                return number
        raise AssertionError(f"still at work after {most} proposals")

    # What is known of it

    def reasons(self, assignment: int = 100) -> tuple[PendingReason, ...]:
        """Why a request waits, by the last look at it."""
        found = [one.reasons for one in self.waits if one.entry.key[0] == assignment]
        return found[-1] if found else ()

    def codes(self, assignment: int = 100) -> list[str]:
        return [reason.code for reason in self.reasons(assignment)]

    def asleep(self, assignment: int = 100) -> BlockedGroup | None:
        """How a request sleeps; None: it is awake, or waits for nothing."""
        for group in self.scheduler.queue.groups.values():
            if any(key[0] == assignment for key in group.entries):
                return self.scheduler.queue.blocked.get(group.key)
        return None

    def asks(self) -> list[SlotAsk]:
        return [group.ask for group in self.scheduler.queue.groups.values()]


def nodes_of(attempt: Proposal | None) -> list[int]:
    """The node of each placement, in the order of the proposal."""
    assert attempt is not None
    return [placement.node for group in attempt.command.groups for placement in group.placements]


def placed_on(bench: RegionBench) -> dict[tuple[int, int], str]:
    """By slot that stands on a node: its name."""
    return {key: bench.state.nodes[slot.node].name for key, slot in bench.state.slots.items() if slot.node}


def several(bench: RegionBench, count: int) -> list[Follower]:
    """Schedulers with equal views, each of which knows of the others."""
    names = [f"scheduler/s{number}" for number in range(1, count + 1)]
    for name in names:
        bench.a_scheduler(name)
    found = [Follower(bench, name) for name in names]
    for one in found:
        one.peers = peers_of(one.name, names)
    return found


def a_region(nodes: int = 1, plugins: Plugins = BUILT_IN, **fields: Any) -> tuple[RegionBench, Follower]:
    """A region with a grant and nodes n1, n2, ..., and its scheduler."""
    bench = RegionBench()
    bench.a_grant()
    for number in range(1, nodes + 1):
        bench.a_node(f"n{number}", **fields)
    return bench, Follower(bench, plugins=plugins)
