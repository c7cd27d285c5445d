"""Texts of many documents: what is read, where it stood, and what is refused before it costs anything."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.resources.schemas import parse_object
from holdfast.api.serialization.field_errors import FieldError, InvalidDocument
from holdfast.api.serialization.yaml_documents import TEXT_MAX, YamlDocument, dump_documents, load_documents
from holdfast.api.serialization.yaml_parser import UnreadableText

TWO = """\
# a comment
apiVersion: holdfast/v1
kind: Tenant
metadata:
  name: acme
spec:
  workloadsMax: 10
---
apiVersion: holdfast/v1
kind: Workload
metadata:
  name: web
  tenant: acme
spec:
  replica: 3
  priorityClass: normal
  template:
    need: {cpu: 500m, memory: lots}
"""


def trees(text: str) -> list[Any]:
    return [loaded.tree for loaded in load_documents(text, "f.yaml")]


def faults_of(loaded: YamlDocument) -> list[str]:
    with pytest.raises(InvalidDocument) as caught:
        parse_object(loaded.tree)
    return [loaded.told(fault) for fault in caught.value.faults]


def test_faults_are_told_with_file_line_object_and_field() -> None:
    tenant, workload = load_documents(TWO, "all.yaml")
    assert parse_object(tenant.tree).spec.workloads_max == 10
    assert faults_of(workload) == [
        "all.yaml:18: Workload/web: spec.template.need.memory: "
        "expected an amount such as 512Mi, 4Gi or 2G, got the text 'lots'",
        "all.yaml:14: Workload/web: spec.replicas: replicas is missing",
        "all.yaml:15: Workload/web: spec.replica: there is no field 'replica' (did you mean replicas?)",
    ]


def test_json_is_read_too_one_document_after_the_other() -> None:
    assert trees('{"a": [1, 2.5, true, null, "x"]}') == [{"a": [1, 2.5, True, None, "x"]}]
    assert trees('{\n\t"a": "\\ud83d\\ude00"\n}\n{"b": 1e3}') == [{"a": "😀"}, {"b": 1000.0}]


def test_a_list_of_documents_is_its_items_and_lines_are_kept() -> None:
    found = load_documents("kind: List\nitems:\n- kind: A\n- kind: B\n  spec:\n    x: 1\n", "f")
    assert [one.tree["kind"] for one in found] == ["A", "B"]
    assert found[1].line_of("/spec/x") == 6
    assert trees("- kind: A\n- kind: B\n") == [{"kind": "A"}, {"kind": "B"}]


def test_empty_documents_are_left_out() -> None:
    assert trees("---\n---\na: 1\n---\n") == [{"a": 1}]
    assert trees("") == []


def test_plain_text_stays_text_unless_it_is_a_number_true_false_or_null() -> None:
    text = "[no, on, 0777, 12:30, 2026-11-15, 2026-11-15T17:00:00Z, 1_000, 0x1f, 1e3, 41.3, -7, true, ~, '5', =]"
    assert trees(f"a: {text}")[0]["a"] == [
        "no", "on", "0777", "12:30", "2026-11-15", "2026-11-15T17:00:00Z", "1_000", "0x1f", "1e3", 41.3, -7, True,
        None, "5", "=",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", 1, "'a' appears twice, in lines 1 and 3"),
        ("x: 1\n1: 2\n", 1, "expected text as a key, got the number 1"),
        ("x: 1\ny: !thing 2\n", 2, "'2' is not read as !thing"),
        ("x: !!python/object/apply:os.system [ls]\n", 1, "the tag tag:yaml.org,2002:python"),
        ('{"a": "\\ud83d\\ude00", "b": 1, "b": 2}', 1, "'b' appears twice"),
    ],
)
def test_what_is_no_plain_value_is_a_fault_of_its_document(text: str, line: int, message: str) -> None:
    [loaded] = load_documents(text, "f")
    [fault] = loaded.faults
    assert loaded.line_of(fault.pointer) == line
    assert fault.message.startswith(message)


def test_a_fault_of_a_list_itself_is_not_lost() -> None:
    found = load_documents("kind: List\nitems: []\nitems: [{a: 1}]\n", "f")
    assert [fault.message for one in found for fault in one.faults] == ["'items' appears twice, in lines 2 and 3"]


def test_an_alias_stands_for_a_value_of_its_own() -> None:
    [tree] = trees("a: &x {k: [1]}\nb: *x\n")
    tree["b"]["k"].append(2)
    assert tree == {"a": {"k": [1]}, "b": {"k": [1, 2]}}


LAUGHS = "a: &a [1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGHS, "values"),
        ("&a [*a]", "refers to no earlier anchor"),
        ("a: *b", "refers to no earlier anchor"),
        ("[" * 100_000, "nested deeper"),
        ("{a: " * 100_000, "nested deeper"),
        ("- " * 100_000, "nested deeper"),
        ("? " * 10_000, "nested deeper"),
        ("a: [1, 2", "did not find"),
        ("\x00", "control characters"),
        ("x" * (TEXT_MAX + 1), "characters"),
    ],
    ids=["laughs", "itself", "unknown", "lists", "maps", "items", "keys", "open", "control", "long"],
)
def test_what_cannot_be_taken_apart_is_refused_soon(text: str, message: str) -> None:
    began = time.perf_counter()
    with pytest.raises(UnreadableText) as caught:
        load_documents(text, "f.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"f.yaml:{caught.value.line}: ")
    assert time.perf_counter() - began < 10


def test_a_missing_field_is_at_the_line_of_what_it_is_missing_in() -> None:
    [loaded] = load_documents("a:\n  b: 1\n", "f")
    assert [loaded.line_of(pointer) for pointer in ("", "/a", "/a/b", "/a/c/d", "/x")] == [1, 1, 2, 1, 1]


def test_a_document_without_kind_or_name_still_has_a_title() -> None:
    assert [one.told(FieldError("", "x")) for one in load_documents("5\n---\nkind: A\nmetadata: 3\n", "f")] == [
        "f:1: document: x",
        "f:3: A: x",
    ]


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(st.text(max_size=6), PLAIN, max_size=4))
def test_what_is_dumped_loads_again(tree: dict[str, Any]) -> None:
    if tree.get("kind") != "List":
        assert trees(dump_documents([tree, {"k": tree}])) == [tree, {"k": tree}]


def test_a_dump_reads_from_what_it_is_to_how_it_is() -> None:
    tree = {"status": {"x": "a\nb\n"}, "spec": {"cpu": "500m"}, "metadata": {"uid": "1.0", "name": "n"}, "kind": "K"}
    assert dump_documents([tree, {"kind": "L"}]) == (
        "kind: K\nmetadata:\n  name: n\n  uid: '1.0'\nspec:\n  cpu: 500m\nstatus:\n  x: |\n    a\n    b\n---\nkind: L\n"
    )


@given(st.text(max_size=60) | st.text(alphabet="[]{}:,-&*!|>'\"#%@? \n\tab1", max_size=60))
def test_no_text_raises_anything_but_its_faults(text: str) -> None:
    try:
        for loaded in load_documents(text, "f"):
            for fault in loaded.faults:
                assert loaded.told(fault)
            json.dumps(loaded.tree)
    except UnreadableText as unreadable:
        told = str(unreadable)
        assert told
