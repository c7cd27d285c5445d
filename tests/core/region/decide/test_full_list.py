"""A full list in parts: nothing is gone before its last part, and only the list itself, or another one, ends it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import encode, template_digest
from holdfast.core.ledger.commit.draft import Committed, fold
from holdfast.core.model.objects.tenants import PriorityClass, PriorityClassSpec
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.decide import full_list
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from tests.support.ledgers.platform import ROOT as OPERATOR
from tests.support.ledgers.platform import PlatformBench
from tests.support.ledgers.region import CLASSES, LINK, REPLICA, RegionBench, a_principal, a_template, an_assignment

TO = 50
MACHINES = (c.ShippedPrincipal(a_principal("agent/*")), c.ShippedPrincipal(a_principal("scheduler/*")))
PLACE = (c.ShippedRegion("eu", "eu"), *(c.ShippedPriorityClass(cls) for cls in CLASSES))


def person(name: str) -> c.ShippedPrincipal:
    return c.ShippedPrincipal(a_principal(f"person/{name}"))


def part(number: int, *puts: Any, last: bool = False, **fields: Any) -> c.Ship:
    """Of the list at `TO`, unless told otherwise."""
    return replace(c.Ship("log-platform", 1, 0, TO, puts, full=True, part=number, last=last), **fields)


def a_bench(*names: str) -> RegionBench:
    bench = RegionBench()
    bench.ship(*(person(name) for name in names))
    return bench


def people(bench: RegionBench) -> set[str]:
    return {name.removeprefix("person/") for name, _ in bench.state.principals.items() if name != "person/root"} - {
        "agent/*", "scheduler/*",
    }  # fmt: skip


def test_nothing_is_gone_before_the_last_part_and_what_is_not_named_goes_with_it() -> None:
    bench = a_bench("going", "staying")
    cursor = bench.state.region.cursor
    bench.accept(LINK, part(0, *PLACE, person("new")))
    bench.accept(LINK, part(1, *MACHINES))
    assert people(bench) == {"going", "staying", "new"}
    assert bench.state.region.cursor == cursor
    bench.accept(LINK, part(2, person("staying"), last=True))
    assert people(bench) == {"staying", "new"}
    assert (bench.state.region.cursor, bench.state.region.listing) == (TO, None)
    assert bench.state.listed_names.is_empty()


def test_while_a_list_is_under_way_steps_are_a_gap() -> None:
    bench = a_bench()
    cursor = bench.state.region.cursor
    bench.accept(LINK, part(0, *PLACE))
    step = c.Ship("log-platform", 1, cursor, cursor + 1, (person("new"),))
    assert bench.refuse(LINK, step).code is Code.GAP
    assert bench.refuse(LINK, replace(step, after=TO, to=TO + 1)).code is Code.GAP
    assert bench.refuse(LINK, replace(step, log_id="log-other")).code is Code.DIVERGED
    bench.accept(LINK, part(1, last=True))
    bench.accept(LINK, replace(step, after=TO, to=TO + 1))


@pytest.mark.parametrize(
    ("stray", "code"),
    [
        (part(0, *PLACE), Code.ALREADY),
        (part(1), Code.ALREADY),
        (part(3), Code.GAP),
        (part(3, last=True), Code.GAP),
        (part(2, to=TO + 1), Code.DIVERGED),
        (part(2, term=2), Code.DIVERGED),
        (part(2, log_id="log-other", last=True), Code.DIVERGED),
        (part(2, term=0), Code.STALE),
        (part(0, term=0), Code.STALE),
        (part(1, to=1), Code.ALREADY),
        (part(-1), Code.MALFORMED),
        (part(2, gone=(c.RemovedObject("token", "t"),)), Code.MALFORMED),
        (part(2, full=False), Code.MALFORMED),
        (part(0, full=False, last=False), Code.MALFORMED),
    ],
)
def test_only_the_next_part_of_this_list_goes_on_with_it(stray: c.Ship, code: Code) -> None:
    bench = a_bench("there")
    bench.accept(LINK, part(0, *PLACE))
    bench.accept(LINK, part(1, *MACHINES))
    before = bench.state.region
    assert bench.refuse(LINK, stray).code is code
    assert bench.state.region == before
    bench.accept(LINK, part(2, person("new"), last=True))
    assert people(bench) == {"new"}


def test_a_list_without_its_beginning_is_refused() -> None:
    bench = a_bench("there")
    assert bench.refuse(LINK, part(1, last=True)).code is Code.DIVERGED
    assert people(bench) == {"there"}


def test_the_last_part_once_more_is_dropped() -> None:
    bench = a_bench()
    bench.accept(LINK, part(0, *PLACE))
    bench.accept(LINK, part(1, *MACHINES, last=True))
    assert bench.refuse(LINK, part(1, *MACHINES, last=True)).code is Code.ALREADY


@pytest.mark.parametrize("other", [{"to": TO + 1}, {"term": 2}, {"log_id": "log-other", "to": 7}])
def test_another_list_begins_anew_and_what_the_first_one_named_does_not_count(other: dict[str, Any]) -> None:
    bench = a_bench("there")
    bench.accept(LINK, part(0, *PLACE, person("there")))
    bench.accept(LINK, part(1, person("half")))
    bench.accept(LINK, part(0, *PLACE, *MACHINES, **other))
    assert len(bench.state.listed_names) == 1
    assert people(bench) == {"there", "half"}
    assert bench.refuse(LINK, part(2, last=True)).code in (Code.DIVERGED, Code.STALE)
    bench.accept(LINK, part(1, person("whole"), last=True, **other))
    assert people(bench) == {"whole"}


def test_a_list_in_one_part_ends_one_that_was_under_way() -> None:
    bench = a_bench("there")
    bench.accept(LINK, part(0, *PLACE, person("there")))
    bench.accept(LINK, part(0, *PLACE, *MACHINES, to=TO + 1, last=True))
    assert people(bench) == set()
    assert bench.state.region.listing is None
    assert bench.state.listed_names.is_empty()


def test_whoever_leads_next_knows_from_the_log_how_far_the_list_was() -> None:
    bench = a_bench("going")
    bench.accept(LINK, part(0, *PLACE, *MACHINES))
    bench.accept(LINK, part(1, person("new")))
    state, previous = RegionState(), b""
    for raw, digest in bench.log:
        fold(REGION, state, REGION.batches.read(raw, previous, digest))
        previous = digest
    bench.state = state
    bench.accept(LINK, part(2, last=True))
    assert people(bench) == {"new"}


def test_more_than_one_record_holds_goes_by_and_by_with_the_last_part_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_list, "REMOVED_MAX", 2)
    bench = a_bench(*"abcde")
    cursor = bench.state.region.cursor
    last = part(1, *MACHINES, person("new"), last=True)
    bench.accept(LINK, part(0, *PLACE))
    assert people(bench) == set("abcde")
    bench.accept(LINK, last)
    assert people(bench) == {*"cde", "new"}
    assert bench.state.region.cursor == cursor
    assert bench.refuse(LINK, part(0, *PLACE)).code is Code.ALREADY
    assert bench.refuse(LINK, part(2, last=True)).code is Code.GAP
    bench.accept(LINK, last)
    assert people(bench) == {"e", "new"}
    bench.accept(LINK, last)
    assert people(bench) == {"new"}
    assert bench.state.region.cursor == TO
    assert bench.refuse(LINK, last).code is Code.ALREADY


def test_what_stays_because_something_stands_on_it_does_not_keep_a_list_from_ending(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(full_list, "REMOVED_MAX", 1)
    bench = RegionBench()
    bench.a_scheduler()
    node = bench.a_node()
    bench.a_grant()
    work = [bench.a_workload(count=1, uid=uid, workload=uid) for uid in (100, 200)]
    for one in work:
        bench.place(one, c.SlotPlacement(0, node))
    bench.accept(LINK, part(0, *PLACE))
    last = part(1, *MACHINES, last=True)
    taken = 0
    while bench.state.region.cursor != TO:
        bench.accept(LINK, last)
        taken += 1
    assert taken == 4  # two assignments, a grant, a template
    assert {one.stage for one in bench.state.assignments.values()} == {AssignmentStage.ENDED}
    bench.accept(REPLICA, c.WithdrawSlots(100, (0,)))


def test_what_an_assignment_needs_may_have_come_in_an_earlier_part() -> None:
    bench = a_bench()
    template = a_template()
    digest = template_digest(template)
    bench.accept(LINK, part(0, *PLACE, c.ShippedTemplate(digest, template)))
    bench.accept(LINK, part(1, *MACHINES, c.ShippedAssignment(an_assignment(template=template)), last=True))
    assert digest in bench.state.templates
    assert bench.state.leaving_templates.is_empty()


def test_grants_of_another_log_count_anew_in_every_part() -> None:
    bench = RegionBench()
    for _ in range(3):
        bench.a_grant()
    fields: dict[str, Any] = {"log_id": "log-restored", "to": 3}
    grant = c.ShippedGrant("quota/acme", 1, Resources(500), bench.at + 60_000)
    bench.accept(LINK, part(0, *PLACE, **fields))
    bench.accept(LINK, part(1, grant, **fields))
    assert bench.state.accepted_grants["quota/acme"].target == Resources(500)
    bench.accept(LINK, part(2, *MACHINES, last=True, **fields))
    assert bench.state.accepted_grants["quota/acme"].version == 1


def the_largest_class() -> PriorityClass:
    """As large as the platform takes one: one byte more is refused there."""
    small, large, taken = 0, 1 << 20, None
    while large - small > 1:
        size = (small + large) // 2
        bench = PlatformBench()
        bench.checked = False
        annotations = tuple((f"a{start}", "\U0001f4a1" * 4_096) for start in range(0, size - 16_384, 16_384))
        rest = size - 16_384 * len(annotations)
        meta = Meta(name="normal", annotations=(*annotations, ("rest", "\U0001f4a1" * (rest // 4) + "x" * (rest % 4))))
        envelope = bench.envelope(OPERATOR, p.Put(PriorityClass(meta, PriorityClassSpec(50))))
        is_read = PLATFORM.envelopes.read(encode(envelope)) == envelope
        if is_read and isinstance(bench.give(envelope), Committed):
            small, taken = size, bench.state.priority_classes["normal"]
        else:
            large = size
    assert taken is not None
    return taken


def test_the_largest_object_that_the_platform_takes_is_taken_by_a_region_in_a_step_and_in_a_list() -> None:
    largest, bench = c.ShippedPriorityClass(the_largest_class()), RegionBench(checked=False)
    bench.ship(largest)
    bench.ship_list((*PLACE, *MACHINES), (largest,))
    assert bench.state.priority_classes["normal"] == largest.priority_class


def test_what_a_list_leaves_out_ends_however_much_is_left_of_it_and_however_large_its_last_part_is() -> None:
    bench, name, template = RegionBench(checked=False), "n" * 250, a_template()
    laws = ("eu", *(f"{number:0250}" for number in range(20)))
    named: dict[str, Any] = {"workload_name": name, "tenant": name, "jurisdictions": laws, "template": template}
    for uid in range(900, 1_100):
        bench.a_workload(**named, count=1, uid=uid, workload=uid)
    large = an_assignment(uid=2_000, workload=2_000, exclusive=True, shares=(), returning=scattered(50_000))
    bench.ship_list(PLACE, MACHINES, (c.ShippedAssignment(large),))
    stages = {one.uid: one.stage for one in bench.state.assignments.values()}
    assert stages == {**dict.fromkeys(range(900, 1_100), AssignmentStage.ENDED), 2_000: AssignmentStage.ACTIVE}


def scattered(count: int) -> tuple[tuple[int, int], ...]:
    """Every second identity: as many runs."""
    return tuple((2 * number, 2 * number + 1) for number in range(count))


def test_an_assignment_that_the_platform_has_no_more_gives_nothing_back() -> None:
    bench, template = RegionBench(), a_template()
    digest = template_digest(template)
    assignment = replace(an_assignment(template=template, count=1), exclusive=True, ordinals=((0, 1),))
    bench.ship(c.ShippedTemplate(digest, template), c.ShippedAssignment(assignment))
    bench.accept(REPLICA, c.OpenSlots(assignment.uid, digest, (0,)))
    bench.ship(c.ShippedAssignment(replace(assignment, ordinals=(), shares=(), returning=((0, 100_000),))))
    bench.ship(gone=(c.RemovedObject("assignment", str(assignment.uid)),))
    (ended,) = bench.state.assignments.values()
    assert (ended.stage, ended.returning) == (AssignmentStage.ENDED, ())
