"""Bodies of requests: strict JSON, or faults."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.serialization.field_errors import InvalidDocument, parse_json
from tests.api.serialization.strategies import JSON


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"", "not JSON: Expecting value in line 1, column 1"),
        (b'{"a": 1,\n"a": 2}', "'a' appears twice in one map"),
        (b'{"a": NaN}', "not JSON: NaN is not a number"),
        (b"\xff", "not UTF-8 at byte 0"),
        (b"[" * 100_000, "nested too deep"),
        (b"9" * 5_000, "not JSON"),
        (b"{} {}", "not JSON: Extra data"),
    ],
    ids=["empty", "twice", "nan", "bytes", "deep", "digits", "two"],
)
def test_what_is_no_json_is_told(raw: bytes, message: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_json(raw)
    assert caught.value.faults[0].message.startswith(message)


@given(JSON.filter(lambda tree: "NaN" not in json.dumps(tree) and "Infinity" not in json.dumps(tree)))
def test_json_is_read_as_it_is(tree: object) -> None:
    assert parse_json(json.dumps(tree).encode()) == tree


@given(st.binary(max_size=40))
def test_no_bytes_raise_anything_but_their_faults(raw: bytes) -> None:
    with contextlib.suppress(InvalidDocument):
        parse_json(raw)
