"""`docs/reference/access.md` is what servers answer: every kind, verb, route and command, by every principal."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.api.kinds import KINDS
from holdfast.api.server import visibility
from holdfast.api.server.authentication import Caller
from holdfast.api.server.objects import reads, watch
from holdfast.core.model.objects.principals import Permission
from holdfast.core.platform.commands import OfferGrant
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.commands import AdministerNode
from holdfast.core.region.definition import REGION
from holdfast.host.protocol import request_signatures
from tests.support.api.api_cluster import OPERATOR
from tests.support.generated import access_tables
from tests.support.generated.access_tables import COLUMNS, NO, PAGE, YES, Table, Tables, asked, page

PEOPLE = ("tenant", "other tenant", "reader", "operator")
#: Where each ledger is asked.
PLATFORMS = ("platform", "a follower of the platform")
REGIONS = ("region", "through", "a follower of the region")
#: Kinds of which each object is one tenant's.
OF_TENANTS = ("tenants", "quotas", "workloads", "assignments", "grants", "replicas", "endpoints", "requests",
              "reservations")  # fmt: skip


@pytest.fixture(scope="module")
def answered() -> Tables:
    return access_tables.tables()


@pytest.fixture(scope="module")
def of_kinds(answered: Tables) -> Table:
    return answered.kinds


def test_the_page_is_what_servers_answer(answered: Tables) -> None:
    assert PAGE.read_text(encoding="utf-8") == page(answered), "is that meant? then `make reference`"


def test_another_tenant_is_answered_nothing_of_what_is_a_tenants(of_kinds: Table) -> None:
    cells = {key: cell for key, cell in of_kinds.items() if key[1].split()[1] in OF_TENANTS}
    assert {cell for (_, _, who), cell in cells.items() if who in ("other tenant", "reader", "nobody")} == {NO}
    shown = {what for (_, what, who), cell in cells.items() if who == "tenant" and cell == YES}
    assert shown >= {f"{verb} {kind}" for kind in OF_TENANTS for verb in ("list", "get", "watch")}


def test_nobody_and_agents_and_regions_and_servers_read_and_write_no_kind(of_kinds: Table) -> None:
    assert {cell for (_, _, who), cell in of_kinds.items() if who in ("nobody", "agent", "region", "server")} == {NO}


def test_every_kind_is_asked_for_on_every_ledger_that_has_it(of_kinds: Table) -> None:
    for place, _, _, ledger in access_tables.PLACES:
        kinds = {what.split()[1] for where, what, _ in of_kinds if where == place}
        assert kinds == {kind.plural for kind in KINDS.values() if ledger in kind.ledger}
        assert {cell for (where, what, who), cell in of_kinds.items() if where == place and who == "operator"} == {YES}


def test_people_are_answered_through_the_platform_what_the_region_answers_and_machines_nothing(
    answered: Tables,
) -> None:
    for table in (answered.kinds, answered.routes, answered.commands):
        for (place, what, who), cell in table.items():
            if place == "through":
                assert cell == (table["region", what, who] if who in PEOPLE else NO), (what, who)
    assert access_tables.unlike(answered.rights, "through", "region") == set()


def test_everybody_is_answered_by_a_follower_what_its_leader_answers(answered: Tables) -> None:
    for table in answered:
        for place, leader in access_tables.FOLLOWED.items():
            assert access_tables.unlike(table, place, leader) == set()
            asked_there, asked_of_leader = (
                {what for where, what, _ in table if where == one} for one in (place, leader)
            )
            assert asked_there == asked_of_leader


def test_a_servers_own_token_opens_no_more_than_none_does(answered: Tables) -> None:
    for table in (answered.kinds, answered.routes, answered.commands):
        for (place, what, who), cell in table.items():
            assert who != "server" or cell == table[place, what, "nobody"], (place, what)


def differing(before: Table, after: Table, *places: str) -> set[tuple[str, str]]:
    """What is answered otherwise to whom; in these places, in each of which the same differs."""
    found = [
        {
            (what, who)
            for (where, what, who) in before
            if where == place and before[where, what, who] != after[where, what, who]
        }
        for place in places
    ]
    assert all(one == found[0] for one in found), found
    rest = [key for key in before if key[0] not in places and before[key] != after[key]]
    assert rest == []
    return found[0]


def test_a_right_to_read_that_is_loosened_is_found(of_kinds: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    real = visibility.refuse_reading

    def loose(caller: Any, ledger: str, plural: str) -> Any:
        return None if caller.kind == "agent" and plural == "nodes" else real(caller, ledger, plural)

    monkeypatch.setattr(reads, "refuse_reading", loose)
    for module in (reads, watch):
        monkeypatch.setattr(module, "refuse_tenant", lambda *_: None)
    monkeypatch.setattr(Caller, "has", lambda *_: True)
    after = asked(access_tables.kinds)
    for place in PLATFORMS:
        assert (of_kinds[place, "get workloads", "other tenant"], after[place, "get workloads", "other tenant"]) == (
            NO,
            YES,
        )
    for place in REGIONS:
        assert (of_kinds[place, "list breaches", "tenant"], after[place, "list breaches", "tenant"]) == (NO, YES)


def test_an_owner_that_is_added_to_a_command_is_found(answered: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    loose = replace(PLATFORM.rules[OfferGrant], owners=(*PLATFORM.rules[OfferGrant].owners, "person"))
    monkeypatch.setitem(PLATFORM.rules, OfferGrant, loose)
    assert differing(answered.commands, asked(access_tables.commands), *PLATFORMS) == {("offer-grant", "operator")}


def test_a_right_of_a_command_that_is_lowered_is_found(answered: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = next(one for one in PLATFORM.rules.values() if one.right.value == "break-glass")
    monkeypatch.setitem(PLATFORM.rules, rule.command, replace(rule, right=Permission.READ))
    found = differing(answered.rights, asked(access_tables.rights), *PLATFORMS)
    assert {who for _, who in found} == {"read", "break-glass"}


def test_a_right_of_a_regions_command_that_is_lowered_is_found_through_the_platform_and_a_follower_too(
    answered: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = REGION.rules[AdministerNode]
    monkeypatch.setitem(REGION.rules, AdministerNode, replace(rule, right=Permission.READ))
    found = differing(answered.rights, asked(access_tables.rights), *REGIONS)
    assert found == {("administer-node", "read"), ("administer-node", rule.right.value)}


def test_a_server_that_forgets_whom_it_acts_for_is_found(answered: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    onward = request_signatures.signed_request

    def forgetful(request: Any, to: Any, actor: str, *rest: Any) -> Any:
        return onward(request, to, OPERATOR, *rest)

    monkeypatch.setattr(request_signatures, "signed_request", forgetful)
    after = asked(access_tables.kinds)
    for place, what, who in (
        ("through", "get replicas", "other tenant"),
        ("a follower of the platform", "put quotas", "tenant"),
        ("a follower of the region", "put nodes", "reader"),
    ):
        assert (answered.kinds[place, what, who], after[place, what, who]) == (NO, YES)


def test_the_columns_are_every_sort_of_principal() -> None:
    assert COLUMNS == (
        "tenant",
        "other tenant",
        "reader",
        "operator",
        "agent",
        "scheduler",
        "region",
        "server",
        "nobody",
    )
