"""A machine speaks for itself: every command of agents, schedulers and regions, sent by another one of its kind.

Whoever has stolen the token of one machine is that machine, and nobody else: what it says of another's node, region
or session is refused and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.commit.authorization import MACHINES
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.assignments import AssignmentStage
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.model.records.region_reports import RegionSummary
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import ZERO, Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import ASSIGNMENT
from holdfast.core.platform.definition import RULES as PLATFORM_RULES
from holdfast.core.region import commands as c
from holdfast.core.region.definition import RULES as REGION_RULES
from tests.support.ledgers.platform import PlatformBench, a_workload, a_world, an_exclusive, cpu
from tests.support.ledgers.region import SCHEDULER, RegionBench, a_principal

#: What the true one may send, and the other may not.
Told = tuple[Any, str, str, Any]


def of_a_region(make: Callable[[PlatformBench], Any]) -> Callable[[], Told]:
    def story() -> Told:
        bench = a_world()
        return bench, "region/eu", "region/us", make(bench)

    return story


def of_an_agent(make: Callable[[RegionBench], Any]) -> Callable[[], Told]:
    def story() -> Told:
        bench = RegionBench()
        bench.a_node("n1")
        bench.a_node("n2")
        return bench, "agent/n1", "agent/n2", make(bench)

    return story


def an_ended_assignment(bench: PlatformBench) -> p.RemoveAssignment:
    uid = bench.assign(bench.put(a_workload()), "eu", 2)
    bench.accept(ASSIGNMENT, p.EndAssignment(uid))
    assert bench.state.assignments[uid].stage is AssignmentStage.ENDED
    return p.RemoveAssignment(uid)


def a_right_to_give_back(bench: PlatformBench) -> p.ReleaseRights:
    db = bench.put(an_exclusive())
    bench.hold(db, "eu", 0)
    return p.ReleaseRights(db, (0,), bench.ask_back(db, "eu", 0))


def a_slot_that_starts(bench: RegionBench) -> c.Move:
    bench.a_scheduler()
    bench.a_grant()
    bench.place(bench.a_workload(), c.SlotPlacement(0, bench.state.node_names["n1"]))
    return c.Move((c.MoveSlot((1, 0), bench.slot().epoch, Phase.STARTING, "started"),))


#: By ledger and command. Each names what is one machine's: its session, its node, what stands there, its region.
STORIES: dict[tuple[str, type], Callable[[], Told]] = {
    ("platform", EndSession): of_a_region(lambda b: EndSession(b.sessions["region/eu"], "over")),
    ("platform", p.RemoveAssignment): of_a_region(an_ended_assignment),
    ("platform", p.OfferBack): of_a_region(lambda b: p.OfferBack(b.assign(b.put(a_workload()), "eu", 2), 1)),
    ("platform", p.ReleaseRights): of_a_region(a_right_to_give_back),
    ("platform", p.JoinRegion): of_a_region(lambda b: p.JoinRegion("eu", "log-eu", "https://eu:7470")),
    ("platform", p.Acknowledge): of_a_region(lambda b: p.Acknowledge("eu", "log-eu", 5, 0, "0" * 16)),
    ("platform", p.Report): of_a_region(lambda b: p.Report("eu", 1, summary=RegionSummary())),
    ("region", EndSession): of_an_agent(lambda b: EndSession(b.sessions["agent/n1"], "over")),
    ("region", c.RegisterNode): of_an_agent(lambda b: c.RegisterNode("n1", "general", "a", Resources(1, 1, 0, 0))),
    ("region", c.ReportNode): of_an_agent(lambda b: c.ReportNode("n1", 50, 50)),
    ("region", c.Move): of_an_agent(a_slot_that_starts),
}
#: What names nobody: the sender's own life, its own grant, and what any scheduler of a region may do in it.
OF_NOBODY = {
    ("platform", OpenSession), ("platform", p.AcknowledgeGrant), ("region", OpenSession), ("region", c.Propose),
    ("region", c.Bind), ("region", c.Unreserve), ("region", c.Stop), ("region", c.ReportPending), ("region", c.Hold),
    ("region", c.ExtendHold), ("region", c.DropHold),
}  # fmt: skip


@pytest.mark.parametrize("key", STORIES, ids=lambda key: f"{key[0]} {key[1].__name__}")
def test_what_is_said_of_another_machine_is_refused_and_changes_nothing(key: tuple[str, type]) -> None:
    bench, own, other, command = STORIES[key]()
    before = len(bench.log)
    answer = bench.send(other, command)
    assert isinstance(answer, Refused), answer
    assert answer.code in (Code.NOT_OWNER, Code.NOT_FOUND), answer
    assert len(bench.log) == before
    assert isinstance(bench.send(own, command), Committed), "only for who sent it"


def test_the_walk_leaves_no_command_of_machines_out() -> None:
    for ledger, rules in (("platform", PLATFORM_RULES), ("region", REGION_RULES)):
        of_machines = {command for command, rule in rules.items() if set(MACHINES) & set(rule.owners)}
        assert of_machines == {command for where, command in (*STORIES, *OF_NOBODY) if where == ledger}


@pytest.mark.parametrize("actor", ["agent/n1", "scheduler/main"])
def test_agents_and_schedulers_have_no_session_at_the_platform(actor: str) -> None:
    bench = a_world()
    bench.put(a_principal(actor, region="eu"))
    bench.refuse(Code.NO_RIGHT, actor, OpenSession())


def test_a_region_has_no_session_in_a_region() -> None:
    bench = RegionBench()
    bench.ship(c.ShippedPrincipal(a_principal("region/eu")))
    assert bench.refuse("region/eu", OpenSession()).code is Code.NO_RIGHT


@pytest.mark.parametrize("actor", ["agent/n1", "scheduler/main"])
def test_agents_and_schedulers_act_in_their_own_region(actor: str) -> None:
    """Their principals are shipped to every region: in all others they are nobody."""
    bench = RegionBench()
    bench.ship(c.ShippedPrincipal(a_principal(actor, region="us")))
    assert bench.refuse(actor, OpenSession()).code is Code.WRONG_SCOPE
    bench.ship(c.ShippedPrincipal(a_principal(actor, region="eu")))
    session = bench.open_session(actor)
    bench.ship(c.ShippedPrincipal(a_principal(actor, region="us")))
    assert bench.refuse(actor, EndSession(session, "over")).code is Code.WRONG_SCOPE


def test_a_scheduler_that_is_moved_to_another_region_places_nothing_here_any_more() -> None:
    bench = RegionBench()
    node = bench.a_node()
    bench.a_scheduler()
    bench.a_grant()
    hold = c.Hold(
        ReservationPurpose.DATED, node, "quota/acme", bench.at + 9_000, Resources(100, 100, 0, 0), tenant="acme"
    )
    bench.accept(SCHEDULER, hold)
    bench.ship(c.ShippedPrincipal(a_principal("scheduler/*", region="us")))
    assert bench.refuse(SCHEDULER, hold).code is Code.WRONG_SCOPE


# A region's token


def test_what_a_region_says_of_a_grant_is_of_its_own_grant() -> None:
    bench = a_world()
    version = bench.offer("eu", cpu(1_000))
    before = bench.grant("eu")
    bench.accept("region/us", p.AcknowledgeGrant("quota/acme", version, cpu(1_000)))
    assert bench.grant("eu") == before
    assert bench.grant("us").region == "us"


def test_who_holds_a_regions_token_cannot_join_with_another_log() -> None:
    bench = a_world()
    joined = bench.state.regions["eu"].status
    bench.open_session("eu")
    refused = bench.refuse(Code.DIVERGED, "region/eu", p.JoinRegion("eu", "log-forged"))
    assert "log-eu" not in f"{refused.message} {refused.facts}", "nor learn which log would do"
    assert bench.state.regions["eu"].status.log_id == joined.log_id == "log-eu"


def test_only_a_person_who_retires_it_lets_a_region_begin_another_log() -> None:
    bench = a_world()
    bench.retire("eu")
    bench.open_session("eu")
    bench.refuse(Code.TOMBSTONED, "region/eu", p.JoinRegion("eu", "log-eu"))
    bench.accept("region/eu", p.JoinRegion("eu", "log-eu-2"))
    assert bench.state.regions["eu"].status.log_id == "log-eu-2"
    bench.open_session("eu")
    bench.refuse(Code.DIVERGED, "region/eu", p.JoinRegion("eu", "log-eu-3"))


def test_a_stolen_token_of_a_region_takes_over_that_regions_session_and_nothing_else() -> None:
    """It knows the log's id, too: then it is the region, until the true one opens the next session."""
    bench = a_world()
    web = bench.assign(bench.put(a_workload()), "us", 2)
    true = bench.sessions["region/eu"]
    others = {name: bench.state.regions[name] for name in ("us", "us2")}
    bench.open_session("eu")
    bench.accept("region/eu", p.JoinRegion("eu", "log-eu", "https://elsewhere:1"))
    assert bench.refuse(Code.NO_SESSION, "region/eu", p.Report("eu", 9), session=true)
    for command in (p.OfferBack(web, 1), p.RemoveAssignment(web), p.Report("us", 9), p.JoinRegion("us", "log-us")):
        bench.refuse(Code.NOT_OWNER, "region/eu", command)
    assert {name: bench.state.regions[name] for name in others} == others
    # The true one is back with its next session, and the other is heard no more.
    stolen = bench.sessions["region/eu"]
    bench.join("eu", address="https://eu:7470")
    bench.refuse(Code.NO_SESSION, "region/eu", p.AcknowledgeGrant("quota/acme", 1, ZERO), session=stolen)


def test_a_join_that_tells_another_address_changes_nothing_that_a_person_wrote() -> None:
    bench = a_world()
    bench.join("eu", address="https://eu:7470")
    spec = bench.state.regions["eu"].spec
    bench.join("eu", address="https://elsewhere:1")
    region = bench.state.regions["eu"]
    assert region.spec == spec
    assert region.status.address == "https://elsewhere:1"
    assert region.status.health is RegionHealth.HEALTHY
