"""Objects over the API: written, read, listed, ended; conflicts, keys, dry runs, batches."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.api.serialization.scalars import format_instant, parse_instant
from holdfast.host.ports.transport import NoAnswer
from tests.support.api.api_cluster import OPERATOR, World, a_class, a_shop, a_tenant, a_workload, in_world


def test_an_object_is_created_then_unchanged_then_configured() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        again = await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        scaled = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=5))
        assert (first.status, first.headers["holdfast-outcome"]) == (201, "created")
        assert (again.status, again.headers["holdfast-outcome"]) == (200, "unchanged")
        assert (scaled.status, scaled.headers["holdfast-outcome"]) == (200, "configured")
        assert scaled.json["metadata"]["generation"] == 2
        assert scaled.json["spec"]["replicas"] == 5
        assert scaled.headers["etag"] == f'"{scaled.json["metadata"]["revision"]}"'

    in_world(story)


def test_what_was_written_is_read_back_in_the_same_words() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        read = await world.ask("GET", "/v1/workloads/shop/web")
        spec = read.json["spec"]
        assert spec["template"]["need"]["cpu"] == "500m"
        assert spec["template"]["need"]["memory"] == "1Gi"
        assert read.json["kind"] == "Workload"
        assert read.json["apiVersion"] == "holdfast/v1"
        assert read.json["metadata"]["createdBy"] == "person/operator"

    in_world(story)


def test_when_an_object_was_created_is_shown_and_is_nobody_elses_to_say() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = (await world.ask("PUT", "/v1/workloads/shop/web", a_workload())).json
        created = first["metadata"]["created"]
        assert parse_instant(created)
        await world.clock.sleep(5_000)
        first["metadata"]["created"] = "2020-01-01T00:00:00Z"
        again = await world.ask("PUT", "/v1/workloads/shop/web", first)
        assert again.headers["holdfast-outcome"] == "unchanged"
        first["spec"]["replicas"] = 5
        changed = await world.ask("PUT", "/v1/workloads/shop/web", first)
        assert changed.headers["holdfast-outcome"] == "configured"
        assert changed.json["metadata"]["created"] == created

    in_world(story)


def test_a_deadline_that_has_passed_is_told_in_the_answer_to_a_write() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        job = a_workload()
        job["spec"] |= {"batch": True, "deadline": "1h", "onDeadline": "fail"}
        on_time = (await world.ask("PUT", "/v1/workloads/shop/web", job)).json["status"]["conditions"][-1]
        assert (on_time["type"], on_time["status"]) == ("OnTime", "true")
        job["spec"]["deadline"] = "1ms"
        await world.clock.sleep(1_000)
        tried = (await world.ask("PUT", "/v1/workloads/shop/web?dryRun=All", job)).json
        missed = tried["status"]["conditions"][-1]
        assert (missed["status"], missed["reason"]) == ("false", "deadline-missed")

    in_world(story)


def test_conflict_if_match_is_412_with_the_current_revision() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        second = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=3))
        lost = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=4), if_match=first.headers["etag"])
        assert lost.status == 412
        assert lost.json["code"] == "stale"
        assert lost.json["facts"]["revision"] == second.json["metadata"]["revision"]
        won = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=4), if_match=second.headers["etag"])
        assert won.status == 200

    in_world(story)


def test_conflict_with_the_revision_in_the_document_is_409() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=3))
        old = first.json
        old["spec"]["replicas"] = 7
        lost = await world.ask("PUT", "/v1/workloads/shop/web", old)
        assert lost.status == 409
        assert lost.json["code"] == "stale"

    in_world(story)


def test_create_only_refuses_what_exists() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), if_none_match="*")
        second = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=3), if_none_match="*")
        assert (first.status, second.status) == (201, 412)
        assert second.json["code"] == "exists"

    in_world(story)


def test_if_match_star_refuses_what_does_not_exist() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        answer = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), if_match="*")
        assert answer.status == 412

    in_world(story)


def test_a_deletion_based_on_an_old_revision_is_refused() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        first = await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=3))
        lost = await world.ask("DELETE", "/v1/workloads/shop/web", if_match=first.headers["etag"])
        done = await world.ask("DELETE", "/v1/workloads/shop/web")
        gone = await world.ask("GET", "/v1/workloads/shop/web")
        assert (lost.status, done.status, gone.status) == (412, 200, 404)

    in_world(story)


def test_repeat_after_timeout_gets_the_first_answer() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), key="one")
        seq = part.state.info.seq
        again = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), key="one")
        assert again.status == 201
        assert again.headers["holdfast-repeated"] == "true"
        assert part.state.info.seq == seq

    in_world(story)


def test_a_key_is_bound_to_what_was_sent_with_it() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), key="one")
        other = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=9), key="one")
        assert other.status == 409
        assert other.json["code"] == "key-reused"

    in_world(story)


def test_key_beyond_its_window_is_never_executed() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        sent = "2001-01-01T00:00:00.000Z"
        answer = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(), holdfast_sent=sent)
        assert answer.status == 409
        assert answer.json["code"] == "too-old-to-retry"
        assert len(part.state.workloads) == 0

    in_world(story)


def test_a_write_without_a_key_is_refused() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        request = world.request("PUT", "/v1/workloads/shop/web", a_workload())
        bare = type(request)(request.verb, request.path, (), request.headers[:1], request.body)
        reply = await world.caller.call("p1", bare, 1_000)
        assert reply.status == 400
        assert b'"no-key"' in reply.body

    in_world(story)


def test_a_dry_run_shows_what_would_be_and_writes_nothing() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        seq = part.state.info.seq
        tried = await world.ask("PUT", "/v1/workloads/shop/web?dryRun=All", a_workload())
        wrong = await world.ask("PUT", "/v1/workloads/shop/web?dryRun=All", a_workload(priorityClass="absent"))
        assert tried.headers["holdfast-outcome"] == "created"
        assert tried.json["spec"]["replicas"] == 2
        assert wrong.status == 404
        assert part.state.info.seq == seq

    in_world(story)


def test_a_batch_is_judged_in_order_each_by_itself() -> None:
    async def story(world: World) -> None:
        await world.platform()
        items: list[Any] = [a_class(), a_tenant(), a_workload(), a_workload("bad", replicas=-1), a_workload("other")]
        answer = await world.ask("POST", "/v1/batch", {"items": items})
        outcomes = [item["outcome"] for item in answer.json["items"]]
        assert outcomes == ["created", "created", "created", "refused", "created"]
        assert answer.json["items"][3]["problem"]["code"] == "contradictory"

    in_world(story)


def test_a_dry_run_of_a_batch_judges_each_on_top_of_those_before() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        answer = await world.ask("POST", "/v1/batch?dryRun=All", {"items": [a_class(), a_tenant(), a_workload()]})
        assert [item["outcome"] for item in answer.json["items"]] == ["created"] * 3
        assert len(part.state.tenants) == 0

    in_world(story)


def test_a_batch_that_is_repeated_does_nothing_twice() -> None:
    async def story(world: World) -> None:
        part = await world.platform()
        items = {"items": [a_class(), a_tenant(), a_workload()]}
        first = await world.ask("POST", "/v1/batch", items, key="all")
        seq = part.state.info.seq
        again = await world.ask("POST", "/v1/batch", items, key="all")
        assert [item["outcome"] for item in first.json["items"]] == ["created"] * 3
        assert [item["outcome"] for item in again.json["items"]] == ["created"] * 3
        assert part.state.info.seq == seq

    in_world(story)


def test_faults_of_a_document_are_all_told_with_pointers_and_suggestions() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        answer = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replcas=3, batch="yes"))
        assert answer.status == 422
        assert answer.headers["content-type"] == "application/problem+json"
        errors = {error["pointer"]: error for error in answer.json["errors"]}
        assert "replicas" in errors["/spec/replcas"]["hint"]
        assert "/spec/batch" in errors

    in_world(story)


def test_a_document_of_another_name_than_its_path_is_refused() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        answer = await world.ask("PUT", "/v1/workloads/shop/other", a_workload("web"))
        assert answer.status == 422
        assert answer.json["errors"][0]["pointer"] == "/metadata/name"

    in_world(story)


def test_lists_come_in_pages_that_show_one_moment() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        names = [f"w{number}" for number in range(7)]
        await world.ask("POST", "/v1/batch", {"items": [a_workload(name) for name in names]})
        first = await world.ask("GET", "/v1/workloads?limit=3")
        await world.ask("DELETE", "/v1/workloads/shop/w5")
        await world.ask("PUT", "/v1/workloads/shop/zz", a_workload("zz"))
        found = [item["metadata"]["name"] for item in first.json["items"]]
        page = first
        while "continue" in page.json["metadata"]:
            page = await world.ask("GET", f"/v1/workloads?limit=3&continue={page.json['metadata']['continue']}")
            found += [item["metadata"]["name"] for item in page.json["items"]]
            assert page.json["metadata"]["token"] == first.json["metadata"]["token"]
        assert found == names

    in_world(story)


def test_a_list_that_was_left_too_long_is_gone() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("POST", "/v1/batch", {"items": [a_workload(f"w{number}") for number in range(3)]})
        first = await world.ask("GET", "/v1/workloads?limit=1")
        await world.clock.sleep(120_000)
        late = await world.ask("GET", f"/v1/workloads?limit=1&continue={first.json['metadata']['continue']}")
        assert late.status == 410

    in_world(story)


@pytest.mark.parametrize(
    ("selector", "names"),
    [("app=web", ["a", "b"]), ("app=web,tier!=back", ["a"]), ("tier", ["b"]), ("!tier", ["a", "c"]), ("app=none", [])],
)
def test_labels_select(selector: str, names: list[str]) -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        labels: dict[str, dict[str, str]] = {"a": {"app": "web"}, "b": {"app": "web", "tier": "back"}, "c": {}}
        for name, marks in labels.items():
            document = a_workload(name)
            document["metadata"]["labels"] = marks
            assert (await world.ask("PUT", f"/v1/workloads/shop/{name}", document)).status == 201
        request = world.request("GET", "/v1/workloads")
        asked = type(request)("GET", request.path, (("selector", selector),), request.headers)
        reply = await world.caller.call("p1", asked, 1_000)
        import msgspec

        assert [item["metadata"]["name"] for item in msgspec.json.decode(reply.body)["items"]] == names

    in_world(story)


def test_every_answer_says_where_it_is_from() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        answer = await world.ask("GET", "/v1/tenants/shop", holdfast_read="linear")
        assert answer.headers["holdfast-server"] == "p1"
        assert answer.headers["holdfast-role"] == "leading"
        assert answer.headers["holdfast-leader"] == "p1"
        assert answer.headers["holdfast-ledger"] == "platform"
        assert int(answer.headers["holdfast-term"]) == 1
        assert int(answer.headers["holdfast-age-ms"]) >= 0
        token = answer.headers["holdfast-token"]
        again = await world.ask("GET", "/v1/tenants/shop", holdfast_read=f"at-least={token}")
        assert again.status == 200

    in_world(story)


def test_an_operator_opens_and_ends_an_override_by_name() -> None:
    async def story(world: World) -> None:
        await world.platform()
        region = {"kind": "Region", "metadata": {"name": "eu"}, "spec": {"jurisdiction": "eu"}}
        await world.ask("PUT", "/v1/regions/eu", region)
        ends = "2100-01-01T00:00:00.000Z"
        body = {"action": "pause-autoscaler", "region": "eu", "target": "", "reason": "drill", "ends": ends}
        too_long = await world.ask("POST", "/v1/commands/open-override", body)
        assert too_long.status in (409, 422)
        unknown = await world.ask("POST", "/v1/commands/open-overide", body)
        assert unknown.status == 404
        faulty = await world.ask("POST", "/v1/commands/open-override", body | {"action": "pause-autoscalar"})
        assert faulty.status == 422
        assert "pause-autoscaler" in faulty.json["errors"][0]["hint"]
        soon = body | {"ends": format_instant(world.clock.wall() + 60_000)}
        opened = await world.ask("POST", "/v1/commands/open-override", soon)
        assert opened.status == 200, opened
        in_force = (await world.ask("GET", "/v1/status")).json["overrides"]
        assert [(one["spec"]["action"], one["status"]["owner"]) for one in in_force] == [("pause-autoscaler", OPERATOR)]
        uid = opened.json["revision"]
        ended = await world.ask("POST", "/v1/commands/end-override", {"uid": uid, "reason": "done"})
        assert ended.status == 200, ended
        assert (await world.ask("GET", "/v1/overrides")).json["items"] == []

    in_world(story)


def test_a_document_of_a_kind_that_another_ledger_keeps_is_refused() -> None:
    async def story(world: World) -> None:
        await world.platform()
        node = {"apiVersion": "holdfast/v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": {"cordoned": True}}
        answer = await world.ask("POST", "/v1/batch", {"items": [node]})
        assert answer.json["items"][0]["problem"]["code"] == "no-such-route"

    in_world(story)


def test_the_audit_comes_in_pages_without_gap_or_repeat() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        await world.ask("POST", "/v1/batch", {"items": [a_workload(f"w{number}") for number in range(7)]})
        whole = (await world.ask("GET", "/v1/audit?limit=100")).json["items"]
        found, path = [], "/v1/audit?limit=2"
        while path:
            page = (await world.ask("GET", path)).json
            assert len(page["items"]) <= 2
            found += page["items"]
            more = page["metadata"].get("continue")
            path = f"/v1/audit?limit=2&continue={more}" if more else ""
        assert found == whole
        assert len(whole) >= 9
        since = whole[3]["at"]
        newer = (await world.ask("GET", f"/v1/audit?limit=100&since={since}")).json["items"]
        assert newer == [item for item in whole if item["at"] >= since]

    in_world(story)


@pytest.mark.parametrize(
    ("verb", "path"),
    [("GET", "/v1/workloads?selectr=a"), ("DELETE", "/v1/workloads/shop/web?dryrun=All"), ("GET", "/v1/audit?actr=x")],
)
def test_a_parameter_that_nobody_would_look_at_is_refused_with_a_suggestion(verb: str, path: str) -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        await world.ask("PUT", "/v1/workloads/shop/web", a_workload())
        answer = await world.ask(verb, path)
        assert answer.status == 400
        assert "did you mean" in answer.json["detail"]
        assert len(part.state.workloads) == 1

    in_world(story)


def test_over_quota_is_queued_and_not_refused() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        quota = {"kind": "Quota", "metadata": {"name": "shop"}, "spec": {"hard": {"cpu": 1}}}
        assert (await world.ask("PUT", "/v1/quotas/shop", quota)).status == 201
        assert (await world.ask("PUT", "/v1/workloads/shop/web", a_workload(replicas=100))).status == 201

    in_world(story)


def test_a_lost_answer_and_a_repeat_after_its_timeout_do_the_work_once() -> None:
    async def story(world: World) -> None:
        part = await a_shop(world)
        request = world.request("PUT", "/v1/workloads/shop/web", a_workload(), key="lost")
        with pytest.raises(NoAnswer):
            await world.caller.call("p1", request, 0)
        await world.clock.sleep(1_000)
        assert len(part.state.workloads) == 1
        seq = part.state.info.seq
        again = await world.caller.call("p1", request, 1_000)
        assert (again.status, dict(again.headers)["holdfast-repeated"]) == (201, "true")
        assert part.state.info.seq == seq

    in_world(story)


@pytest.mark.parametrize(
    ("said", "failover", "on_disconnect"),
    [
        ({}, "additive", "keep"),
        ({"exclusive": True}, "acknowledged", "keep"),
        ({"exclusive": True, "failover": "leased"}, "leased", "stop"),
        ({"exclusive": True, "onDisconnect": "stop"}, "acknowledged", "stop"),
    ],
)
def test_what_a_workload_does_not_say_follows_its_kind(said: dict[str, Any], failover: str, on_disconnect: str) -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        document = a_workload(**said)
        first = await world.ask("PUT", "/v1/workloads/shop/web", document)
        assert (first.status, first.json["spec"]["failover"]) == (201, failover)
        read = (await world.ask("GET", "/v1/workloads/shop/web")).json
        assert (read["spec"]["failover"], read["spec"]["onDisconnect"]) == (failover, on_disconnect)
        for again in (document, read):
            assert (await world.ask("PUT", "/v1/workloads/shop/web", again)).headers["holdfast-outcome"] == "unchanged"

    in_world(story)


def test_what_a_workload_says_against_its_kind_is_refused() -> None:
    async def story(world: World) -> None:
        await a_shop(world)
        for said in ({"failover": "additive"}, {"failover": "leased", "onDisconnect": "keep"}):
            refused = await world.ask("PUT", "/v1/workloads/shop/web", a_workload(exclusive=True, **said))
            assert refused.json["code"] == "contradictory", said

    in_world(story)
