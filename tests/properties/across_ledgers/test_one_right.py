"""At most one region can be running an exclusive identity, at every step of the way (RULES 6).

A real platform with its assignment controller, three real regions with their replica and rights controllers, and a link
between them that loses, delays, doubles and reorders (`one_right_world`). A workload, its rights leased or not, is
scaled, moved, deleted and made again; regions are cut off, held to be suspect or lost, rightly or not, and attested;
time passes; a rash controller asks for rights that it should not have. Once the world is whole again, every identity
that is wanted runs, and in one region.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Placement
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.region.definition import REGION
from tests.properties.across_ledgers.exclusive_world import NAMES, Identity, Region, World
from tests.support.ledgers.platform import ACME, an_exclusive

REGIONS = st.sampled_from(NAMES)
WHICH = st.integers(0, 99)
REPLICAS_MAX = 3
PLACEMENTS = st.one_of(
    st.just(Placement()),
    REGIONS.map(lambda name: Placement(primary=name)),
    REGIONS.map(lambda name: Placement(regions=(name,))),
    REGIONS.map(lambda name: Placement(weights=tuple((one, 0 if one == name else 1) for one in NAMES))),
)
HEALTHS = st.sampled_from([RegionHealth.HEALTHY, RegionHealth.SUSPECT, RegionHealth.LOST])
#: Around the ends of leases, of fences, and of both.
WAITS = st.sampled_from([1_000, 20_000, 40_000, 70_000, 91_000, 200_000])
#: What may happen, how often, and what else is to be drawn for it.
VERBS: tuple[tuple[int, str, tuple[Any, ...]], ...] = (
    (4, "exchange", (REGIONS,)),
    (2, "tell", (REGIONS, st.booleans())),
    (2, "replay", (REGIONS,)),
    (1, "arrive", (REGIONS, WHICH, st.booleans())),
    (1, "drop", (REGIONS, WHICH)),
    (1, "hear", (REGIONS,)),
    (1, "hear again", (REGIONS, WHICH)),
    (1, "list", (REGIONS,)),
    (1, "work", (REGIONS, st.booleans())),
    (1, "cut", (REGIONS,)),
    (1, "mend", (REGIONS,)),
    (2, "judge", (REGIONS, HEALTHS)),
    (3, "lose", (REGIONS, WAITS)),
    (1, "attest", (REGIONS,)),
    (3, "rash", (REGIONS,)),
    (2, "scale", (st.integers(0, REPLICAS_MAX),)),
    (3, "place", (PLACEMENTS,)),
    (1, "delete", ()),
    (3, "wait", (WAITS,)),
)
STEPS = st.one_of([st.tuples(st.just(verb), *drawn) for weight, verb, drawn in VERBS for _ in range(weight)])


class Story:
    """The world with one workload, what is asked of it, and what must hold."""

    def __init__(self, replicas: int, *, leased: bool) -> None:
        self.world = World()
        self.leased = leased
        self.put(replicas=replicas)
        for _ in range(2):
            self.world.settle()
            for name in NAMES:
                self.world.exchange(name)

    def put(self, **fields: Any) -> None:
        """Ask for something else, or for another workload of the same name."""
        state = self.world.state
        known = state.workload_names.get("acme/db")
        if known is None:
            self.world.accept(ACME, p.PutWorkload(an_exclusive("db", leased=self.leased, disruption_max=3, **fields)))
            return
        old = state.workloads[known]
        if replace(old.spec, **fields) != old.spec:
            self.world.accept(ACME, p.PutWorkload(replace(old, spec=replace(old.spec, **fields))))

    def take(self, step: tuple[Any, ...]) -> None:
        world = self.world
        match step:
            case ("scale", replicas):
                self.put(replicas=replicas)
            case ("place", placement):
                self.put(placement=placement)
            case ("delete",):
                if "acme/db" in world.state.workload_names:
                    world.accept(ACME, p.DeleteWorkload("acme", "db"))
            case ("wait", milliseconds):
                self.wait(milliseconds)
            case ("lose", name, milliseconds):
                world.regions[name].cut()
                world.judge(name, RegionHealth.LOST)
                self.wait(milliseconds)
            case ("arrive", name, which, kept):
                world.arrive(name, which, kept=kept)
            case ("rash", name):
                uid = world.state.workload_names.get("acme/db") or 0
                for ordinal in range(REPLICAS_MAX):
                    world.send(ASSIGNMENT, p.GrantRight(uid, ordinal, name))
                world.settle()
                world.exchange(name)
            case ("exchange" | "replay" | "attest" | "judge" as verb, *more):
                getattr(world, verb)(*more)
            case (verb, name, *more):
                self._befall(verb, world.regions[name], *more)
        world.settle()
        self.judge()

    def wait(self, milliseconds: int) -> None:
        for _ in self.world.wait(milliseconds):
            self.judge()

    def _befall(self, verb: str, region: Region, *more: Any) -> None:
        """What happens to one region, or on its way to or from it."""
        match verb, *more:
            case ("tell", ends):
                region.hear_all(self.world.state)
                region.work(ends=ends)
                region.say()
            case ("hear",):
                region.ship(self.world.state)
                region.hear()
            case ("hear again", which):
                region.hear_again(which)
            case ("list",):
                region.hear_list(self.world.state)
            case ("work", ends):
                region.work(ends=ends)
            case ("drop", which):
                region.drop(which)
            case ("cut",):
                region.cut()
            case ("mend",):
                region.is_cut = False

    def judge(self) -> None:
        """Nobody else can be running what one region could be."""
        where: dict[Identity, str] = {}
        for name, region in self.world.regions.items():
            for key in {*region.could_run(self.world.bench.at)}:
                assert key not in where, f"{key} could be running in {where[key]} and in {name}"
                where[key] = name

    def finish(self) -> None:
        """Everything is heard, everywhere, until nothing changes any more: what is wanted runs, and nothing else."""
        world = self.world
        for region in world.regions.values():
            region.is_cut = False
            world.judge(region.name, RegionHealth.HEALTHY)
        for _ in range(60):
            before = world.state.assignments.items(), world.state.rights.items()
            for name in NAMES:
                world.exchange(name)
                world.settle()
                self.judge()
            self.wait(1_000)
            if (
                before == (world.state.assignments.items(), world.state.rights.items())
                and self._running() == self._wanted()
            ):
                break
        assert self._running() == self._wanted()

    def _wanted(self) -> list[Identity]:
        return sorted((uid, n) for uid, one in self.world.state.workloads.items() for n in range(one.spec.replicas))

    def _running(self) -> list[Identity]:
        slots = [slot for region in self.world.regions.values() for slot in region.state.slots.values()]
        return sorted((slot.workload, slot.ordinal) for slot in slots if slot.phase is Phase.SERVING)


TO_US, TO_EU = ("place", Placement(regions=("us",))), ("place", Placement(regions=("eu",)))
EVERYWHERE = [("exchange", name) for name in NAMES]
US_FIRST = [("exchange", "us"), *EVERYWHERE]


# Nobody gives away what a region holds that is merely silent, or that is lost and never said that it would let go.
@example(3, True, [("judge", "eu", RegionHealth.SUSPECT), ("rash", "us")])
@example(3, False, [("lose", "eu", 200_000), ("rash", "us")])
# What ran by a lease may still be ending when the lease is over.
@example(3, True, [("lose", "eu", 70_000), *EVERYWHERE])
@example(3, True, [("judge", "eu", RegionHealth.SUSPECT), ("wait", 40_000), ("lose", "eu", 70_000), *EVERYWHERE])
# What was asked back, and is not stopped before the region is cut off, ends with the lease that it was told.
@example(1, True, [TO_EU, *EVERYWHERE * 3, TO_US, ("hear", "eu"), ("lose", "eu", 200_000), *US_FIRST])
# A release that comes late, when the identity has been there and was asked for again since.
@example(3, False, [*(TO_US, *EVERYWHERE * 2, TO_EU, *EVERYWHERE * 2) * 2, TO_US, ("replay", "eu"), *US_FIRST])
# One that is ending is not released yet, nor is what was asked for and not heard of.
@example(3, False, [TO_US, ("tell", "eu", False), ("replay", "eu"), *US_FIRST, ("delete",), *EVERYWHERE])
@given(st.integers(1, REPLICAS_MAX), st.booleans(), st.lists(STEPS, min_size=8, max_size=40))
def test_an_identity_can_run_in_one_region_at_most_and_in_a_whole_world_it_does(
    replicas: int, leased: bool, steps: list[tuple[Any, ...]]
) -> None:
    _holds(replicas, steps, leased=leased)


@pytest.mark.soak
@given(st.integers(1, REPLICAS_MAX), st.booleans(), st.lists(STEPS, min_size=20, max_size=80))
def test_it_can_in_long_programs_too(replicas: int, leased: bool, steps: list[tuple[Any, ...]]) -> None:
    _holds(replicas, steps, leased=leased)


def _holds(replicas: int, steps: list[tuple[Any, ...]], *, leased: bool) -> None:
    story = Story(replicas, leased=leased)
    story.judge()
    for step in steps:
        story.take(step)
    story.finish()
    story.world.bench.verify()
    for region in story.world.regions.values():
        assert check(region.state, REGION.invariants) == []
