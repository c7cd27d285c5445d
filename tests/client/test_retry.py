"""One request until it is answered: where it goes, how long it waits, what is raised in the end."""

from __future__ import annotations

import json

import pytest

from holdfast.client import objects
from holdfast.client.config import new_key
from holdfast.client.errors import (
    ConflictError,
    HoldfastError,
    NotFoundError,
    OutcomeUnknownError,
    PermissionDeniedError,
    RefusedError,
    RevisionGoneError,
    SessionEndedError,
    UnavailableError,
    problem_from_reply,
)
from holdfast.client.retry import MAX_PAUSE_MS, NOT_EXECUTED_CODES, RETRY_AFTER_MAX_MS
from holdfast.host import errors
from holdfast.host.ports.transport import Reply, first_value
from tests.support.api.scripted_servers import SILENCE, UNREACHABLE, Outcome, Script, ok, says, thing

TENANT = thing("shop")
DONE = ok(TENANT, etag='"4.0"', holdfast_outcome="created", holdfast_token="log:1:4:aa")


def test_a_server_that_is_unreachable_is_passed_over_at_once() -> None:
    script = Script(UNREACHABLE, UNREACHABLE, ok(TENANT))
    script.play(objects.get(script.caller("a", "b", "c"), "Tenant", "shop"))
    assert script.asked == ["a", "b", "c"]
    assert script.pauses == []


def test_a_pause_comes_after_every_server_was_tried_and_grows() -> None:
    script = Script(*[UNREACHABLE] * 7, ok(TENANT))
    script.play(objects.get(script.caller("a", "b"), "Tenant", "shop"))
    assert script.asked == ["a", "b"] * 4
    assert script.pauses == [100, 200, 400]


def test_pauses_are_drawn_between_half_and_all_and_have_a_limit() -> None:
    def pauses(jitter: float) -> list[int]:
        script = Script(*[UNREACHABLE] * 9, ok(TENANT))
        script.play(objects.get(script.caller(jitter=jitter), "Tenant", "shop"))
        return script.pauses

    assert pauses(0.0) == [100, 200, 400, 800, 1600, 3200, MAX_PAUSE_MS, MAX_PAUSE_MS, MAX_PAUSE_MS]
    assert pauses(0.999) == [51, 101, 201, 401, 801, 1602, 2503, 2503, 2503]


def test_the_server_that_last_worked_is_preferred_by_the_next_call() -> None:
    script = Script(UNREACHABLE, ok(TENANT), ok(TENANT))
    caller = script.caller("a", "b")
    script.play(objects.get(caller, "Tenant", "shop"))
    script.play(objects.get(caller.through("eu"), "Tenant", "shop"))
    assert script.asked == ["a", "b", "b"]


def test_a_503_that_names_the_leader_sends_us_there() -> None:
    script = Script(says(503, "not-leading", holdfast_leader="c", retry_after="7"), DONE, DONE)
    caller = script.caller("a", "b", "c")
    script.play(objects.put(caller, TENANT))
    script.play(objects.put(caller, TENANT))
    assert script.asked == ["a", "c", "c"]
    assert script.pauses == []


@pytest.mark.parametrize("leader", ["https://evil.example", "https://b.example", "https://b:1", "https://b@evil", "b"])
def test_a_leader_that_was_not_listed_is_not_followed(leader: str) -> None:
    """Our token goes to servers that whoever gave it to us has written down, and to nobody whom one of them names."""
    script = Script(says(503, "not-leading", holdfast_leader=leader), DONE)
    script.play(objects.put(script.caller("https://a", "https://b"), TENANT))
    assert script.asked == ["https://a", "https://b"]


def test_where_one_server_is_listed_it_is_asked_again_whoever_leads() -> None:
    """A server that follows hands on what it is asked; one that cannot yet may soon."""
    script = Script(says(503, "not-leading", holdfast_leader="https://b"), DONE)
    script.play(objects.put(script.caller("https://a"), TENANT))
    assert script.asked == ["https://a", "https://a"]


def test_two_servers_that_name_each_other_are_asked_with_pauses() -> None:
    at_b, at_a = says(503, "not-leading", holdfast_leader="b"), says(503, "not-leading", holdfast_leader="a")
    script = Script(at_b, at_a, at_b, at_a, DONE)
    script.play(objects.put(script.caller("a", "b"), TENANT))
    assert script.asked == ["a", "b", "a", "b", "a"]
    assert script.pauses == [100, 200]


