"""What benchmarks send is what a scheduler sends."""

from __future__ import annotations

from holdfast.bench.fixtures.region import BenchRegion
from holdfast.core.ledger.codec import encode, read_evidence
from holdfast.core.model.records.decisions import DecisionEvidence
from holdfast.core.scheduling.builtin import BUILT_IN
from holdfast.core.scheduling.scheduler import Scheduler
from holdfast.core.scheduling.view import SchedulerView


def _by_the_scheduler(region: BenchRegion) -> bytes:
    """The evidence of the scheduler itself for what waits there."""
    scheduler = Scheduler(BUILT_IN)
    scheduler.load(region.state)
    attempt, _ = scheduler.run_cycle(SchedulerView(region.state, region.at))
    assert attempt is not None
    return encode(attempt.decision)


def test_a_proposal_of_a_benchmark_carries_evidence_of_the_form_and_size_that_the_scheduler_gives_it() -> None:
    region = BenchRegion(50)
    assignment = region.open_workload()
    before = len(region.state.slots)
    for envelope in (region.proposals(assignment, 100)[0], region.proposals(assignment, 1)[-1]):
        mine, real = read_evidence(envelope.evidence), read_evidence(_by_the_scheduler(region))
        assert isinstance(mine, DecisionEvidence)
        assert isinstance(real, DecisionEvidence)
        (seen,), (of_scheduler,) = mine.passes, real.passes
        assert (seen.requests, seen.template) == (of_scheduler.requests, of_scheduler.template)
        assert (seen.examined, seen.rejected, len(seen.candidates)) == (50, of_scheduler.rejected, 3)
        assert [one.account for one in seen.quota] == [one.account for one in of_scheduler.quota] == ["quota/globex"]
        assert mine.plugins == real.plugins
        assert mine.view == envelope.view
        assert abs(len(envelope.evidence) - len(_by_the_scheduler(region))) < 40
    assert len(region.state.slots) == before, "what was looked at for the evidence is not in the region"
