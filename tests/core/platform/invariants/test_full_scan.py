"""Each invariant finds what it is there to find: a state in which exactly one thing is wrong."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.ledger.state.invariants import check
from holdfast.core.model.objects.policies import Override, OverrideAction, PolicyStage, Validity
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.objects.workloads import Template
from holdfast.core.model.records.assignments import HeldRight, Share
from holdfast.core.model.records.breaches import Breach
from holdfast.core.model.values.metadata import Finalizer
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.state.tables import PlatformState
from tests.support.ledgers.platform import a_full_platform, cpu

Wrong = Callable[[PlatformState], None]


def row(state: PlatformState, table: str, index: int = 0) -> tuple[Any, Any]:
    return state.table(table).items()[index]


def change(state: PlatformState, table: str, index: int = 0, **fields: Any) -> None:
    key, value = row(state, table, index)
    state.table(table).put(key, replace(value, **fields))


def change_meta(state: PlatformState, table: str, **fields: Any) -> None:
    key, value = row(state, table)
    state.table(table).put(key, replace(value, meta=replace(value.meta, **fields)))


def exclusive_assignment(state: PlatformState) -> Any:
    return next(a for a in state.assignments.values() if a.exclusive)


def sell_twice(state: PlatformState) -> None:
    _, grant = row(state, "grants")
    state.grants.put("us|quota/acme", replace(grant, region="us"))
    state.rebuild()


def forget_what_is_owed(state: PlatformState) -> None:
    state.breaches.drop(row(state, "breaches")[0])


def overdraw_recovery(state: PlatformState) -> None:
    key, grant = next(item for item in state.grants.items() if item[1].account == "recovery/reserve")
    more = cpu(4_001)
    offers = (replace(grant.offers[0], target=more),)
    state.grants.put(key, replace(grant, target=more, offered=more, offers=offers))
    state.rebuild()


def charge_too_little(state: PlatformState) -> None:
    change(state, "grants", settled=Resources(cpu=6_000))


def lose_an_offer(state: PlatformState) -> None:
    change(state, "grants", version=7)


def list_an_identity_twice(state: PlatformState) -> None:
    assignment = exclusive_assignment(state)
    state.assignments.put(1, replace(assignment, uid=1, region="us"))
    state.rebuild()


def list_without_right(state: PlatformState) -> None:
    state.rights.drop(row(state, "rights")[0])
    state.rebuild()


def run_more_than_identities(state: PlatformState) -> None:
    assignment = exclusive_assignment(state)
    shares = (Share(assignment.shares[0].template, 9),)
    state.assignments.put(assignment.uid, replace(assignment, shares=shares))


def hold_for_nobody(state: PlatformState) -> None:
    state.rights.put((9, 9), HeldRight(9, 9, "eu", 1))
    state.rebuild()


def validate_what_was_rolled_back(state: PlatformState) -> None:
    change(state, "policies", stage=PolicyStage.ROLLED_BACK)


def validate_what_is_not_there(state: PlatformState) -> None:
    state.validities.put("us|", Validity("us", "", 99))


def pin_for_nobody(state: PlatformState) -> None:
    state.validities.put("us|nobody", Validity("us", "nobody", 0))


def override_without_reason(state: PlatformState) -> None:
    override = Override(
        uid=9, action=OverrideAction.PAUSE_REPAIR, region="", target="", reason=" ", owner="person/x", opened=1, ends=2
    )
    state.overrides.put(9, override)


def assign_what_is_gone(state: PlatformState) -> None:
    change(state, "assignments", shares=(Share("00", 1),))


def keep_what_nobody_names(state: PlatformState) -> None:
    state.templates.put("00", Template())


def assign_twice(state: PlatformState) -> None:
    _, assignment = row(state, "assignments")
    state.assignments.put(1, replace(assignment, uid=1))
    state.rebuild()


def share_too_much(state: PlatformState) -> None:
    change(state, "assignments", disruption=2)


def place_where_it_may_not_be(state: PlatformState) -> None:
    _, assignment = row(state, "assignments")
    workload = state.workloads[assignment.workload]
    rules = replace(workload.spec.placement, jurisdictions=("CH",))
    state.workloads.put(assignment.workload, replace(workload, spec=replace(workload.spec, placement=rules)))


def retire_with_holdings(state: PlatformState) -> None:
    region = state.regions["eu"]
    status = replace(region.status, health=RegionHealth.RETIRED, log_id="", session=0)
    state.regions.put("eu", replace(region, status=status))


def speak_from_the_grave(state: PlatformState) -> None:
    region = state.regions["us"]
    state.regions.put("us", replace(region, status=replace(region.status, log_id="log-us2")))


def finalize_what_lives(state: PlatformState) -> None:
    change_meta(state, "workloads", finalizers=(Finalizer(name="x", owner="region/eu", deadline=1),))


def delete_without_finalizer(state: PlatformState) -> None:
    uid, workload = next(item for item in state.workloads.items() if item[1].meta.deletion is not None)
    state.workloads.put(uid, replace(workload, meta=replace(workload.meta, finalizers=())))


def come_from_the_future(state: PlatformState) -> None:
    change_meta(state, "tenants", revision=1 << 60)


def have_no_generation(state: PlatformState) -> None:
    change_meta(state, "tenants", generation=0)


def owe_nothing_to_nobody(state: PlatformState) -> None:
    state.breaches.put(("platform.disruption", "1"), Breach("platform.disruption", "1", 0, "", 1, 1))


def be_reached_though_retired(state: PlatformState) -> None:
    name, region = next(item for item in state.regions.items() if item[1].status.health is RegionHealth.RETIRED)
    state.regions.put(name, replace(region, status=replace(region.status, address="https://ghost.example")))


def wait_for_one_more(state: PlatformState) -> None:
    tenant, waiting = row(state, "pending_of")
    state.pending_of.put(tenant, waiting + 1)


def forget_an_index(state: PlatformState) -> None:
    state.workload_names.drop(row(state, "workload_names")[0])


def hear_of_what_is_not_there(state: PlatformState) -> None:
    uid, (first, *_) = state.workload_reports.items()[0]
    state.workload_reports.put(uid, (replace(first, region="us2"),))


def hear_of_another_workload(state: PlatformState) -> None:
    uid, (first, *_) = state.workload_reports.items()[0]
    state.workload_reports.put(uid, (replace(first, seen=replace(first.seen, workload=uid + 1)),))


def take_back_what_is_gone(state: PlatformState) -> None:
    _, overflows = state.overflows.items()[0]
    state.overflows.put(99, overflows)


def hear_from_the_grave(state: PlatformState) -> None:
    state.summaries.put("us2", replace(state.summaries["eu"], region="us2"))


CASES: list[tuple[str, Wrong]] = [
    ("platform.escrow", sell_twice),
    ("platform.escrow", forget_what_is_owed),
    ("platform.escrow", overdraw_recovery),
    ("platform.charge", charge_too_little),
    ("platform.charge", lose_an_offer),
    ("platform.identity", list_an_identity_twice),
    ("platform.identity", list_without_right),
    ("platform.identity", run_more_than_identities),
    ("platform.identity", hold_for_nobody),
    ("platform.policy", validate_what_was_rolled_back),
    ("platform.policy", validate_what_is_not_there),
    ("platform.policy", pin_for_nobody),
    ("platform.override", override_without_reason),
    ("platform.references", assign_what_is_gone),
    ("platform.references", keep_what_nobody_names),
    ("platform.one-each", assign_twice),
    ("platform.disruption", share_too_much),
    ("platform.residency", place_where_it_may_not_be),
    ("platform.retired", retire_with_holdings),
    ("platform.retired", speak_from_the_grave),
    ("platform.retired", be_reached_though_retired),
    ("platform.observed", hear_of_what_is_not_there),
    ("platform.observed", hear_of_another_workload),
    ("platform.observed", take_back_what_is_gone),
    ("platform.observed", hear_from_the_grave),
    ("platform.finalizers", finalize_what_lives),
    ("platform.finalizers", delete_without_finalizer),
    ("platform.revisions", come_from_the_future),
    ("platform.revisions", have_no_generation),
    ("platform.breaches", owe_nothing_to_nobody),
    ("platform.derived", forget_an_index),
    ("platform.derived", wait_for_one_more),
]


@pytest.mark.parametrize(("invariant", "wrong"), CASES, ids=[wrong.__name__ for _, wrong in CASES])
def test_what_is_wrong_is_found(invariant: str, wrong: Wrong) -> None:
    state = a_full_platform().state
    wrong(state)
    assert invariant in {violation.invariant for violation in check(state, PLATFORM.invariants)}


def test_every_invariant_is_shown_to_find_something() -> None:
    assert {invariant for invariant, _ in CASES} == {invariant.id for invariant in PLATFORM.invariants}


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    assert check(a_full_platform().state, PLATFORM.invariants) == []
    assert check(PlatformState(), PLATFORM.invariants) == []


# Each part of a promise, by itself


def spoilt(table: str, /, **fields: Any) -> Wrong:
    """The first row of a table with other fields."""
    return lambda state: change(state, table, **fields)


def spoilt_meta(table: str, /, **fields: Any) -> Wrong:
    return lambda state: change_meta(state, table, **fields)


def known_as(table: str, key: Any) -> Wrong:
    """The first row of a table under another key."""

    def wrong(state: PlatformState) -> None:
        state.table(table).put(key, row(state, table)[1])

    return wrong


def without(table: str, key: Any) -> Wrong:
    return lambda state: state.table(table).drop(key)


def with_share(count: int, template: str = "") -> Wrong:
    def wrong(state: PlatformState) -> None:
        _, one = row(state, "assignments")
        change(state, "assignments", shares=(Share(template or one.shares[0].template, count),))

    return wrong


def override_of(**fields: Any) -> Wrong:
    good = Override(7, OverrideAction.PAUSE_REPAIR, "eu", "", "why", "person/root", 10, 20)

    def wrong(state: PlatformState) -> None:
        state.overrides.put(7, replace(good, **fields))

    return wrong


def validity_of(**fields: Any) -> Wrong:
    def wrong(state: PlatformState) -> None:
        change(state, "validities", **fields)

    return wrong


def spoilt_where(table: str, flag: str, value: Any) -> Wrong:
    """The first row of a table that has the flag, without it."""

    def wrong(state: PlatformState) -> None:
        key, one = next((key, one) for key, one in state.table(table).items() if getattr(one, flag))
        state.table(table).put(key, replace(one, **{flag: value}))

    return wrong


def status_of(region: str, **fields: Any) -> Wrong:
    def wrong(state: PlatformState) -> None:
        one = state.regions[region]
        state.regions.put(region, replace(one, status=replace(one.status, **fields)))

    return wrong


def put_first(table: str, made: Callable[[Any], Any]) -> Wrong:
    """The first row of a table, made anew from what it was."""

    def wrong(state: PlatformState) -> None:
        key, one = row(state, table)
        state.table(table).put(key, made(one))

    return wrong


FUTURE = 1 << 60
PARTS: dict[str, tuple[str, Wrong]] = {
    "a validity under another key": ("platform.policy", known_as("validities", "eu|nobody")),
    "a validity of no region": ("platform.policy", validity_of(region="nowhere")),
    "a policy of no number": ("platform.policy", known_as("policies", 0)),
    "a policy under another number": ("platform.policy", known_as("policies", 77)),
    "an override under another uid": ("platform.override", override_of(uid=8)),
    "an override for a blank": ("platform.override", override_of(reason=" ")),
    "an override of nobody": ("platform.override", override_of(owner="")),
    "an override that ends as it begins": ("platform.override", override_of(ends=10)),
    "an assignment in no region": ("platform.references", lambda state: change(state, "assignments", region="nowhere")),
    "an assignment of none": ("platform.references", with_share(0)),
    "an assignment of an unknown template": ("platform.references", with_share(1, "unknown")),
    "templates of a workload that is gone": (
        "platform.references", lambda state: state.templates_of.put(FUTURE, row(state, "templates_of")[1]),
    ),
    "a template that is not there": (
        "platform.references", lambda state: state.templates_of.put(
            row(state, "templates_of")[0], (*row(state, "templates_of")[1], "unknown")
        ),
    ),
    "a workload of no tenant": ("platform.references", spoilt_meta("workloads", tenant="nobody")),
    "a template under another digest": ("platform.references", known_as("templates", "other")),
    "a grant under another key": ("platform.references", known_as("grants", "eu|quota/other")),
    "a uid of nothing": ("platform.revisions", spoilt_meta("workloads", uid=0)),
    "a uid after its revision": ("platform.revisions", spoilt_meta("workloads", revision=0)),
    "a generation before the first": ("platform.revisions", spoilt_meta("tenants", generation=0)),
    "a revision of the future": ("platform.revisions", spoilt_meta("quotas", revision=FUTURE)),
    "an assignment of no uid": ("platform.revisions", spoilt("assignments", uid=0)),
    "an assignment of the future": ("platform.revisions", spoilt("assignments", revision=FUTURE)),
    "a grant of no uid": ("platform.revisions", spoilt("grants", uid=0)),
    "a grant before it began": ("platform.revisions", spoilt("grants", revision=0)),
    "a grant of the future": ("platform.revisions", spoilt("grants", revision=FUTURE)),
    "an assignment under another uid": ("platform.revisions", known_as("assignments", 3)),
    "a breach of nobody": ("platform.breaches", spoilt("breaches", owner="")),
    "a breach of nothing": ("platform.breaches", spoilt("breaches", overshoot=0)),
    "a breach that is due as it opens": ("platform.breaches", spoilt("breaches", opened=5, deadline=5)),
    "a breach under another key": ("platform.breaches", known_as("breaches", ("platform.escrow", "x"))),
    "a right under another key": ("platform.identity", known_as("rights", (1, 1))),
    "a right to what is gone": ("platform.identity", spoilt("rights", workload=FUTURE)),
    "a right in no region": ("platform.identity", spoilt("rights", region="nowhere")),
    "identities of what is not exclusive": ("platform.identity", spoilt_where("assignments", "exclusive", False)),
    "less than nothing to be released": ("platform.retired", status_of("eu", unreleased=-1)),
    "something to be released of what lives": ("platform.retired", status_of("eu", unreleased=1)),
    "no word of anybody": ("platform.observed", put_first("observed", lambda _: ())),
    "two words of one region": ("platform.observed", put_first("observed", lambda words: (*words, *words))),
    "what is offered back of nothing": ("platform.observed", known_as("overflows", FUTURE)),
    "what is offered back of another": (
        "platform.observed", put_first("overflows", lambda all_: tuple(replace(one, workload=9) for one in all_)),
    ),
    "what is offered back twice": ("platform.observed", put_first("overflows", lambda all_: (*all_, *all_))),
    "what was done of nothing": ("platform.observed", known_as("done_before", FUTURE)),
    "nothing that was done": ("platform.observed", put_first("done_before", lambda _: (("a", 0),))),
    "what was done in no order": ("platform.observed", put_first("done_before", lambda _: (("b", 1), ("a", 1)))),
    "a share of another region": ("platform.observed", known_as("rebalances", "nowhere")),
    "a share of nothing": ("platform.observed", spoilt("rebalances", moved=0)),
    "a summary of another region": ("platform.observed", spoilt("summaries", region="nowhere")),
    "a summary of no region": (
        "platform.observed",
        lambda state: state.summaries.put("nowhere", replace(state.summaries["eu"], region="nowhere")),
    ),
    "a finalizer twice": (
        "platform.finalizers",
        lambda state: change_deleting(state, tuple(Finalizer(name, "region/eu", 2) for name in "ab")),
    ),
}  # fmt: skip


def change_deleting(state: PlatformState, finalizers: tuple[Finalizer, ...]) -> None:
    """Other finalizers on the workload that is being deleted."""
    uid, one = next((uid, one) for uid, one in state.workloads.items() if one.meta.deletion is not None)
    state.workloads.put(uid, replace(one, meta=replace(one.meta, finalizers=finalizers)))


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_a_promise_is_looked_at_by_itself(part: str) -> None:
    invariant, wrong = PARTS[part]
    state = a_full_platform().state
    wrong(state)
    assert invariant in {violation.invariant for violation in check(state, PLATFORM.invariants)}


def test_the_last_revision_that_there_is_and_an_override_that_ends_later_are_as_promised() -> None:
    state = a_full_platform().state
    last = pack_revision(state.info.seq, INDEX_MAX)
    change_meta(state, "quotas", revision=last)
    override_of()(state)
    for table in ("assignments", "grants"):
        change(state, table, revision=last)
        change(state, table, index=1, revision=row(state, table, 1)[1].uid)
    assert check(state, PLATFORM.invariants) == []
