"""Paths of kinds and objects."""

import pytest

from holdfast.api.client.access import Access, made_at, new_key, random_part
from holdfast.api.client.paths import collection, plural, single, through
from tests.support.scripted import Script

KINDS = {
    "Tenant": "tenants", "Quota": "quotas", "PriorityClass": "priorityclasses", "Principal": "principals",
    "Token": "tokens", "Region": "regions", "NodePool": "nodepools", "RecoveryBudget": "recoverybudgets",
    "Workload": "workloads", "Assignment": "assignments", "Grant": "grants", "SchedulerPolicy": "policies",
    "Override": "overrides", "Breach": "breaches", "Session": "sessions", "Node": "nodes", "Replica": "replicas",
    "SchedulingRequest": "requests", "Reservation": "reservations", "policy": "policies", "request": "requests",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "word"), KINDS.items())
def test_a_kind_has_one_word_in_paths_whichever_way_it_is_written(kind: str, word: str) -> None:
    assert plural(kind) == plural(kind.lower()) == plural(word) == word


@pytest.mark.parametrize("kind", ["", "a/b", "..", "a b"])
def test_what_is_no_kind_has_no_path(kind: str) -> None:
    with pytest.raises(ValueError, match="not a kind"):
        collection(kind)


def test_tenanted_objects_stand_under_their_tenant_and_names_may_hold_slashes() -> None:
    assert single("Workload", "web", "shop") == "/v1/workloads/shop/web"
    assert single("Replica", "web/eu/3", "shop") == "/v1/replicas/shop/web/eu/3"
    assert single("Node", "n1", "shop") == "/v1/nodes/n1"


@pytest.mark.parametrize("name", ["", ".", "..", "a//b", "../tenants/x", "a/"])
def test_a_name_that_would_lead_elsewhere_has_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="not the name"):
        single("Node", name)


def test_a_region_is_reached_through_the_platform() -> None:
    assert through("eu", "/v1/nodes/n1") == "/v1/in/eu/nodes/n1"
    assert through("", "/v1/nodes/n1") == "/v1/nodes/n1"
    for name in ("", "a/b", ".."):
        with pytest.raises(ValueError, match="not the name of a region"):
            Script().caller().through(name)


def test_a_client_needs_a_server() -> None:
    with pytest.raises(ValueError, match="at least one server"):
        Access(servers=())


def test_keys_are_long_and_never_the_same_and_chance_is_a_part_of_one() -> None:
    keys = {new_key(1_700_000_000_000) for _ in range(1_000)}
    assert len(keys) == 1_000
    assert {len(key) for key in keys} == {38}
    assert {made_at(key) for key in keys} == {1_700_000_000_000}
    assert made_at("a-key-of-somebody-else") == 0
    assert all(0 <= random_part() < 1 for _ in range(1_000))
