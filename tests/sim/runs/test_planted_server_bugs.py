"""A test of the tester: bugs planted in the servers are found by what judges every run, which knows nothing of them.

Each bug is one that the rules forbid, with what follows from it written under the rule. It exists in this file only. It
must be found within 500 seeds of a scenario, by name of a promise that it breaks; the same seeds are clean without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from holdfast.agent.drivers.simulated import SimulatedDriver
from holdfast.core.ledger.builtin.sessions import OpenSession
from holdfast.core.ledger.commit import authorization
from holdfast.core.ledger.commit.rules import CommandContext
from holdfast.core.reconcilers.region import node_health, repair
from holdfast.core.region.decide import preemption, proposals, transitions
from holdfast.core.region.queries import fence
from holdfast.core.scheduling.queue.scheduling_queue import BlockedGroup, BlockReason
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.host.errors import NotLeading
from holdfast.host.leader.append import AppendResult, AppendTask, BatchCommitted, BatchRejected
from holdfast.host.leader.group_commit import GroupCommit
from holdfast.host.leader.term import TermProof
from holdfast.host.ports.store import (
    Head,
    StoredBatch,
    StoreError,
    WriteConflict,
    WriteFull,
    WriteOk,
    WriteOutcome,
    WriteUnknown,
)
from holdfast.host.scheduler.loop import SchedulerLoop
from holdfast.sim.runs import run as runs
from holdfast.sim.runs.run import RunReport, run
from holdfast.sim.scenario import read
from holdfast.stores.memory import MemoryStore

SCENARIOS = Path(__file__).parents[3] / "scenarios"
SEEDS_MOST = 500
FOR_EVER_MS = 1 << 40


def capacity_check_removed(patch: pytest.MonkeyPatch) -> None:
    """The ledger believes schedulers that there is room. They themselves look, in a view that may be old."""
    for where in (proposals, preemption):
        patch.setattr(where, "fits", lambda *_args, **_named: None)


def repeat_executed_twice(patch: pytest.MonkeyPatch) -> None:
    """RULES 12: nobody looks whether a command was answered before."""
    patch.setattr(authorization, "find_duplicate", lambda _state, _case: None)


def session_epoch_ignored(patch: pytest.MonkeyPatch) -> None:
    """RULES 3: a machine may act in any session it ever had, and an agent for its node whatever session that has."""
    refuse_machine, refuse_agent = authorization._refuse_machine, transitions._refuse_agent

    def any_session(state: Any, ctx: CommandContext, rule: Any) -> Any:
        ctx.session = state.sessions.get(ctx.envelope.session)
        return None if ctx.envelope.session else refuse_machine(state, ctx, rule)

    def any_life(state: Any, ctx: CommandContext, edge: Any, slot: Any, node: Any) -> Any:
        present = CommandContext(replace(ctx.envelope, session=node.session), ctx.at, ctx.revision)
        return refuse_agent(state, present, edge, slot, node)

    patch.setattr(authorization, "_refuse_machine", any_session)
    patch.setattr(transitions, "_refuse_agent", any_life)


def answer_before_durable(patch: pytest.MonkeyPatch) -> None:
    """RULES 10: whoever waits is answered when the batch is sealed; not for sessions, whose number the state tells."""
    commit = GroupCommit._commit

    async def planted(self: Any, now: Any) -> None:
        for one, answer in zip(now.taken, now.answers, strict=True):
            if not one.answer.done() and not isinstance(one.envelope.command, OpenSession):
                one.answer.set_result(answer)
        await commit(self, now)

    patch.setattr(GroupCommit, "_commit", planted)


def renewal_without_proof(patch: pytest.MonkeyPatch) -> None:
    """RULES 3: a leader renews for a whole lease whatever it has proven, and never steps down for want of a proof."""
    age, settled = TermProof.age, AppendTask.settled

    def never_old(self: TermProof) -> int | None:
        found = age(self)
        return None if found is None else min(found, 1_000)

    async def patient(self: AppendTask, _within_ms: int) -> AppendResult:
        return await settled(self, FOR_EVER_MS)

    patch.setattr(TermProof, "age", never_old)
    patch.setattr(TermProof, "is_fresh", lambda self, _settings: age(self) is not None)
    patch.setattr(TermProof, "lease_left", lambda _self, settings: settings.session_lease)
    patch.setattr(AppendTask, "settled", patient)


def key_absent_instead_of_head(patch: pytest.MonkeyPatch) -> None:
    """RULES 1: an append is accepted where no batch of its number is stored, as is so behind the trim floor."""

    def append(self: Any, _after: Head, batch: StoredBatch) -> WriteOutcome:
        head: Head = self._head
        if batch.seq in self._batches or head.log_id not in ("", batch.log_id):
            return WriteConflict(head)
        if self._used + len(batch.raw) > self.limit_bytes:
            return WriteFull(f"{self.name} has no room")
        self._used += len(batch.raw)
        self._batches[batch.seq] = batch
        if batch.seq < head.seq:
            return WriteOk(head)
        moved: WriteOutcome = self._move(Head(batch.log_id, batch.seq, batch.digest, head.floor, head.touch))
        return moved

    patch.setattr(MemoryStore, "_append", append)


def unknown_append_taken_for_lost(patch: pytest.MonkeyPatch) -> None:
    """RULES 2: the head is read again instead of written. Where it has not moved, the batch is said to have failed and
    another one is decided for its place; what is then found at that place is taken for that one."""
    settle, conclude = AppendTask._settle, GroupCommit._conclude

    async def reread(self: Any) -> AppendResult:
        outcome = await self._try()
        if isinstance(outcome, WriteUnknown):
            try:
                outcome = WriteConflict(await self._store.head())
            except StoreError:
                return await settle(self)
        match outcome:
            case WriteConflict(head) if head.seq == self._batch.seq:
                return BatchCommitted(self.began)
            case WriteConflict(head) if head.seq < self._batch.seq:
                return BatchRejected(head)
            case WriteConflict(head):
                judged: AppendResult = await self._judge_conflict(head)
                return judged
            case WriteFull():
                return outcome
        return BatchCommitted(self.began)

    def go_on(self: Any, settled: AppendResult, now: Any, batch: StoredBatch) -> None:
        if isinstance(settled, BatchRejected) and settled.head.same_place(self._term.durable.head()):
            self._append = None
            now.tell(NotLeading("the write failed; the command was not executed"))
        else:
            conclude(self, settled, now, batch)

    patch.setattr(AppendTask, "_settle", reread)
    patch.setattr(GroupCommit, "_conclude", go_on)


def gone_believed(patch: pytest.MonkeyPatch) -> None:
    """RULES 23: whoever speaks for a node is believed that nothing of a process is there, wherever that was."""
    patch.setattr(transitions, "is_of_this_machine", lambda _node, _slot: True)


def defaults_instead_of_the_regions_numbers(patch: pytest.MonkeyPatch) -> None:
    """RULES 24: an agent is told the region's times, says that it keeps them, and its guards keep to the defaults."""
    patch.setattr(SimulatedDriver, "keep", lambda _self, times: times.grace + times.kill_margin)


