"""What comes again as it was leaves no trace in the log, and wakes nobody."""

from __future__ import annotations

from holdfast.core.model.objects.policies import PolicyDocument, PolicyStage, SchedulerPolicy
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from tests.support.ledgers.region import ROOT, RegionBench, a_class

POLICY = SchedulerPolicy(
    revision=9, name="some", document=PolicyDocument(), stage=PolicyStage.ACTIVE, author=ROOT, at=1_000
)


def stored(bench: RegionBench, *puts: c.ShippedItem) -> list[str]:
    """What is stored of these, by the names of the events."""
    bench.ship(*puts)
    (_, before), (raw, digest) = bench.log[-2:]
    events = [one for record in REGION.batches.read(raw, before, digest).records for one in record.events]
    return [name for one in events if (name := type(one).__name__).endswith("Received")]


def test_a_class_that_comes_with_every_assignment_is_stored_once() -> None:
    bench = RegionBench()
    urgent = c.ShippedPriorityClass(a_class("urgent", 70))
    assert stored(bench, urgent) == ["PriorityClassReceived"]
    assert stored(bench, urgent) == []
    assert stored(bench, c.ShippedPriorityClass(a_class("urgent", 71))) == ["PriorityClassReceived"]


def test_a_policy_that_comes_with_every_validity_is_stored_once() -> None:
    bench = RegionBench()
    assert stored(bench, c.ShippedPolicy(POLICY)) == ["PolicyReceived"]
    assert stored(bench, c.ShippedPolicy(POLICY)) == []


def test_a_grant_that_ends_keeps_the_weight_of_its_tenant() -> None:
    """What is charged to it still counts in that tenant's share."""
    bench = RegionBench()
    node = bench.a_node("n1")
    bench.a_scheduler()
    bench.a_grant("quota/acme", weight=3)
    bench.place(bench.a_workload(count=1), c.SlotPlacement(0, node))
    bench.ship(gone=(c.RemovedObject("grant", "quota/acme"),))
    assert bench.state.accepted_grants["quota/acme"].weight == 3