def test_servers_that_name_ever_new_leaders_do_not_keep_us_running() -> None:
    script = Script(*[says(503, "not-leading", holdfast_leader=f"x{n}") for n in range(9)], DONE)
    script.play(objects.put(script.caller("a"), TENANT))
    assert len(script.pauses) >= 3


def test_a_leader_that_is_unreachable_sends_us_on_in_the_list() -> None:
    script = Script(says(503, "not-leading", holdfast_leader="z"), UNREACHABLE, DONE)
    script.play(objects.put(script.caller("a", "b", "z"), TENANT))
    assert script.asked == ["a", "z", "a"]


@pytest.mark.parametrize(
    ("server", "leader", "asked"),
    [
        ("https://a", "http://b", "https://c"),
        ("https://a", "b", "https://c"),
        ("https://a", "https://b/", "https://b"),
        ("http://a", "https://b", "https://b"),
        ("http://127.0.0.1:1", "http://b:1", "https://c"),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", "https://c"),
    ],
)
def test_a_leader_is_not_followed_from_a_protected_connection_to_an_open_one(
    server: str, leader: str, asked: str
) -> None:
    script = Script(says(503, "not-leading", holdfast_leader=leader), DONE)
    script.play(objects.put(script.caller(f"{server}/", "https://c", "https://b"), TENANT))
    assert script.asked == [server, asked]


def test_what_comes_through_a_region_does_not_say_where_our_token_is_sent() -> None:
    script = Script(
        says(503, "not-leading", holdfast_leader="eu-2", holdfast_ledger="region/eu"),
        # A region may write what it likes, and it comes to us as the platform's answer.
        says(503, "not-leading", holdfast_leader="evil", holdfast_ledger="platform"),
        DONE,
    )
    script.play(objects.put(script.caller("a", "b").through("eu"), TENANT))
    assert script.asked == ["a", "b", "a"]
    assert {request.path for request in script.requests} == {"/v1/in/eu/tenants/shop"}


def test_a_429_is_repeated_at_the_same_server_after_what_it_asked_for() -> None:
    script = Script(says(429, "rate-limited", retry_after="2"), ok(TENANT))
    script.play(objects.get(script.caller("a", "b"), "Tenant", "shop"))
    assert script.asked == ["a", "a"]
    assert script.pauses == [2_000]


def test_milliseconds_in_the_problem_count_more_than_seconds_in_the_header() -> None:
    body = json.dumps({"code": "overloaded", "retryAfterMs": 350}).encode()
    script = Script(Reply(429, (("retry-after", "1"),), body), ok(TENANT))
    script.play(objects.get(script.caller(), "Tenant", "shop"))
    assert script.pauses == [350]


@pytest.mark.parametrize(
    ("asked_for", "waited"),
    [("3600", RETRY_AFTER_MAX_MS), ("9" * 5000, 100), ("Fri, 31 Dec 1999 23:59:59 GMT", 100), ("-5", 100)],
)
def test_retry_after_has_a_limit_and_what_cannot_be_read_is_passed_over(asked_for: str, waited: int) -> None:
    script = Script(says(429, "overloaded", retry_after=asked_for), ok(TENANT))
    script.play(objects.get(script.caller(), "Tenant", "shop"))
    assert script.pauses == [waited]


def test_retry_after_holds_for_the_server_that_said_it_though_another_was_asked_since() -> None:
    script = Script(says(503, "read-only", retry_after="5"), UNREACHABLE, ok(TENANT))
    script.play(objects.get(script.caller("a", "b"), "Tenant", "shop"))
    assert script.asked == ["a", "b", "a"]
    assert script.pauses == [5_000]


@pytest.mark.parametrize(
    "failure",
    [UNREACHABLE, says(429, "any-code"), *(says(503, code) for code in sorted(NOT_EXECUTED_CODES))],
    ids=lambda failure: problem_from_reply(failure).code if isinstance(failure, Reply) else "unreachable",
)
def test_patience_that_ends_before_anything_can_have_been_done_is_unavailable(failure: Outcome) -> None:
    script = Script(failure)
    with pytest.raises(UnavailableError):
        script.play(objects.put(script.caller("a", "b", retry_for_ms=5_000), TENANT))
    assert len(script.sent) > 3


