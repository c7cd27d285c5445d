"""What of the platform a region has a copy of, told from events and state."""

from __future__ import annotations

import pytest

from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.codec import template_digest
from holdfast.core.ledger.revision import token_of
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument
from holdfast.core.model.objects.principals import Permission
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region import commands as c
from holdfast.core.region.state.shipped_objects import shipped_name
from holdfast.host.link.platform.batching import ChangeBuffer
from holdfast.host.link.platform.content import Name, changed, region_filter, touched_by
from holdfast.host.watch.changes import ChangeBatch, matching
from tests.support.hosts.link_world import full_list
from tests.support.ledgers.platform import (
    DIGEST,
    ROOT,
    PlatformBench,
    a_full_platform,
    a_pool,
    a_principal,
    a_region,
    a_template,
    a_workload,
    a_world,
    cpu,
)
from tests.support.ledgers.region import LINK, RegionBench


def changes_of(bench: PlatformBench, first: int = 0) -> list[ChangeBatch]:
    """What the log after its first batches holds for region eu."""
    found, previous = [], b""
    for number, (raw, digest) in enumerate(bench.log):
        batch = PLATFORM.batches.read(raw, previous, digest)
        previous, header = digest, batch.header
        if number >= first:
            place = token_of(header.log_id, header.term, header.seq, digest)
            found.append(ChangeBatch(place, matching(PLATFORM, batch, region_filter("eu"))))
    return found


def names_of(changes: list[ChangeBatch]) -> list[Name]:
    events = [change for one in changes for change in one.changes]
    return [name for change in events for name in touched_by(change.event, change.revision, "eu")]


def told_since(bench: PlatformBench, first: int) -> tuple[set[Name], set[Name]]:
    puts, gone = changed(bench.state, "eu", names_of(changes_of(bench, first)))
    return {shipped_name(put) for put in puts}, {(one.kind, one.key) for one in gone}


def test_the_events_of_the_whole_log_name_everything_that_a_full_list_holds() -> None:
    bench = a_full_platform()
    puts, _ = changed(bench.state, "eu", names_of(changes_of(bench)))
    assert {shipped_name(put): put for put in puts} == {shipped_name(put): put for put in full_list(bench.state, "eu")}


@pytest.mark.parametrize("name", ["eu", "us"])
def test_a_full_list_is_of_one_region_and_names_each_object_once(name: str) -> None:
    puts = full_list(a_full_platform().state, name)
    assert len({shipped_name(put) for put in puts}) == len(puts)
    assert {put.assignment.region for put in puts if isinstance(put, c.ShippedAssignment)} == {name}
    assert {put.name for put in puts if isinstance(put, c.ShippedRegion)} == {name}


def test_a_region_accepts_a_full_list() -> None:
    puts = full_list(a_full_platform().state, "eu")
    region = RegionBench()
    region.accept(LINK, c.Ship("log-platform", 1, 0, 99 << 20, puts, full=True))


def test_a_template_comes_with_the_assignment_that_names_it_and_not_before() -> None:
    bench = a_world()
    first = len(bench.log)
    template = a_template(700)
    web = bench.put(a_workload(template=template))
    assert told_since(bench, first) == (set(), set())
    uid = bench.assign(web, "eu", 2)
    digest = template_digest(template)
    wanted = {("assignment", str(uid)), ("template", digest), ("priority-class", "normal")}
    assert told_since(bench, first) == (wanted, set())


def test_a_template_of_another_regions_assignment_stays_away() -> None:
    bench = a_world()
    first = len(bench.log)
    bench.assign(bench.put(a_workload()), "us", 2)
    assert told_since(bench, first) == (set(), set())


def test_a_template_that_the_platform_has_forgotten_is_gone() -> None:
    bench = a_world()
    bench.put(a_workload())
    first = len(bench.log)
    bench.accept("tenant/acme", p.DeleteWorkload("acme", "web"))
    assert told_since(bench, first) == (set(), {("template", template_digest(a_template()))})


def test_a_removed_assignment_is_gone_from_its_own_region_only() -> None:
    bench = a_world()
    web = bench.put(a_workload())
    uids = {name: bench.assign(web, name, 1) for name in ("eu", "us")}
    first = len(bench.log)
    for name, uid in uids.items():
        bench.accept("controller/assignment", p.EndAssignment(uid))
        bench.accept(f"region/{name}", p.RemoveAssignment(uid))
    assert told_since(bench, first)[1] == {("assignment", str(uids["eu"]))}


def test_a_version_of_a_grant_is_told_once_and_not_again_when_it_is_acknowledged() -> None:
    bench = a_world()
    first = len(bench.log)
    version = bench.offer("eu", cpu(1_000))
    assert told_since(bench, first) == ({("grant", "quota/acme")}, set())
    first = len(bench.log)
    bench.settle("eu", version, cpu(1_000))
    assert told_since(bench, first) == (set(), set())


