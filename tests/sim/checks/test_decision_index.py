"""A slot that no decision explains is found at the end of a run: the index is made from the log, and asked for each."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.definition import REGION
from holdfast.core.region.queries.decisions import has_decisions
from holdfast.host.ports.store import StoredBatch
from holdfast.sim.checks import decision_index
from holdfast.sim.checks.decision_index import slots_without_decision
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.runs.run import run
from holdfast.sim.scenario import read
from holdfast.sim.world.virtual_loop import run_virtual
from tests.support.ledgers.region import RegionBench, a_template
from tests.support.ledgers.scheduler_world import a_region

SCENARIO = read(Path(__file__).parents[3] / "scenarios" / "policy-rollback.yaml")


def a_log(bench: RegionBench) -> list[StoredBatch]:
    log_id = bench.state.info.log_id
    return [StoredBatch(log_id, seq, digest, raw) for seq, (raw, digest) in enumerate(bench.log, 1)]


def found(bench: RegionBench, log: list[StoredBatch] | None = None) -> list[Finding]:
    return run_virtual(slots_without_decision(bench.state, a_log(bench) if log is None else log))


def placed() -> RegionBench:
    """Two slots on two nodes; one of them was declined once, and placed again."""
    bench, follower = a_region(nodes=2, cpu=1000)
    bench.a_workload(a_template(cpu=1000), count=2)
    follower.work()
    node = bench.state.nodes[bench.slot(0).node].name
    bench.move(f"agent/{node}", Phase.RELEASED, "declined")
    follower.work()
    return bench


def test_slots_that_were_placed_are_explained() -> None:
    bench = placed()
    assert sum(bool(slot.node) for slot in bench.state.slots.values()) == 2
    assert found(bench) == []


def test_a_slot_that_the_log_says_nothing_of_is_found() -> None:
    bench = placed()
    log = a_log(bench)
    silent = [one for one in log if not has_decisions(REGION.batches.read(one.raw, _before(one), one.digest))]
    assert len(silent) < len(log)
    assert [one.promise for one in found(bench, silent)] == ["explained"] * 2
    assert "is nowhere" in found(bench, silent)[0].detail


def test_a_slot_that_stands_elsewhere_than_it_was_decided_is_found() -> None:
    bench = placed()
    one, other = bench.slot(0), bench.slot(1)
    bench.state.slots.put((1, 0), replace(one, node=other.node))
    (finding,) = found(bench)
    assert "the newest decision about it goes to" in finding.detail


def test_a_run_whose_index_tells_nothing_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_index, "has_decisions", lambda _batch: False)
    report = run(SCENARIO, 1)
    assert {one.promise for one in report.findings} == {"explained"}
    assert report.verdicts.safety == "broken"


def _before(stored: StoredBatch) -> bytes:
    return REGION.batches.header(stored.raw).previous
