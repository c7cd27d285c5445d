"""`holdfast describe`, `wait`, `scale` and `restart`: one object at a time."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.agent.drivers.driver import Capabilities
from holdfast.agent.drivers.simulated import EVERYTHING, ONE_USER
from holdfast.cli.output.conditions import CONDITION_HINTS, is_bad
from holdfast.core.model.objects.isolation import Capability
from holdfast.core.model.values.conditions import ConditionReason
from tests.support.api.api_cluster import World, in_world
from tests.support.api.command_line import CommandLine, problem, same_as_golden
from tests.support.hosts.agent_world import Node, a_region

WAITING = {
    "type": "Ready",
    "status": "false",
    "reason": "waiting-for-room",
    "message": "10 of 12 replicas fit nowhere",
    "observedGeneration": 1,
}
FINE = {"type": "Ready", "status": "true", "reason": "as-desired", "observedGeneration": 1}


def with_conditions(line: CommandLine, name: str, *conditions: dict[str, Any]) -> dict[str, Any]:
    found = line.platform.objects["workloads", f"shop/{name}"]
    found["status"]["conditions"] = {"observedGeneration": 1, "conditions": list(conditions)}
    return found


# describe


def test_a_description_ends_with_conditions_reasons_and_what_to_do_next(shop: CommandLine) -> None:
    with_conditions(shop, "mail", WAITING)
    for region, replicas in (("eu", 2), ("us", 10)):
        spec = {"region": region, "purpose": "serving", "stage": "active", "workload": "mail"}
        shop.platform.hold("Assignment", f"mail/{region}/serving", spec, "shop", status={"replicas": replicas})
    same_as_golden("describe_waiting", shop("describe", "workload", "shop/mail"))


def test_a_workload_with_gangs_is_described_with_the_members_of_each(shop: CommandLine) -> None:
    platform = shop.platform
    platform.objects["workloads", "shop/mail"]["spec"]["gang"] = {"size": 2, "min": 2, "replaceWithin": "5m"}
    platform.answers["GET", "/v1/status"] = {"ledger": "platform", "regions": [{"name": "eu", "joined": True}]}
    phases = {0: "serving", 1: "ready", 2: "pending", 3: "terminating"}
    for workload, ordinal, phase in [("mail", *one) for one in phases.items()] + [("web", 0, "pending")]:
        spec = {"workload": workload, "region": "eu", "ordinal": ordinal}
        platform.hold("Replica", f"{workload}/eu/{ordinal}", spec, "shop", status={"phase": phase})
    same_as_golden("describe_gangs", shop("describe", "workload", "shop/mail"))


def test_without_an_answer_of_the_regions_a_workload_is_described_without_its_gangs(shop: CommandLine) -> None:
    shop.platform.objects["workloads", "shop/mail"]["spec"]["gang"] = {"size": 2}
    shop.platform.answers["GET", "/v1/status"] = problem(503, "unavailable", "no leader")
    described = shop("describe", "workload", "shop/mail")
    assert described.exit_code == 0
    assert "its gangs are missing here" in described.stderr
    assert "Gangs" not in described.stdout


def a_node_document(can: Capabilities) -> dict[str, Any]:
    """What a region shows of a node whose agent can enforce so much."""

    async def story(world: World) -> dict[str, Any]:
        region = await a_region(world)
        node = Node(world, region)
        node.machine.can = can
        await node.start().is_known()
        found: dict[str, Any] = (await world.ask("GET", "/v1/nodes/n1", to=region.name)).json
        await node.kill()
        return found

    return in_world(story)


def test_a_node_is_described_with_what_its_agent_enforces_and_what_is_wrong_where_it_enforces_nothing(
    holdfast: CommandLine,
) -> None:
    holdfast.platform.objects["nodes", "n1"] = a_node_document(EVERYTHING)
    whole = holdfast("describe", "node", "n1", "--region", "eu").stdout
    assert [word for word in sorted(Capability) if word not in whole] == []
    holdfast.platform.objects["nodes", "n1"] = a_node_document(ONE_USER)
    poor = holdfast("describe", "node", "n1", "--region", "eu").stdout
    assert [word for word in sorted(Capability) if word in poor] == []
    assert "TokenPrivate" in poor


def test_what_may_not_be_seen_does_not_keep_back_the_rest(shop: CommandLine) -> None:
    shop.platform.answers["GET", "/v1/assignments"] = problem(403, "no-right", "read is needed")
    done = shop("describe", "workload", "shop/web")
    assert done.exit_code == 0
    assert "its assignments are missing here: read is needed" in done.stderr
    assert done.stdout.endswith("Next\n  no action needed\n")


def test_there_is_nothing_to_do_about_what_is_as_desired(shop: CommandLine) -> None:
    with_conditions(shop, "web", FINE)
    same_as_golden("describe_fine", shop("describe", "wl/shop/web"))


def test_an_object_that_ends_says_who_asked_for_it_and_what_holds_it(shop: CommandLine) -> None:
    meta = shop.platform.objects["workloads", "shop/web"]["metadata"]
    meta["deletion"] = {"by": "person/oncall", "at": "2026-11-15T17:00:00.000Z"}
    meta["finalizers"] = [{"name": "eu", "owner": "region/eu", "deadline": "2026-11-15T17:10:00.000Z"}]
    same_as_golden("describe_ending", shop("describe", "workload", "shop/web"))


def test_what_is_not_there_is_named_with_the_command_that_lists_the_others(shop: CommandLine) -> None:
    same_as_golden("describe_not_found", shop("describe", "workload", "shop/none"))


def test_a_description_is_of_one_object(shop: CommandLine) -> None:
    done = shop("describe", "workload")
    assert done.exit_code == 2
    assert "holdfast get workloads" in done.stderr


def test_there_is_advice_for_every_reason_for_which_something_can_be_wrong() -> None:
    assert {reason.value for reason in ConditionReason} - set(CONDITION_HINTS) == {"as-desired"}


PROGRESSING = {"type": "Updated", "status": "false", "reason": "progressing", "observedGeneration": 1}
CRASHED = {"type": "Healthy", "status": "false", "reason": "crashed", "observedGeneration": 1}


def test_progress_is_awaited_by_its_condition_unless_another_one_is_in_the_way(shop: CommandLine) -> None:
    with_conditions(shop, "web", PROGRESSING)
    hint = "`holdfast wait workload shop/web --for=condition=Updated`"
    assert hint in shop("describe", "wl/shop/web").stdout
    with_conditions(shop, "web", CRASHED, PROGRESSING)
    done = shop("describe", "wl/shop/web")
    assert hint not in done.stdout
    assert "holdfast get replicas --region REGION" in done.stdout


def test_a_hint_names_the_region_of_the_object(shop: CommandLine) -> None:
    ended = {"type": "Ready", "status": "false", "reason": "session-ended"}
    shop.platform.hold("Node", "n1", {}, status={"conditions": [ended]})
    done = shop("describe", "node", "n1", "--region", "eu")
    assert "`holdfast get nodes --region eu` shows" in done.stdout, done.stderr


@pytest.mark.parametrize(("health", "hint"), [("lost", "get assignments -A"), ("suspect", "declare-lost")])
def test_a_region_that_does_not_respond_needs_attention(health: str, hint: str, holdfast: CommandLine) -> None:
    holdfast.platform.hold("Region", "eu", {}, status={"health": health})
    next_steps = holdfast("describe", "region", "eu").stdout.partition("Next")[2]
    assert hint in next_steps
    assert "no action" not in next_steps


# wait


@pytest.mark.parametrize(
    "wanted",
    [
        "condition=Ready",
        "condition=ready=true",
        "observed",
        "status.ready=3",
        "jsonpath='{.status.ready}'=3",
        "metadata.labels[app]=web",
    ],
)
def test_what_is_so_already_is_not_waited_for(wanted: str, shop: CommandLine) -> None:
    with_conditions(shop, "web", FINE)
    done = shop("wait", "workload", "shop/web", f"--for={wanted}")
    assert done.exit_code == 0, done.stderr
    assert done.stdout == f"workload/shop/web met {wanted}\n"


def test_a_change_that_comes_ends_the_wait(shop: CommandLine) -> None:
    found = shop.platform.objects["workloads", "shop/mail"]
    later = {**found, "status": {**found["status"], "ready": 12}}
    shop.platform.events = [{"type": "MODIFIED", "object": later, "token": "log:1:60:ab"}]
    assert shop("wait", "workload", "shop/mail", "--for", "status.ready=12").exit_code == 0


def test_a_condition_about_an_older_generation_is_no_answer(shop: CommandLine) -> None:
    found = with_conditions(shop, "web", FINE)
    found["metadata"]["generation"] = 2
    done = shop("wait", "workload", "shop/web", "--for=condition=Ready", "--timeout", "1s")
    assert done.exit_code == 4


def test_what_does_not_come_about_ends_with_4_and_says_how_it_stands(shop: CommandLine) -> None:
    with_conditions(shop, "mail", WAITING)
    done = shop("wait", "workload", "shop/mail", "--for=condition=Ready", "--timeout", "1s")
    same_as_golden("wait_late", done)


def test_what_is_gone_is_deleted(shop: CommandLine) -> None:
    done = shop("wait", "workload", "shop/none", "--for=delete")
    assert (done.exit_code, done.stdout) == (0, "workload/shop/none deleted\n")


@pytest.mark.parametrize("wanted", ["", "ready", "=3", "spec..[=3"])
def test_what_is_not_understood_is_wrong_usage(wanted: str, shop: CommandLine) -> None:
    assert shop("wait", "workload", "shop/web", f"--for={wanted}").exit_code == 2
    assert shop.platform.asked == []


# scale and restart


def test_a_workload_is_scaled_and_the_rest_of_it_stays(shop: CommandLine) -> None:
    done = shop("scale", "workload", "web", "--replicas", "5", "--tenant", "shop")
    assert (done.exit_code, done.stdout) == (0, "workload/shop/web scaled from 3 to 5\n")
    spec = shop.platform.objects["workloads", "shop/web"]["spec"]
    assert (spec["replicas"], spec["template"]["command"]) == (5, ["/usr/bin/web"])
    assert shop("scale", "wl/shop/web", "--replicas=5").stdout == "workload/shop/web unchanged\n"


def test_a_scale_that_is_refused_names_the_workload(shop: CommandLine) -> None:
    refusal = problem(409, "over-quota", "quota shop has 2 cpu left, 4 are needed", hint="holdfast describe quota shop")
    shop.platform.answers["PUT", "/v1/workloads/shop/web"] = refusal
    same_as_golden("scale_refused", shop("scale", "workload", "shop/web", "--replicas", "9"))


def test_only_workloads_are_scaled(shop: CommandLine) -> None:
    done = shop("scale", "tenant", "shop", "--replicas", "9")
    assert done.exit_code == 2
    assert "tenant/shop has no replicas" in done.stderr


@pytest.mark.parametrize("words", [["scale", "wl/shop/web", "--replicas", "9"], ["restart", "wl/shop/web"]])
def test_a_workload_is_not_scaled_or_restarted_in_one_region(words: list[str], shop: CommandLine) -> None:
    done = shop(*words, "--region", "eu")
    assert (done.exit_code, shop.platform.asked) == (2, [])
    assert "workloads are stored by the platform, not by regions" in done.stderr


def test_a_restart_changes_the_template_and_nothing_else(shop: CommandLine) -> None:
    shop.platform.answers["PUT", "/v1/workloads/shop/web"] = shop.platform.objects["workloads", "shop/web"]
    done = shop("restart", "workload", "shop/web")
    assert done.exit_code == 0, done.stderr
    assert done.stdout.startswith("workload/shop/web restarting since 20")
    assert b'"restarted":"20' in shop.platform.asked[-1].body


def test_that_some_have_failed_for_good_is_bad_news_and_that_all_serve_is_not() -> None:
    assert is_bad({"type": "Failed", "status": "true", "reason": "crashed"})
    assert not is_bad({"type": "Failed", "status": "false", "reason": "as-desired"})
    assert is_bad({"type": "Available", "status": "false", "reason": "progressing"})
