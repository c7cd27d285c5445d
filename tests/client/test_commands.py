"""Machines: sessions, numbered commands, heartbeats."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from holdfast.client import commands
from holdfast.client.commands import SESSIONS_MAX, MachineSession
from holdfast.client.errors import ConflictError, OutcomeUnknownError, ProblemReport, SessionEndedError
from holdfast.core.ledger.builtin.registry import BuiltinCommand
from holdfast.core.ledger.builtin.sessions import EndSession, OpenSession
from holdfast.core.ledger.codec import EnvelopeReader
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import pack_revision
from holdfast.host.ports.transport import Reply, first_value
from holdfast.host.protocol.commands import CommandOutcome, CommandReply
from tests.support.api.scripted_servers import SILENCE, START, Script, ok, says

OPENED = ok({"revision": "7.1", "session": "7.1", "at": 5})
LANDED = ok({"revision": "8.0", "at": 6}, holdfast_token="log:1:8:aa")
LOST = says(409, "no-session", facts={"current": 0})
COMMAND = EndSession(1, "done")


def envelopes(script: Script) -> list[Envelope[Any]]:
    """What was sent, as a ledger reads it."""
    reader = EnvelopeReader(BuiltinCommand)
    read = [reader.read(request.body) for request in script.requests if request.path == "/v1/envelopes"]
    assert all(isinstance(envelope, Envelope) for envelope in read), read
    return [envelope for envelope in read if isinstance(envelope, Envelope)]


def opened(script: Script, **options: Any) -> MachineSession:
    machine = MachineSession(script.caller(), "agent/n1", **options)
    assert script.play(machine.open()) == machine.session == "7.1"
    return machine


def test_a_session_is_opened_by_a_command_that_a_ledger_can_read() -> None:
    script = Script(OPENED)
    opened(script)
    assert envelopes(script) == [Envelope("agent/n1", OpenSession(), START)]
    assert script.headers("content-type") == ["application/msgpack"]


def test_commands_are_numbered_in_their_session_from_one() -> None:
    script = Script(OPENED, LANDED)
    machine = opened(script)
    script.play(machine.send(COMMAND))
    landed = script.play(machine.send(COMMAND, cause=3))
    assert landed.revision == "8.0"
    assert [(e.session, e.sequence, e.cause) for e in envelopes(script)[1:]] == [
        (pack_revision(7, 1), 1, 0), (pack_revision(7, 1), 2, 3),
    ]  # fmt: skip


def test_a_command_is_repeated_with_the_same_number_and_the_same_bytes() -> None:
    script = Script(OPENED, SILENCE, says(503, "not-leading"), LANDED)
    machine = opened(script)
    script.play(machine.send(COMMAND))
    assert len({request.body for request in script.requests[1:]}) == 1
    assert envelopes(script)[-1].sent < script.now


def test_an_owner_may_keep_the_envelope_and_repeat_it_when_its_outcome_is_unknown() -> None:
    script = Script(OPENED, SILENCE)
    machine = opened(script)
    envelope = machine.envelope(COMMAND)
    with pytest.raises(OutcomeUnknownError):
        script.play(commands.send(script.caller(), envelope))
    script.outcomes = [LANDED]
    assert script.play(commands.send(script.caller(), envelope)).revision == "8.0"
    assert {e.sequence for e in envelopes(script)[1:]} == {1}


def test_an_answer_may_come_as_msgpack_with_revisions_as_numbers() -> None:
    body = msgspec.msgpack.encode(
        CommandReply(CommandOutcome.LANDED, "", "", pack_revision(7, 0), pack_revision(7, 1), b"x")
    )
    script = Script(Reply(200, (("content-type", "application/msgpack"),), body))
    assert script.play(commands.open_session(script.caller(), "agent/n1")) == "7.1"


def test_an_answer_that_cannot_be_read_leaves_the_command_unknown() -> None:
    script = Script(OPENED, Reply(200, (("content-type", "application/msgpack"),), b"\xc1"))
    machine = opened(script)
    with pytest.raises(OutcomeUnknownError):
        script.play(machine.send(COMMAND))


def test_a_machine_without_a_session_says_nothing() -> None:
    script = Script(LANDED)
    machine = MachineSession(script.caller(), "agent/n1")
    with pytest.raises(ValueError, match="open one first"):
        script.play(machine.send(COMMAND))
    with pytest.raises(ValueError, match="open one first"):
        script.play(machine.renew())
    assert script.sent == []


def test_a_session_that_ended_is_not_opened_again_unless_the_owner_says_so() -> None:
    script = Script(OPENED, LOST)
    machine = opened(script)
    with pytest.raises(SessionEndedError):
        script.play(machine.send(COMMAND))
    assert machine.session == ""
    assert len(script.sent) == 2


def test_an_owner_that_says_so_has_the_command_sent_anew_in_a_new_session() -> None:
    asked: list[ProblemReport] = []

    def agree(problem: ProblemReport) -> bool:
        asked.append(problem)
        return True

    script = Script(OPENED, LANDED, LOST, ok({"revision": "9.0", "session": "9.1"}), LANDED)
    machine = opened(script, reopen=agree)
    script.play(machine.send(COMMAND))
    script.play(machine.send(COMMAND))
    assert [problem.code for problem in asked] == ["no-session"]
    assert machine.session == "9.1"
    assert [(e.session, e.sequence) for e in envelopes(script)] == [
        (0, 0), (pack_revision(7, 1), 1), (pack_revision(7, 1), 2), (0, 0), (pack_revision(9, 1), 1),
    ]  # fmt: skip


def test_an_owner_may_say_no() -> None:
    script = Script(OPENED, LOST)
    machine = opened(script, reopen=lambda _: False)
    with pytest.raises(SessionEndedError):
        script.play(machine.send(COMMAND))


def test_two_machines_of_one_name_do_not_end_each_others_sessions_for_ever() -> None:
    script = Script(OPENED, *[LOST, OPENED] * SESSIONS_MAX)
    machine = opened(script, reopen=lambda _: True)
    with pytest.raises(SessionEndedError):
        script.play(machine.send(COMMAND))
    assert len(script.sent) == 2 * SESSIONS_MAX


def test_a_command_that_may_have_landed_in_a_session_that_ended_is_not_sent_anew() -> None:
    script = Script(OPENED, SILENCE, LOST)
    machine = opened(script, reopen=lambda _: True)
    with pytest.raises(OutcomeUnknownError):
        script.play(machine.send(COMMAND))
    assert len(script.sent) == 3


def test_a_refusal_uses_up_its_number_and_the_session_goes_on() -> None:
    script = Script(OPENED, says(409, "stale"), LANDED)
    machine = opened(script)
    with pytest.raises(ConflictError):
        script.play(machine.send(COMMAND))
    script.play(machine.send(COMMAND))
    assert [e.sequence for e in envelopes(script)] == [0, 1, 2]


def test_a_heartbeat_counts_from_before_its_first_attempt() -> None:
    script = Script(OPENED, SILENCE, ok({"worthMs": 9_000, "term": 3, "logId": "log", "at": 7}))
    machine = opened(script)
    renewal = script.play(machine.renew())
    assert (renewal.worth_ms, renewal.term, renewal.log_id, renewal.sent) == (9_000, 3, "log", START)
    assert json.loads(script.requests[-1].body) == {"session": "7.1"}
    assert script.requests[-1].path == "/v1/renewals"


def test_a_heartbeat_of_a_session_that_ended_forgets_it() -> None:
    script = Script(OPENED, LOST)
    machine = opened(script)
    with pytest.raises(SessionEndedError):
        script.play(machine.renew())
    assert machine.session == ""


def test_reads_see_what_a_machine_has_written() -> None:
    script = Script(OPENED, LANDED, ok({}))
    machine = opened(script)
    script.play(machine.send(COMMAND))
    script.play(machine._caller.read("GET", "/v1/whoami"))
    assert first_value(script.requests[-1].headers, "holdfast-read") == "at-least=log:1:8:aa"
