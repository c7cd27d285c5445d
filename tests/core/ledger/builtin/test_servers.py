"""Tokens of servers in a ledger: admitted within bounds, revoked, remembered, forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.servers import AdmitServer, ForgetServer, RevokeServer
from holdfast.core.model.records.servers import (
    SERVER_TOKEN_LIFE,
    ServerToken,
    is_server_name,
    ledger_of,
    server_principal,
)
from holdfast.core.model.values.limits import SERVER_TOKENS_MAX
from holdfast.core.region import commands as c
from tests.support.ledgers.platform import ROOT, PlatformBench, a_principal
from tests.support.ledgers.region import RegionBench

SERVERS = "controller/servers"


def refusal(bench: Any, actor: str, command: Any) -> Code | None:
    """The code with which it is refused; None: it is not."""
    answer = bench.send(actor, command)
    return answer.code if isinstance(answer, Refused) else None


def a_token(bench: Any, **fields: Any) -> ServerToken:
    token = ServerToken("server-1", f"{bench.state.info.ledger}/s1", "0f" * 32, bench.at + SERVER_TOKEN_LIFE)
    return replace(token, **fields)


@pytest.mark.parametrize("make", [PlatformBench, RegionBench])
@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({}, None),
        ({"name": "Server"}, Code.MALFORMED),
        ({"name": "with_line"}, Code.MALFORMED),
        ({"hash": "0f"}, Code.MALFORMED),
        ({"principal": "platform"}, Code.MALFORMED),
        ({"principal": "region/eu"}, Code.MALFORMED),
        ({"principal": "person/root"}, Code.MALFORMED),
        ({"principal": "region/us/s1"}, Code.WRONG_SCOPE),
        ({"expires": 0}, Code.EXPIRED),
        ({"expires": 2**60}, Code.EXPIRED),
    ],
)
def test_a_sound_token_of_this_ledgers_server_is_admitted_and_no_other(
    make: Any, fields: dict[str, Any], code: Code | None
) -> None:
    bench = make()
    token = a_token(bench, **fields)
    if code is None:
        bench.accept(SERVERS, AdmitServer(token))
        assert bench.state.servers["server-1"] == token
        assert refusal(bench, SERVERS, AdmitServer(token)) is Code.ALREADY
    else:
        assert refusal(bench, SERVERS, AdmitServer(token)) is code


def test_of_one_name_the_token_that_ends_first_makes_room_for_later_ones_only() -> None:
    bench = RegionBench()
    for number in range(SERVER_TOKENS_MAX):
        bench.accept(SERVERS, AdmitServer(a_token(bench, name=f"t{number}", expires=bench.at + 100 + number)))
    assert refusal(bench, SERVERS, AdmitServer(a_token(bench, name="early", expires=bench.at + 100))) is Code.TOO_LARGE
    bench.accept(SERVERS, AdmitServer(a_token(bench, name="late", expires=bench.at + 500)))
    assert sorted(bench.state.servers.keys()) == ["late", "t1", "t2", "t3"]
    bench.accept(SERVERS, AdmitServer(a_token(bench, name="other", principal="region/eu/s2", expires=bench.at + 1)))


def test_a_revoked_token_stays_known_until_nobody_could_announce_it_again() -> None:
    bench = RegionBench()
    token = a_token(bench)
    bench.accept(SERVERS, AdmitServer(token))
    assert refusal(bench, ROOT, RevokeServer("region/eu/s2")) is Code.NOT_FOUND
    bench.accept(ROOT, RevokeServer("region/eu/s1"))
    assert bench.state.servers["server-1"].expires <= bench.at
    assert refusal(bench, ROOT, RevokeServer("region/eu/s1")) is Code.ALREADY
    assert refusal(bench, SERVERS, AdmitServer(token)) is Code.ALREADY
    bench.at += SERVER_TOKEN_LIFE - 1
    assert refusal(bench, SERVERS, ForgetServer("server-1")) is Code.TOO_EARLY
    bench.at += 1
    bench.accept(SERVERS, ForgetServer("server-1"))
    assert refusal(bench, SERVERS, AdmitServer(token)) is Code.EXPIRED


def test_only_people_who_operate_without_a_scope_revoke_and_only_the_leader_admits() -> None:
    bench = RegionBench()
    bench.ship(c.ShippedPrincipal(a_principal("person/reader")))
    assert refusal(bench, "person/reader", RevokeServer("region/eu/s1")) is Code.NO_RIGHT
    for actor in ("controller/link", "ledger", ROOT):
        assert refusal(bench, actor, AdmitServer(a_token(bench))) is Code.NO_RIGHT


def test_a_log_of_the_first_level_has_no_place_for_servers_until_it_is_raised() -> None:
    bench = RegionBench(level=1)
    shipped = replace(a_token(bench), name="of-p1", principal="platform/p1")
    bench.ship(c.ShippedServer(shipped))
    assert len(bench.state.platform_servers) == 0
    assert refusal(bench, SERVERS, AdmitServer(a_token(bench))) is Code.LEVEL


def test_a_region_takes_servers_of_the_platform_only() -> None:
    bench = RegionBench()
    before = bench.state.region.cursor
    for principal in ("region/eu/s1", "platform", "person/root", "platform/a/b"):
        put = c.ShippedServer(a_token(bench, principal=principal))
        ship = c.Ship(bench.state.region.platform_log, 1, before, before + 1, (put,))
        assert refusal(bench, "controller/link", ship) is Code.WRONG_SCOPE, principal
    assert len(bench.state.platform_servers) == 0


@pytest.mark.parametrize(
    ("name", "ledger"),
    [
        ("platform/s1", "platform"), ("region/eu/s1", "region/eu"), ("platform", ""), ("region/eu", ""),
        ("platform/a/b", ""), ("region/eu/a/b", ""), ("region//s1", ""), ("region/eu/", ""), ("platform/*", ""),
        ("region/eu/*", ""), ("person/platform/s1", ""), ("platform/s1\n", ""), ("Platform/s1", ""),
    ],
)  # fmt: skip
def test_a_servers_name_reads_back_in_one_way_and_no_region_is_taken_for_a_server(name: str, ledger: str) -> None:
    assert ledger_of(name) == ledger
    assert not ledger or is_server_name(name)
    assert not is_server_name("region/eu")


@pytest.mark.parametrize(
    ("server", "short"),
    [
        ("127.0.0.1:7400", "127-0-0-1-7400"), ("https://[::1]:7400", "1-7400"), ("http://A_b.org:1", "a-b-org-1"),
        ("///", "server"), ("x" * 500, "x" * 120), ("sérvèr:1", "s-rv-r-1"),
    ],
)  # fmt: skip
def test_whatever_a_server_is_called_makes_a_name(server: str, short: str) -> None:
    assert server_principal("platform", server) == f"platform/{short}"
    assert server_principal("region/EU", server) == ""
