"""`holdfast endpoints`: where a workload is reached, in every region or in one."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from holdfast.cli.output import printer
from tests.support.api.command_line import CommandLine, same_as_golden

Document = dict[str, Any]


@pytest.fixture(autouse=True)
def at_five(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is five o'clock."""
    monkeypatch.setattr(time, "time", lambda: 1_794_762_000.0)


def an_endpoint(ordinal: int = 0, phase: str = "serving", region: str = "eu", **status: Any) -> Document:
    name = f"web/{region}/{ordinal}"
    return {
        "apiVersion": "holdfast/v1",
        "kind": "Endpoint",
        "metadata": {"name": name, "tenant": "shop"},
        "spec": {"workload": "web", "workloadUid": "12.0", "region": region, "ordinal": ordinal},
        "status": {
            "phase": phase,
            "since": printer.instant_in(-720_000),
            "addresses": [f"10.0.0.{ordinal + 1}:30000"],
            "node": f"n{ordinal + 1}",
            "zone": "a",
            **status,
        },
    }


def answer(holdfast: CommandLine, region: str, *items: Document) -> None:
    listed = {"kind": "List", "items": list(items), "metadata": {"token": "log-eu:1:41:00"}}
    holdfast.platform.answers["GET", f"/v1/in/{region}/endpoints"] = listed


def joined(holdfast: CommandLine, *regions: str) -> None:
    rows = [{"name": name, "joined": True, "health": "healthy"} for name in regions]
    holdfast.platform.answers["GET", "/v1/status"] = {"ledger": "platform", "regions": rows}


def test_it_is_told_where_each_is_reached_and_which_serve(holdfast: CommandLine) -> None:
    both = ["10.0.0.2:30000", "10.0.0.2:30001"]
    answer(holdfast, "eu", an_endpoint(0), an_endpoint(1, "ready", addresses=both))
    same_as_golden("endpoints", holdfast("endpoints", "shop/web", "--region", "eu"))


def test_without_a_region_all_that_joined_are_asked(holdfast: CommandLine) -> None:
    joined(holdfast, "eu", "us")
    answer(holdfast, "eu", an_endpoint(0))
    answer(holdfast, "us", an_endpoint(0, region="us"))
    found = msgspec.json.decode(holdfast("endpoints", "web", "--tenant", "shop", "-o", "json").stdout)
    assert [one["metadata"]["name"] for one in found["items"]] == ["web/eu/0", "web/us/0"]


def test_it_asks_for_the_workload_of_that_tenant_alone(holdfast: CommandLine) -> None:
    answer(holdfast, "eu")
    found = holdfast("endpoints", "shop/web", "--region", "eu")
    assert (found.stdout, found.exit_code) == ("", 0)
    assert "shop/web has no endpoints" in found.stderr
    asked = [dict(one.query) for one in holdfast.platform.asked if one.path.endswith("/endpoints")]
    assert [(one["tenant"], one["selector"]) for one in asked] == [("shop", "workload=web")]


def test_a_watch_is_of_one_region(holdfast: CommandLine) -> None:
    joined(holdfast, "eu", "us")
    found = holdfast("endpoints", "shop/web", "--watch")
    assert found.exit_code == 2
    assert "--watch needs one region" in found.stderr