def test_what_a_region_itself_says_is_not_told_back_to_it() -> None:
    bench = a_world()
    bench.put(a_principal("region/eu"))
    first = len(bench.log)
    bench.join("eu")
    bench.accept("region/eu", p.Acknowledge("eu", "log-eu", 5 << 20, 1 << 20, DIGEST))
    assert told_since(bench, first) == (set(), set())


def test_an_override_of_another_region_is_not_told_and_one_of_all_is() -> None:
    bench = a_world()
    first = len(bench.log)
    pause = OverrideAction.PAUSE_SCHEDULING
    bench.accept(ROOT, OpenOverride(pause, "us", "", "work", bench.at + 1_000))
    everywhere = bench.accept(ROOT, OpenOverride(pause, "", "", "work", bench.at + 1_000))
    assert told_since(bench, first) == ({("override", str(everywhere))}, set())
    bench.accept(ROOT, EndOverride(everywhere, "done"))
    assert told_since(bench, first) == (set(), {("override", str(everywhere))})


def test_a_validity_brings_its_policy_along() -> None:
    bench = a_world()
    policy = bench.accept(ROOT, p.PublishPolicy("packed", PolicyDocument()))
    bench.accept(ROOT, p.ActivatePolicy(policy, "eu"))
    puts, _ = changed(bench.state, "eu", [("validity", "")])
    assert {shipped_name(put) for put in puts} == {("validity", ""), ("policy", str(policy))}


def test_a_pool_of_the_region_is_told_and_gone_when_it_is_of_another_or_no_more() -> None:
    bench = a_world()
    first = len(bench.log)
    bench.put(a_pool("small", "eu", cost=3))
    bench.put(a_pool("large", "eu", cost=9))
    bench.put(a_pool("far", "us"))
    puts, _ = changed(bench.state, "eu", names_of(changes_of(bench, first)))
    assert puts == (c.ShippedPool("small", 3), c.ShippedPool("large", 9))
    first = len(bench.log)
    bench.put(a_pool("small", "us", cost=3))
    bench.accept(ROOT, p.Delete("NodePool", "large"))
    assert told_since(bench, first) == (set(), {("node-pool", "small"), ("node-pool", "large")})


def test_another_jurisdiction_of_the_region_is_told() -> None:
    bench = a_world()
    first = len(bench.log)
    bench.put(a_region("eu", "CH"))
    bench.put(a_region("us", "CH"))
    assert told_since(bench, first) == ({("region", "eu")}, set())


def gathered_since(bench: PlatformBench, first: int, after: int = 0) -> ChangeBuffer:
    gathered = ChangeBuffer("eu")
    for changes in changes_of(bench, first):
        gathered.on_change(changes, after)
    return gathered


def principals(*names: str) -> tuple[Name, ...]:
    return tuple(("principal", f"person/{name}") for name in names)


def test_a_cut_ends_at_an_event_and_leaves_the_rest_in_order() -> None:
    bench = a_world()
    first = len(bench.log)
    placed = [bench.put(a_principal(f"person/{name}")) for name in "abcde"]
    gathered = gathered_since(bench, first)
    cut = gathered.first(2)
    assert (cut.names, cut.to, cut.is_all) == (principals("a", "b"), placed[1], False)
    gathered.drop(cut)
    rest = gathered.first(100)
    assert (len(gathered), rest.names, rest.is_all) == (3, principals("c", "d", "e"), True)
    gathered.drop(rest)
    assert len(gathered) == 0


def test_an_object_that_changes_again_after_a_cut_is_told_again() -> None:
    bench = a_world()
    first = len(bench.log)
    for name, right in (("a", Permission.READ), ("b", Permission.READ), ("a", Permission.WRITE)):
        bench.put(a_principal(f"person/{name}", right))
    gathered = gathered_since(bench, first)
    gathered.drop(gathered.first(1))
    assert gathered.first(100).names == principals("b", "a")


def test_one_event_that_touches_more_than_a_step_holds_is_told_whole() -> None:
    bench = a_world()
    first = len(bench.log)
    bench.put(a_principal("person/a"))
    assert gathered_since(bench, first).first(0).names == principals("a")


def test_what_lies_before_the_cursor_is_not_gathered() -> None:
    bench = a_world()
    first = len(bench.log)
    placed = [bench.put(a_principal(f"person/{name}")) for name in "abc"]
    assert gathered_since(bench, first, after=placed[1]).first(100).names == principals("c")


@pytest.mark.parametrize(
    ("name", "is_gone"),
    [
        (("region", "eu"), False),  # a region that is gone hears nothing of itself
        (("principal", ROOT), False),  # the operator that the log began with is its own ledger's
        (("principal", "person/nobody"), True),
        (("token", ROOT), True),
        (("template", template_digest(a_template())), False),
        (("template", "unknown"), True),
    ],
)
def test_what_is_not_shipped_is_gone_only_if_it_is_no_more(name: Name, is_gone: bool) -> None:
    state = a_full_platform().state
    state.regions.drop("eu")
    puts, gone = changed(state, "eu", [name])
    assert puts == ()
    assert gone == ((c.RemovedObject(*name),) if is_gone else ())
