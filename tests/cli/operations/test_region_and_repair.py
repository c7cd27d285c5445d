"""`holdfast region` and `holdfast repair`: what a person says of a region that does not answer, and what hangs."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from tests.support.api.command_line import CommandLine, problem, same_as_golden

HANGS: list[dict[str, Any]] = [
    {
        "what": "deletion",
        "key": "workload/shop/web",
        "owner": "region/eu",
        "since": "2026-11-15T15:00:00.000Z",
        "deadline": "2026-11-15T15:10:00.000Z",
        "overdue": True,
        "waitsFor": "region eu, which is lost, to end and release its replicas",
        "todo": "once nothing can run there any more: `holdfast region forget eu --destroyed --reason TEXT`",
        "tenant": "shop",
    },
    {
        "what": "grant",
        "key": "grant/us/quota/shop",
        "owner": "region/us",
        "since": None,
        "deadline": None,
        "overdue": False,
        "waitsFor": "region us to log version 4",
        "todo": "",
        "tenant": "shop",
    },
]


@pytest.fixture(autouse=True)
def _one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_794_762_000.0)


def answered(line: CommandLine, tag: str) -> None:
    line.platform.answers["POST", f"/v1/commands/{tag}"] = {"command": tag, "revision": "41.0", "repeated": False}


def sent(line: CommandLine) -> Any:
    return msgspec.json.decode(line.platform.asked[-1].body)


# region


def test_without_a_verb_the_verbs_are_listed(holdfast: CommandLine) -> None:
    same_as_golden("region_help", holdfast("region"))


def test_where_a_region_is_goes_into_its_spec_and_the_rest_of_it_stays(holdfast: CommandLine) -> None:
    holdfast.platform.hold("Region", "eu", {"jurisdiction": "eu", "address": "https://old.example:7400"})
    done = holdfast("region", "set-address", "eu", "https://eu.example:7400")
    assert (done.stdout, done.exit_code) == ("region/eu has the address https://eu.example:7400\n", 0)
    assert sent(holdfast)["spec"] == {"jurisdiction": "eu", "address": "https://eu.example:7400"}
    again = holdfast("region", "set-address", "eu", "https://eu.example:7400")
    assert again.stdout == "region/eu unchanged\n"


def test_nothing_is_forgotten_without_the_word_that_attests_it(holdfast: CommandLine) -> None:
    same_as_golden("region_forget_unattested", holdfast("region", "forget", "eu", "--reason", "gone"))
    assert holdfast.platform.asked == []


def test_a_region_is_forgotten_for_a_reason(holdfast: CommandLine) -> None:
    answered(holdfast, "retire-region")
    same_as_golden("region_forgotten", holdfast("region", "forget", "eu", "--destroyed", "--reason", "scrapped"))
    assert sent(holdfast) == {"region": "eu", "reason": "scrapped"}


def test_no_region_is_believed_without_the_word_that_attests_its_store(holdfast: CommandLine) -> None:
    same_as_golden("region_believe_unattested", holdfast("region", "believe", "eu", "--reason", "stolen"))
    assert holdfast.platform.asked == []


def test_a_region_is_believed_for_a_reason(holdfast: CommandLine) -> None:
    answered(holdfast, "believe-region")
    same_as_golden("region_believed", holdfast("region", "believe", "eu", "--whole", "--reason", "a stolen token"))
    assert sent(holdfast) == {"region": "eu", "reason": "a stolen token"}


def test_a_region_is_declared_lost_for_a_reason(holdfast: CommandLine) -> None:
    answered(holdfast, "declare-lost")
    same_as_golden("region_declared_lost", holdfast("region", "declare-lost", "eu", "--reason", "a fire"))
    assert sent(holdfast) == {"region": "eu", "reason": "a fire"}


def test_nothing_is_attested_without_the_word_for_it(shop: CommandLine) -> None:
    done = shop("region", "attest", "eu", "shop/web", "0", "2", "--reason", "no power")
    same_as_golden("region_attest_unsaid", done)
    assert shop.platform.asked == []


def test_identities_are_attested_not_to_run_there_for_a_reason(shop: CommandLine) -> None:
    answered(shop, "attest-right")
    words = ("eu", "web", "0", "2", "--tenant", "shop", "--stopped", "--reason", "no power")
    same_as_golden("region_attested", shop("region", "attest", *words))
    uid = shop.platform.objects["workloads", "shop/web"]["metadata"]["uid"]
    bodies = [msgspec.json.decode(one.body) for one in shop.platform.asked[1:]]
    assert bodies == [{"workload": uid, "ordinal": n, "region": "eu", "reason": "no power"} for n in (0, 2)]


def test_what_is_refused_of_an_attestation_is_told_with_what_to_do_next(shop: CommandLine) -> None:
    detail = "region us holds that right, not eu"
    shop.platform.answers["POST", "/v1/commands/attest-right"] = problem(409, "right-held", detail)
    words = ("--stopped", "--reason", "no power")
    same_as_golden("region_attest_refused", shop("region", "attest", "eu", "shop/web", "0", *words))
    same_as_golden("region_attest_unknown", shop("region", "attest", "eu", "shop/none", "0", *words))
    done = shop("region", "attest", "eu", "web", "0", *words)
    assert (done.exit_code, "no tenant given" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    "words",
    [
        ("forget", "eu", "--destroyed"),
        ("believe", "eu", "--whole"),
        ("declare-lost", "eu", "--reason", " "),
        ("attest", "eu", "shop/web", "0", "--stopped"),
    ],
)
def test_a_reason_is_asked_for_before_anything_is_sent(words: tuple[str, ...], holdfast: CommandLine) -> None:
    done = holdfast("region", *words)
    assert done.exit_code == 2
    assert "--reason TEXT" in done.stderr
    assert holdfast.platform.asked == []


def test_who_may_not_is_denied(holdfast: CommandLine) -> None:
    holdfast.platform.answers["POST", "/v1/commands/retire-region"] = problem(403, "no-right", "break-glass is needed")
    done = holdfast("region", "forget", "eu", "--destroyed", "--reason", "scrapped")
    assert done.exit_code == 3
    assert "region/eu" in done.stderr


# repair


def test_what_hangs_is_listed_with_what_to_do_next(holdfast: CommandLine) -> None:
    found = {"kind": "RepairList", "items": HANGS, "metadata": {"total": 5, "at": "2026-11-15T17:00:00.000Z"}}
    holdfast.platform.answers["GET", "/v1/repairs"] = found
    same_as_golden("repair_list", holdfast("repair", "list"))
    assert msgspec.json.decode(holdfast("repair", "list", "-o", "json").stdout) == found


def test_a_region_is_asked_what_hangs_there(holdfast: CommandLine) -> None:
    empty: dict[str, Any] = {"kind": "RepairList", "items": [], "metadata": {"total": 0}}
    holdfast.platform.answers["GET", "/v1/in/eu/repairs"] = empty
    done = holdfast("repair", "list", "--region", "eu", "--tenant", "shop", "--limit", "7")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "no stuck operations\n")
    assert holdfast.platform.asked[-1].query == (("tenant", "shop"), ("limit", "7"))


# What regions have told


def test_a_workload_is_described_region_by_region(shop: CommandLine) -> None:
    fails = {"code": "exit", "count": 1, "node": "n1", "detail": "exit code 3"}
    waiting = {"code": "capacity", "count": 2, "since": "2026-11-15T16:55:00.000Z", "message": "4 nodes lack cpu"}
    common = {"template": "ab" * 32, "ready": 1, "serving": 1, "generation": 1}
    shop.platform.objects["workloads", "shop/web"]["status"]["regions"] = [
        {
            "region": "eu",
            "assigned": 1,
            "bound": 1,
            "reportedAt": "2026-11-15T16:59:58.000Z",
            "failing": [fails],
            **common,
        },
        {"region": "us", "assigned": 3, "bound": 1, "reportedAt": None, "waiting": [waiting], **common},
    ]
    same_as_golden("describe_in_regions", shop("describe", "workload", "shop/web"))


def test_a_region_is_described_by_what_it_told_of_its_nodes(holdfast: CommandLine) -> None:
    size, left = {"cpu": 8, "memory": "16Gi"}, {"cpu": "500m"}
    nodes = {"pool": "small", "labels": {"disk": "ssd"}, "taints": [], "tenancy": [], "models": [], "count": 4}
    nodes |= {"capacity": {"cpu": 32, "memory": "64Gi"}, "free": left, "largest": [size], "largestFree": [left]}
    trouble = {"kind": "silent-nodes", "count": 1, "since": "2026-11-15T16:00:00.000Z", "message": "n7"}
    summary = {"at": "2026-11-15T16:59:00.000Z", "nodes": [nodes], "uses": {"quota": {"cpu": 30}}}
    status = {"health": "healthy", "summary": {**summary, "issues": [trouble]}}
    holdfast.platform.hold("Region", "eu", {"jurisdiction": "EU"}, status=status)
    same_as_golden("describe_region", holdfast("describe", "region", "eu"))


# apply


NEVER = {"type": "Fits", "status": "false", "reason": "never-fits", "message": "needs 64 cpu; the largest of eu has 32"}


@pytest.mark.parametrize("words", [(), ("--dry-run",)])
def test_what_can_never_fit_is_told_when_it_is_applied(words: tuple[str, ...], holdfast: CommandLine) -> None:
    item = {"outcome": "created", "object": {"status": {"conditions": [NEVER]}}}
    holdfast.platform.answers["POST", "/v1/batch"] = {"items": [item]}
    text = (
        "apiVersion: holdfast/v1\nkind: Workload\nmetadata: {name: web, tenant: shop}\n"
        "spec: {replicas: 1, priorityClass: ordinary, template: {need: {cpu: 64}}}\n"
    )
    done = holdfast("apply", "-f", holdfast.write("web.yaml", text), *words)
    assert done.exit_code == 0
    assert done.stdout.startswith("workload/shop/web created")
    assert done.stderr == f"warning: workload/shop/web: Fits is false: never-fits: {NEVER['message']}\n"


LATE = {"type": "OnTime", "status": "false", "reason": "deadline-missed", "message": "1 of 2 were done by its deadline"}


@pytest.mark.parametrize(("status", "warnings"), [("false", 1), ("true", 0)])
def test_a_deadline_that_cannot_be_met_is_told_when_it_is_applied(
    status: str, warnings: int, holdfast: CommandLine
) -> None:
    item = {"outcome": "configured", "object": {"status": {"conditions": [{**LATE, "status": status}]}}}
    holdfast.platform.answers["POST", "/v1/batch"] = {"items": [item]}
    text = (
        "apiVersion: holdfast/v1\nkind: Workload\nmetadata: {name: job, tenant: shop}\n"
        "spec: {replicas: 2, priorityClass: ordinary, batch: true, deadline: 1m, onDeadline: fail, template: {}}\n"
    )
    done = holdfast("apply", "-f", holdfast.write("job.yaml", text))
    assert done.exit_code == 0
    said = f"warning: workload/shop/job: OnTime is false: deadline-missed: {LATE['message']}\n"
    assert done.stderr == said * warnings
