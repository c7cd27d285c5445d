"""One run of a scenario: the same seed gives the same run, to the byte.

plan ──▶ cluster ──▶ faults and traffic ──▶ calm ──▶ settled? ──▶ report
                     safety is checked at every commit, after every fault, and at the end

Size: the order of one run, from its plan to its report.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.codec import Batch
from holdfast.core.region.definition import REGION
from holdfast.host.ports.store import StoredBatch
from holdfast.host.runtime import gc_tuning
from holdfast.replay.recorder import record_log
from holdfast.replay.recording import PLATFORM_NAME, PlannedFault, RecordedRun, Recording, RunPlan
from holdfast.replay.refold import as_of
from holdfast.sim.checks.assignment.make_before_break import MakeBeforeBreakCheck
from holdfast.sim.checks.cross_ledger import check_across_ledgers
from holdfast.sim.checks.decision_index import slots_without_decision
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.link_steps import missed_steps
from holdfast.sim.checks.placement.placements import PlacementCheck
from holdfast.sim.checks.region.registry import region_checks
from holdfast.sim.cluster import questions
from holdfast.sim.cluster.cluster import SimulatedCluster, old_server
from holdfast.sim.cluster.fault_injection import FaultInjector
from holdfast.sim.cluster.process_state import differing_servers
from holdfast.sim.cluster.silent_nodes import RecoveryTimer
from holdfast.sim.runs.coverage import count_events
from holdfast.sim.runs.settle_phase import LOOK_MS, SettlePhase
from holdfast.sim.scenario import Scenario
from holdfast.sim.world.virtual_loop import run_virtual

FINDINGS_MAX = 20


class RunVerdicts(Struct, frozen=True):
    """`held`, `broken`, or `inconclusive`: too little happened for a verdict."""

    safety: str
    liveness: str


class RunReport(Struct, frozen=True):
    """The outcome of a run."""

    scenario: str
    seed: int
    digest: str
    verdicts: RunVerdicts
    findings: tuple[Finding, ...]
    #: What had not converged, and which minimums were not reached.
    unsettled: tuple[str, ...]
    lacking: tuple[str, ...]
    answers: dict[str, questions.QuestionAnswer]
    timeline: tuple[tuple[int, str], ...]
    #: Length of the run and of its settle phase, in simulated milliseconds.
    length: int
    settled: int
    #: Per critical workload: milliseconds from the loss of a region until it served its minimum elsewhere.
    recovered: dict[str, int]
    counts: dict[str, int]
    plan: RunPlan

    @property
    def failed(self) -> bool:
        """Whether a verdict is not `held`, including an inconclusive one."""
        return self.verdicts != RunVerdicts("held", "held")


async def _ended(trouble: asyncio.Task[None]) -> None:
    """End the faults, early if necessary. An error of a fault is raised: it makes the run invalid."""
    trouble.cancel()
    try:
        await trouble
    except asyncio.CancelledError:
        return


class SimulationRun:
    """A run in progress, with its cluster, faults and checks."""

    def __init__(self, scenario: Scenario, seed: int, plan: RunPlan | None = None) -> None:
        self.scenario = scenario
        self.seed = seed
        self.scene = SimulatedCluster(scenario, seed, plan)
        self.troubles = FaultInjector(self.scene, self._strikes)
        self.struck: questions.FaultSnapshot | None = None
        self.findings: list[Finding] = []
        self.settling = SettlePhase(self.scene, self.troubles)
        self.recovery = RecoveryTimer(scenario, self.scene.plan)
        #: The complete log of each ledger, which its disk trims: for checks and for a recording.
        self.logs: dict[str, list[StoredBatch]] = {name: [] for name in self.scene.audits}
        for name, log in self.logs.items():
            self.scene.world.store(name).disk.listeners.append(log.append)
        platform = self.scene.audits[PLATFORM_NAME]
        platform.listeners.append(MakeBeforeBreakCheck(platform.state, self.findings.append, self.scene.world.now).take)
        for name in self.scene.cast.nodes:
            self._listen(name)

    async def play(self) -> RunReport:
        """Run the scenario to its end and return the report."""
        scene, world = self.scene, self.scene.world
        trouble = asyncio.create_task(self.troubles.run(scene.plan.faults, self._judge))
        try:
            while world.now() < scene.plan.length and len(self._found()) < FINDINGS_MAX:
                await asyncio.sleep(LOOK_MS / 1000)
                self.recovery.look(scene, self.troubles.struck)
                self.settling.look_meanwhile()
                self._judge_across()
            await _ended(trouble)
            left = await self.settling.until_calm(lambda: len(self._found()) < FINDINGS_MAX)
            self._judge()
            self.findings += differing_servers(scene)
        finally:
            trouble.cancel()
            await world.end()
        for audit in scene.audits.values():
            await audit.finish()
        if not self._found():
            for name in scene.cast.nodes:
                self.findings += await slots_without_decision(scene.audits[name].state, self.logs[name])
        return self._report([*self.recovery.late(), *left])

    def _listen(self, name: str) -> None:
        """Register the checks of a region's log."""
        audit, clock = self.scene.audits[name], self.scene.world.now
        hears, log = lambda: not self.troubles.is_deaf(name), self.logs[name]
        placements = PlacementCheck(
            name, audit.state, self.findings.append, hears, self.scene.acted, clock,
            lambda seq: as_of(REGION, log, seq), alone=self.scene.has_one_scheduler(name),
        )  # fmt: skip
        self.scene.servers.on_said[name] = placements.queue.excused.said
        self.scene.servers.on_refused[name] = placements.queue.excused.refused
        others = region_checks(name, audit.state, self.findings.append, hears)

        def take(batch: Batch[Any]) -> None:
            placements.take(batch, lambda: REGION.batches.evidence(audit.newest))
            for judge in others:
                judge.take(batch)

        audit.listeners.append(take)

    def _strikes(self, fault: PlannedFault) -> None:
        """Snapshot the state at the start of the first fault."""
        if self.struck is None:
            counts = count_events(self.scene, self.troubles.happened)
            self.struck = questions.snapshot_at_fault(
                self.scene, self.scene.world.now(), f"{fault.what} {fault.where}", counts
            )

    def _judge(self) -> None:
        """Run all checks that are possible now, in full."""
        for audit in self.scene.audits.values():
            audit.check_in_full()
        self._judge_across()

    def _judge_across(self) -> None:
        states = {name: audit.state for name, audit in self.scene.audits.items()}
        platform = states.pop(PLATFORM_NAME)
        found = (*check_across_ledgers(platform, states), *missed_steps(platform, states))
        self.findings += [one for one in found if one not in self.findings]

    def _found(self) -> list[Finding]:
        audits = [one for audit in self.scene.audits.values() for one in audit.findings]
        return [*self.scene.oracle.findings, *self.findings, *audits, *self._broken()]

    def _broken(self) -> list[Finding]:
        """Return failures without a fault. A server that cannot read the log is meant to stop."""
        old = [f"{old_server(name)}." for name in self.scenario.topology.behind]
        failures = [one for one in self.scene.world.failures() if not one.startswith(tuple(old))]
        for metrics in self.scene.servers.metrics:
            failures += [f"task ended: {labels}" for name, labels in metrics.counts if name == "task_gave_up"]
        return [Finding("nothing-fails", one) for one in failures]

    def _report(self, left: list[str]) -> RunReport:
        counts = count_events(self.scene, self.troubles.happened)
        findings = tuple(self._found())
        broken = [*(one.promise for one in findings), *(one.partition(":")[0] for one in left)]
        found = questions.answer_questions(self.scene, self.struck, counts, broken)
        nameless = questions.unanswered_questions(found) if self.struck is not None else []
        lacking = (*self._lacking(counts), *(f"the answer {name!r} names no revision" for name in nameless))
        said = "inconclusive" if lacking else "held"
        verdicts = RunVerdicts("broken" if findings else said, "broken" if left else said)
        world = self.scene.world
        return RunReport(
            self.scenario.name,
            self.seed,
            self._digest(counts),
            verdicts,
            findings,
            tuple(left),
            lacking,
            found,
            tuple(world.timeline),
            world.now(),
            self.settling.took,
            self.recovery.took,
            counts,
            self.scene.plan,
        )

    def _lacking(self, counts: dict[str, int]) -> list[str]:
        least = self.scenario.least
        refused = sum(count for name, count in counts.items() if name.startswith("refused."))
        faults = sum(self.troubles.happened.values())
        has = {
            "commands": counts["audit.commands"],
            "acknowledged": counts["audit.acknowledged"],
            "started": self.scene.oracle.started,
            "refused": refused,
            "faults": faults,
            "linear": counts["audit.linear"],
        }
        wanted = msgspec.to_builtins(least).items()
        return [f"{has[name]} {name}, at least {count} required" for name, count in wanted if has[name] < count]

    def _digest(self, counts: dict[str, int]) -> str:
        found = hashlib.blake2b(self.scene.world.digest().encode(), digest_size=16)
        found.update(msgspec.json.encode(counts, order="deterministic"))
        return found.hexdigest()


