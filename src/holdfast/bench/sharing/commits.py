"""Kinds of optimistic commits, in memory: four schedulers, each with jobs of its own, that prefer the same nodes.

    every round: a job for each ──▶ four proposals on one view ──▶ committed one after another ──▶ what is refused waits

- by placement, or all placements of a job or none
- by resources (does it fit?), or by version (is the node as the view showed it?)

Holdfast commits by placement and by resources, and divides the nodes so that few conflict. Here they are not divided:
all schedulers fill the fullest nodes first.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from holdfast.bench.fixtures.filled_region import filled_region
from holdfast.bench.fixtures.region import NODE_SHAPE
from holdfast.bench.report import BenchResult, at_least, require
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.model.objects.topology import Toleration
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.model.values.resources import Resources
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.nodes.table import Numbers, Truths
from holdfast.core.scheduling.queue.peers import SchedulerPeers
from holdfast.core.scheduling.scheduler import Proposal, Scheduler
from holdfast.core.scheduling.view import SchedulerView

ROWS = ("sharing.conflicts_all_or_nothing", "sharing.conflicts_versions")
SCHEDULERS, JOB = 4, 20
REQUIRES, TOLERATES = (("arch", "x86"),), (Toleration("dedicated", "batch"),)
WORK = Template(("work",), need=Resources(2_000, 8_192), require=REQUIRES, tolerate=TOLERATES)
FILLERS = [
    Template(("fill",), need=Resources(cpu, 4 * cpu), require=REQUIRES, tolerate=TOLERATES)
    for cpu in (1_000, 2_000, 4_000)
]

_unmet = msgspec.msgpack.Decoder(list[RefusedPart])


class _OwnJobs(SchedulerPeers, frozen=True):
    """Each job has one scheduler; nodes are not divided."""

    def own_nodes(self, uids: Numbers) -> Truths:
        return np.ones(len(uids), np.bool_)


def measure_commits(nodes: int, rounds: int) -> list[BenchResult]:
    """Measure conflicts per placement of both alternatives, by those of Holdfast's kind of commit."""
    plain = _Shared(nodes).play(rounds)
    whole = _Shared(nodes, all_or_nothing=True).play(rounds)
    versions = _Shared(nodes, by_version=True).play(rounds)
    require(plain > 0, "there was no conflict to compare with")
    unit = "times those by placement and resources"
    return [
        at_least("sharing.conflicts_all_or_nothing", whole / plain, unit, plain, 0),
        at_least("sharing.conflicts_versions", versions / plain, unit, plain, 0),
    ]


class _Shared:
    """A region with four schedulers, and one kind of commit."""

    def __init__(self, nodes: int, *, all_or_nothing: bool = False, by_version: bool = False) -> None:
        self._all_or_nothing, self._by_version = all_or_nothing, by_version
        self._region = filled_region(nodes, FILLERS, [NODE_SHAPE])
        self._digest = template_digest(WORK)
        self._region.ship(c.ShippedTemplate(self._digest, WORK))
        self._jobs = self._numbers = 0
        self._peers = [_OwnJobs(f"scheduler/s{index}", index, SCHEDULERS) for index in range(SCHEDULERS)]
        self._schedulers = [Scheduler(BUILT_IN) for _ in self._peers]
        for one in self._peers:
            self._region.run((one.name, OpenSession()))
        self._loaded = self._refused = self._placed = 0

    def play(self, rounds: int) -> float:
        """Return refused placements by accepted ones."""
        for _ in range(rounds):
            self._open_jobs()
            self._region.at += 1_000
            attempts = []
            for scheduler, peers in zip(self._schedulers, self._peers, strict=True):
                scheduler.load(self._region.state)
                attempts.append(scheduler.run_cycle(SchedulerView(self._region.state, self._region.at, 0, peers))[0])
            for scheduler, peers, attempt in zip(self._schedulers, self._peers, attempts, strict=True):
                if attempt is not None:
                    self._commit(scheduler, peers.name, attempt)
        return self._refused / max(1, self._placed)

    def _open_jobs(self) -> None:
        """Open a job for each scheduler."""
        for peers in self._peers:
            self._jobs += 1
            while self._peers[0].owner(30_000_000 + self._jobs) != peers.index:
                self._jobs += 1
            number = self._jobs
            assignment = Assignment(
                30_000_000 + number, 1, 30_000_000 + number, f"job-{number}", "acme", "bench",
                AssignmentPurpose.SERVING, AssignmentStage.ACTIVE, 1, (Share(self._digest, JOB),), ("quota/acme",),
                "normal",
            )  # fmt: skip
            self._region.ship(c.ShippedAssignment(assignment))
            self._region.run(("controller/replica", c.OpenSlots(assignment.uid, self._digest, tuple(range(JOB)))))

    def _commit(self, scheduler: Scheduler, actor: str, attempt: Proposal) -> None:
        """Commit a proposal and tell its scheduler the outcome."""
        command, stale = replace(attempt.command, all_or_nothing=self._all_or_nothing), list[RefusedPart]()
        if self._by_version:
            command, stale = self._without_changed(attempt)
        count = sum(len(group.placements) for group in attempt.command.groups)
        if not command.groups:
            scheduler.on_refused(attempt, Code.STALE, stale, 0)
            self._refused += count
            return
        answer = self._send(actor, command, attempt.view)
        if isinstance(answer, Refused):
            unmet = [RefusedPart(*one) for one in answer.facts.get("refused", ())]
            scheduler.on_refused(attempt, answer.code, unmet, 0)
            self._refused += count
            return
        unmet = [*stale, *(_unmet.decode(answer.answer) if answer.answer else ())]
        scheduler.on_accepted(attempt, answer.revision, unmet)
        self._refused += len(unmet)
        self._placed += count - len(unmet)

    def _without_changed(self, attempt: Proposal) -> tuple[c.Propose, list[RefusedPart]]:
        """Return the proposal without nodes that have changed since its view, and the placements left out."""
        state, groups, stale = self._region.state, list[c.PlacementGroup](), list[RefusedPart]()
        for number, group in enumerate(attempt.command.groups):
            kept = []
            for index, one in enumerate(group.placements):
                usage = state.node_usage.get(one.node)
                if usage is not None and usage.revision > attempt.view:
                    stale.append(RefusedPart(number, index, Code.STALE.value, "version"))
                else:
                    kept.append(one)
            if kept:
                groups.append(replace(group, placements=tuple(kept)))
        return replace(attempt.command, groups=tuple(groups)), stale

    def _send(self, actor: str, command: c.Propose, view: int) -> Committed | Refused:
        region = self._region
        draft = BatchDraft(REGION, region.state)
        self._numbers += 1
        session = region.state.session_of.get(actor) or 0
        answer = draft.add(Envelope(actor, command, region.at, session, self._numbers, view=view), region.at)
        require(isinstance(answer, Committed | Refused), answer)
        draft.seal()
        draft.commit()
        assert isinstance(answer, Committed | Refused)
        return answer
