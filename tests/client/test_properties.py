"""Whatever fails, and in whichever order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.client import commands, objects
from holdfast.client.errors import HoldfastError, OutcomeUnknownError, UnavailableError
from holdfast.client.requester import (
    ClientEffect,
    EmitEvent,
    OpenStream,
    Operation,
    ReadMessage,
    Requester,
    SendRequest,
    Sleep,
    resume,
)
from holdfast.client.watch import WatchStream
from holdfast.host.ports.transport import NoAnswer, Reply, StreamDeclined, TransportError, first_value
from tests.support.api.scripted_servers import SILENCE, START, UNREACHABLE, Outcome, Script, line, ok, page, says, thing

PATIENCE, TIMEOUT = 30_000, 10_000
HARMLESS: list[Outcome] = [
    UNREACHABLE, says(429, "rate-limited", retry_after="1"), says(503, "not-leading", holdfast_leader="b"),
    says(503, "not-proven", retry_after="2"), says(503, "not-leading", holdfast_leader="elsewhere"),
    says(429, "overloaded", retry_after="600"),
]  # fmt: skip
DOUBTFUL: list[Outcome] = [
    SILENCE, says(503, "outcome-unknown"), says(502, "bad-gateway"), says(504, "deadline"), Reply(503),
]  # fmt: skip
DONE = ok({"items": [], "revision": "1.0"}, holdfast_token="log:1:4:aa")
WRITES: dict[str, Callable[[Requester], Operation[Any]]] = {
    "put": lambda caller: objects.put(caller, thing("shop", note="é")),
    "delete": lambda caller: objects.delete(caller, "Tenant", "shop", if_match="3.0"),
    "batch": lambda caller: objects.batch(caller, [thing("a"), thing("b")]),
    "command": lambda caller: commands.command(caller, "declare-lost", {"region": "eu"}),
}
failures = st.lists(st.sampled_from(HARMLESS + DOUBTFUL), max_size=40)
clients = st.fixed_dictionaries(
    {"names": st.sampled_from([("a",), ("a", "b"), ("a", "b", "c")]), "jitter": st.floats(0, 0.99)}
)


def play(script: Script, call: Operation[Any]) -> HoldfastError | None:
    try:
        script.play(call)
    except HoldfastError as error:
        return error
    return None


def caller_of(script: Script, client: dict[str, Any]) -> Requester:
    return script.caller(*client["names"], jitter=client["jitter"], retry_for_ms=PATIENCE, timeout_ms=TIMEOUT)


@pytest.mark.parametrize("write", sorted(WRITES))
@given(failures=failures, ends=st.booleans(), took_ms=st.integers(0, TIMEOUT), client=clients)
def test_a_write_carries_one_key_and_one_body_whatever_fails(
    write: str, failures: list[Outcome], ends: bool, took_ms: int, client: dict[str, Any]
) -> None:
    script = Script(*failures, DONE if ends else UNREACHABLE, took_ms=took_ms)
    error = play(script, WRITES[write](caller_of(script, client)))
    assert set(script.headers("idempotency-key")) == {"key0"}
    assert len(set(script.requests)) == 1, "every attempt is the same request"
    assert script.now - START <= PATIENCE + TIMEOUT
    assert all(step.timeout_ms == TIMEOUT for step in script.sent)
    tried = (failures + [UNREACHABLE] * len(script.sent))[: len(script.sent)]
    if isinstance(error, UnavailableError):
        assert not any(outcome in DOUBTFUL for outcome in tried), "something may have been done"
    if isinstance(error, OutcomeUnknownError):
        assert any(outcome in DOUBTFUL for outcome in tried)
        assert error.key == "key0"


@given(failures=failures, took_ms=st.integers(0, TIMEOUT), client=clients)
def test_a_read_never_outlives_its_patience(failures: list[Outcome], took_ms: int, client: dict[str, Any]) -> None:
    script = Script(*failures, UNREACHABLE, took_ms=took_ms)
    error = play(script, objects.get(caller_of(script, client), "Tenant", "shop"))
    assert isinstance(error, UnavailableError)
    assert script.now - START <= PATIENCE


@given(failures=failures, client=clients)
def test_no_servers_are_asked_in_circles_without_pause(failures: list[Outcome], client: dict[str, Any]) -> None:
    script = Script(*failures, UNREACHABLE)
    play(script, objects.get(caller_of(script, client), "Tenant", "shop"))
    in_a_row = 0
    for step in script.steps:
        in_a_row = in_a_row + 1 if isinstance(step, SendRequest) else 0
        assert in_a_row <= len(client["names"]) + 2


class World:
    """A server whose objects change while it is watched. It may break off, forget, and send only so much at a time."""

    def __init__(self, chance: st.DataObject) -> None:
        self.chance = chance
        self.objects: dict[str, str] = {}
        self.log: list[tuple[str, str, str]] = []
        self.calm = False
        self._lines: list[bytes] = []

    def do(self, step: ClientEffect) -> Any:
        if not self.calm:
            for _ in range(self.chance.draw(st.integers(0, 2))):
                self.change(self.chance.draw(st.sampled_from("abc")), self.chance.draw(st.booleans()))
        fault = None if self.calm else self.chance.draw(st.sampled_from([None, None, UNREACHABLE, SILENCE, "gone"]))
        match step:
            case SendRequest():
                items = (thing(name, revision, uid=name) for name, revision in sorted(self.objects.items()))
                return fault if isinstance(fault, TransportError) else page(*items, token=str(len(self.log)))
            case OpenStream(_, request):
                if fault is not None:
                    return StreamDeclined(says(410, "gone")) if isinstance(fault, str) else fault
                seen = int(first_value(request.query, "since"))
                lines = [line(*self._told(number)) for number in range(seen, len(self.log))]
                self._lines = lines if self.calm else lines[: self.chance.draw(st.integers(0, 3))]
                self._lines += [line("BOOKMARK", token=str(len(self.log)))] if self.calm else []
            case ReadMessage():
                return self._lines.pop(0) if self._lines else NoAnswer("silence")
        return None

    def change(self, name: str, is_wanted: bool) -> None:
        if is_wanted:
            revision = f"{len(self.log) + 1}.0"
            self.log.append(("MODIFIED" if name in self.objects else "ADDED", name, revision))
            self.objects[name] = revision
        elif self.objects.pop(name, None):
            self.log.append(("DELETED", name, ""))

    def _told(self, number: int) -> tuple[str, dict[str, Any], str]:
        change, name, revision = self.log[number]
        found = {"metadata": {"uid": name}} if change == "DELETED" else thing(name, revision, uid=name)
        return change, found, str(number + 1)


@given(chance=st.data(), turns=st.integers(0, 60))
def test_who_follows_a_watch_ends_with_what_there_is_whatever_broke_on_the_way(
    chance: st.DataObject, turns: int
) -> None:
    world = World(chance)
    followed: dict[str, str] = {}
    watching = WatchStream(Script().caller("a", "b"), "tenants", initial=True).run()
    step = next(watching)
    for turn in range(10_000):
        world.calm = turn >= turns
        if isinstance(step, EmitEvent):
            name = step.event.object.get("metadata", {}).get("name", "")
            match step.event.type:
                case "ADDED":
                    assert name not in followed
                    followed[name] = step.event.object["metadata"]["revision"]
                case "MODIFIED":
                    assert name in followed
                    followed[name] = step.event.object["metadata"]["revision"]
                case "DELETED":
                    del followed[name]
                case "BOOKMARK" if world.calm and step.event.token == str(len(world.log)):
                    break
        step = resume(watching, world.do(step) if not isinstance(step, EmitEvent | Sleep) else None)
    assert followed == world.objects
