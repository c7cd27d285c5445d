"""Whatever befalls a workload and its regions: assigning comes to rest, and breaks nothing by moving.

Under any chaos every look ends in silence and nothing it sends is refused; once the world is whole
again everything that is wanted runs, where it may. And a move, whatever caused it, never takes what is ready below what
was ready before it or is wanted, whichever is less.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Placement, Workload
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.values.ranges import numbers
from holdfast.core.platform import commands as c
from tests.properties.across_ledgers.assignment_world import REGIONS, Assigned
from tests.support.ledgers.platform import a_template, a_workload, an_exclusive

LAWS = {"eu": "EU", "us": "US", "us2": "US"}
NAMES = st.sampled_from(REGIONS)
WEIGHTS = st.lists(st.integers(0, 3), min_size=3, max_size=3).filter(any)
PLACEMENTS = st.one_of(
    st.just(Placement()),
    st.sampled_from(REGIONS).map(lambda name: Placement(primary=name)),
    st.sampled_from([("EU",), ("US",), ("EU", "US")]).map(lambda laws: Placement(jurisdictions=laws)),
    st.sampled_from([("eu", "us"), ("us",), ("us", "us2"), ("eu",)]).map(lambda names: Placement(regions=names)),
    WEIGHTS.map(lambda found: Placement(weights=tuple(zip(REGIONS, found, strict=True)))),
)
KINDS = st.sampled_from(["ordinary", "budget", "acknowledged", "leased"])


@st.composite
def workloads(draw: st.DrawFn, kinds: st.SearchStrategy[str] = KINDS) -> Workload:
    kind = draw(kinds)
    fields: dict[str, Any] = {
        "replicas": draw(st.integers(0, 9)),
        "placement": draw(PLACEMENTS),
        "disruption_max": draw(st.integers(0, 4)),
    }
    if kind in ("acknowledged", "leased"):
        return an_exclusive("web", leased=kind == "leased", **fields)
    return a_workload(budget="reserve" if kind == "budget" else "", **fields)


def allowed(workload: Workload, name: str) -> bool:
    """Whether it may be there, by what its people wrote."""
    placement = workload.spec.placement
    named = not placement.regions or name in placement.regions
    weighed = not placement.weights or dict(placement.weights).get(name, 0) > 0
    return named and weighed and (not placement.jurisdictions or LAWS[name] in placement.jurisdictions)


def judge(world: Assigned, name: str, health: RegionHealth) -> None:
    now = world.health(name)
    if now is RegionHealth.HEALTHY and health is not RegionHealth.HEALTHY:
        world.bench.judge(name, RegionHealth.SUSPECT)
    if world.health(name) is RegionHealth.SUSPECT and health is not RegionHealth.SUSPECT:
        world.bench.judge(name, health)
    if now is RegionHealth.LOST and health is RegionHealth.HEALTHY:
        world.hear(name)
        world.bench.judge(name, RegionHealth.HEALTHY)


def offer_back(world: Assigned, name: str, count: int) -> None:
    for assignment in world.bench.assignments(world.uid):
        assigned = sum(share.count for share in assignment.shares)
        if assignment.region == name and assignment.stage is AssignmentStage.ACTIVE and 0 < count <= assigned:
            world.bench.send(f"region/{name}", c.OfferBack(assignment.uid, count))


def change(world: Assigned, **fields: Any) -> None:
    spec = replace(world.workload.spec, **fields)
    if spec != world.workload.spec:
        world.bench.send("tenant/acme", c.PutWorkload(replace(world.workload, spec=spec)))


STEPS = st.one_of(
    st.tuples(st.just("hear"), NAMES),
    st.tuples(st.just("progress"), NAMES, st.integers(1, 5)),
    st.tuples(st.just("crash"), NAMES),
    st.tuples(st.just("report"), NAMES, st.booleans()),
    st.tuples(st.just("summarise"), NAMES, st.sampled_from([400, 500, 10_000]), st.integers(0, 4)),
    st.tuples(st.just("release"), NAMES),
    st.tuples(st.just("judge"), NAMES, st.sampled_from(list(RegionHealth)[:3])),
    st.tuples(st.just("offer"), NAMES, st.integers(1, 4)),
    st.tuples(st.just("scale"), st.integers(0, 9)),
    st.tuples(st.just("place"), PLACEMENTS),
    st.tuples(st.just("disrupt"), st.integers(0, 4)),
    st.tuples(st.just("roll"), st.sampled_from(["v1", "v2"])),
    st.tuples(st.just("wait"), st.sampled_from([500, 31_000, 100_000, 400_000, 700_000])),
)


def take(world: Assigned, step: tuple[Any, ...]) -> None:
    match step:
        case ("hear" | "report" | "release" as deed, name):
            if world.health(name) is not RegionHealth.LOST:
                getattr(world, deed)(name)
        case ("report", name, unpaid):
            if world.health(name) is not RegionHealth.LOST:
                world.report(name, unpaid=unpaid)
        case ("summarise", name, milli, free):
            world.summarise(name, milli, free)
        case ("progress", name, count):
            world.regions[name].progress(count)
        case ("crash", name):
            world.regions[name].crash()
        case ("judge", name, health):
            judge(world, name, health)
        case ("offer", name, count):
            if world.health(name) is not RegionHealth.LOST:
                offer_back(world, name, count)
        case ("scale", replicas):
            change(world, replicas=replicas)
        case ("place", placement):
            change(world, placement=placement)
        case ("disrupt", most):
            change(world, disruption_max=most)
        case ("roll", command):
            change(world, template=a_template(command=command))
        case ("wait", milliseconds):
            world.bench.later(milliseconds)


@settings(max_examples=100, deadline=None)
@given(workloads(), st.lists(STEPS, max_size=30))
def test_every_look_ends_in_silence_and_in_a_whole_world_everything_wanted_runs(
    workload: Workload, steps: list[tuple[Any, ...]]
) -> None:
    world = Assigned(workload)
    world.settle()
    for step in steps:
        take(world, step)
        world.settle()
    world.bench.verify()
    world.bench.later(world.bench.state.info.settings.offer_life)
    world.heal()
    world.finish()
    world.bench.verify()
    _holds_at_rest(world)


def _holds_at_rest(world: Assigned) -> None:
    spec, counts = world.workload.spec, world.counts()
    assert sum(counts.values()) == spec.replicas
    assert world.ready() == spec.replicas
    assert all(allowed(world.workload, name) for name, count in counts.items() if count)
    live = world.bench.assignments(world.uid)
    assert all(one.stage is AssignmentStage.ACTIVE and one.shares and not one.returning for one in live), live
    assert all(one.generation == world.workload.meta.generation for one in live)
    assert sum(one.disruption for one in live) == (spec.disruption_max if live else 0)
    if spec.exclusive:
        assert sorted(n for one in live for n in numbers(one.ordinals)) == list(range(spec.replicas))


CAUSES = st.one_of(
    st.tuples(st.just("place"), PLACEMENTS),
    st.tuples(st.just("judge"), NAMES, st.just(RegionHealth.LOST)),
    st.tuples(st.just("roll"), st.just("v2")),
)
DEEDS = st.lists(st.tuples(st.sampled_from(["hear", "progress", "report", "release"]), NAMES), max_size=25)


@settings(max_examples=100, deadline=None)
@given(workloads(st.sampled_from(["ordinary", "budget"])), CAUSES, DEEDS)
def test_a_move_makes_before_it_breaks(
    workload: Workload, cause: tuple[Any, ...], deeds: list[tuple[str, str]]
) -> None:
    world = Assigned(workload)
    world.settle()
    world.finish()
    take(world, cause)
    world.settle()
    everyone = [
        (deed, name) for _ in range(6) for name in REGIONS for deed in ("hear", "progress", "report", "release")
    ]
    is_back = False
    for deed, name in (*deeds, *everyone, ("return", ""), *everyone):
        before = world.ready()
        if deed == "return":
            world.heal()
            is_back = True
        else:
            take(world, (deed, name, 1) if deed == "progress" else (deed, name))
        if deed == "hear":
            assert world.ready() >= min(before, world.workload.spec.replicas), (world.counts(), is_back)
        world.settle()
    world.finish()
    assert world.ready() == world.workload.spec.replicas
