"""Who may be passed over in a queue, and for how long: by what was said and answered, and by nothing else."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.ledger.reconciler import principal
from holdfast.core.region.commands import PlacementGroup, Propose, SlotPlacement
from holdfast.sim.actors.servers import ServerPrograms, ServerSetup
from holdfast.sim.checks.placement.excuses import HEARD_MS, PAUSE_MS, SchedulerExcuses, WaitingGroup

ACTOR = "scheduler/s1"
BESIDE = principal("scheduler")
VALID_MS = 4_000


class Clock:
    """A clock that stands until it is set."""

    now = 0

    def __call__(self) -> int:
        return self.now


def equals(_assignment: int, template: str) -> WaitingGroup:
    return (template, "payments", "critical")


def proposal(*templates: str, sequence: int = 1, made: int = 0) -> Envelope[Any]:
    groups = tuple(
        PlacementGroup(number, template, (SlotPlacement(0, 9),)) for number, template in enumerate(templates, 1)
    )
    return Envelope(ACTOR, Propose(groups, made + VALID_MS), 0, session=7, sequence=sequence)


def unnumbered(template: str, *, sent: int = 0, evidence: bytes = b"") -> Envelope[Any]:
    """A proposal as a scheduler beside the leader sends it."""
    groups = (PlacementGroup(1, template, (SlotPlacement(0, 9),)),)
    return Envelope(BESIDE, Propose(groups, VALID_MS), sent, evidence=evidence)


def excused(
    judge: SchedulerExcuses,
    template: str,
    *,
    at: int,
    view: tuple[int, int] = (100, 0),
    actor: str = ACTOR,
    sequence: int = 2,
    in_flight: tuple[int, ...] = (),
) -> bool:
    return judge.is_excused((actor, 7, sequence), in_flight, (1, template), 0, view, at)


def test_who_was_refused_may_wait_until_its_pause_is_over_and_twice_as_long_the_next_time() -> None:
    judge = SchedulerExcuses(equals, Clock())
    for times, at in ((1, 0), (2, 10_000)):
        judge.refused(proposal("web"), Refused(Code.OVER_GRANT, "", {}), at)
        assert excused(judge, "web", at=at + times * PAUSE_MS)
        assert not excused(judge, "web", at=at + times * PAUSE_MS + HEARD_MS)


def test_a_pause_begins_when_the_refusal_is_heard_however_long_its_answer_was_on_its_way() -> None:
    clock = Clock()
    for answered, pause in ((False, 0), (True, 3_000)):
        judge = SchedulerExcuses(equals, clock)
        judge.said(proposal("web"), answered=False)
        judge.refused(proposal("web"), Refused(Code.EXPIRED, "", {}), 10_000)
        clock.now += 3_000
        if answered:
            judge.said(proposal("web"), answered=True)
        end = 10_000 + pause + PAUSE_MS + HEARD_MS
        view = (100, VALID_MS + 1)
        assert excused(judge, "web", at=end - 1, view=view)
        assert not excused(judge, "web", at=end, view=view)


def test_a_proposal_that_waited_on_its_way_is_judged_by_when_it_was_made() -> None:
    judge, life_ms = SchedulerExcuses(equals, Clock()), VALID_MS * 5 // 4
    judge.said(proposal("web", made=1_000), answered=False)
    assert judge.made((ACTOR, 7, 1), 4_100, life_ms) == 1_000
    assert judge.made((ACTOR, 7, 2), 4_100, life_ms) == 4_100, "of this one nothing else is known"


def test_a_refusal_is_told_with_the_time_of_the_ledger_that_refuses() -> None:
    """The last batch may be long ago: a new leader refuses before it has written anything but its term."""
    told: list[tuple[Code, int]] = []
    term = SimpleNamespace(now=lambda: 9_000)
    ledger: Any = SimpleNamespace(
        denials=SimpleNamespace(refused=lambda _envelope, _answer: None), leader=SimpleNamespace(term=term)
    )
    ServerPrograms(ServerSetup(), lambda *_args: True).listen(
        ledger, lambda _, answer, at: told.append((answer.code, at))
    )
    ledger.denials.refused(proposal("web"), Refused(Code.EXPIRED, "", {}))
    assert told == [(Code.EXPIRED, 9_000)]


def test_what_a_scheduler_beside_the_leader_sends_is_told_under_its_life_and_numbered_there() -> None:
    submitted: list[Envelope[Any]] = []
    told: list[tuple[int, int, bool, int]] = []

    async def submit(envelope: Envelope[Any]) -> Refused:
        submitted.append(envelope)
        return Refused(Code.STALE, "", {})

    async def schedule(leader: Any) -> None:
        for _ in range(2):
            answer = await leader.submit(unnumbered("web"))
            assert answer.code is Code.STALE

    def said(envelope: Envelope[Any], *, answered: bool) -> None:
        told.append((envelope.session, envelope.sequence, answered, len(submitted)))

    ledger: Any = SimpleNamespace(leader_tasks={"scheduler": schedule})
    ServerPrograms(ServerSetup(), lambda *_args: True).overhear(ledger, said)
    for _ in range(2):
        asyncio.run(ledger.leader_tasks["scheduler"](SimpleNamespace(term=None, submit=submit)))
    assert told[:4] == [(1, 1, False, 0), (1, 1, True, 1), (1, 2, False, 1), (1, 2, True, 2)]
    assert [(life, number) for life, number, *_ in told[4::2]] == [(2, 1), (2, 2)]
    assert submitted == [unnumbered("web")] * 4, "what the leader is given is as it was sent"


def test_a_proposal_from_beside_the_leader_is_known_by_when_it_was_sent_and_why() -> None:
    judge = SchedulerExcuses(equals, Clock())
    for number, (sent, why) in enumerate([(5, b"a"), (5, b"b"), (6, b"a")], 1):
        one = unnumbered("web", sent=sent, evidence=why)
        judge.said(replace(one, session=1, sequence=number), answered=False)
        assert judge.number(one, why) == (BESIDE, 1, number)
    for sent, why in ((6, b"b"), (5, b"")):
        one = unnumbered("web", sent=sent, evidence=why)
        assert judge.number(one, why) == (BESIDE, 0, 0)
        assert judge.sent(judge.number(one, why)) is None
    assert judge.number(proposal("web", sequence=9), b"a") == (ACTOR, 7, 9), "one apart has a number of its own"


def test_a_scheduler_beside_the_leader_pauses_from_when_it_hears_what_landed_in_part() -> None:
    """A batch is in the log before its leader knows, and for as long as the store does not answer."""
    clock, one = Clock(), unnumbered("web", evidence=b"a")
    judge, told = SchedulerExcuses(equals, clock), replace(one, session=1, sequence=1)
    judge.said(told, answered=False)
    lost = encode([RefusedPart(0, 0, "capacity", "n1")])
    judge.met_in_part(judge.number(one, b"a"), [equals(1, "web")], lost, 10_000)
    clock.now += 3_000
    judge.said(told, answered=True)
    end = 13_000 + PAUSE_MS + HEARD_MS
    for at, is_excused in ((end - 1, True), (end, False)):
        assert judge.is_excused((BESIDE, 1, 2), (), (1, "web"), 0, (100, 20_000), at) is is_excused


def test_what_an_earlier_life_has_sent_excuses_no_later_one() -> None:
    """A scheduler begins anew with each term, and with each session: then all is settled that nobody answered."""
    judge = SchedulerExcuses(equals, Clock())
    judge.said(replace(unnumbered("web"), session=1, sequence=1), answered=False)
    for life, is_excused in ((1, True), (2, False)):
        assert judge.is_excused((BESIDE, life, 2), (), (1, "web"), 0, (100, 0), 1) is is_excused


def test_nobody_is_excused_by_what_another_was_refused_or_another_scheduler_was() -> None:
    judge = SchedulerExcuses(equals, Clock())
    judge.refused(proposal("web"), Refused(Code.OVER_GRANT, "", {}), 0)
    assert not excused(judge, "crawl", at=1)
    assert not excused(judge, "web", at=1, actor="scheduler/s2")


def test_who_was_refused_because_its_view_was_behind_may_wait_until_it_is_not() -> None:
    judge = SchedulerExcuses(equals, Clock())
    judge.refused(proposal("web"), Refused(Code.STALE, "", {"catch_up_to": 120}), 0)
    assert excused(judge, "web", at=60_000, view=(119, 0))
    assert not excused(judge, "web", at=60_000, view=(120, 0))


def test_of_a_proposal_that_landed_in_part_only_who_lost_something_is_excused() -> None:
    judge = SchedulerExcuses(equals, Clock())
    judge.met_in_part(
        (ACTOR, 7, 1), [equals(1, "web"), equals(1, "crawl")], encode([RefusedPart(1, 0, "capacity", "n1")]), 0
    )
    assert not excused(judge, "web", at=1)
    assert excused(judge, "crawl", at=1)


def test_who_was_proposed_and_has_no_answer_may_wait_for_as_long_as_that_could_land_by_the_view() -> None:
    judge = SchedulerExcuses(equals, Clock())
    judge.said(proposal("web"), answered=False)
    assert excused(judge, "web", at=60_000, view=(100, VALID_MS))
    assert not excused(judge, "web", at=60_000, view=(100, VALID_MS + 1))
    judge.said(proposal("crawl", sequence=3), answered=False)
    judge.said(proposal("web"), answered=True)
    assert not excused(judge, "web", at=1)
    # What was made beside it may be sent after its answer came.
    assert excused(judge, "web", at=1, sequence=3, in_flight=(1,))
    assert not excused(judge, "web", at=1, sequence=3)


def test_whoever_waits_with_a_slot_that_is_given_back_may_wait_a_while_and_nobody_else() -> None:
    judge = SchedulerExcuses(equals, Clock())
    judge.reserved([(5, 0)], equals(1, "web"))
    judge.reserved([(5, 1)], equals(1, "crawl"))
    judge.declined((ACTOR, 7, 1), [(5, 1)], 0)
    assert excused(judge, "crawl", at=PAUSE_MS)
    assert not excused(judge, "crawl", at=PAUSE_MS + HEARD_MS)
    assert not excused(judge, "web", at=1)


def test_what_is_reserved_has_not_come_through_before_it_is_bound() -> None:
    """Found in `stale-cache` 22011: a scheduler counts its refusals in a row up to there."""
    refusal, end = Refused(Code.STALE, "", {}), 10_000 + 2 * PAUSE_MS + HEARD_MS
    for is_bound, ends in ((False, end), (True, end - PAUSE_MS)):
        judge = SchedulerExcuses(equals, Clock())
        judge.refused(proposal("web"), refusal, 0)
        judge.reserved([(1, 0)], equals(1, "web"))
        judge.met_in_part((ACTOR, 7, 2), [equals(1, "web")], b"", 5_000, bound=False)
        if is_bound:
            judge.bound(ACTOR, [(1, 0)])
        judge.refused(proposal("web", sequence=3), refusal, 10_000)
        assert excused(judge, "web", at=ends - 1)
        assert not excused(judge, "web", at=ends)


def test_a_pause_that_has_begun_is_as_long_as_it_was_to_be_though_something_came_through_meanwhile() -> None:
    clock = Clock()
    judge = SchedulerExcuses(equals, clock)
    judge.refused(proposal("web"), Refused(Code.STALE, "", {}), 0)
    judge.met_in_part((ACTOR, 7, 2), [equals(1, "web")], b"", 10)
    assert excused(judge, "web", at=PAUSE_MS)
    clock.now += 1_000
    judge.said(proposal("web"), answered=True)
    assert excused(judge, "web", at=PAUSE_MS + 1_000), "it begins when the refusal is heard"
    assert not excused(judge, "web", at=PAUSE_MS + 1_000 + HEARD_MS)
