"""`holdfast quota`: how quotas stand."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from holdfast.cli.output import printer
from tests.support.api.command_line import CommandLine, problem, same_as_golden


@pytest.fixture(autouse=True)
def at_five(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is five o'clock."""
    monkeypatch.setattr(time, "time", lambda: 1_794_762_000.0)


def a_report() -> dict[str, Any]:
    eu = {
        "region": "eu", "health": "healthy", "requested": {"cpu": 3, "memory": "6Gi"},
        "target": {"cpu": 5, "memory": "12Gi"}, "settled": {"cpu": 5, "memory": "12Gi"}, "protected": {"cpu": 2},
        "charged": {"cpu": "2500m", "memory": "5Gi"}, "reclaimable": {"cpu": 4},
        "ends": printer.instant_in(20 * 3_600_000), "reportedMsAgo": 900,
    }  # fmt: skip
    us = {
        "region": "us", "health": "lost", "requested": {}, "target": {"cpu": 1}, "settled": {}, "protected": {},
        "charged": {}, "reclaimable": {}, "ends": printer.instant_in(-3_600_000), "reportedMsAgo": None,
    }  # fmt: skip
    shop = {
        "tenant": "shop", "hard": {"cpu": 10, "memory": "32Gi", "licenses": 4}, "protected": {"cpu": 2},
        "effective": {"cpu": 10, "memory": "32Gi", "licenses": 4}, "requested": {"cpu": 3, "memory": "6Gi"},
        "granted": {"cpu": 6, "memory": "12Gi"}, "charged": {"cpu": "2500m", "memory": "5Gi"},
        "reclaimablePercent": 20, "regions": [eu, us],
        "warnings": ["the largest free piece in region eu has 2 cpu; one replica of web requires 4 cpu"],
    }  # fmt: skip
    amounts: dict[str, Any] = {key: {} for key in ("hard", "protected", "effective", "requested", "granted", "charged")}
    bank = {"tenant": "bank", **amounts, "reclaimablePercent": 0, "regions": [], "warnings": []}
    warnings = ["the quotas of all tenants promise 10 cpu; the regions that have reported have 8 cpu"]
    return {"kind": "QuotaReport", "at": printer.instant_in(0), "items": [shop, bank], "warnings": warnings}


def test_quotas_are_told_by_tenant_resource_and_region_and_warnings_apart(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/quota"] = a_report()
    same_as_golden("quota", holdfast("quota"))


def test_one_tenant_is_asked_for_by_name_or_by_the_option(holdfast: CommandLine) -> None:
    report = a_report()
    holdfast.platform.answers["GET", "/v1/quota/bank"] = {**report, "items": report["items"][1:], "warnings": []}
    first, second = holdfast("quota", "bank"), holdfast("quota", "--tenant", "bank")
    assert first.stdout == second.stdout
    assert first.stdout.startswith("bank\n")
    assert first.stderr == ""


def test_a_report_as_json_is_what_the_server_said(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/quota"] = a_report()
    assert msgspec.json.decode(holdfast("quota", "-o", "json").stdout) == a_report()
    assert "tenant: shop" in holdfast("quota", "-o", "yaml").stdout


def test_where_nothing_may_be_seen_that_is_said(holdfast: CommandLine) -> None:
    holdfast.platform.answers["GET", "/v1/quota"] = {**a_report(), "items": [], "warnings": []}
    found = holdfast("quota")
    assert (found.stdout, found.stderr, found.exit_code) == ("", "no quotas found\n", 0)


def test_a_tenant_without_a_quota_is_told_with_what_to_do_next(holdfast: CommandLine) -> None:
    missing = problem(404, "not-found", "there is no Quota nobody", facts={"kind": "Quota", "name": "nobody"})
    holdfast.platform.answers["GET", "/v1/quota/nobody"] = missing
    found = holdfast("quota", "nobody")
    assert found.exit_code == 1
    assert "hint: `holdfast get quotas` lists them" in found.stderr


def test_a_region_is_not_asked(holdfast: CommandLine) -> None:
    assert holdfast("quota", "--region", "eu").exit_code == 2
