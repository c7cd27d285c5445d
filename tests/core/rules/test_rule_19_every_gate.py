"""RULES 19: every kind of override, against every command that must respect it, in both ledgers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.overrides import OpenOverride, active_overrides
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.metadata import Labels
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import GRANT, REGION_HEALTH
from holdfast.core.platform.definition import RULES as PLATFORM_RULES
from holdfast.core.region import commands as c
from holdfast.core.region.definition import REGION
from holdfast.core.region.definition import RULES as REGION_RULES
from tests.support.ledgers.platform import DIGEST, PlatformBench, a_workload, a_world, cpu
from tests.support.ledgers.region import ROOT, SCHEDULER, RegionBench

LIFE = 600_000
REPAIR = "controller/repair"
Sent = tuple[str, Any]

#: An override by its action, target and facts.
Kind = tuple[OverrideAction, str, Labels]
PAUSE_ALL: Kind = (OverrideAction.PAUSE_SCHEDULING, "", ())
PAUSE_MINE: Kind = (OverrideAction.PAUSE_SCHEDULING, "acme", ())
PAUSE_OTHERS: Kind = (OverrideAction.PAUSE_SCHEDULING, "beta", ())
AVOID_HERE: Kind = (OverrideAction.AVOID_ZONE, "a", ())
AVOID_THERE: Kind = (OverrideAction.AVOID_ZONE, "z", ())
NO_REPAIR: Kind = (OverrideAction.PAUSE_REPAIR, "", ())
NO_AUTOSCALER: Kind = (OverrideAction.PAUSE_AUTOSCALER, "", ())
EMERGENCY: Kind = (OverrideAction.EMERGENCY_QUOTA, "acme", (("cpu", "3000"), ("tenant", "acme")))
LOST: Kind = (OverrideAction.DECLARE_LOST, "eu", ())
KINDS = (
    PAUSE_ALL, PAUSE_MINE, PAUSE_OTHERS, AVOID_HERE, AVOID_THERE, NO_REPAIR, NO_AUTOSCALER, EMERGENCY, LOST,
)  # fmt: skip
PAUSES = {PAUSE_ALL: Code.PAUSED, PAUSE_MINE: Code.PAUSED}
PLACING = {**PAUSES, AVOID_HERE: Code.NODE_UNAVAILABLE}


def a_region() -> RegionBench:
    return _region().branch()


@cache
def _region() -> RegionBench:
    """Slot 0 waits, 1 is reserved, 2 serves on n1; 3 stood on n2, whose agent is gone past the fence."""
    bench = RegionBench()
    bench.a_scheduler()
    n1, n2 = bench.a_node("n1"), bench.a_node("n2")
    bench.a_grant()
    work = bench.a_workload(count=5)
    bench.a_workload(count=1, uid=101, workload=11, workload_name="acme/spare", stage=AssignmentStage.STANDBY)
    bench.place(work, c.SlotPlacement(2, n1), c.SlotPlacement(3, n2))
    bench.walk(Phase.SERVING, 2)
    bench.walk(Phase.SERVING, 3)
    bench.accept(SCHEDULER, _hold(bench))
    bench.accept("controller/node-health", EndSession(bench.sessions["agent/n2"], "silent"))
    assert isinstance(bench.move("controller/node-health", Phase.UNKNOWN, "session-ended", 3), Committed)
    bench.at += bench.state.info.settings.fence_time
    bench.place(work, c.SlotPlacement(1, n1), bind=False)
    return bench


def _n1(bench: RegionBench) -> int:
    return bench.state.node_names["n1"]


def _work(bench: RegionBench) -> Any:
    return bench.state.assignments[100]


def _hold(bench: RegionBench) -> c.Hold:
    need = Resources(100, 100, 0, 0)
    return c.Hold(ReservationPurpose.DATED, _n1(bench), "quota/acme", bench.at + LIFE, need, tenant="acme")


def _placeholder(bench: RegionBench) -> c.Hold:
    standby = bench.state.assignments[101]
    template = standby.shares[0].template
    return c.Hold(
        ReservationPurpose.PLACEHOLDER, _n1(bench), "quota/acme", bench.at + LIFE, assignment=101, template=template
    )  # fmt: skip


def _proposed_twice(bench: RegionBench) -> c.Propose:
    """Two groups: such a proposal is never judged in a row with others."""
    group = c.PlacementGroup(100, _work(bench).shares[0].template, (c.SlotPlacement(0, _n1(bench)),))
    other = replace(group, placements=(c.SlotPlacement(4, _n1(bench)),))
    return c.Propose((group, other), bench.at + 1000)


def _moved(bench: RegionBench, ordinal: int, target: Phase, cause: str) -> c.Move:
    return c.Move((c.MoveSlot((1, ordinal), bench.slot(ordinal).epoch, target, cause),))


#: In a region: what is sent, and which overrides refuse it with which code. All others let it pass.
IN_A_REGION: dict[str, tuple[Callable[[RegionBench], Sent], dict[Kind, Code]]] = {
    "propose": (lambda b: (SCHEDULER, b.proposal(_work(b), c.SlotPlacement(0, _n1(b)))), PLACING),
    "reserve": (lambda b: (SCHEDULER, b.proposal(_work(b), c.SlotPlacement(0, _n1(b)), bind=False)), PLACING),
    "propose two groups": (lambda b: (SCHEDULER, _proposed_twice(b)), PLACING),
    "bind": (lambda b: (SCHEDULER, c.Bind(((1, 1),))), PLACING),
    "hold": (lambda b: (SCHEDULER, _hold(b)), PLACING),
    "hold, by a person": (lambda b: (ROOT, _hold(b)), PLACING),
    "placeholder": (lambda b: (SCHEDULER, _placeholder(b)), PLACING),
    "give up": (lambda b: (REPAIR, _moved(b, 3, Phase.FAILED, "fenced")), {NO_REPAIR: Code.PAUSED}),
    "stop by repair": (lambda b: (REPAIR, c.Stop(((1, 2),), "not-allowed")), {NO_REPAIR: Code.PAUSED}),
    # What frees room or says what is so is never in the way of anybody who has paused something.
    "unreserve": (lambda b: (SCHEDULER, c.Unreserve(((1, 1),))), {}),
    "drop hold": (lambda b: (SCHEDULER, c.DropHold(b.state.holds.values()[0].uid)), {}),
    "extend hold": (lambda b: (SCHEDULER, c.ExtendHold(b.state.holds.values()[0].uid, b.at + 2 * LIFE)), {}),
    "stop": (lambda b: ("controller/replica", c.Stop(((1, 2),), "scaled-down")), {}),
    "report": (lambda b: ("agent/n1", _moved(b, 2, Phase.FAILED, "exit")), {}),
}  # fmt: skip

#: Commands of a region on which no kind of override bears, each for a reason that does not change with the state.
FREE_IN_A_REGION = {
    "the log, sessions and settings": (
        "StartLog", "StartTerm", "RaiseLevel", "RecordDigest", "OpenSession", "EndSession", "Configure",
        "RecordDenials", "OpenOverride", "EndOverride", "AdmitServer", "RevokeServer", "ForgetServer",
    ),
    "facts about nodes": ("RegisterNode", "ReportNode", "AdministerNode", "JudgeNode", "RemoveNode"),
    "what is wanted, not where it runs": ("OpenSlots", "WithdrawSlots", "AdoptSlots", "ForgetAssignment"),
    "what has ended": ("Expire", "CloseBreach"),
    "what is said": ("ReportPending", "Ship", "StandDown"),
}  # fmt: skip


def aimed(bench: RegionBench, kind: Kind, uid: int = 9) -> Override:
    action, target, facts = kind
    return Override(uid, action, "eu", target, "incident", ROOT, bench.at, bench.at + LIFE, facts)


def opened(bench: RegionBench | PlatformBench, kind: Kind, region: str = "eu") -> OpenOverride:
    action, target, facts = kind
    return OpenOverride(action, region, target, "incident", bench.at + LIFE, facts)


def told(answer: object) -> tuple[Code, ...]:
    """The codes by which all of it, or parts of it, were refused."""
    if isinstance(answer, Refused):
        return (answer.code,)
    assert isinstance(answer, Committed), answer
    parts = msgspec.msgpack.decode(answer.answer, type=tuple[RefusedPart, ...]) if answer.answer else ()
    return tuple(dict.fromkeys(Code(one.code) for one in parts))


def ids(kind: Kind) -> str:
    return f"{kind[0]} {kind[1]}".strip()


@pytest.mark.parametrize("by", ["opened here", "of the platform"])
@pytest.mark.parametrize("kind", KINDS, ids=ids)
@pytest.mark.parametrize("name", IN_A_REGION)
def test_every_command_of_a_region_respects_every_override_that_bears_on_it(name: str, kind: Kind, by: str) -> None:
    make, refusing = IN_A_REGION[name]
    bench = a_region()
    actor, command = make(bench)
    assert told(bench.branch().send(actor, command)) == (), "it passes while nothing is overridden"
    if by == "opened here" and kind not in (EMERGENCY, LOST):
        bench.accept(ROOT, opened(bench, kind))
    else:
        bench.ship(c.ShippedOverride(aimed(bench, kind)))
    code = refusing.get(kind)
    assert told(bench.branch().send(actor, command)) == ((code,) if code else ())
    bench.at += LIFE
    after = make(bench)[1] if "hold" in name or "propose" in name or name in ("reserve", "placeholder") else command
    assert Code.PAUSED not in told(bench.branch().send(actor, after)), "its end has passed"


def test_proposals_in_a_row_respect_a_pause_that_was_opened_in_the_same_batch() -> None:
    bench = a_region()
    draft = BatchDraft(REGION, bench.state)
    first = bench.envelope(SCHEDULER, bench.proposal(_work(bench), c.SlotPlacement(0, _n1(bench))))
    assert isinstance(draft.add(first, bench.at), Committed)
    assert isinstance(draft.add(bench.envelope(ROOT, opened(bench, PAUSE_MINE)), bench.at), Committed)
    second = bench.envelope(SCHEDULER, bench.proposal(_work(bench), c.SlotPlacement(4, _n1(bench))))
    assert told(draft.add(second, bench.at)) == (Code.PAUSED,)


def suspect(bench: PlatformBench) -> Sent:
    bench.judge("eu", RegionHealth.SUSPECT)
    return REGION_HEALTH, p.JudgeRegion("eu", RegionHealth.HEALTHY, "it speaks")


def lost(bench: PlatformBench) -> Sent:
    bench.lose("eu")
    bench.later(1)
    bench.accept("region/eu", p.Acknowledge("eu", "log-eu", 1, 0, DIGEST))
    return REGION_HEALTH, p.JudgeRegion("eu", RegionHealth.HEALTHY, "it speaks")


def worse(bench: PlatformBench) -> Sent:
    return REGION_HEALTH, p.JudgeRegion("eu", RegionHealth.SUSPECT, "it is silent")


def left_behind(bench: PlatformBench) -> Sent:
    web = bench.put(a_workload())
    bench.assign(web, "eu", 1)
    bench.accept("tenant/acme", p.DeleteWorkload("acme", "web"))
    bench.lose("eu")
    bench.later(bench.state.info.settings.finalizer_deadline)
    return REPAIR, p.ReleaseFinalizer(web, "eu")


def lent(bench: PlatformBench) -> Sent:
    return GRANT, p.OfferGrant("quota/acme", "eu", cpu(1_000), bench.at + LIFE)


ON_THE_PLATFORM: dict[str, tuple[Callable[[PlatformBench], Sent], dict[Kind, Code]]] = {
    "healthy again, of a lost region": (lost, {LOST: Code.PAUSED}),
    "healthy again, of a suspect region": (suspect, {LOST: Code.PAUSED}),
    "suspect": (worse, {}),
    "go on without a lost region": (left_behind, {NO_REPAIR: Code.PAUSED}),
    "lend of a quota": (lent, {}),
}

FREE_ON_THE_PLATFORM = {
    "the log, sessions and settings": FREE_IN_A_REGION["the log, sessions and settings"],
    "what people want": (
        "Put", "Delete", "PutWorkload", "DeleteWorkload", "PublishPolicy", "ActivatePolicy", "RollBackPolicy",
        "BelieveRegion", "DeclareLost", "RetireRegion", "AttestRight",
    ),
    "what regions report": (
        "RemoveAssignment", "OfferBack", "AcknowledgeGrant", "ReleaseRights", "JoinRegion", "Acknowledge", "Report",
        "ReportStatus",
    ),
    "judged by how a region stands, and by grants": ("Assign", "Activate", "EndAssignment", "Adopt", "GrantRight"),
    "what has ended": ("ReleaseRetired",),
}  # fmt: skip


@pytest.mark.parametrize("where", ["eu", ""])
@pytest.mark.parametrize("kind", KINDS, ids=ids)
@pytest.mark.parametrize("name", ON_THE_PLATFORM)
def test_every_command_of_the_platform_respects_every_override_that_bears_on_it(
    name: str, kind: Kind, where: str
) -> None:
    make, refusing = ON_THE_PLATFORM[name]
    bench = a_world()
    actor, command = make(bench)
    bench.accept(ROOT, opened(bench, kind, where))
    code = refusing.get(kind)
    assert told(bench.fork().send(actor, command)) == ((code,) if code else ())
    if not isinstance(command, p.OfferGrant):
        bench.later(LIFE)
        assert told(bench.send(actor, command)) == (), "its end has passed"


@pytest.mark.parametrize("where", ["us", "us2"])
def test_an_override_of_another_region_bears_on_nothing_here(where: str) -> None:
    bench = a_world()
    actor, command = lost(bench)
    bench.accept(ROOT, opened(bench, (OverrideAction.DECLARE_LOST, where, ()), where))
    assert told(bench.send(actor, command)) == ()


def test_an_emergency_alone_allows_what_is_otherwise_refused_until_it_ends() -> None:
    bench = a_world()
    uid = bench.accept(ROOT, opened(bench, EMERGENCY, ""))
    offer = p.OfferGrant(f"emergency/{uid}", "eu", cpu(1_000), bench.at + 1)
    for kind in KINDS:
        if kind is not EMERGENCY:
            other = bench.accept(ROOT, opened(bench, kind, "eu"))
            bench.refuse(Code.NOT_FOUND, GRANT, replace(offer, account=f"emergency/{other}"))
    bench.accept(GRANT, offer)
    bench.later(LIFE)
    bench.refuse(Code.EXPIRED, GRANT, replace(offer, target=cpu(2_000), ends=bench.at + 1))


def test_the_walk_leaves_no_kind_of_override_and_no_command_out() -> None:
    assert {kind[0] for kind in KINDS} == set(OverrideAction)
    for walked, free, rules in (
        ([type(make(a_region())[1]).__name__ for make, _ in IN_A_REGION.values()], FREE_IN_A_REGION, REGION_RULES),
        ([type(make(a_world())[1]).__name__ for make, _ in ON_THE_PLATFORM.values()], FREE_ON_THE_PLATFORM,
         PLATFORM_RULES),
    ):  # fmt: skip
        listed = [name for names in free.values() for name in names]
        assert sorted({*walked, *listed}) == sorted(command.__name__ for command in rules)
        assert not {*walked} & {*listed}


MISREAD: tuple[Kind, ...] = (
    (OverrideAction.PAUSE_REPAIR, "n1", ()),
    (OverrideAction.PAUSE_AUTOSCALER, "web", ()),
    (OverrideAction.PAUSE_SCHEDULING, "acme", (("tenant", "beta"),)),
    (OverrideAction.AVOID_ZONE, "", ()),
    (OverrideAction.DECLARE_LOST, "", ()),
    (OverrideAction.DECLARE_LOST, "us", ()),
    (OverrideAction.EMERGENCY_QUOTA, "acme", ()),
    (OverrideAction.EMERGENCY_QUOTA, "acme", (("cpu", "3000"),)),
    (OverrideAction.EMERGENCY_QUOTA, "beta", (("cpu", "3000"), ("tenant", "acme"))),
    (OverrideAction.EMERGENCY_QUOTA, "acme", (("cpu", "many"), ("tenant", "acme"))),
    (OverrideAction.EMERGENCY_QUOTA, "acme", (("cpu", "-1"), ("tenant", "acme"))),
    (OverrideAction.EMERGENCY_QUOTA, "acme", (("cpu", "1"), ("tenant", "acme"), ("tenant", "beta"))),
    (OverrideAction.EMERGENCY_QUOTA, "acme", (("cores", "3"), ("cpu", "1"), ("tenant", "acme"))),
    (OverrideAction.EMERGENCY_QUOTA, "acme", (("cpu", "0"), ("tenant", "acme"))),
)


@pytest.mark.parametrize("kind", MISREAD, ids=str)
def test_an_override_whose_parameters_its_kind_does_not_know_is_not_opened(kind: Kind) -> None:
    bench = a_world()
    bench.refuse(Code.MALFORMED, ROOT, opened(bench, kind))


@pytest.mark.parametrize("kind", [EMERGENCY, LOST], ids=ids)
def test_what_only_the_platform_can_keep_is_not_opened_in_a_region(kind: Kind) -> None:
    """A region that is cut off has no quota to give, and its own health is not its to say (RULES 7, 8)."""
    bench = a_region()
    assert bench.refuse(ROOT, opened(bench, kind)).code is Code.CONTRADICTORY


def test_of_several_overrides_alike_the_one_that_ends_last_is_told() -> None:
    bench = a_region()
    for number, life in enumerate((LIFE, 2 * LIFE, LIFE // 2)):
        held = replace(aimed(bench, PAUSE_MINE, 20 + number), ends=bench.at + life)
        bench.ship(c.ShippedOverride(held))
    pause = active_overrides(bench.state, bench.at).pause_of("acme")
    assert pause is not None
    assert (pause.uid, pause.ends) == (21, bench.at + 2 * LIFE)
