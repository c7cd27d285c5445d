"""Victim and successor are told of a preemption from one receipt; a tenant sees no name of another."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.api.resources.rendering import _replica
from holdfast.api.server.redaction import _PARTS
from holdfast.cli.output.explanation import preemption
from holdfast.core.region import commands as c
from tests.support.ledgers.region import RegionBench, a_template


@pytest.fixture
def told() -> tuple[Any, Any]:
    """The views of a victim of acme and of its successor of beta."""
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node(cpu=1_000)
    for tenant in ("acme", "beta"):
        bench.a_grant(f"quota/{tenant}")
    template = a_template(cpu=1_000)
    reports = bench.a_workload(template, count=1, priority_class="best-effort")
    bench.place(reports, c.SlotPlacement(0, node))
    fraud = bench.a_workload(template, count=1, uid=200, workload=2, priority_class="critical", tenant="beta")
    bench.place(fraud, c.SlotPlacement(0, node, waits_for=((1, 0),)))
    views = [_replica(bench.state, "r", key, bench.state.slots[key]) for key in ((1, 0), (2, 0))]
    return views[0], views[1]


def test_both_are_told_the_same(told: tuple[Any, Any]) -> None:
    victim, successor = told
    assert successor.status.preempts == (victim.status.preempted,)
    assert (victim.status.preempted.priority, victim.status.preempted.victim_priority) == (100, 10)
    assert victim.status.preempted.successor == "beta/w2/eu/0"
    assert victim.status.preempted.victim == "acme/w1/eu/0"
    assert victim.status.preempts == ()
    assert successor.status.preempted is None


def test_a_tenant_sees_its_own_name_and_not_the_other_one(told: tuple[Any, Any]) -> None:
    victim, successor = told
    mine = _PARTS["Replica"](victim, "acme").status.preempted
    theirs = _PARTS["Replica"](successor, "beta").status.preempts[0]
    assert (mine.successor, mine.victim) == ("", "acme/w1/eu/0")
    assert (theirs.successor, theirs.victim) == ("beta/w2/eu/0", "")
    text = preemption(
        {"victim": mine.victim, "successor": mine.successor, "at": "now", "priority": 100, "victimPriority": 10}
    )
    assert text == "a replica of another tenant took the place of acme/w1/eu/0 at now: class priority 100 over 10"
