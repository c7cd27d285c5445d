"""Numbers of a log at exactly their most, and one further."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from holdfast.core.ledger.answers import Accepted, Code, Refused
from holdfast.core.ledger.builtin.audit import RecordDenials, record_denials
from holdfast.core.ledger.builtin.overrides import _last
from holdfast.core.ledger.revision import (
    DIGITS_MAX,
    INDEX_MAX,
    SEQ_MAX,
    format_digest,
    format_revision,
    is_formatted_digest,
    pack_revision,
    parse_revision,
)
from holdfast.core.model.objects.policies import Override, OverrideAction
from holdfast.core.model.records.decisions import Denial
from holdfast.core.model.values.limits import DENIALS_MAX, TEXT_MAX

DENIED = Denial("person/root", "delete", "no-right", "", 1, 5, 5)


def recorded(*denials: Denial) -> Accepted | Refused:
    nothing: Any = None
    return record_denials(nothing, RecordDenials(denials), nothing)


# Revisions


def test_the_last_revision_of_all_fits_into_63_bits() -> None:
    assert pack_revision(SEQ_MAX, INDEX_MAX) == (1 << 63) - 1


@pytest.mark.parametrize(
    "packed", [0, pack_revision(0, INDEX_MAX), pack_revision(SEQ_MAX), pack_revision(SEQ_MAX, INDEX_MAX)]
)
def test_what_is_shown_is_read(packed: int) -> None:
    assert parse_revision(format_revision(packed)) == packed


@pytest.mark.parametrize(
    "text",
    [
        f"{SEQ_MAX + 1}.0", f"0.{INDEX_MAX + 1}", "1", "", ".", "1.", ".1", "1.x", "-1.0", "1.0.0",
        "\N{SUPERSCRIPT TWO}.0", f"{'0' * DIGITS_MAX}.0",
    ],
)  # fmt: skip
def test_what_no_revision_is_shown_as_is_none(text: str) -> None:
    assert parse_revision(text) is None


def test_a_number_with_one_digit_less_than_the_most_is_read() -> None:
    assert parse_revision(f"{'7'.rjust(DIGITS_MAX - 1, '0')}.3") == pack_revision(7, 3)


# Denials


@pytest.mark.parametrize(("count", "is_taken"), [(0, False), (1, True), (DENIALS_MAX, True), (DENIALS_MAX + 1, False)])
def test_a_record_has_one_denial_at_least_and_not_more_than_the_most(count: int, is_taken: bool) -> None:
    assert isinstance(recorded(*[DENIED] * count), Accepted) is is_taken


@pytest.mark.parametrize(
    ("changed", "is_taken"),
    [
        ({"actor": "a" * TEXT_MAX}, True),
        ({"actor": "a" * (TEXT_MAX + 1)}, False),
        ({"tenant": "a" * (TEXT_MAX + 1)}, False),
        ({"code": ""}, False),
        ({"count": 0}, False),
        ({"first": 0, "last": 0}, True),
        ({"first": -1}, False),
        ({"first": 6}, False),
        ({"last": 6}, True),
    ],
)
def test_a_denial_has_names_of_a_length_a_code_a_count_and_a_first_time_before_its_last(
    changed: dict[str, Any], is_taken: bool
) -> None:
    answer = recorded(DENIED, replace(DENIED, **changed))
    assert isinstance(answer, Accepted) is is_taken
    assert is_taken or (isinstance(answer, Refused) and answer.code is Code.MALFORMED)


# Overrides


def test_of_two_overrides_that_end_together_the_first_is_named() -> None:
    first = Override(1, OverrideAction.PAUSE_REPAIR, "eu", "", "why", "person/root", 0, 9)
    second = replace(first, uid=2)
    assert _last(None, first) is first
    assert _last(first, second) is first
    longer = replace(second, ends=10)
    assert _last(first, longer) is _last(longer, first) is longer


@pytest.mark.parametrize(
    ("text", "is_shown"),
    [
        (format_digest(b"\x09\xaf" * 16), True),
        ("0123456789abcdef", True),
        ("0123456789abcde", False),
        ("0123456789abcdef0", False),
        ("0123456789abcdeg", False),
        ("", False),
    ],
)
def test_a_digest_is_shown_by_the_hex_of_its_first_eight_bytes(text: str, is_shown: bool) -> None:
    assert is_formatted_digest(text) is is_shown
