"""Settings that would break a promise, workloads that contradict themselves, conditions, the edge table's shape."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.model.objects.workload_validation import workload_problems
from holdfast.core.model.objects.workloads import (
    Apart,
    FailoverMode,
    Near,
    OnDisconnect,
    Recovery,
    Spread,
    Template,
    WorkloadSpec,
)
from holdfast.core.model.records.lifecycle import EDGES, ON_NODE, PHASES, STOP_CAUSES, STOPPABLE, Phase, StopKind
from holdfast.core.model.values.conditions import Condition, ConditionReason, ConditionStatus, with_condition
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS, settings_problems


def test_the_defaults_are_safe() -> None:
    assert settings_problems(DEFAULTS) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"fence_time": 20_000}, "fence_time must cover"),
        ({"session_lease": 20_000}, "fence_time must cover"),
        ({"drift_per_million": 500_000}, "fence_time must cover"),
        ({"proof_interval": 2_001}, "a fifth"),
        ({"lost_after": 6_000}, "suspicion comes first"),
        ({"grant_life": 30_000}, "outlast"),
        ({"reservation_life": 0}, "above zero"),
        ({"grace": -1}, "negative"),
    ],
)
def test_a_set_that_breaks_a_promise_is_refused_with_the_promise(change: dict[str, int], why: str) -> None:
    assert any(why in reason for reason in settings_problems(replace(DEFAULTS, **change)))


def a_spec(**fields: Any) -> WorkloadSpec:
    template = Template(need=Resources(100, 100), **fields.pop("template", {}))
    return WorkloadSpec(template=template, replicas=3, priority_class="normal", **fields)


def test_an_ordinary_spec_does_not_contradict_itself() -> None:
    assert workload_problems(a_spec()) == []
    leased = {"exclusive": True, "failover": FailoverMode.LEASED, "on_disconnect": OnDisconnect.STOP}
    assert workload_problems(a_spec(**leased)) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"disruption_max": -1},
        {"deadline": -1},
        {"recovery": Recovery(min_serving=-1)},
        {"exclusive": True},
        {"failover": FailoverMode.LEASED, "on_disconnect": OnDisconnect.STOP},
        {"exclusive": True, "failover": FailoverMode.LEASED},
        {"exclusive": True, "failover": FailoverMode.ACKNOWLEDGED, "batch": True},
        {"template": {"gpus": 1}},
        {"template": {"gpus": -1}},
        {"template": {"gpu_milli": 0}},
        {"template": {"gpus": 2, "gpu_milli": 500}},
        {"template": {"spread": (Spread(key="rack"),)}},
        {"template": {"spread": (Spread(max_skew=0),)}},
        {"template": {"apart": (Apart(group=""),)}},
        {"template": {"apart": (Apart(group="g", most=0),)}},
        {"template": {"apart": (Apart(group="g", key="rack"),)}},
        {"template": {"near": (Near(group=""),)}},
        {"template": {"near": (Near(group="g", key="rack"),)}},
        {"template": {"near": (Near(group="g", key="node"),), "apart": (Apart(group="g"),)}},
        {"template": {"near": (Near(group="g", required=True),), "apart": (Apart(group="g", key="zone"),)}},
    ],
)
def test_a_spec_that_cannot_be_meant_is_told(fields: dict[str, Any]) -> None:
    assert workload_problems(a_spec(**fields))


@pytest.mark.parametrize(
    "template",
    [
        {"near": (Near(group="g"),), "apart": (Apart(group="g"),)},
        {"near": (Near(group="g", key="node"),), "apart": (Apart(group="g", most=2),)},
        {"near": (Near(group="g", key="node"),), "apart": (Apart(group="h"),)},
    ],
    ids=str,
)
def test_near_and_apart_can_both_be_meant(template: dict[str, Any]) -> None:
    assert workload_problems(a_spec(template=template)) == []


def a_condition(status: ConditionStatus, since: int, type_: str = "Ready") -> Condition:
    return Condition(
        type=type_, status=status, reason=ConditionReason.PROGRESSING, since=since, observed_generation=since
    )


def test_a_condition_keeps_its_since_until_its_status_changes() -> None:
    first = with_condition((), a_condition(ConditionStatus.FALSE, 1))
    again = with_condition(first, a_condition(ConditionStatus.FALSE, 2))
    assert (again[0].since, again[0].observed_generation) == (1, 2)
    turned = with_condition(again, a_condition(ConditionStatus.TRUE, 3))
    assert turned[0].since == 3
    both = with_condition(turned, a_condition(ConditionStatus.TRUE, 4, "Bound"))
    assert [condition.type for condition in both] == ["Bound", "Ready"]


def test_every_edge_has_one_owner_and_one_sentence() -> None:
    assert len({(edge.source, edge.target, edge.cause) for edge in EDGES}) == len(EDGES)
    for edge in EDGES:
        assert edge.owner
        assert edge.sentence.endswith(".")


def test_every_phase_can_be_reached_and_left_and_released_is_final() -> None:
    for phase in PHASES:
        assert any(edge.target is phase for edge in EDGES) or phase is Phase.PENDING
        assert any(edge.source is phase for edge in EDGES) == (phase is not Phase.RELEASED)
    assert Phase.PENDING not in ON_NODE
    assert set(STOPPABLE) <= ON_NODE


def test_only_voluntary_stops_cost_the_disruption_budget() -> None:
    voluntary = {stop.name for stop in STOP_CAUSES.values() if stop.kind is StopKind.VOLUNTARY}
    assert voluntary == {
        "rollout", "superseded", "drain", "preempted", "rebalanced", "evacuated", "failed-back", "repaired",
    }  # fmt: skip