def fence_without_the_term(patch: pytest.MonkeyPatch) -> None:
    """RULES 24: a fence is counted from the end of the session alone, whatever ledger time did since."""

    def planted(state: Any, node: Any, since: int = 0) -> int:
        return int(max(node.session_ended, since) + (node.fence or state.info.settings.fence_time))

    for where in (fence, transitions, repair, node_health):
        patch.setattr(where, "fenced_at", planted)


def refused_for_a_long_time(patch: pytest.MonkeyPatch) -> None:
    """RULES 15: whoever is refused once waits so long that all others, however unimportant, come first."""

    def back_off(self: Any, key: Any) -> None:
        self.queue.back_off(key, BlockedGroup(BlockReason.REFUSED, self.table.revision, self._now + 15_000))

    patch.setattr(Scheduler, "_back_off", back_off)


def scheduler_reads_nothing_anew(patch: pytest.MonkeyPatch) -> None:
    """RULES 21: what a scheduler was not told of it never reads."""

    async def never(_self: Any) -> None:
        await asyncio.Event().wait()

    patch.setattr(SchedulerLoop, "_resync", never)


class Planted(NamedTuple):
    """A bug, the scenario whose trouble it needs, promises of which it breaks one, and the seeds to try first."""

    plant: Callable[[pytest.MonkeyPatch], None]
    scenario: str
    promises: frozenset[str]
    seeds: range


