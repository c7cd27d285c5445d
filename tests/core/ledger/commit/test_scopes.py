"""A right holds in its scope: every command of people, against who may act for one tenant, region or node only."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import Configure, RaiseLevel
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.servers import AdmitServer, RevokeServer
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.principals import Permission
from holdfast.core.model.records.servers import ServerToken
from holdfast.core.model.records.slots import ReservationPurpose
from holdfast.core.model.values.resources import Resources
from holdfast.core.platform import commands as p
from holdfast.core.platform.definition import RULES as PLATFORM_RULES
from holdfast.core.region import commands as c
from holdfast.core.region.definition import RULES as REGION_RULES
from tests.core.ledger.commit.test_preconditions import STORIES, Story
from tests.support.ledgers.platform import HOUR, ROOT, PlatformBench, a_principal, a_world
from tests.support.ledgers.region import RegionBench

SCOPES: dict[str, dict[str, str]] = {
    "acme": {"tenant": "acme"}, "beta": {"tenant": "beta"}, "eu": {"region": "eu"}, "us": {"region": "us"},
    "n1": {"node": "n1"}, "n9": {"node": "n9"},
}  # fmt: skip
#: Who of them may send what of the stories: what concerns more than their scope, or something else, is refused.
WITHIN: dict[tuple[str, type], set[str]] = {
    ("platform", p.Put): set(),
    ("platform", p.Delete): set(),
    ("platform", p.PutWorkload): {"acme"},
    ("platform", p.DeleteWorkload): {"acme"},
    ("platform", p.AttestRight): {"acme", "eu"},
    ("platform", p.BelieveRegion): {"eu"},
    ("platform", p.DeclareLost): {"eu"},
    ("platform", p.RetireRegion): {"eu"},
    # A draft is valid nowhere: who may activate it for a tenant or in a region may write it.
    ("platform", p.PublishPolicy): {"acme", "beta", "eu", "us"},
    ("platform", p.RollBackPolicy): set(),
    ("platform", p.ActivatePolicy): {"eu"},
    ("platform", OpenOverride): {"eu"},
    ("platform", EndOverride): {"eu"},
    ("platform", Configure): set(),
    ("platform", RaiseLevel): set(),
    ("platform", RevokeServer): set(),
    ("region", OpenOverride): {"eu"},
    ("region", EndOverride): {"eu"},
    ("region", Configure): {"eu"},
    ("region", RaiseLevel): {"eu"},
    ("region", RevokeServer): {"eu"},
    ("region", c.AdministerNode): {"eu", "n1"},
    ("region", c.RemoveNode): {"eu", "n1"},
    ("region", c.Hold): {"eu", "acme", "n1"},
    ("region", c.ExtendHold): {"eu", "acme", "n1"},
    ("region", c.DropHold): {"eu", "acme", "n1"},
}


def story(ledger: str, command: type) -> Story:
    known = STORIES.get((ledger, command))
    if known is not None:
        return known()
    bench: Any = a_world() if ledger == "platform" else RegionBench()
    pause = OpenOverride(OverrideAction.PAUSE_REPAIR, "eu", "", "why", bench.at + HOUR)
    if command is OpenOverride:
        return Story(bench, 0, None, pause)
    if command is EndOverride:
        return Story(bench, 0, None, EndOverride(bench.accept(ROOT, pause).revision, "over"))
    if command is RaiseLevel:
        return Story(bench, 0, None, RaiseLevel(9))
    if command is RevokeServer:
        principal = f"{bench.state.info.ledger}/s1"
        token = ServerToken("server-1", principal, "0f" * 32, bench.at + HOUR)
        bench.accept("controller/servers", AdmitServer(token))
        return Story(bench, 0, None, RevokeServer(principal))
    node = bench.a_node()
    bench.a_grant()
    need = Resources(100, 100, 0, 0)
    return Story(
        bench, 0, None, c.Hold(ReservationPurpose.DATED, node, "quota/acme", bench.at + HOUR, need, tenant="acme")
    )


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("key", WITHIN, ids=lambda key: f"{key[0]} {key[1].__name__}")
def test_a_person_acts_within_the_scope_of_a_right_and_not_beyond(key: tuple[str, type], scope: str) -> None:
    told = story(*key)
    bench = told.bench
    person = a_principal("person/narrow", *Permission, **SCOPES[scope])
    if isinstance(bench, PlatformBench):
        bench.put(person)
    else:
        bench.ship(c.ShippedPrincipal(person))
    answer = bench.send("person/narrow", told.command)
    if scope not in WITHIN[key]:
        assert isinstance(answer, Refused), answer
        assert answer.code is Code.WRONG_SCOPE, answer
    elif key[1] is not RaiseLevel:  # which this version cannot do for anybody
        assert isinstance(answer, Committed), answer


def test_the_walk_leaves_no_command_of_people_out() -> None:
    for ledger, rules in (("platform", PLATFORM_RULES), ("region", REGION_RULES)):
        of_people = {command for command, rule in rules.items() if {"person", "tenant"} & set(rule.owners)}
        assert of_people == {command for where, command in WITHIN if where == ledger}


def test_the_scope_of_a_region_is_the_region_whose_ledger_it_is() -> None:
    bench = RegionBench(name="us")
    bench.ship(c.ShippedPrincipal(a_principal("person/narrow", *Permission, region="eu")))
    node = bench.a_node()
    assert bench.refuse("person/narrow", c.AdministerNode(node, labels=(("a", "b"),))).code is Code.WRONG_SCOPE
