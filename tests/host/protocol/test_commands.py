"""What machines are told, as bytes: read back as it was written, and never taken for an answer when it is none."""

from __future__ import annotations

import msgspec
import pytest

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import INDEX_MAX, format_revision, pack_revision, parse_revision
from holdfast.host.ports.transport import Reply
from holdfast.host.protocol.commands import (
    JSON,
    MSGPACK,
    CommandOutcome,
    CommandReply,
    Renewed,
    read_command_reply,
    read_renewed,
)
from holdfast.host.protocol.problem import ProblemBody, problem_reply, read_problem


def test_an_answer_is_read_back_whatever_its_status() -> None:
    answered = CommandReply(CommandOutcome.REFUSED, "no-session", "open one", at=7)
    assert read_command_reply(Reply(409, (MSGPACK,), encode(answered))) == answered


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"\xc1", b"[]"])
def test_what_is_no_answer_of_a_ledger_leaves_the_command_unjudged(body: bytes) -> None:
    assert read_command_reply(Reply(502, (), body)).said is CommandOutcome.UNAVAILABLE


def test_a_problem_in_place_of_an_answer_is_named() -> None:
    answered = read_command_reply(problem_reply(503, "overloaded", "too much waits"))
    assert (answered.said, answered.code, answered.message) == (
        CommandOutcome.UNAVAILABLE,
        "overloaded",
        "too much waits",
    )


def test_the_facts_of_a_refusal_are_read_with_it() -> None:
    body = msgspec.json.encode(ProblemBody("no-session", facts={"current": "41.3"}))
    assert read_command_reply(Reply(409, (), body)) == CommandReply(
        CommandOutcome.REFUSED, "no-session", facts={"current": "41.3"}
    )


def test_a_renewal_is_read_back_and_a_problem_is_none() -> None:
    renewed = Renewed(9_000, 4, "log-platform", 1_800_000_000_000)
    raw = msgspec.json.encode(renewed)
    assert raw == b'{"worthMs":9000,"term":4,"logId":"log-platform","at":1800000000000}'
    assert read_renewed(Reply(200, (JSON,), raw)) == renewed
    found = read_renewed(problem_reply(409, "no-session", "open one"))
    assert isinstance(found, ProblemBody)
    assert found.code == "no-session"


def test_a_reply_that_is_no_problem_of_ours_is_named_by_its_status() -> None:
    assert read_problem(Reply(502, (), b"bad gateway")).code == "status-502"


@pytest.mark.parametrize("packed", [0, 1, pack_revision(41, 3), pack_revision(41, INDEX_MAX)])
def test_a_revision_reads_back_as_it_is_shown(packed: int) -> None:
    assert parse_revision(format_revision(packed)) == packed


@pytest.mark.parametrize("text", ["", "41", "41.", ".3", "41.3.1", "-1.0", "41.x", "1.1048576", "٤.1"])
def test_what_is_no_revision_is_none(text: str) -> None:
    assert parse_revision(text) is None
