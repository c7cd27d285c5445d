"""Watches and waits, with scripted servers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.client import objects
from holdfast.client.errors import PermissionDeniedError, RefusedError, UnavailableError, WaitTimeoutError
from holdfast.client.requester import WatchEvent
from holdfast.client.watch import WatchStream, wait_for
from holdfast.host.ports.transport import Reply, StreamDeclined, first_value
from tests.support.api.scripted_servers import (
    SILENCE,
    START,
    UNREACHABLE,
    Outcome,
    Script,
    Stream,
    line,
    ok,
    page,
    says,
    thing,
)

Found = dict[str, Any] | None


def told(events: list[WatchEvent]) -> list[tuple[str, str, str]]:
    """Type, name and token of each event."""
    return [(event.type, event.object.get("metadata", {}).get("name", ""), event.token) for event in events]


def sinces(script: Script) -> list[str]:
    return [first_value(step.request.query, "since") for step in script.opened]


# Beginning


def test_a_watch_from_now_lists_silently_and_goes_on_from_the_lists_token() -> None:
    script = Script(page(thing("a"), token="t1"), Stream(line("MODIFIED", thing("a", "2.0"), "t2")))
    assert told(script.events(WatchStream(script.caller(), "tenants").run(), 1)) == [("MODIFIED", "a", "t2")]
    assert sinces(script) == ["t1"]
    assert first_value(script.opened[0].request.query, "watch") == "true"


def test_an_initial_watch_hands_out_what_there_is_and_then_a_bookmark() -> None:
    script = Script(page(thing("a"), thing("b"), token="t1"), Stream(line("DELETED", thing("a"), "t2")))
    events = script.events(WatchStream(script.caller(), "tenants", initial=True).run(), 4)
    assert told(events) == [("ADDED", "a", ""), ("ADDED", "b", ""), ("BOOKMARK", "", "t1"), ("DELETED", "a", "t2")]


def test_a_watch_since_a_token_does_not_list() -> None:
    script = Script(Stream(line("ADDED", thing("a"), "t2")))
    script.events(WatchStream(script.caller(), "tenants", since="t1").run(), 1)
    assert script.sent == []
    assert sinces(script) == ["t1"]


def test_a_watch_is_narrowed_down_as_its_list_is() -> None:
    script = Script(page(token="t1"), Stream(line("BOOKMARK", token="t2")))
    caller = script.caller(tenant="shop", token="hf_ci_x", idle_ms=7_000).through("eu")
    script.events(WatchStream(caller, "Replica", selector="a=b").run(), 1)
    for request in (script.requests[0], script.opened[0].request):
        assert request.path == "/v1/in/eu/replicas"
        assert dict(request.query)["tenant"] == "shop"
        assert dict(request.query)["selector"] == "a=b"
    stream = script.opened[0]
    assert first_value(stream.request.headers, "authorization") == "Bearer hf_ci_x"
    assert first_value(stream.request.headers, "holdfast-timeout-ms") == "", "a stream has no end in time"
    assert stream.idle_ms == 7_000


def test_a_watch_that_reaches_nobody_in_the_beginning_says_so() -> None:
    script = Script(UNREACHABLE)
    with pytest.raises(UnavailableError):
        script.events(WatchStream(script.caller(), "tenants").run(), 1)


# Going on


@pytest.mark.parametrize("end", [None, SILENCE])
def test_a_stream_that_ends_or_falls_silent_is_resumed_from_the_last_token_at_the_next_server(
    end: Any,
) -> None:
    script = Script(
        page(token="t1"),
        Stream(line("ADDED", thing("a"), "t2"), line("BOOKMARK", token="t3"), then=end),
        Stream(line("ADDED", thing("b"), "t4")),
    )
    events = script.events(WatchStream(script.caller("x", "y"), "tenants").run(), 3)
    assert told(events) == [("ADDED", "a", "t2"), ("BOOKMARK", "", "t3"), ("ADDED", "b", "t4")]
    assert sinces(script) == ["t1", "t3"]
    assert script.asked == ["x", "x", "y"]
    assert script.pauses == [100]


def test_a_watch_goes_on_long_after_a_calls_patience_would_have_ended() -> None:
    script = Script(page(token="t1"), *[UNREACHABLE] * 200, Stream(line("ADDED", thing("a"), "t2")))
    assert told(script.events(WatchStream(script.caller("x", "y"), "tenants").run(), 1)) == [("ADDED", "a", "t2")]
    assert script.now - START > 120_000


def test_streams_that_break_again_and_again_are_opened_less_and_less_often() -> None:
    broken = Stream(line("BOOKMARK", token="t2"))
    script = Script(page(token="t1"), *[broken] * 6)
    script.events(WatchStream(script.caller("x", "y"), "tenants").run(), 6)
    assert script.pauses == [100, 200, 400, 800, 1600]


def test_streams_that_are_silent_for_long_are_opened_anew_without_growing_pauses() -> None:
    script = Script(page(token="t1"), *[Stream(then=SILENCE)] * 8, Stream(line("BOOKMARK", token="t2")))
    script.events(WatchStream(script.caller("x", "y"), "tenants").run(), 1)
    assert script.pauses == [100] * 4
    assert script.asked == ["x", *["x", "y"] * 4, "x"]


def test_a_line_that_cannot_be_read_ends_the_stream_and_nothing_is_lost() -> None:
    script = Script(page(token="t1"), Stream(b"{"), Stream(line("ADDED", thing("a"), "t2")))
    assert told(script.events(WatchStream(script.caller(), "tenants").run(), 1)) == [("ADDED", "a", "t2")]
    assert sinces(script) == ["t1", "t1"]


def test_a_type_that_is_newer_than_this_client_is_passed_over() -> None:
    script = Script(page(token="t1"), Stream(line("HINT", {}, "t2"), line("ADDED", thing("a"), "t3")))
    assert told(script.events(WatchStream(script.caller(), "tenants").run(), 1)) == [("ADDED", "a", "t3")]


def test_a_watch_that_is_declined_for_now_tries_again_and_follows_the_leader() -> None:
    script = Script(
        page(token="t1"),
        StreamDeclined(says(503, "not-proven", holdfast_leader="z")),
        StreamDeclined(says(429, "overloaded", retry_after="3")),
        Stream(line("ADDED", thing("a"), "t2")),
    )
    script.events(WatchStream(script.caller("x", "y", "z"), "tenants").run(), 1)
    assert script.asked == ["x", "x", "z", "z"]
    assert script.pauses == [3_000]


def test_a_watch_that_is_refused_raises_the_refusal() -> None:
    script = Script(page(token="t1"), StreamDeclined(says(403, "no-right")))
    with pytest.raises(PermissionDeniedError):
        script.events(WatchStream(script.caller(), "tenants").run(), 1)


def test_an_error_that_ends_the_stream_is_raised_or_survived_by_its_status() -> None:
    def error(status: int, code: str) -> bytes:
        return line("ERROR", {"status": status, "code": code, "detail": "it is over"})

    survived = Stream(line("ADDED", thing("a"), "t2"), error(503, "stopped"))
    script = Script(page(token="t1"), survived, Stream(line("ADDED", thing("b"), "t3")))
    assert len(script.events(WatchStream(script.caller(), "tenants").run(), 2)) == 2
    assert sinces(script) == ["t1", "t2"]
    script = Script(page(token="t1"), Stream(error(401, "expired")))
    with pytest.raises(RefusedError, match="it is over"):
        script.events(WatchStream(script.caller(), "tenants").run(), 1)


# Listing again


@pytest.mark.parametrize(
    "gone",
    [StreamDeclined(says(410, "gone")), StreamDeclined(says(410, "diverged")), Stream(line("ERROR", {"code": "gone"}))],
)
def test_when_its_place_is_gone_a_watch_lists_again_and_hands_out_what_changed(gone: Any) -> None:
    script = Script(
        page(thing("a"), thing("b"), thing("c"), token="t1"),
        Stream(line("ADDED", thing("d"), "t2"), line("DELETED", thing("c"), "t3"), then=SILENCE),
        gone,
        page(thing("a"), thing("b", "9.0"), thing("d", "9.1", uid="new"), thing("e"), token="t9"),
        Stream(line("BOOKMARK", token="t10")),
    )
    events = script.events(WatchStream(script.caller(), "tenants").run(), 8)
    assert told(events) == [
        ("ADDED", "d", "t2"), ("DELETED", "c", "t3"),
        ("DELETED", "d", ""), ("MODIFIED", "b", ""), ("ADDED", "d", ""), ("ADDED", "e", ""), ("BOOKMARK", "", "t9"),
        ("BOOKMARK", "", "t10"),
    ]  # fmt: skip
    assert events[2].object["metadata"]["uid"] == "u-d"
    assert sinces(script)[-1] == "t9"
    assert script.headers("holdfast-read") == ["", "linear"], "nothing older than what was seen may be read"


def test_a_server_whose_tokens_are_always_gone_is_not_asked_without_pause() -> None:
    always: list[Outcome] = [page(token="t1"), StreamDeclined(says(410, "gone"))]
    script = Script(*always * 6)
    script.events(WatchStream(script.caller(), "tenants").run(), 5)
    assert script.pauses == [100, 200, 400, 800]


def test_a_list_that_fails_while_watching_is_made_again_until_it_succeeds() -> None:
    script = Script(
        page(token="t1"),
        StreamDeclined(says(410, "gone")),
        Reply(500),
        *[UNREACHABLE] * 40,
        page(thing("a"), token="t2"),
    )
    assert told(script.events(WatchStream(script.caller(), "tenants").run(), 2)) == [
        ("ADDED", "a", ""), ("BOOKMARK", "", "t2"),
    ]  # fmt: skip


def test_a_deletion_that_says_only_a_uid_is_told_with_the_name_that_it_had() -> None:
    script = Script(page(thing("a"), token="t1"), Stream(line("DELETED", {"metadata": {"uid": "u-a"}}, "t2")))
    event = script.events(WatchStream(script.caller(), "tenants").run(), 1)[0]
    assert (event.object["kind"], event.object["metadata"]["name"]) == ("Tenant", "a")


# One object


def test_a_watch_of_one_object_reads_it_alone_and_hands_out_nothing_else() -> None:
    script = Script(
        ok(thing("a"), holdfast_token="t1"),
        Stream(
            line("MODIFIED", thing("b"), "t2"),
            line("DELETED", {"metadata": {"uid": "u-b"}}, "t3"),
            line("DELETED", {"metadata": {"uid": "u-a"}}, "t4"),
            line("ADDED", thing("a", uid="new"), "t5"),
        ),
    )
    events = script.events(WatchStream(script.caller(), "tenants", name="a", initial=True).run(), 4)
    assert told(events) == [("ADDED", "a", ""), ("BOOKMARK", "", "t1"), ("DELETED", "a", "t4"), ("ADDED", "a", "t5")]
    assert [request.path for request in script.requests] == ["/v1/tenants/a"]


@pytest.mark.parametrize("absent", [[says(404, "not-found", holdfast_token="t1")], [Reply(404), page(token="t1")]])
def test_a_watch_of_an_object_that_is_not_there_yet_sees_it_come(absent: list[Any]) -> None:
    script = Script(*absent, Stream(line("ADDED", thing("a"), "t2")))
    events = script.events(WatchStream(script.caller(), "tenants", name="a", initial=True).run(), 2)
    assert told(events) == [("BOOKMARK", "", "t1"), ("ADDED", "a", "t2")]
    assert sinces(script) == ["t1"]


# Waiting


def is_ready(found: Found) -> bool:
    return found is not None and bool(found["spec"].get("ready"))


def is_gone(found: Found) -> bool:
    return found is None


@pytest.mark.parametrize(
    ("first", "predicate"),
    [(ok(thing("a", ready=True), holdfast_token="t1"), is_ready), (says(404, "x", holdfast_token="t1"), is_gone)],
)
def test_what_is_so_already_is_not_waited_for(first: Reply, predicate: Callable[[Found], bool]) -> None:
    script = Script(first)
    script.play(wait_for(script.caller(), "Tenant", "a", predicate, 10_000))
    assert len(script.steps) == 1


def test_a_wait_ends_with_the_object_for_which_it_holds() -> None:
    stream = Stream(line("MODIFIED", thing("a", "2.0"), "t2"), line("MODIFIED", thing("a", "3.0", ready=True), "t3"))
    script = Script(ok(thing("a"), holdfast_token="t1"), stream)
    found = script.play(wait_for(script.caller(), "Tenant", "a", is_ready, 10_000))
    assert found == thing("a", "3.0", ready=True)


def test_a_wait_for_an_end_is_over_when_the_object_is_deleted() -> None:
    stream = Stream(line("DELETED", {"metadata": {"uid": "u-a"}}, "t2"))
    script = Script(ok(thing("a"), holdfast_token="t1"), stream)
    assert script.play(wait_for(script.caller(), "Tenant", "a", is_gone, 10_000)) is None


@pytest.mark.parametrize("timeout_ms", [1, 700, 10_000, 300_000])
def test_a_wait_in_silence_ends_in_time_and_tells_what_was_seen_last(timeout_ms: int) -> None:
    script = Script(ok(thing("a"), holdfast_token="t1"), Stream(then=SILENCE))
    with pytest.raises(WaitTimeoutError) as raised:
        script.play(wait_for(script.caller(), "Tenant", "a", is_ready, timeout_ms))
    assert raised.value.last == thing("a")
    assert timeout_ms <= script.now - START <= timeout_ms + 250
    assert min(script.pauses, default=0) >= 0, "nobody can sleep for less than no time"
    assert len(script.opened) < 30


def test_a_wait_on_a_busy_stream_ends_in_time_too() -> None:
    script = Script(
        ok(thing("a"), holdfast_token="t1"), Stream(*[line("MODIFIED", thing("b"), "t2")] * 5, then=SILENCE)
    )
    with pytest.raises(WaitTimeoutError):
        script.play(wait_for(script.caller(), "Tenant", "a", is_ready, 60_000))
    assert 60_000 <= script.now - START <= 60_250


def test_a_line_that_comes_late_in_a_wait_does_not_make_it_longer() -> None:
    busy = Stream(*[line("MODIFIED", thing("b"), "t2")] * 9, every_ms=20_000)
    script = Script(ok(thing("a"), holdfast_token="t1"), busy)
    with pytest.raises(WaitTimeoutError):
        script.play(wait_for(script.caller(), "Tenant", "a", is_ready, 60_000))
    assert 60_000 <= script.now - START <= 60_250


def test_a_wait_for_servers_that_are_not_there_ends_in_time_and_says_so() -> None:
    for failure in (UNREACHABLE, SILENCE):
        script = Script(failure)
        with pytest.raises(UnavailableError):
            script.play(wait_for(script.caller(), "Tenant", "a", is_ready, 3_000))
        assert script.now - START <= 3_000


def test_a_wait_that_has_to_list_again_does_not_outlast_its_time() -> None:
    script = Script(ok(thing("a"), holdfast_token="t1"), StreamDeclined(says(410, "gone")), SILENCE)
    with pytest.raises(WaitTimeoutError):
        script.play(wait_for(script.caller(), "Tenant", "a", is_ready, 8_000))
    assert script.now - START <= 8_000


def test_a_watch_through_the_same_client_sees_its_own_writes() -> None:
    script = Script(ok(thing("a"), holdfast_token="log:1:4:aa"), page(token="t1"), Stream(line("BOOKMARK", token="t")))
    caller = script.caller()
    script.play(objects.put(caller, thing("a")))
    script.events(WatchStream(caller, "tenants").run(), 1)
    assert script.headers("holdfast-read") == ["", "at-least=log:1:4:aa"]
