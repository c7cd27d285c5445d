"""Reading and writing objects, with scripted servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.client import commands, objects, reports
from holdfast.client.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    ProblemReport,
    RevisionGoneError,
    UnavailableError,
)
from holdfast.client.objects import EDITS, LIST_STARTS, SLICE, SLICE_BYTES
from holdfast.host.ports.transport import Reply
from tests.support.api.scripted_servers import SILENCE, UNREACHABLE, Script, ok, page, says, thing

TENANT = thing("shop")


def written(token: str = "log:1:4:aa", outcome: str = "configured", **headers: str) -> Any:
    return ok(TENANT, etag='"4.0"', holdfast_outcome=outcome, holdfast_token=token, **headers)


def workload(name: str = "web", **metadata: str) -> dict[str, Any]:
    return {"kind": "Workload", "metadata": {"name": name, **metadata}, "spec": {}}


# Writing


def test_a_write_has_one_key_and_repeats_it_verbatim() -> None:
    script = Script(SILENCE, says(503, "not-leading"), UNREACHABLE, written())
    script.play(objects.put(script.caller("a", "b"), TENANT))
    assert script.headers("idempotency-key") == ["key0"] * 4
    assert len({request.body for request in script.requests}) == 1


def test_two_writes_have_two_keys_and_a_key_can_be_given() -> None:
    script = Script(written())
    caller = script.caller()
    script.play(objects.put(caller, TENANT))
    script.play(objects.delete(caller, "Tenant", "shop"))
    script.play(objects.put(caller, TENANT, idempotency_key="mine"))
    script.play(commands.command(caller, "declare-lost", {"region": "eu"}, idempotency_key="ours"))
    assert script.headers("idempotency-key") == ["key0", "key1", "mine", "ours"]


def test_a_read_has_no_key() -> None:
    script = Script(ok(TENANT))
    script.play(objects.get(script.caller(), "Tenant", "shop"))
    script.play(reports.whoami(script.caller()))
    assert script.headers("idempotency-key") == ["", ""]


def test_a_put_says_what_it_takes_the_object_for() -> None:
    script = Script(written())
    caller = script.caller()
    script.play(objects.put(caller, TENANT, if_match="3.1"))
    script.play(objects.put(caller, TENANT, if_match="*"))
    script.play(objects.put(caller, TENANT, create_only=True))
    script.play(objects.put(caller, TENANT, dry_run=True))
    assert script.headers("if-match") == ['"3.1"', "*", "", ""]
    assert script.headers("if-none-match") == ["", "", "*", ""]
    assert [request.query for request in script.requests] == [(), (), (), (("dryRun", "All"),)]


def test_a_put_gives_the_object_the_outcome_and_the_revision() -> None:
    script = Script(written(outcome="created"), ok(TENANT))
    caller = script.caller()
    assert script.play(objects.put(caller, TENANT)) == objects.WriteResult(TENANT, "created", "4.0")
    assert script.play(objects.put(caller, TENANT)) == objects.WriteResult(TENANT, "", "1.0")


def test_a_delete_says_whether_the_object_is_gone_or_held() -> None:
    held = thing("shop")
    held["metadata"]["deletion"] = {"at": "2026-11-15T17:00:00.000Z"}
    script = Script(ok(TENANT), ok(held))
    caller = script.caller()
    assert script.play(objects.delete(caller, "tenants", "shop", if_match="1.0")).outcome == "deleted"
    assert script.play(objects.delete(caller, "tenants", "shop")).outcome == "deleting"
    assert script.headers("if-match") == ['"1.0"', ""]


def test_the_default_tenant_is_written_into_documents_that_need_one_and_name_none() -> None:
    script = Script(ok({}))
    caller = script.caller(tenant="shop")
    given = workload()
    script.play(objects.put(caller, given))
    script.play(objects.put(caller, workload(tenant="lab")))
    script.play(objects.put(caller, TENANT))
    assert [request.path for request in script.requests] == [
        "/v1/workloads/shop/web", "/v1/workloads/lab/web", "/v1/tenants/shop",
    ]  # fmt: skip
    assert json.loads(script.requests[0].body)["metadata"]["tenant"] == "shop"
    assert "tenant" not in given["metadata"]
    assert "tenant" not in json.loads(script.requests[2].body)["metadata"]


@pytest.mark.parametrize("document", [{}, {"kind": "Tenant"}, {"kind": "Tenant", "metadata": {}}, {"metadata": TENANT}])
def test_a_document_that_names_no_object_is_not_sent(document: dict[str, Any]) -> None:
    script = Script(written())
    with pytest.raises(ValueError, match="a document needs"):
        script.play(objects.put(script.caller(), document))
    assert script.sent == []


def test_a_tenanted_object_without_a_tenant_is_not_asked_for() -> None:
    script = Script(ok({}))
    with pytest.raises(ValueError, match="belong to a tenant"):
        script.play(objects.get(script.caller(), "workloads", "web"))


# Reading what was written


def test_a_read_after_a_write_asks_to_see_it() -> None:
    script = Script(ok(TENANT), written("log:1:4:aa"), ok(TENANT), page())
    caller = script.caller()
    script.play(objects.get(caller, "Tenant", "shop"))
    script.play(objects.put(caller, TENANT))
    script.play(objects.get(caller, "Tenant", "shop"))
    script.play(objects.list_all(caller, "Tenant"))
    assert script.headers("holdfast-read") == ["", "", "at-least=log:1:4:aa", "at-least=log:1:4:aa"]


def test_a_level_that_the_caller_names_is_the_one_that_is_asked_for() -> None:
    script = Script(written(), ok(TENANT))
    caller = script.caller()
    script.play(objects.put(caller, TENANT))
    script.play(objects.get(caller, "Tenant", "shop", read="any"))
    assert script.headers("holdfast-read")[1] == "any"


def test_answers_to_writes_side_by_side_leave_the_newest_token_whatever_their_order() -> None:
    script = Script(written("log:1:9:bb"), written("log:1:10:cc"), written("log:1:4:aa"), ok(TENANT))
    caller = script.caller()
    for _ in range(3):
        script.play(objects.put(caller, TENANT))
    script.play(objects.get(caller, "Tenant", "shop"))
    assert script.headers("holdfast-read")[-1] == "at-least=log:1:10:cc"


def test_a_token_of_another_log_replaces_the_one_before() -> None:
    script = Script(written("log:1:9:bb"), written("other:1:2:cc"), ok(TENANT))
    caller = script.caller()
    script.play(objects.put(caller, TENANT))
    script.play(objects.put(caller, TENANT))
    script.play(objects.get(caller, "Tenant", "shop"))
    assert script.headers("holdfast-read")[-1] == "at-least=other:1:2:cc"


def test_a_region_has_tokens_of_its_own() -> None:
    script = Script(
        written("p:1:4:aa", holdfast_ledger="platform"), ok(TENANT), written("eu:1:7:aa", holdfast_ledger="region/eu"),
        ok(TENANT), ok(TENANT), ok(TENANT),
    )  # fmt: skip
    caller = script.caller()
    eu = caller.through("eu")
    script.play(objects.put(caller, TENANT))
    script.play(objects.get(eu, "Node", "n1"))
    script.play(objects.put(eu, TENANT))
    script.play(objects.get(eu, "Node", "n1"))
    script.play(objects.get(caller.through("eu"), "Node", "n1"))
    script.play(objects.get(caller, "Tenant", "shop"))
    eus = "at-least=eu:1:7:aa"
    assert script.headers("holdfast-read") == ["", "", "", eus, eus, "at-least=p:1:4:aa"]


def test_a_token_that_is_not_of_the_region_is_not_kept_for_it() -> None:
    script = Script(written("p:1:4:aa", holdfast_ledger="platform"), ok(TENANT))
    eu = script.caller().through("eu")
    script.play(objects.put(eu, TENANT))
    script.play(objects.get(eu, "Node", "n1"))
    assert script.headers("holdfast-read") == ["", ""]


def test_a_dry_run_leaves_no_token_behind() -> None:
    script = Script(written(), ok(TENANT))
    caller = script.caller()
    script.play(objects.put(caller, TENANT, dry_run=True))
    script.play(objects.get(caller, "Tenant", "shop"))
    assert script.headers("holdfast-read") == ["", ""]


@pytest.mark.parametrize("code", ["gone", "diverged"])
def test_a_token_that_the_log_has_lost_is_dropped_and_the_read_made_linear(code: str) -> None:
    script = Script(written(), says(410, code), ok(TENANT), ok(TENANT))
    caller = script.caller()
    script.play(objects.put(caller, TENANT))
    script.play(objects.get(caller, "Tenant", "shop"))
    script.play(objects.get(caller, "Tenant", "shop"))
    assert script.headers("holdfast-read") == ["", "at-least=log:1:4:aa", "linear", ""]


def test_a_token_that_the_caller_named_and_the_log_has_lost_is_the_callers_to_know() -> None:
    script = Script(written(), says(410, "gone"))
    caller = script.caller()
    script.play(objects.put(caller, TENANT))
    with pytest.raises(RevisionGoneError):
        script.play(objects.get(caller, "Tenant", "shop", read="at-least=log:1:1:aa"))
    assert len(script.sent) == 2


# Lists


def test_pages_are_joined_and_only_the_first_names_a_level() -> None:
    script = Script(written(), page(thing("a"), token="t1", going_on="c1"), page(thing("b"), going_on="c2"), page())
    caller = script.caller()
    script.play(objects.put(caller, TENANT))
    found = script.play(objects.list_all(caller, "tenants", selector="tier=gold", limit=1))
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
    assert found.token == "t1"
    base = (("selector", "tier=gold"), ("limit", "1"))
    assert [request.query for request in script.requests[1:]] == [
        base, (*base, ("continue", "c1")), (*base, ("continue", "c2")),
    ]  # fmt: skip
    assert script.headers("holdfast-read")[1:] == ["at-least=log:1:4:aa", "", ""]


def test_a_list_begins_anew_when_a_page_is_gone() -> None:
    first = page(thing("a"), token="t1", going_on="c1")
    script = Script(first, says(410, "gone"), page(thing("b"), token="t2"))
    found = script.play(objects.list_all(script.caller(), "tenants"))
    assert ([item["metadata"]["name"] for item in found.items], found.token) == (["b"], "t2")


def test_a_list_does_not_begin_anew_for_ever() -> None:
    script = Script(*[page(going_on="c1"), says(410, "gone")] * LIST_STARTS, page())
    with pytest.raises(RevisionGoneError):
        script.play(objects.list_all(script.caller(), "tenants"))
    assert len(script.sent) == 2 * LIST_STARTS


@pytest.mark.parametrize(
    ("kind", "tenant", "query"),
    [("workloads", "", "shop"), ("workloads", "lab", "lab"), ("workloads", "*", ""), ("nodes", "", "")],
)
def test_the_default_tenant_narrows_lists_of_tenanted_kinds_only(kind: str, tenant: str, query: str) -> None:
    script = Script(page())
    script.play(objects.list_all(script.caller(tenant="shop"), kind, tenant=tenant))
    assert dict(script.requests[0].query).get("tenant", "") == query


# Batches


def test_a_batch_goes_in_slices_and_its_results_are_joined() -> None:
    def answer(count: int) -> Any:
        return ok({"items": [{"outcome": "created", "object": TENANT}] * count}, holdfast_token="log:1:4:aa")

    script = Script(answer(SLICE), answer(SLICE), answer(1))
    documents = [thing(f"t{number}") for number in range(2 * SLICE + 1)]
    found = script.play(objects.batch(script.caller(), documents))
    assert len(found) == 2 * SLICE + 1
    assert script.headers("idempotency-key") == ["key0-0", "key0-1", "key0-2"]
    sent = [document for request in script.requests for document in json.loads(request.body)["items"]]
    assert sent == documents


def test_large_documents_go_in_slices_that_a_server_takes() -> None:
    large = [{**thing(f"t{number}"), "spec": {"note": "x" * 200_000}} for number in range(5)]
    one = {"outcome": "created", "object": TENANT}
    script = Script(ok({"items": [one, one]}), ok({"items": [one, one]}), ok({"items": [one]}))
    assert len(script.play(objects.batch(script.caller(), large))) == 5
    assert [json.loads(request.body)["items"] for request in script.requests] == [large[:2], large[2:4], large[4:]]
    assert max(len(request.body) for request in script.requests) < SLICE_BYTES + 100


def test_a_batch_of_one_slice_has_the_key_itself_and_an_empty_one_is_not_sent() -> None:
    script = Script(ok({"items": [{"outcome": "created", "object": TENANT}]}))
    caller = script.caller(tenant="shop")
    script.play(objects.batch(caller, [workload()], dry_run=True))
    assert script.headers("idempotency-key") == ["key0"]
    assert script.requests[0].query == (("dryRun", "All"),)
    assert json.loads(script.requests[0].body)["items"][0]["metadata"]["tenant"] == "shop"
    assert script.play(objects.batch(caller, [])) == ()
    assert len(script.sent) == 1


def test_a_document_of_a_batch_may_be_refused_while_others_are_not() -> None:
    refused = {"outcome": "refused", "problem": {"code": "stale", "status": 409, "detail": "no"}}
    script = Script(ok({"items": [{"outcome": "created", "object": TENANT}, refused]}))
    found = script.play(objects.batch(script.caller(), [TENANT, TENANT]))
    assert [item.outcome for item in found] == ["created", "refused"]
    assert found[1].problem == ProblemReport(code="stale", status=409, detail="no")


def test_a_batch_that_stops_on_its_way_says_what_it_had_done() -> None:
    done = ok({"items": [{"outcome": "created", "object": TENANT}] * SLICE})
    script = Script(done, SILENCE)
    with pytest.raises(OutcomeUnknownError) as raised:
        script.play(objects.batch(script.caller(), [TENANT] * (SLICE + 1)))
    assert len(raised.value.done) == SLICE
    assert raised.value.key == "key0-1"


# Edits


def change(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "spec": {"note": "changed"}}


def test_an_edit_puts_what_it_was_given_with_the_revision_that_it_read() -> None:
    script = Script(ok(thing("shop", "3.1")), written())
    script.play(objects.edit(script.caller(), "Tenant", "shop", change))
    assert [request.verb for request in script.requests] == ["GET", "PUT"]
    assert script.headers("if-match")[1] == '"3.1"'
    assert json.loads(script.requests[1].body)["spec"] == {"note": "changed"}


def test_an_edit_looks_again_when_somebody_was_faster_each_write_with_a_key_of_its_own() -> None:
    script = Script(ok(thing("shop", "3.1")), says(412, "stale"), ok(thing("shop", "3.2")), written())
    script.play(objects.edit(script.caller(), "Tenant", "shop", change))
    assert script.headers("if-match") == ["", '"3.1"', "", '"3.2"']
    assert script.headers("holdfast-read") == ["", "", "linear", ""]
    assert script.headers("idempotency-key") == ["", "key0", "", "key1"]


def test_an_edit_gives_up_after_a_number_of_conflicts() -> None:
    script = Script(*[ok(thing("shop")), says(412, "stale")] * (EDITS + 1))
    with pytest.raises(ConflictError):
        script.play(objects.edit(script.caller(), "Tenant", "shop", change))
    assert len(script.sent) == 2 * EDITS


def test_an_edit_does_not_repeat_a_conflict_that_looking_again_does_not_end() -> None:
    script = Script(ok(thing("shop")), says(409, "in-use"))
    with pytest.raises(ConflictError):
        script.play(objects.edit(script.caller(), "Tenant", "shop", change))
    assert len(script.sent) == 2


def test_an_edit_that_wants_no_change_writes_nothing() -> None:
    script = Script(ok(thing("shop", "3.1")))
    found = script.play(objects.edit(script.caller(), "Tenant", "shop", lambda _: None))
    assert found == objects.WriteResult(thing("shop", "3.1"), "unchanged", "3.1")
    assert len(script.sent) == 1


def test_an_edit_of_nothing_is_not_found() -> None:
    script = Script(says(404, "not-found"))
    with pytest.raises(NotFoundError):
        script.play(objects.edit(script.caller(), "Tenant", "shop", change))


# Commands and questions


def test_a_command_is_sent_by_its_tag_with_fields_as_documents_write_them() -> None:
    script = Script(ok({"revision": "41.3", "at": "2026-11-15T17:00:00.000Z"}, holdfast_token="log:1:41:aa"), ok({}))
    caller = script.caller()
    landed = script.play(commands.command(caller, "open-override", {"ends_at": 5, "key": "k", "reason": "r"}))
    assert (landed.revision, landed.at) == ("41.3", "2026-11-15T17:00:00.000Z")
    assert script.requests[0].path == "/v1/commands/open-override"
    assert json.loads(script.requests[0].body) == {"endsAt": 5, "key": "k", "reason": "r"}
    script.play(reports.whoami(caller))
    assert script.headers("holdfast-read")[1] == "at-least=log:1:41:aa"


@pytest.mark.parametrize("tag", ["", "../status", "a b"])
def test_what_is_no_tag_is_not_sent(tag: str) -> None:
    script = Script(ok({}))
    with pytest.raises(ValueError, match="not the tag"):
        script.play(commands.command(script.caller(), tag, {}))


def test_questions_go_where_they_belong() -> None:
    script = Script(
        ok({"role": "leading"}), ok({"allowed": False, "why": "no right"}), ok({"items": [{"at": "x"}]}), ok()
    )
    eu = script.caller().through("eu")
    assert script.play(reports.status(eu)) == {"role": "leading"}
    assert not script.play(reports.can_i(eu, "put-workload", tenant="shop")).allowed
    assert script.play(reports.audit(eu, actor="ci", limit=5)) == ({"at": "x"},)
    script.play(reports.schema(eu, "Workload"))
    assert [(request.verb, request.path) for request in script.requests] == [
        ("GET", "/v1/in/eu/status"), ("POST", "/v1/in/eu/can-i"),
        ("GET", "/v1/in/eu/audit"), ("GET", "/v1/in/eu/schemas/Workload"),
    ]  # fmt: skip
    assert json.loads(script.requests[1].body) == {"command": "put-workload", "tenant": "shop"}
    assert script.requests[2].query == (("actor", "ci"), ("limit", "5"))


def test_an_audit_goes_on_until_it_has_as_many_as_were_asked_for_or_the_log_is_at_its_end() -> None:
    def told(*at: str, going_on: str = "") -> Reply:
        return ok({"items": [{"at": one} for one in at], "metadata": {"continue": going_on} if going_on else {}})

    script = Script(told("e", "d", going_on="9.2"), told(going_on="5.0"), told("c", "b", going_on="2.0"))
    assert [one["at"] for one in script.play(reports.audit(script.caller(), limit=4))] == ["e", "d", "c", "b"]
    assert [request.query for request in script.requests] == [
        (("limit", "4"),),
        (("limit", "2"), ("continue", "9.2")),
        (("limit", "2"), ("continue", "5.0")),
    ]
    script = Script(told("b", going_on="9.0"), told())
    assert len(script.play(reports.audit(script.caller(), limit=4))) == 1


def test_an_audit_that_is_no_list_cannot_be_read() -> None:
    script = Script(ok({"items": 3}))
    with pytest.raises(UnavailableError):
        script.play(reports.audit(script.caller()))
