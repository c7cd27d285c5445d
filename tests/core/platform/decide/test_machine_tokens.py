"""A machine's token is for one machine in one region, and for so long: what is wider is said, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code
from holdfast.core.model.objects.principals import Token
from holdfast.core.platform import commands as c
from holdfast.core.platform.limits import TOKEN_LIFE_MAX
from tests.support.ledgers.platform import ROOT, T0, PlatformBench, a_principal, a_token, a_world


def a_machines_token(principal: str, **changes: Any) -> Token:
    token = a_token("m", principal)
    return replace(token, spec=replace(token.spec, **changes))


def a_place() -> PlatformBench:
    """A platform with an agent and a scheduler in eu, and the wildcards of both kinds."""
    bench = a_world()
    for kind in ("agent", "scheduler"):
        bench.put(a_principal(f"{kind}/*"))
        bench.put(a_principal(f"{kind}/own", region="eu"))
    return bench


@pytest.mark.parametrize("kind", ["agent", "scheduler"])
def test_a_token_of_more_than_one_machine_says_so(kind: str) -> None:
    bench = a_place()
    bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_machines_token(f"{kind}/*")))
    bench.put(a_machines_token(f"{kind}/*", any=True))


@pytest.mark.parametrize("kind", ["agent", "scheduler"])
def test_a_token_of_one_machine_in_every_region_says_so(kind: str) -> None:
    """Without a principal of its own it is whatever the wildcard is: known everywhere."""
    bench = a_place()
    bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_machines_token(f"{kind}/stray")))
    bench.put(a_machines_token(f"{kind}/stray", any=True))


@pytest.mark.parametrize("kind", ["agent", "scheduler"])
def test_a_token_of_one_machine_in_one_region_needs_no_word_and_takes_none(kind: str) -> None:
    bench = a_place()
    bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_machines_token(f"{kind}/own", any=True)))
    bench.put(a_machines_token(f"{kind}/own"))


@pytest.mark.parametrize("principal", ["region/*", "tenant/*", "person/*"])
def test_no_token_is_for_every_region_tenant_or_person(principal: str) -> None:
    bench = a_place()
    bench.put(a_principal("person/*"))
    for said in (False, True):
        bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_machines_token(principal, any=said)))
    bench.refuse(Code.CONTRADICTORY, ROOT, c.Put(a_machines_token("region/eu", any=True)))
    bench.put(a_machines_token("region/eu"))


def test_a_token_that_is_for_many_can_be_revoked_whatever_its_principal_is_by_now() -> None:
    bench = a_place()
    bench.put(a_machines_token("agent/stray", any=True))
    bench.put(a_principal("agent/stray", region="eu"))
    bench.put(a_machines_token("agent/stray", any=True, revoked=True))


@pytest.mark.parametrize("name", ["agent/n1", "scheduler/main"])
def test_an_agent_and_a_scheduler_are_of_one_region(name: str) -> None:
    bench = a_world()
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_principal(name)))
    bench.put(a_principal(name, region="eu"))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_principal(name)))
    bench.put(a_principal(name, region="us"))


def test_an_agent_of_no_region_from_before_that_rule_can_be_disabled() -> None:
    bench = a_world()
    old = a_principal("agent/n1")
    bench.state.principals.put("agent/n1", old)
    bench.put(replace(old, spec=replace(old.spec, disabled=True)))
    assert bench.state.principals["agent/n1"].spec.disabled


def test_a_token_has_a_longest_life() -> None:
    bench = a_world()
    refused = bench.refuse(Code.MALFORMED, ROOT, c.Put(a_token("t", ROOT, expires=bench.at + TOKEN_LIFE_MAX + 1)))
    assert refused.facts["latest"] == bench.at + TOKEN_LIFE_MAX
    assert "100 days" in refused.message
    bench.put(a_token("t", ROOT, expires=bench.at + TOKEN_LIFE_MAX))


def test_a_token_that_lasts_longer_from_before_that_rule_can_end_sooner_and_be_revoked() -> None:
    bench = a_world()
    far = T0 + 10 * TOKEN_LIFE_MAX
    bench.put(a_token("t", ROOT))
    stored = bench.state.tokens["t"]
    bench.state.tokens.put("t", replace(stored, spec=replace(stored.spec, expires=far)))
    bench.refuse(Code.MALFORMED, ROOT, c.Put(a_token("t", ROOT, expires=far + 1)))
    bench.put(a_token("t", ROOT, expires=far - 1))
    bench.put(a_token("t", ROOT, expires=far - 1, revoked=True))


def test_a_token_of_a_name_that_only_servers_have_now_can_be_revoked_and_forgotten() -> None:
    """`region/eu/b` could be anybody's name before servers of region eu were called so."""
    bench = a_world()
    bench.refuse(Code.NOT_FOUND, ROOT, c.Put(a_machines_token("region/eu/b")))
    bench.put(a_machines_token("region/eu"))
    stored = bench.state.tokens["m"]
    bench.state.tokens.put("m", replace(stored, spec=replace(stored.spec, principal="region/eu/b")))
    bench.put(a_machines_token("region/eu/b", revoked=True))
    bench.accept(ROOT, c.Delete("Token", "m"))
