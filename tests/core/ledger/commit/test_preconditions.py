"""What a sender expects of the object that its command changes: judged by the ledger, for every command of people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.builtin.log import Configure, RaiseLevel
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.servers import RevokeServer
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.codec import read_evidence
from holdfast.core.ledger.commit.authorization import refuse_unexpected
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.commit.rules import Subject
from holdfast.core.ledger.envelope import ABSENT, PRESENT
from holdfast.core.ledger.revision import pack_revision
from holdfast.core.model.objects.policies import OverrideAction, PolicyDocument
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.decisions import AuditEvent
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.platform.definition import RULES as PLATFORM_RULES
from holdfast.core.region import commands as c
from holdfast.core.region.definition import RULES as REGION_RULES
from tests.support.ledgers.platform import (
    DIGEST,
    HOUR,
    ROOT,
    PlatformBench,
    a_principal,
    a_tenant,
    a_workload,
    a_world,
    an_exclusive,
)
from tests.support.ledgers.region import RegionBench

Bench = PlatformBench | RegionBench


class Story:
    """An object that was read at a revision; what somebody else then does to it; and what the reader sends."""

    def __init__(self, bench: Bench, read: int, other: Any, command: Any) -> None:
        self.bench, self.read, self.other, self.command = bench, read, other, command


def policy(weight: int) -> PolicyDocument:
    return PolicyDocument(scores=(("packing", weight),))


def an_object(command: Any) -> Story:
    bench = a_world()
    read = bench.put(a_tenant("new"))
    return Story(bench, read, p.Put(a_tenant("new", most=7)), command)


def a_web(command: Any) -> Story:
    bench = a_world()
    return Story(bench, bench.put(a_workload()), p.PutWorkload(a_workload(replicas=9)), command)


def a_region(command: Any) -> Story:
    bench = a_world()
    region = bench.state.regions["eu"]
    labelled = replace(region, meta=replace(region.meta, labels=(("seen", "yes"),)))
    return Story(bench, region.meta.revision, p.Put(labelled), command)


def a_region_of_which_something_is_known() -> Story:
    story = a_region(p.BelieveRegion("eu", "its log is whole"))
    assert isinstance(story.bench, PlatformBench)
    story.bench.accept("region/eu", p.Acknowledge("eu", "log-eu", 10**9, 0, DIGEST))
    return story


def a_right() -> Story:
    bench = a_world()
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0)
    bench.lose("eu")
    read = bench.state.workloads[db].meta.revision
    return Story(bench, read, p.PutWorkload(an_exclusive(replicas=9)), p.AttestRight(db, 0, "eu", "it is off"))


def a_policy(make: Callable[[int], Any]) -> Story:
    bench = a_world()
    read = bench.accept(ROOT, p.PublishPolicy("packed", policy(1)))
    return Story(bench, read, p.PublishPolicy("packed", policy(2)), make(read))


def a_validity() -> Story:
    bench = a_world()
    first, second = (bench.accept(ROOT, p.PublishPolicy("packed", policy(weight))) for weight in (1, 2))
    bench.accept(ROOT, p.ActivatePolicy(first, "eu"))
    return Story(bench, first, p.ActivatePolicy(second, "eu"), p.ActivatePolicy(0, "eu"))


def an_override() -> Story:
    bench = a_world()
    uid = bench.accept(ROOT, OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "why", bench.at + HOUR))
    return Story(bench, uid, None, EndOverride(uid, "over"))


def settings(bench: Bench) -> Story:
    fewer = Configure(replace(DEFAULTS, reservation_life=20_000))
    if isinstance(bench, PlatformBench):
        read = bench.accept(ROOT, Configure(replace(DEFAULTS, reservation_life=21_000)))
    else:
        read = bench.accept(ROOT, Configure(replace(DEFAULTS, reservation_life=21_000))).revision
    return Story(bench, read, Configure(replace(DEFAULTS, reservation_life=22_000)), fewer)


def a_node(make: Callable[[int], Any], *, gone: bool = False) -> Story:
    bench = RegionBench()
    uid = bench.a_node()
    if gone:
        bench.accept("controller/node-health", EndSession(bench.sessions["agent/n1"], "silent"))
    read = bench.state.nodes[uid].revision
    return Story(bench, read, c.AdministerNode(uid, labels=(("disk", "ssd"),)), make(uid))


def a_hold(make: Callable[[RegionBench, int], Any]) -> Story:
    bench = RegionBench()
    node = bench.a_node()
    bench.a_grant()
    held = c.Hold(
        ReservationPurpose.DATED, node, "quota/acme", bench.at + HOUR, Resources(100, 100, 0, 0), tenant="acme"
    )  # fmt: skip
    uid = bench.accept(ROOT, held).revision
    return Story(bench, uid, c.ExtendHold(uid, bench.at + 2 * HOUR), make(bench, uid))


STORIES: dict[tuple[str, type], Callable[[], Story]] = {
    ("platform", p.Put): lambda: an_object(p.Put(a_tenant("new", most=8))),
    ("platform", p.Delete): lambda: an_object(p.Delete("Tenant", "new")),
    ("platform", p.PutWorkload): lambda: a_web(p.PutWorkload(a_workload(replicas=4))),
    ("platform", p.DeleteWorkload): lambda: a_web(p.DeleteWorkload("acme", "web")),
    ("platform", p.AttestRight): a_right,
    ("platform", p.BelieveRegion): a_region_of_which_something_is_known,
    ("platform", p.DeclareLost): lambda: a_region(p.DeclareLost("eu", "no answer")),
    ("platform", p.RetireRegion): lambda: a_region(p.RetireRegion("eu", "it burnt down")),
    ("platform", p.PublishPolicy): lambda: a_policy(lambda _: p.PublishPolicy("packed", policy(3))),
    ("platform", p.RollBackPolicy): lambda: a_policy(lambda read: p.RollBackPolicy(read, 0, "it was worse")),
    ("platform", p.ActivatePolicy): a_validity,
    ("platform", EndOverride): an_override,
    ("platform", Configure): lambda: settings(a_world()),
    ("region", Configure): lambda: settings(RegionBench()),
    ("region", c.AdministerNode): lambda: a_node(lambda uid: c.AdministerNode(uid, cordoned=True, note="mine")),
    ("region", c.RemoveNode): lambda: a_node(c.RemoveNode, gone=True),
    ("region", c.ExtendHold): lambda: a_hold(lambda bench, uid: c.ExtendHold(uid, bench.at + 3 * HOUR)),
    ("region", c.DropHold): lambda: a_hold(lambda _, uid: c.DropHold(uid)),
}  # fmt: skip
#: Commands of people that change no object which was there before, so that nothing can be expected of one.
WITHOUT = {
    OpenOverride: "it opens a new one",
    c.Hold: "it makes a new one",
    RaiseLevel: "levels only rise",
    RevokeServer: "it ends whatever tokens there are",
}


def refused(story: Story, expect: int) -> Refused:
    answer = story.bench.send(ROOT, story.command, expect=expect)
    assert isinstance(answer, Refused), answer
    return answer


def change(story: Story) -> int:
    answer = story.bench.send(ROOT, story.other)
    assert isinstance(answer, Committed), answer
    return answer.revision


CHANGED = [key for key in STORIES if key != ("platform", EndOverride)]


@pytest.mark.parametrize("key", CHANGED, ids=lambda key: f"{key[0]} {key[1].__name__}")
def test_of_two_people_who_read_one_revision_the_second_to_write_is_told_the_present_one(key: tuple[str, type]) -> None:
    story = STORIES[key]()
    now = change(story)
    answer = refused(story, story.read)
    assert answer.code is Code.STALE
    assert answer.facts["seen"] == story.read
    current = answer.facts["catch_up_to"]
    assert current == now or isinstance(story.other, p.ActivatePolicy)
    landed = story.bench.send(ROOT, story.command, expect=current)
    assert isinstance(landed, Committed), landed


@pytest.mark.parametrize("key", STORIES, ids=lambda key: f"{key[0]} {key[1].__name__}")
def test_what_is_as_it_was_read_is_changed_and_a_repeat_gets_the_first_answer(key: tuple[str, type]) -> None:
    story = STORIES[key]()
    assert refused(story, ABSENT).code is Code.EXISTS
    sent = story.bench.envelope(ROOT, story.command, expect=story.read)
    first = story.bench.give(sent)
    assert isinstance(first, Committed), first
    again = story.bench.give(sent)
    assert isinstance(again, Repeated)
    assert again.revision == first.revision


@pytest.mark.parametrize("key", STORIES, ids=lambda key: f"{key[0]} {key[1].__name__}")
def test_whatever_is_there_may_be_asked_for(key: tuple[str, type]) -> None:
    story = STORIES[key]()
    assert isinstance(story.bench.send(ROOT, story.command, expect=PRESENT), Committed)


def test_every_command_of_people_names_the_object_that_it_changes_or_takes_no_expectation() -> None:
    for ledger, rules in (("platform", PLATFORM_RULES), ("region", REGION_RULES)):
        for command, rule in rules.items():
            if {"person", "tenant"} & set(rule.owners) and command is not EndOverride:
                assert (rule.subject is None) == (command in WITHOUT), command
                assert ((ledger, command) in STORIES) == (command not in WITHOUT), command


def test_what_cannot_be_kept_is_not_expected() -> None:
    bench = a_world()
    opened = OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "why", bench.at + HOUR)
    for expect in (7, PRESENT, ABSENT):
        bench.refuse(Code.MALFORMED, ROOT, opened, expect=expect)
    bench.accept(ROOT, opened)


def test_what_level_1_does_not_keep_is_not_expected_there() -> None:
    bench = RegionBench(level=1)
    fewer = Configure(replace(DEFAULTS, reservation_life=20_000))
    assert bench.refuse(ROOT, fewer, expect=pack_revision(1)).code is Code.MALFORMED
    bench.accept(ROOT, fewer)
    assert bench.state.info.configured == 0


def test_a_key_is_bound_to_what_was_expected_under_it() -> None:
    story = STORIES["platform", p.Put]()
    bench = story.bench
    assert isinstance(bench.send(ROOT, story.command, key="mine", expect=story.read), Committed)
    other = bench.send(ROOT, story.command, key="mine", expect=PRESENT)
    assert isinstance(other, Refused)
    assert other.code is Code.KEY_REUSED


def test_who_may_not_change_an_object_does_not_learn_its_revision() -> None:
    bench = a_world()
    bench.put(a_workload())
    bench.put(a_principal("person/beta", Permission.WRITE, tenant="beta"))
    bench.refuse(Code.WRONG_SCOPE, "person/beta", p.PutWorkload(a_workload(replicas=9)), expect=7)
    bench.refuse(Code.WRONG_SCOPE, "person/beta", p.DeleteWorkload("acme", "web"), expect=ABSENT)


def test_what_was_expected_is_on_record_with_what_was_done() -> None:
    story = STORIES["platform", p.Put]()
    assert isinstance(story.bench.send(ROOT, story.command, expect=story.read), Committed)
    raw = story.bench.log[-1][0]
    (done,) = [read_evidence(one.payload) for one in PLATFORM.batches.evidence(raw)]
    assert isinstance(done, AuditEvent)
    assert done.expect == story.read


def test_who_comes_late_is_told_whether_it_was_changed_or_is_gone() -> None:
    changed, gone = (refuse_unexpected(Subject("Tenant/acme", found), expect=7) for found in (9, 0))
    assert changed is not None
    assert gone is not None
    assert ("it was changed" in changed.message, "it does not exist" in changed.message) == (True, False)
    assert ("it was changed" in gone.message, "it does not exist" in gone.message) == (False, True)
    assert changed.code is gone.code is Code.STALE
