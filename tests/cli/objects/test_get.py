"""`holdfast get`, as a user sees it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml  # type: ignore[import-untyped]

from holdfast.cli.errors import CliError
from holdfast.cli.output.field_path import path_steps, sort_key, value_at
from holdfast.cli.output.printer import instant_in
from holdfast.host.ports.transport import first_value
from tests.support.api.command_line import CommandLine, problem, same_as_golden


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("get_table", ["workloads"]),
        ("get_wide", ["workloads", "-o", "wide"]),
        ("get_json", ["workloads", "-o", "json"]),
        ("get_yaml", ["workload", "shop/web", "-o", "yaml"]),
        ("get_name", ["wl", "-o", "name"]),
        ("get_of_one_tenant", ["workloads", "--tenant", "shop"]),
        ("get_by_name", ["wl", "web", "mail", "--tenant", "shop"]),
        ("get_sorted", ["workloads", "--sort-by", "spec.replicas"]),
        ("get_not_found", ["workload", "shop/wbe"]),
        ("get_unknown_kind", ["wrkloads"]),
        ("get_nothing", ["quotas"]),
    ],
)
def test_what_get_prints(name: str, words: list[str], shop: CommandLine) -> None:
    same_as_golden(name, shop("get", *words))


def test_how_old_a_workload_is_counts_from_when_it_was_created(shop: CommandLine) -> None:
    shop.platform.objects["workloads", "shop/web"]["metadata"]["created"] = instant_in(-3 * 3_600_000)
    headings, row = shop("get", "workload", "shop/web").stdout.splitlines()
    assert dict(zip(headings.split(), row.split(), strict=False))["AGE"] == "3h"
    assert "\nCreated" in shop("describe", "workload", "shop/web").stdout


def test_one_object_as_json_is_that_object_and_several_are_a_list(shop: CommandLine) -> None:
    one = msgspec.json.decode(shop("get", "workload", "shop/web", "-o", "json").stdout)
    several = msgspec.json.decode(shop("get", "workload/shop/web", "workload/shop/mail", "-o", "json").stdout)
    assert (one["kind"], one["metadata"]["name"]) == ("Workload", "web")
    assert (several["kind"], [item["metadata"]["name"] for item in several["items"]]) == ("List", ["web", "mail"])


def test_json_and_yaml_say_the_same(shop: CommandLine) -> None:
    as_json = msgspec.json.decode(shop("get", "workloads", "-o", "json").stdout)
    assert yaml.safe_load(shop("get", "workloads", "-o", "yaml").stdout) == as_json


def test_an_empty_list_is_an_empty_list_to_programs(holdfast: CommandLine) -> None:
    found = holdfast("get", "workloads", "-o", "json")
    assert msgspec.json.decode(found.stdout)["items"] == []
    assert found.exit_code == 0


def test_of_several_names_those_that_exist_are_shown_and_the_end_is_1(shop: CommandLine) -> None:
    done = shop("get", "workloads", "shop/web", "shop/none", "-o", "name")
    assert (done.stdout, done.exit_code) == ("workload/shop/web\n", 1)
    assert "workload/shop/none" in done.stderr


def test_all_tenants_are_shown_whatever_the_context_says(shop: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TENANT", "bank")
    assert shop("get", "wl", "-o", "name").stdout == "workload/bank/ledger\n"
    assert len(shop("get", "wl", "-A", "-o", "name").stdout.splitlines()) == 3


def test_selector_and_read_level_go_to_the_server(shop: CommandLine) -> None:
    shop("get", "workloads", "-l", "app=web,!old", "--read", "linear")
    asked = shop.platform.asked[-1]
    assert first_value(asked.query, "selector") == "app=web,!old"
    assert first_value(asked.headers, "holdfast-read") == "linear"


def test_a_name_without_a_tenant_is_asked_back(shop: CommandLine) -> None:
    done = shop("get", "workload", "web")
    assert done.exit_code == 2
    assert "workload/web: no tenant given" in done.stderr
    assert "hint: `--tenant NAME`" in done.stderr


def test_what_regions_keep_is_asked_of_the_region(holdfast: CommandLine) -> None:
    holdfast.platform.hold("Node", "n1", {"cordoned": True}, status={"health": "ready", "pool": "p", "zone": "a"})
    assert holdfast("get", "nodes", "--region", "eu", "-o", "name").stdout == "node/n1\n"
    assert holdfast.platform.asked[-1].path == "/v1/in/eu/nodes"


def test_what_cannot_be_a_name_is_not_sent(holdfast: CommandLine) -> None:
    for words in (["nodes", "--region", "a/b"], ["tenant", ".."], ["tenant", "a//b"], ["workload", "a/b/c", "x"]):
        done = holdfast("get", *words)
        assert (done.exit_code, holdfast.platform.asked) == (2, []), words
        assert "mistake in holdfast" not in done.stderr


def test_what_the_platform_keeps_is_not_asked_of_a_region(shop: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    done = shop("get", "workloads", "--region", "eu")
    assert done.exit_code == 2
    assert "holdfast get assignments --region eu" in done.stderr
    # The region that a context has by default is no mistake.
    monkeypatch.setenv("HOLDFAST_REGION", "eu")
    assert shop("get", "workloads").exit_code == 0
    assert shop.platform.asked[-1].path == "/v1/workloads"


@pytest.mark.parametrize("words", [["--region", "eu", "get", "nodes"], ["get", "nodes", "-r", "eu"]])
def test_common_options_are_taken_before_and_after_the_command(words: list[str], holdfast: CommandLine) -> None:
    holdfast(*words)
    assert holdfast.platform.asked[-1].path == "/v1/in/eu/nodes"


# Watching


def event(kind: str, document: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": document, "token": "log:1:50:ab"}


@pytest.mark.parametrize("output", ["table", "name", "json"])
def test_a_watch_prints_what_is_there_and_then_every_change(output: str, shop: CommandLine) -> None:
    web = shop.platform.objects["workloads", "shop/web"]
    more = {**web, "spec": {**web["spec"], "replicas": 4}}
    shop.platform.events = [event("MODIFIED", more), event("BOOKMARK", {}), event("DELETED", more)]
    done = shop("get", "workloads", "--tenant", "shop", "-w", "-o", output)
    same_as_golden(f"watch_{output}", done)


def test_a_watch_of_one_object_is_silent_about_others(shop: CommandLine) -> None:
    web, mail = (shop.platform.objects["workloads", f"shop/{name}"] for name in ("web", "mail"))
    shop.platform.events = [event("MODIFIED", mail), event("MODIFIED", web)]
    done = shop("get", "workload", "shop/web", "-w", "-o", "name")
    assert done.stdout.splitlines() == ["added workload/shop/web", "modified workload/shop/web"]


def test_a_watch_that_is_interrupted_ends_quietly_with_130(shop: CommandLine) -> None:
    shop.platform.events = [event("BOOKMARK", {})]
    done = shop("get", "workloads", "-w")
    assert (done.exit_code, done.stderr) == (130, "")


# Paths


def test_paths_are_read_as_people_write_them() -> None:
    document = {"spec": {"taints": [{"key": "gpu", "value": "a"}]}, "metadata": {"labels": {"a/b": "c"}}}
    document |= {"status": {"conditions": [{"type": "Ready", "status": "true"}]}}
    for path, value in (
        ("spec.taints[0].key", "gpu"),
        ("{.spec.taints[gpu].value}", "a"),
        ("metadata.labels['a/b']", "c"),
        ("status.conditions[Ready].status", "true"),
        ("spec.none.deeper", None),
    ):
        assert value_at(document, path) == value
    with pytest.raises(CliError, match="is not a path"):
        path_steps("spec..[")


def test_amounts_sort_by_size_and_what_is_missing_comes_last() -> None:
    found = ["2Gi", None, "512Mi", "500m", 3, "abc"]
    assert sorted(found, key=sort_key) == ["500m", 3, "512Mi", "2Gi", "abc", None]


def test_a_server_that_refuses_says_why(shop: CommandLine) -> None:
    shop.platform.answers["GET", "/v1/workloads"] = problem(401, "unauthenticated", "the token is not known")
    same_as_golden("get_unauthenticated", shop("get", "workloads"))


def test_schedulers_of_a_region_are_listed_and_described(holdfast: CommandLine) -> None:
    status = {
        "heardAt": instant_in(-1_000), "lastCycle": instant_in(-5_000), "viewAge": "40ms", "placed": 600,
        "placedTotal": 900, "placedPerSecond": "10.00", "conflictsPerPlacement": "0.03",
        "conflictReasons": ["capacity=0.01", "stale=0.02"],
    }  # fmt: skip
    one = {
        "kind": "Scheduler", "metadata": {"name": "scheduler/main"}, "spec": {"where": "host-7"}, "status": status,
    }  # fmt: skip
    listed = {"kind": "List", "items": [one], "metadata": {"token": "log-eu:1:41:00"}}
    holdfast.platform.answers["GET", "/v1/in/eu/schedulers"] = listed
    holdfast.platform.answers["GET", "/v1/in/eu/schedulers/scheduler/main"] = one
    headings, row = holdfast("get", "schedulers", "--region", "eu").stdout.splitlines()
    assert headings.split("  ")[0] == "NAME"
    assert row.split() == ["scheduler/main", "host-7", "10.00", "0.03", "capacity=0.01,stale=0.02", "40ms", "5s"]
    told = holdfast("describe", "scheduler", "scheduler/main", "--region", "eu").stdout
    assert "Scheduler" in told
    assert "conflictReasons" in told


@pytest.mark.parametrize("option", [("--watch",), ("--selector", "a=b")])
def test_schedulers_are_neither_watched_nor_selected(holdfast: CommandLine, option: tuple[str, ...]) -> None:
    done = holdfast("get", "schedulers", "--region", "eu", *option)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "schedulers have neither labels nor a watch" in done.stderr
    assert holdfast.platform.asked == []