def planted(plant: Callable[[pytest.MonkeyPatch], None], scenario: str, *promises: str, seeds: range) -> Planted:
    return Planted(plant, scenario, frozenset(promises), seeds)


#: The last of the seeds is the first that finds the bug: the search from seed 1 is a soak test.
PLANTED = {
    "capacity check removed": planted(capacity_check_removed, "stale-cache", "region.capacity", seeds=range(14, 15)),
    "repeat executed twice": planted(repeat_executed_twice, "timeout-after-commit", "once", seeds=range(1, 2)),
    "session epoch ignored": planted(
        session_epoch_ignored, "timeout-after-commit", "in-session", "region.epochs", seeds=range(1, 2)
    ),
    "answer before durable": planted(
        answer_before_durable, "leader-restart", "acknowledged-is-durable", "linear", seeds=range(1, 2)
    ),
    "renewal without proof": planted(renewal_without_proof, "leader-restart", "one-live-process", seeds=range(11, 12)),
    "key absent instead of head": planted(
        key_absent_instead_of_head, "leader-restart", "chain", "acknowledged-is-durable", seeds=range(14, 15)
    ),
    "unknown append taken for lost": planted(
        unknown_append_taken_for_lost, "timeout-after-commit", "acknowledged-is-durable", seeds=range(31, 32)
    ),
    "refused for a long time": planted(refused_for_a_long_time, "stale-cache", "queue-order", seeds=range(1, 2)),
    "scheduler reads nothing anew": planted(scheduler_reads_nothing_anew, "watch-loss", "placed", seeds=range(28, 29)),
    "gone believed": planted(gone_believed, "machine-replaced", "one-live-process", seeds=range(2, 3)),
    "fence without the term": planted(fence_without_the_term, "clock-ahead", "one-live-process", seeds=range(1, 2)),
    "defaults instead of the region's numbers": planted(
        defaults_instead_of_the_regions_numbers, "machine-replaced", "one-live-process", seeds=range(2, 3)
    ),
}


def hunt(bug: str, seeds: Iterable[int]) -> RunReport | None:
    """The first run that breaks what this bug breaks, of safety or of liveness. A run ends with its first finding, and
    is played on only if that is another one."""
    _, name, promises, _ = PLANTED[bug]
    scenario = read(SCENARIOS / f"{name}.yaml")
    for seed in seeds:
        for most in (1, runs.FINDINGS_MAX):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(runs, "FINDINGS_MAX", most)
                report = run(scenario, seed)
            if promises & named(report):
                return report
            if not report.findings:
                break
    return None


def named(report: RunReport) -> set[str]:
    """The promises that a run has broken."""
    return {one.promise for one in report.findings} | {one.partition(":")[0] for one in report.unsettled}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug].plant(monkeypatch)
    first = PLANTED[bug].seeds.start
    assert hunt(bug, range(first, first + SEEDS_MOST)), f"{bug}: not found in {SEEDS_MOST} seeds from {first} on"


@cache
def clean(scenario: str, seed: int) -> RunReport:
    return run(read(SCENARIOS / f"{scenario}.yaml"), seed)


@pytest.mark.parametrize("bug", PLANTED)
def test_the_same_seeds_are_clean_without_it(bug: str) -> None:
    reports = [clean(PLANTED[bug].scenario, seed) for seed in PLANTED[bug].seeds]
    assert not [(one.seed, one.findings, one.unsettled, one.lacking) for one in reports if one.failed]


@pytest.mark.soak
@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_within_500_seeds(
    bug: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    PLANTED[bug].plant(monkeypatch)
    found = hunt(bug, range(1, SEEDS_MOST + 1))
    assert found is not None, f"{bug}: not found in {SEEDS_MOST} seeds"
    with capsys.disabled():
        names = ", ".join(sorted(named(found)))
        print(f"\n{bug}: {found.scenario}, seed {found.seed}: {names}")
