"""Gangs at the platform: what admission refuses, and counts that never split a gang."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.builtin.log import Configure
from holdfast.core.model.objects.gangs import Gang
from holdfast.core.model.objects.workloads import FailoverMode, with_implied
from holdfast.core.model.records.assignments import Share
from holdfast.core.model.values.limits import GANG_MAX
from holdfast.core.platform import commands as c
from holdfast.core.platform.definition import ASSIGNMENT
from tests.support.ledgers.platform import ACME, ROOT, PlatformBench, a_workload, a_world


def ganged(size: int = 4, replicas: int = 8, **fields: Any) -> Any:
    spec = {"disruption_max": size, "gang": Gang(size, **fields.pop("gang", {}))}
    return a_workload(replicas=replicas, **{**spec, **fields})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"size": 1, "replicas": 8}, "gang.size is between 2 and 1000"),
        ({"size": GANG_MAX + 1}, "gang.size is between 2 and 1000"),
        ({"gang": {"min": 5}}, "gang.min is between 1 and gang.size, 4"),
        ({"gang": {"min": -1}}, "gang.min is between 1 and gang.size, 4"),
        ({"gang": {"replace_within": -1}}, "gang.replaceWithin cannot be negative"),
        ({"replicas": 6}, "replicas is 6: it must be a multiple of gang.size, 4"),
        ({"disruption_max": 3}, "disruptionMax is 0 or at least gang.size, 4"),
        ({"exclusive": True, "failover": FailoverMode.ACKNOWLEDGED}, "gang contradicts exclusive"),
    ],
)
def test_a_contradictory_gang_is_refused_with_its_field(fields: dict[str, Any], said: str) -> None:
    refused = a_world().refuse(Code.CONTRADICTORY, ACME, c.PutWorkload(ganged(**fields)))
    assert refused.message.startswith(said)
    assert len(refused.facts["contradictions"]) == 1


def test_a_gang_of_the_largest_size_is_accepted() -> None:
    assert a_world().put(ganged(GANG_MAX, GANG_MAX))


def test_the_implied_disruption_budget_is_one_gang() -> None:
    assert with_implied({"gang": Gang(4)})["disruption_max"] == 4
    assert with_implied({"gang": Gang(4), "disruption_max": 8})["disruption_max"] == 8
    assert "disruption_max" not in with_implied({})


def test_the_size_of_gangs_changes_only_while_no_region_holds_any() -> None:
    bench = a_world()
    uid = bench.put(ganged())
    bench.put(ganged(2, 8))
    bench.assign(uid, "eu", 8)
    refused = bench.refuse(Code.IN_USE, ACME, c.PutWorkload(ganged(4, 8)))
    assert refused.facts["regions"] == ["eu"]
    bench.refuse(Code.IN_USE, ACME, c.PutWorkload(a_workload(replicas=8)))
    bench.put(ganged(2, 8, gang={"min": 1, "replace_within": 0}))


def test_an_assignment_holds_whole_gangs_and_carries_their_rule() -> None:
    bench = a_world()
    uid = bench.put(ganged(gang={"min": 3}))
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, bench.assignment(uid, "eu", 6))
    bench.assign(uid, "eu", 4)
    assert [one.gang for one in bench.assignments(uid)] == [Gang(4, min=3)]


def offered(bench: PlatformBench, uid: int, count: int) -> int:
    (mine,) = bench.assignments(uid)
    bench.accept(f"region/{mine.region}", c.OfferBack(mine.uid, count))
    return bench.state.overflows[uid][0].moved


def test_whole_gangs_are_offered_back_as_many_as_the_window_has_left() -> None:
    bench = a_world()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, rebalance_max=7)))
    uid = bench.put(ganged())
    bench.assign(uid, "eu", 8)
    assert offered(bench, uid, 8) == 4


def test_a_gang_larger_than_a_window_moves_as_the_only_one() -> None:
    bench = a_world()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, rebalance_max=3)))
    uid = bench.put(ganged())
    bench.assign(uid, "eu", 8)
    assert offered(bench, uid, 8) == 4
    (mine,) = bench.assignments(uid)
    bench.later(1)
    bench.refuse(Code.TOO_EARLY, "region/eu", c.OfferBack(mine.uid, 8))


def test_a_gang_that_does_not_fit_into_the_rest_of_a_window_waits_for_the_next() -> None:
    bench = a_world()
    bench.accept(ROOT, Configure(replace(bench.state.info.settings, rebalance_max=5)))
    other, uid = bench.put(a_workload("api")), bench.put(ganged())
    bench.assign(other, "eu", 2)
    bench.assign(uid, "eu", 8)
    offered(bench, other, 2)
    (mine,) = bench.assignments(uid)
    refused = bench.refuse(Code.TOO_EARLY, "region/eu", c.OfferBack(mine.uid, 8))
    bench.at = refused.facts["until"]
    assert offered(bench, uid, 8) == 4


def test_counts_of_old_templates_are_whole_gangs_too() -> None:
    bench = a_world()
    uid = bench.put(ganged())
    command = bench.assignment(uid, "eu", 8)
    digest = command.shares[0].template
    bench.refuse(Code.CONTRADICTORY, ASSIGNMENT, replace(command, shares=(Share(digest, 8), Share("other", 2))))
