"""The check of preemptions alone finds each planted fault, and nothing in a region that preempts as it should."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.region import commands as c
from holdfast.core.region import events as e
from holdfast.core.region.decide import preemption as decided
from holdfast.core.region.definition import REGION
from holdfast.core.region.queries import preemptions
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.checks.region.preemptions import PreemptionCheck
from tests.support.ledgers.region import ROOT, RegionBench, a_template
from tests.support.ledgers.scheduler_world import Follower

NEVER_MS = 10**9


def full(kind: str = "normal") -> tuple[RegionBench, int]:
    """One node of 4 cpu, full of slots of 1 cpu of a class."""
    bench = RegionBench()
    bench.a_scheduler()
    bench.a_grant()
    node = bench.a_node(cpu=4_000)
    there = bench.a_workload(a_template(cpu=1_000), count=4, uid=300, workload=3, priority_class=kind)
    bench.place(there, *(c.SlotPlacement(ordinal, node) for ordinal in range(4)))
    bench.pass_time()
    return bench, node


def preempt(bench: RegionBench, node: int, *victims: int, kind: str = "critical", **fields: Any) -> None:
    """Place one more slot of 1 cpu after victims."""
    number = 100 + len([*bench.state.assignments.keys()])
    urgent = bench.a_workload(
        a_template(cpu=1_000), count=1, uid=number, workload=number, priority_class=kind, **fields
    )
    bench.place(urgent, c.SlotPlacement(0, node, waits_for=tuple((3, ordinal) for ordinal in victims)))


def found(bench: RegionBench) -> list[str]:
    """What the check finds in the log of a bench."""
    findings: list[Finding] = []
    check = PreemptionCheck("eu", bench.state, findings.append)
    previous = b""
    for raw, digest in bench.log:
        check.take(REGION.batches.read(raw, previous, digest))
        previous = digest
    return sorted({one.promise for one in findings})


def test_a_scheduler_and_a_ledger_that_preempt_as_they_should_are_found_innocent() -> None:
    bench, _ = full("best-effort")
    bench.a_workload(a_template(cpu=1_500), count=2, priority_class="critical")
    follower = Follower(bench, "scheduler/other")
    follower.work()
    assert bench.slot().waits_for
    assert found(bench) == []


def test_it_finds_a_victim_of_equal_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptions, "why_not_lower", lambda *_: None)
    bench, node = full()
    preempt(bench, node, 0, kind="normal")
    assert found(bench) == ["preemption-lower"]


def test_it_finds_work_reclaimed_for_others_than_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (preemptions, decided):
        monkeypatch.setattr(module, "is_reclaimed", lambda *_: True)
    bench, node = full()
    preempt(bench, node, 0, kind="normal")
    assert found(bench) == ["preemption-lower"]


def test_it_finds_a_victim_that_has_just_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptions, "spared_until", lambda *_: 0)
    bench, node = full()
    bench.at -= 59_000
    preempt(bench, node, 0)
    assert found(bench) == ["preemption-run-time"]


def test_it_finds_more_preemptions_in_a_minute_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preemptions, "preemptions_left", lambda *_: 1)
    bench, node = full()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, preempt_max=1)))
    preempt(bench, node, 0)
    assert found(bench) == []
    preempt(bench, node, 1)
    assert found(bench) == ["preemption-rate"]


def test_it_finds_a_victim_without_which_it_fits() -> None:
    bench, node = full()
    preempt(bench, node, 0, 1)
    assert found(bench) == ["preemption-needed"]


def test_it_finds_a_victim_without_a_successor() -> None:
    bench, _ = full()
    findings: list[Finding] = []
    check = PreemptionCheck("eu", bench.state, findings.append)
    stop = e.SlotsStopping("preempted", (e.SlotStop((3, 0), 1, "t"),))
    record = SimpleNamespace(events=(stop,), at=1)
    batch: Any = SimpleNamespace(header=SimpleNamespace(seq=5), records=(record,))
    check.take(batch)
    assert [one.promise for one in findings] == ["preemption-successor"]