@pytest.mark.parametrize(
    "failure",
    [SILENCE, says(503, "outcome-unknown"), says(502, "bad-gateway"), says(504, "deadline"), Reply(503)],
)
def test_patience_that_ends_after_one_attempt_that_may_have_been_done_is_an_unknown_outcome(failure: Outcome) -> None:
    script = Script(UNREACHABLE, failure, UNREACHABLE)
    with pytest.raises(OutcomeUnknownError) as raised:
        script.play(objects.put(script.caller(), TENANT))
    assert raised.value.key == "key0"
    assert raised.value.problem.code == "unreachable"
    assert "key0" in str(raised.value)


def test_the_codes_with_which_a_server_promises_that_nothing_was_done_are_those_of_a_host() -> None:
    """All that a host says instead of an answer, but the one that says the opposite; the API's limit; a dark region."""
    hosts = {error.code for error in errors.Unavailable.__subclasses__()}
    assert hosts - {"outcome-unknown"} | {"rate-limited", "region-unreachable"} == NOT_EXECUTED_CODES


def test_a_read_has_no_unknown_outcome() -> None:
    script = Script(SILENCE)
    with pytest.raises(UnavailableError) as raised:
        script.play(objects.get(script.caller(), "Tenant", "shop"))
    assert raised.value.problem.code == "no-answer"


def test_a_dry_run_has_no_unknown_outcome() -> None:
    script = Script(SILENCE)
    with pytest.raises(UnavailableError):
        script.play(objects.put(script.caller(), TENANT, dry_run=True))


def test_a_server_that_asks_for_more_than_what_is_left_of_the_patience_ends_the_call_at_once() -> None:
    script = Script(says(429, "overloaded", retry_after="10"))
    with pytest.raises(UnavailableError):
        script.play(objects.get(script.caller(retry_for_ms=5_000), "Tenant", "shop"))
    assert script.pauses == []


def test_a_500_is_not_repeated() -> None:
    script = Script(Reply(500, body=b"<html>oops</html>"))
    with pytest.raises(UnavailableError, match="oops"):
        script.play(objects.get(script.caller(), "Tenant", "shop"))
    with pytest.raises(OutcomeUnknownError):
        script.play(objects.put(script.caller(), TENANT))
    assert len(script.sent) == 2


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (says(404, "not-found"), NotFoundError),
        (says(409, "exists"), ConflictError),
        (says(412, "stale"), ConflictError),
        (says(401, "unauthenticated"), PermissionDeniedError),
        (says(403, "no-right"), PermissionDeniedError),
        (says(410, "gone"), RevisionGoneError),
        (says(409, "no-session"), SessionEndedError),
        (says(422, "contradictory"), RefusedError),
        (Reply(307), RefusedError),
    ],
)
def test_a_refusal_is_raised_at_once_as_what_callers_branch_on(reply: Reply, error: type[HoldfastError]) -> None:
    script = Script(reply)
    with pytest.raises(error) as raised:
        script.play(objects.put(script.caller(), TENANT))
    assert type(raised.value) is error
    assert len(script.sent) == 1


def test_a_refusal_carries_the_whole_problem() -> None:
    body = {
        "type": "urn:holdfast:problem:malformed", "title": "Not a workload", "status": 400, "code": "malformed",
        "detail": "the document has a field that is not known", "facts": {"kind": "Workload"},
        "errors": [{"pointer": "/spec/replica", "detail": "unknown field", "hint": "did you mean replicas?"}],
        "hint": "holdfast schema Workload", "lane": "people", "new": 1,
    }  # fmt: skip
    script = Script(Reply(400, body=json.dumps(body).encode()))
    with pytest.raises(RefusedError) as raised:
        script.play(objects.put(script.caller(), TENANT))
    problem = raised.value.problem
    assert (problem.code, problem.status, problem.facts, problem.lane) == (
        "malformed", 400, {"kind": "Workload"}, "people",
    )  # fmt: skip
    assert problem.errors[0].pointer == "/spec/replica"
    assert str(raised.value).splitlines() == [
        "the document has a field that is not known (malformed)",
        "  /spec/replica: unknown field (did you mean replicas?)",
        "hint: holdfast schema Workload",
    ]


@pytest.mark.parametrize("body", [b"", b"<html>", b"[1]", b'{"status": "x"}', b"\xff", b'{"errors": 3}'])
def test_a_refusal_that_is_no_problem_document_is_a_problem_all_the_same(body: bytes) -> None:
    script = Script(Reply(404, body=body))
    with pytest.raises(NotFoundError) as raised:
        script.play(objects.get(script.caller(), "Tenant", "shop"))
    assert (raised.value.problem.code, raised.value.problem.status) == ("http-404", 404)


