"""A region in which pods arrive one at a time: each is placed at once, by scheduler and ledger, or dropped.

    pod ──▶ shipped and opened ──▶ one cycle of its scheduler ──▶ proposal ──▶ decided and bound
                                          └──▶ no node: withdrawn and forgotten

The state is in memory. Every gate is checked, and every placement is committed before the next pod arrives.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from holdfast.bench.fixtures.region import SCHEDULER, TENANTS, BenchRegion, NodeShape
from holdfast.bench.report import require
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import WatchKey
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.objects.policies import EVERYWHERE, PolicyDocument, PolicyStage, SchedulerPolicy, Validity
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import Assignment, AssignmentPurpose, AssignmentStage, Share
from holdfast.core.region import commands as c
from holdfast.core.region.watch import ASSIGNMENT, NODE, TEMPLATE, WORKLOAD
from holdfast.core.scheduling.framework import Plugins
from holdfast.core.scheduling.queue.peers import ALONE, SchedulerPeers
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.view import SchedulerView

_POLICY = 900_000


class Pool:
    """A region with one or several schedulers."""

    def __init__(
        self, machines: Sequence[NodeShape], plugins: Plugins, document: PolicyDocument, schedulers: int = 1
    ) -> None:
        self._region = BenchRegion(len(machines), machines=machines)
        policy = SchedulerPolicy(_POLICY, "bench", document, PolicyStage.ACTIVE, "person/bench", self._region.at)
        self._region.ship(c.ShippedPolicy(policy), c.ShippedValidity(Validity("bench", EVERYWHERE, _POLICY)))
        self._peers = [
            ALONE if schedulers == 1 else SchedulerPeers(f"scheduler/{index}", index, schedulers)
            for index in range(schedulers)
        ]
        self._schedulers = [Scheduler(plugins) for _ in self._peers]
        for one in self._schedulers:
            one.load(self._region.state)
        self._capacity_milli = sum(one.capacity.gpu for one in machines)
        self._number = 0
        self._digests: dict[Template, str] = {}
        #: Milli-GPU of placed pods, and processor seconds of all cycles.
        self.placed_milli = 0
        self.spent_s = 0.0
        self.decisions = 0

    @property
    def free_milli(self) -> int:
        """Milli-GPU that no pod has."""
        return self._capacity_milli - self.placed_milli

    def place(self, pod: Template) -> bool:
        """Place a pod now, or drop it. Return whether it was placed."""
        assignment, digest = self._open(pod)
        self._observe([(TEMPLATE, digest), (ASSIGNMENT, assignment.uid)])
        peers = self._peers[self._peers[0].owner(assignment.uid)]
        scheduler, view = self._schedulers[peers.index], SchedulerView(self._region.state, self._region.at, 0, peers)
        start = time.thread_time()
        attempt, _ = scheduler.run_cycle(view)
        self.spent_s += time.thread_time() - start
        self.decisions += 1
        if attempt is None:
            self._drop(assignment)
            return False
        number = self._region.next_sequence()
        self._region.commit(
            [
                Envelope(
                    SCHEDULER, attempt.command, self._region.at, self._region.session, number, view=attempt.view,
                    policy=attempt.policy,
                )
            ]
        )  # fmt: skip
        scheduler.on_accepted(attempt, self._now(), [])
        (group,) = attempt.command.groups
        self._observe([*((NODE, one.node) for one in group.placements), (WORKLOAD, assignment.workload)])
        self.placed_milli += pod.gpus * pod.gpu_milli if pod.gpus else 0
        return True

    def _open(self, pod: Template) -> tuple[Assignment, str]:
        """Open one slot of a new workload."""
        self._number += 1
        number, tenant = self._number, TENANTS[self._number % len(TENANTS)]
        digest = self._digests.get(pod)
        puts: list[c.ShippedItem] = []
        if digest is None or digest not in self._region.state.templates:
            digest = self._digests[pod] = template_digest(pod)
            puts.append(c.ShippedTemplate(digest, pod))
        assignment = Assignment(
            1_000_000 + number, 1, number, f"p{number}", tenant, "bench", AssignmentPurpose.SERVING,
            AssignmentStage.ACTIVE, 1, (Share(digest, 1),), (f"quota/{tenant}",), "normal",
        )  # fmt: skip
        self._run(self._shipped(*puts, c.ShippedAssignment(assignment)))
        self._run(("controller/replica", c.OpenSlots(assignment.uid, digest, (0,))))
        return assignment, digest

    def _drop(self, assignment: Assignment) -> None:
        """Withdraw the slot of a pod that found no node, and forget the pod."""
        ended = replace(assignment, stage=AssignmentStage.ENDED, generation=2, revision=2, shares=())
        self._run(self._shipped(c.ShippedAssignment(ended)))
        self._run(("controller/replica", c.WithdrawSlots(assignment.uid, (0,))))
        self._run(("controller/link", c.ForgetAssignment(assignment.uid)))
        self._observe([(ASSIGNMENT, assignment.uid), (WORKLOAD, assignment.workload)])

    def _shipped(self, *puts: c.ShippedItem) -> tuple[str, Any]:
        cursor = self._region.state.region.cursor
        return "controller/link", c.Ship("platform", 1, cursor, cursor + 1, puts)

    def _run(self, command: tuple[str, Any]) -> None:
        self._region.run(command)

    def _observe(self, touched: list[WatchKey]) -> None:
        for one in self._schedulers:
            one.observe(self._region.state, touched, self._now(), self._region.at)

    def _now(self) -> int:
        return pack_revision(self._region.state.info.seq, INDEX_MAX)

    def must_add_up(self) -> None:
        """Require that the ledger has placed what was counted."""
        used = sum(usage.all.gpu for _, usage in self._region.state.node_usage.unordered())
        require(used == self.placed_milli, f"{used:,} milli-GPU are placed, not {self.placed_milli:,}")
