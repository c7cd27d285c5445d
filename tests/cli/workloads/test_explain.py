"""`holdfast queue`, `decisions` and `explain`: what waits, what was decided, and why."""

from __future__ import annotations

import time
from typing import Any

import msgspec
import pytest

from holdfast.cli.output import printer
from holdfast.cli.output.conditions import REMEDIES
from holdfast.core.ledger.answers import NO_ROOM, Code
from holdfast.core.model.values.conditions import ConditionReason
from tests.support.api.command_line import CommandLine, problem, same_as_golden

Document = dict[str, Any]


@pytest.fixture(autouse=True)
def at_five(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is five o'clock."""
    monkeypatch.setattr(time, "time", lambda: 1_794_762_000.0)


def a_status(*regions: str) -> Document:
    return {"ledger": "platform", "regions": [{"name": name, "joined": True, "health": "healthy"} for name in regions]}


def a_request(position: int = 1, **fields: Any) -> Document:
    reasons = [
        {"code": "capacity", "count": 12, "message": "nearest fit is n7: has cpu 2 of 4", "below": [
            {"code": "cpu", "count": 9, "message": "", "below": []},
            {"code": "memory", "count": 3, "message": "", "below": []}]},
        {"code": "taint", "count": 4, "message": "", "below": [
            {"code": "gpu=yes", "count": 4, "message": "", "below": []}]},
    ]  # fmt: skip
    return {
        "position": position, "tenant": "shop", "workload": "web", "region": "eu", "purpose": "serving",
        "template": "0123456789abcdef", "priorityClass": "standard", "priority": 10, "open": 3,
        "since": printer.instant_in(-720_000), "reason": "capacity", "message": reasons[0]["message"], "never": False,
        "deadline": None, "examined": "41.0", "attempts": 5, "reasons": reasons, **fields,
    }  # fmt: skip


def a_queue(*items: Document) -> Document:
    metadata = {"total": len(items), "waiting": len(items), "at": printer.instant_in(0)}
    return {"kind": "QueueList", "items": list(items), "metadata": metadata}


def a_decision(**fields: Any) -> Document:
    return {
        "revision": "40.2", "at": printer.instant_in(-60_000), "scheduler": "controller/scheduler", "outcome": "placed",
        "tenant": "shop", "requests": [{"workload": "web", "uid": "12.0", "purpose": "serving", "generation": 3,
        "placed": 2}], "requestCount": 1, "placed": 2, "placements": [{"slot": "web/eu/0", "node": "n1"},
        {"slot": "web/eu/1", "node": "n2"}], "view": "39.1048575", "policy": "0.0", "inFlight": 1,
        "plugins": {"packing": "1"}, "template": "0123456789abcdef", "queuedSince": printer.instant_in(-65_500),
        "examined": 5000, "rejected": [{"code": "capacity", "detail": "cpu", "count": 4210},
        {"code": "taint", "detail": "gpu=yes", "count": 700}], "nearest": "", "quota": [{"account": "quota/shop",
        "charged": {"cpu": 2}, "target": {"cpu": 10}}], "candidates": [{"node": "n1", "score": 912, "parts":
        {"packing": 900, "balance": 12}}, {"node": "n2", "score": 900, "parts": {"packing": 900, "balance": 0}}],
        "candidateCount": 2, "refused": [], "reasons": [], "nextOwner": "agent", **fields,
    }  # fmt: skip


def a_page(*items: Document, **metadata: Any) -> Document:
    return {"kind": "DecisionList", "items": list(items), "metadata": {"upTo": 41, **metadata}}


def a_workload(holdfast: CommandLine) -> None:
    condition = {
        "type": "Placed", "status": "false", "reason": "waiting-for-room",
        "message": "eu: 3 wait: nearest fit is n7: has cpu 2 of 4", "since": printer.instant_in(-720_000),
    }  # fmt: skip
    status = {"bound": 2, "ready": 2, "serving": 2, "conditions": [condition]}
    spec = {"replicas": 5, "priorityClass": "standard", "template": {"command": ["serve"], "need": {"cpu": 4}}}
    holdfast.platform.hold("Workload", "web", spec, "shop", status=status)


def answer(holdfast: CommandLine, path: str, value: Any) -> None:
    holdfast.platform.answers["GET", path] = value


# `holdfast queue`
def test_it_is_told_in_its_order_with_one_line_of_why(holdfast: CommandLine) -> None:
    new = a_request(2, workload="mail", reason="not-yet-examined", message="", reasons=[], attempts=0, open=1)
    never = a_request(3, workload="big", reason="never-fits", message="no node can hold it", never=True)
    answer(holdfast, "/v1/in/eu/queue", a_queue(a_request(), new, never))
    same_as_golden("queue", holdfast("queue", "--region", "eu"))


def test_without_a_region_all_that_joined_are_asked(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu", "us"))
    answer(holdfast, "/v1/in/eu/queue", a_queue(a_request()))
    answer(holdfast, "/v1/in/us/queue", a_queue(a_request(region="us", workload="mail")))
    found = msgspec.json.decode(holdfast("queue", "-o", "json").stdout)
    assert [(one["region"], one["workload"]) for one in found["items"]] == [("eu", "web"), ("us", "mail")]


def test_fairness_is_told_of_one_region_or_of_all_together(holdfast: CommandLine) -> None:
    shop = {
        "tenant": "shop", "weight": 3, "dominantResource": "memory", "sharePercent": 61.5, "entitledPercent": 75.0,
        "recentPercent": None, "charged": {"memory": "64Gi"}, "protected": {"cpu": 2}, "waiting": 12,
        "oldestSince": printer.instant_in(-90_000),
    }  # fmt: skip
    metadata = {"total": 2, "at": printer.instant_in(0)}
    report = {"kind": "FairnessReport", "items": [shop], "metadata": metadata}
    answer(holdfast, "/v1/in/eu/fairness", report)
    same_as_golden("queue_fairness", holdfast("queue", "--fairness", "--region", "eu"))
    answer(holdfast, "/v1/fairness", {**report, "items": [{**shop, "recentPercent": 40.25}]})
    assert "40.25" in holdfast("queue", "--fairness").stdout


def test_a_region_that_cannot_be_asked_does_not_keep_back_the_others(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu", "us"))
    answer(holdfast, "/v1/in/eu/queue", a_queue(a_request()))
    answer(holdfast, "/v1/in/us/queue", problem(403, "wrong-scope", "not there"))
    found = holdfast("queue")
    assert "web" in found.stdout
    assert "region us is missing: not there" in found.stderr


def test_where_the_only_one_cannot_be_asked_that_is_how_it_ends(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/in/eu/queue", problem(403, "wrong-scope", "not there"))
    assert holdfast("queue", "--region", "eu").exit_code == 3


def test_a_regions_own_server_is_asked_as_it_is(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", {"ledger": "region/eu"})
    answer(holdfast, "/v1/queue", a_queue())
    found = holdfast("queue")
    assert (found.stdout, found.stderr) == ("", "no requests wait\n")


def test_that_there_is_more_is_said(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/in/eu/queue", {**a_queue(a_request()), "metadata": {"total": 9}})
    assert "and 8 more" in holdfast("queue", "--region", "eu", "--limit", "1").stderr


# `holdfast decisions`
def test_they_are_told_one_line_each(holdfast: CommandLine) -> None:
    waits = a_decision(outcome="waiting", placements=[], placed=0, reasons=a_request()["reasons"])
    part = a_decision(outcome="placed-in-part", refused=[{"code": "capacity", "detail": "cpu", "count": 3}])
    answer(holdfast, "/v1/in/eu/decisions", a_page(waits, part, a_decision(requestCount=9)))
    same_as_golden("decisions", holdfast("decisions", "--region", "eu"))


def test_what_is_asked_for_is_sent_and_a_slot_says_which_region(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu", "us"))
    answer(holdfast, "/v1/in/eu/decisions", a_page(a_decision()))
    done = holdfast("decisions", "--slot", "web/eu/0", "--tenant", "shop", "--since", "1h", "--outcome", "placed")
    assert done.exit_code == 0, done.stderr
    asked = dict(holdfast.platform.asked[-1].query)
    assert (asked["slot"], asked["outcome"]) == ("shop/web/eu/0", "placed")
    assert asked["since"] == printer.instant_in(-3_600_000)


def test_a_workload_is_asked_for_with_its_tenant(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/in/eu/decisions", a_page())
    done = holdfast("decisions", "--workload", "web", "--tenant", "shop", "--region", "eu")
    assert dict(holdfast.platform.asked[-1].query)["workload"] == "shop/web"
    assert (done.stdout, done.stderr) == ("", "no decisions found\n")


def test_pages_are_joined_until_there_are_enough(holdfast: CommandLine) -> None:
    pages = [a_page(a_decision(), **{"continue": "40.0"}), a_page(**{"continue": "30.0"}), a_page(a_decision())]

    def ask(peer: str, request: Any, timeout_ms: int) -> Any:
        holdfast.platform.answers["GET", "/v1/in/eu/decisions"] = pages.pop(0)
        return original(peer, request, timeout_ms)

    original, holdfast.platform.call = holdfast.platform.call, ask  # type: ignore[method-assign]
    found = msgspec.json.decode(holdfast("decisions", "--region", "eu", "-o", "json").stdout)
    assert len(found["items"]) == 2
    assert [dict(one.query).get("continue") for one in holdfast.platform.asked] == [None, "40.0", "30.0"]


@pytest.mark.parametrize(
    "words",
    [
        ("--slot", "web"), ("--slot", "web/eu/x"), ("--since", "yesterday"), ("--outcome", "good"),
        ("--slot", "web/eu/0", "--workload", "web"),
    ],
)  # fmt: skip
def test_decisions_that_cannot_be_meant_are_not_asked_for(holdfast: CommandLine, words: tuple[str, ...]) -> None:
    assert holdfast("decisions", *words).exit_code == 2
    assert [one for one in holdfast.platform.asked if "decisions" in one.path] == []


# `holdfast explain`
def test_of_a_workload_that_waits_the_nearest_fit_comes_first(holdfast: CommandLine) -> None:
    a_workload(holdfast)
    answer(holdfast, "/v1/status", a_status("eu"))
    answer(holdfast, "/v1/in/eu/queue", a_queue(a_request(4)))
    waits = a_decision(outcome="waiting", placements=[], placed=0, reasons=a_request()["reasons"])
    answer(holdfast, "/v1/in/eu/decisions", a_page(waits, a_decision()))
    same_as_golden("explain_waiting", holdfast("explain", "shop/web"))


def test_what_will_never_fit_is_told_apart_from_what_waits(holdfast: CommandLine) -> None:
    a_workload(holdfast)
    answer(holdfast, "/v1/status", a_status("eu"))
    message = "no node can hold it, even an empty one: nearest fit is n7: has cpu 2 of 400"
    inner = [{"code": "capacity", "count": 12, "message": "nearest fit is n7: has cpu 2 of 400", "below": []}]
    tree = [{"code": "never-fits", "count": 3, "message": message, "below": inner}]
    never = a_request(reason="never-fits", message=message, never=True, reasons=tree)
    answer(holdfast, "/v1/in/eu/queue", a_queue(never))
    answer(holdfast, "/v1/in/eu/decisions", a_page())
    same_as_golden("explain_never", holdfast("explain", "workload", "shop/web"))


def test_that_nobody_has_looked_yet_is_said(holdfast: CommandLine) -> None:
    a_workload(holdfast)
    answer(holdfast, "/v1/status", a_status("eu"))
    new = a_request(reason="not-yet-examined", message="", reasons=[], attempts=0)
    answer(holdfast, "/v1/in/eu/queue", a_queue(new))
    answer(holdfast, "/v1/in/eu/decisions", a_page())
    found = holdfast("explain", "web", "--tenant", "shop").stdout
    assert "Not yet examined in eu: 3 replicas, for 12m" in found
    assert "scheduling attempts  0" in found


def test_of_a_workload_that_is_gone_what_was_decided_is_told(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu"))
    answer(holdfast, "/v1/in/eu/queue", a_queue())
    answer(holdfast, "/v1/in/eu/decisions", a_page(a_decision()))
    found = holdfast("explain", "workload/shop/web")
    assert "the workload does not exist now; decisions about it:" in found.stdout
    assert found.exit_code == 0


def test_of_what_nobody_knows_that_is_said(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu"))
    answer(holdfast, "/v1/in/eu/queue", a_queue())
    answer(holdfast, "/v1/in/eu/decisions", a_page())
    assert "no workload, request or decision named shop/web" in holdfast("explain", "shop/web").stderr


def test_of_a_slot_when_why_and_by_whom_it_was_placed_is_told(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu", "us"))
    status = {
        "phase": "serving",
        "node": "n1",
        "since": printer.instant_in(-50_000),
        "by": "agent/n1",
        "cause": "published",
    }
    holdfast.platform.hold("Replica", "web/eu/0", {}, "shop", status=status)
    one = a_decision(placements=[{"slot": "web/eu/0", "node": "n1"}])
    answer(holdfast, "/v1/in/eu/decisions", a_page(one))
    same_as_golden("explain_slot", holdfast("explain", "shop/web/eu/0"))


def test_a_tenant_is_told_how_many_nodes_were_compared(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu"))
    answer(holdfast, "/v1/in/eu/decisions", a_page(a_decision(candidates=[])))
    found = holdfast("explain", "replica", "web/eu/0", "--tenant", "shop").stdout
    assert "2 were compared" in found
    assert "the slot does not exist now" in found


def test_a_slot_that_waits_points_to_its_workload(holdfast: CommandLine) -> None:
    answer(holdfast, "/v1/status", a_status("eu"))
    status = {"phase": "pending", "node": "", "since": printer.instant_in(-50_000), "by": "controller/replica"}
    holdfast.platform.hold("Replica", "web/eu/0", {}, "shop", status=status)
    answer(holdfast, "/v1/in/eu/decisions", a_page())
    assert "it waits: `holdfast explain shop/web` explains why" in holdfast("explain", "shop/web/eu/0").stdout


def test_programs_get_all_of_it(holdfast: CommandLine) -> None:
    a_workload(holdfast)
    answer(holdfast, "/v1/status", a_status("eu"))
    answer(holdfast, "/v1/in/eu/queue", a_queue(a_request()))
    answer(holdfast, "/v1/in/eu/decisions", a_page(a_decision()))
    found = msgspec.json.decode(holdfast("explain", "shop/web", "-o", "json").stdout)
    assert (len(found["queue"]), len(found["decisions"])) == (1, 1)
    assert found["workload"]["metadata"]["name"] == "web"


@pytest.mark.parametrize("words", [("node", "n1"), ("node/n1",), ("web", "mail"), ("shop/web/eu/x",), ("web",)])
def test_what_cannot_be_meant_is_not_sent(holdfast: CommandLine, words: tuple[str, ...]) -> None:
    assert holdfast("explain", *words).exit_code == 2
    assert holdfast.platform.asked == []


def test_every_reason_for_which_nothing_is_placed_says_who_can_act() -> None:
    said = {
        *NO_ROOM, Code.OVER_GRANT, Code.GRANT_ENDED, Code.PAUSED, Code.NOT_ASSIGNED, Code.RESIDENCY,
        ConditionReason.NEVER_FITS, ConditionReason.STALE_VIEW, ConditionReason.PLUGIN_FAILED,
        ConditionReason.NOT_YET_EXAMINED,
    }  # fmt: skip
    assert {one.value for one in said} <= REMEDIES.keys()
