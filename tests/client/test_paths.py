"""Paths of kinds and objects."""

import pytest

from holdfast.api.kinds import KINDS, ResourceKind
from holdfast.client.config import ClientConfig, key_created_at, new_key, random_fraction
from holdfast.client.paths import collection, plural, single, through
from tests.support.api.scripted_servers import Script


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_has_the_path_that_its_server_answers(kind: ResourceKind) -> None:
    assert collection(kind.name) == collection(kind.name.lower()) == collection(kind.plural) == f"/v1/{kind.plural}"
    assert single(kind.name, "web/eu/3", "shop") == f"/v1/{kind.plural}/{'shop/' if kind.tenanted else ''}web/eu/3"
    if kind.tenanted:
        with pytest.raises(ValueError, match="belong to a tenant"):
            single(kind.name, "web/eu/3")


@pytest.mark.parametrize(("kind", "word"), {"policy": "policies", "request": "requests", "Gadget": "gadgets"}.items())
def test_what_people_call_a_kind_and_what_only_a_newer_server_knows_have_a_path(kind: str, word: str) -> None:
    assert plural(kind) == plural(word) == word


@pytest.mark.parametrize("kind", ["", "a/b", "..", "a b"])
def test_what_is_no_kind_has_no_path(kind: str) -> None:
    with pytest.raises(ValueError, match="not a kind"):
        collection(kind)


def test_tenanted_objects_stand_under_their_tenant_and_names_may_hold_slashes() -> None:
    assert single("Workload", "web", "shop") == "/v1/workloads/shop/web"
    assert single("Replica", "web/eu/3", "shop") == "/v1/replicas/shop/web/eu/3"
    assert single("Node", "n1", "shop") == "/v1/nodes/n1"
    assert single("Principal", "person/root") == "/v1/principals/person/root"


@pytest.mark.parametrize("name", ["", ".", "..", "a//b", "../tenants/x", "a/"])
def test_a_name_that_would_lead_elsewhere_has_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid name"):
        single("Node", name)


def test_a_region_is_reached_through_the_platform() -> None:
    assert through("eu", "/v1/nodes/n1") == "/v1/in/eu/nodes/n1"
    assert through("", "/v1/nodes/n1") == "/v1/nodes/n1"
    for name in ("", "a/b", ".."):
        with pytest.raises(ValueError, match="not the name of a region"):
            Script().caller().through(name)


def test_a_client_needs_a_server() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        ClientConfig(servers=())


def test_a_token_is_not_for_servers_that_are_elsewhere_and_plain() -> None:
    there = ("https://a", "http://b.example:7400")
    with pytest.raises(ValueError, match="in the clear to http://b"):
        ClientConfig(servers=there, token="hf_a_b")
    assert ClientConfig(servers=there).token == ""
    assert ClientConfig(servers=there, token="hf_a_b", insecure=True).insecure
    assert ClientConfig(servers=("https://a", "http://localhost:7400", "http://[::1]:1"), token="hf_a_b").token


def test_keys_are_long_and_never_the_same_and_chance_is_a_part_of_one() -> None:
    keys = {new_key(1_700_000_000_000) for _ in range(1_000)}
    assert len(keys) == 1_000
    assert {len(key) for key in keys} == {38}
    assert {key_created_at(key) for key in keys} == {1_700_000_000_000}
    assert key_created_at("a-key-of-somebody-else") == 0
    assert all(0 <= random_fraction() < 1 for _ in range(1_000))