@pytest.mark.parametrize(
    ("reply", "revision"),
    [
        (says(412, "stale", etag='"9.1"'), "9.1"),
        (says(409, "stale", facts={"revision": "9.2"}), "9.2"),
        (says(409, "exists"), ""),
    ],
)
def test_a_conflict_tells_the_revision_that_there_is_now(reply: Reply, revision: str) -> None:
    script = Script(reply)
    with pytest.raises(ConflictError) as raised:
        script.play(objects.put(script.caller(), TENANT))
    assert raised.value.revision == revision


@pytest.mark.parametrize("reply", [says(401, "unauthenticated"), says(403, "no-right"), says(400, "too-old-to-retry")])
def test_a_refusal_that_says_nothing_of_an_earlier_attempt_leaves_it_unknown(reply: Reply) -> None:
    script = Script(SILENCE, reply)
    with pytest.raises(OutcomeUnknownError) as raised:
        script.play(objects.put(script.caller(), TENANT))
    assert raised.value.problem.status == reply.status


def test_a_refusal_by_the_ledger_after_silence_means_that_nothing_was_done() -> None:
    """It looks for an earlier answer first, and what was refused is decided anew."""
    script = Script(SILENCE, says(409, "in-use"))
    with pytest.raises(ConflictError):
        script.play(objects.delete(script.caller(), "Tenant", "shop"))


@pytest.mark.parametrize("body", [b"<html>welcome</html>", b"[]", b"\xff\xfe"])
def test_a_success_that_cannot_be_read_is_no_success(body: bytes) -> None:
    script = Script(Reply(200, body=body))
    with pytest.raises(UnavailableError, match="is this a Holdfast server"):
        script.play(objects.get(script.caller(), "Tenant", "shop"))
    with pytest.raises(OutcomeUnknownError) as raised:
        script.play(objects.put(script.caller(), TENANT))
    assert raised.value.key == "key0"


def test_every_request_says_who_asks_and_how_long_they_wait() -> None:
    script = Script(ok(TENANT))
    caller = script.caller(token="hf_ci_secret", timeout_ms=2_000, agent="test/1")
    script.play(objects.get(caller, "Tenant", "shop"))
    assert script.headers("authorization") == ["Bearer hf_ci_secret"]
    assert script.headers("user-agent") == ["test/1"]
    assert script.headers("holdfast-timeout-ms") == ["1800"]
    assert [step.timeout_ms for step in script.sent] == [2_000]
    assert "secret" not in repr(caller.access)


def test_what_a_server_said_is_told_rather_than_that_there_was_no_time_for_another_answer() -> None:
    script = Script(says(504, "deadline"), SILENCE, took_ms=900)
    with pytest.raises(UnavailableError) as raised:
        script.play(objects.get(script.caller(retry_for_ms=1_200, timeout_ms=1_000), "Tenant", "shop"))
    assert len(script.sent) == 2
    assert raised.value.problem.code == "deadline"


def test_the_last_attempt_of_a_read_is_cut_short_and_that_of_a_write_is_not() -> None:
    def limits(write: bool) -> list[int]:
        script = Script(SILENCE)
        caller = script.caller(retry_for_ms=25_000)
        call = objects.put(caller, TENANT) if write else objects.get(caller, "Tenant", "shop")
        with pytest.raises(HoldfastError):
            script.play(call)
        return [step.timeout_ms for step in script.sent]

    assert limits(write=True) == [10_000, 10_000, 10_000]
    assert limits(write=False) == [10_000, 10_000, 4_700]


def test_a_key_of_an_earlier_day_says_when_it_was_made() -> None:
    """Beyond its window the server has forgotten it, and must not take the repeat for a new command."""
    old = f"{1_700_000_000_000:013d}-{'a' * 24}"
    script = Script(DONE)
    script.now = 1_700_000_000_000 + 86_400_000
    script.play(objects.put(script.caller(), TENANT, idempotency_key=old))
    assert first_value(script.sent[-1].request.headers, "holdfast-sent") == "2023-11-14T22:13:20.000Z"


def test_a_key_that_was_just_made_says_nothing_of_our_clock() -> None:
    script = Script(DONE)
    script.now = 1_700_000_000_000
    script.play(objects.put(script.caller(), TENANT, idempotency_key=new_key(script.now - 1_000)))
    assert first_value(script.sent[-1].request.headers, "holdfast-sent") == ""