def run(scenario: Scenario, seed: int, plan: RunPlan | None = None) -> RunReport:
    with gc_tuning.gc_borrowed():  # hosts make what they load permanent; after many worlds it would fill the memory
        return run_with_logs(scenario, seed, plan)[0]


def run_with_logs(scenario: Scenario, seed: int, plan: RunPlan | None = None) -> tuple[RunReport, SimulationRun]:
    """Return the report of a run, and the run itself."""

    async def play() -> tuple[RunReport, SimulationRun]:
        one = SimulationRun(scenario, seed, plan)
        return await one.play(), one

    with gc_tuning.gc_borrowed():
        return run_virtual(play())


def as_json(report: RunReport) -> dict[str, Any]:
    """Return the report as plain JSON values."""
    return {**msgspec.to_builtins(report), "timeline": [{"ms": at, "what": what} for at, what in report.timeline]}


def record_run(scenario: Scenario, text: str, seed: int, plan: RunPlan | None = None) -> tuple[RunReport, Recording]:
    """Run a seed of a scenario with this text, and record all its ledgers from their first batches."""
    report, one = run_with_logs(scenario, seed, plan)
    made = RecordedRun(seed, scenario.name, text, report.plan, report.digest)
    return report, Recording(made, tuple(record_log(name, log) for name, log in one.logs.items()))
