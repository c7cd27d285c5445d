"""What is shown reads back; what cannot be read is told with its place, and nothing else is ever raised."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.api.resources.schemas import WRITABLE, parse_command, parse_object, render_command, render_object, rules
from holdfast.api.serialization.field_errors import ERRORS_MAX, FieldError, FieldErrors, InvalidDocument
from holdfast.api.serialization.quantities import ResourcesSerializer
from holdfast.api.serialization.registry import (
    camel,
    parse,
    render,
    serializer_for,
    struct_serializer_for,
    writable_serializer_for,
)
from holdfast.api.serialization.scalars import format_instant, parse_instant
from holdfast.core.ledger.builtin.overrides import OpenOverride
from holdfast.core.model.objects.policies import PolicyDocument
from holdfast.core.model.objects.tenants import Quota, RecoveryBudgetSpec
from holdfast.core.model.objects.workloads import WorkloadSpec
from holdfast.core.model.records.slots import PendingReason
from holdfast.core.model.values.resources import Resources
from holdfast.core.model.values.settings import Settings
from tests.api.serialization.strategies import INSTANTS, JSON, RESOURCES, values_of

COMMANDS = [(ledger, tag) for ledger in ("platform", "region") for tag in rules(ledger)]
few = settings(max_examples=10, suppress_health_check=[HealthCheck.too_slow])


def faults_of(type_: Any, tree: object) -> list[FieldError]:
    with pytest.raises(InvalidDocument) as caught:
        parse(type_, tree)
    return list(caught.value.faults)


def faults_or_none(reading: Callable[[], object]) -> tuple[FieldError, ...]:
    """The faults of what cannot be read: at least one. Whatever else is raised fails the test."""
    try:
        reading()
    except InvalidDocument as faulty:
        found = faulty.faults
    else:
        return ()
    assert found
    return found


@pytest.mark.parametrize("kind", WRITABLE)
@few
@given(data=st.data())
def test_an_object_that_is_shown_reads_back_whole(kind: str, data: st.DataObject) -> None:
    struct: Any = WRITABLE[kind]
    value = data.draw(values_of(serializer_for(struct)))
    tree = json.loads(json.dumps(render_object(value, secrets=True)))
    assert parse_object(tree, whole=True) == value
    assert parse(struct, tree) == value


@pytest.mark.parametrize("kind", WRITABLE)
@few
@given(data=st.data())
def test_an_object_that_a_sender_writes_reads_back(kind: str, data: st.DataObject) -> None:
    struct: Any = WRITABLE[kind]
    value = data.draw(values_of(writable_serializer_for(struct)))
    assert parse_object(render_object(value, secrets=True)) == value


@pytest.mark.parametrize(("ledger", "tag"), COMMANDS)
@few
@given(data=st.data())
def test_a_command_that_is_shown_reads_back(ledger: str, tag: str, data: st.DataObject) -> None:
    command: Any = rules(ledger)[tag].command
    value = data.draw(values_of(struct_serializer_for(command)))
    assert (
        parse_command(ledger, tag, json.loads(json.dumps(struct_serializer_for(command).render(value, True)))) == value
    )
    assert json.dumps(render_command(value))


@few
@given(values_of(serializer_for(PendingReason)))
def test_a_struct_that_holds_itself_reads_back(reason: PendingReason) -> None:
    assert parse(PendingReason, render(reason)) == reason


@given(JSON)
def test_no_tree_raises_anything_but_its_faults(tree: object) -> None:
    for type_ in (WorkloadSpec, Settings, Resources, OpenOverride, PolicyDocument, Quota):
        for fault in faults_or_none(partial(parse, type_, tree)):
            assert fault.message.encode()
            assert fault.pointer.encode() is not None


@few
@given(st.sampled_from(sorted(WRITABLE)), JSON, JSON, JSON)
def test_no_document_raises_anything_but_its_faults(kind: str, meta: object, spec: object, status: object) -> None:
    tree = {"apiVersion": "holdfast/v1", "kind": kind, "metadata": meta, "spec": spec, "status": status}
    for whole in (False, True):
        faults_or_none(partial(parse_object, tree, whole=whole))


@given(RESOURCES)
def test_amounts_read_back_exactly_whatever_they_are(amounts: Resources) -> None:
    assert parse(Resources, json.loads(json.dumps(render(amounts)))) == amounts


@pytest.mark.parametrize(
    ("tree", "amounts"),
    [
        ({"cpu": "500m", "memory": "4Gi", "disk": "10Gi", "gpu": 1}, Resources(500, 4096, 10240, 1000)),
        ({"cpu": 2, "gpu": "500m"}, Resources(cpu=2000, gpu=500)),
        ({"cpu": 0.5, "licenses": 3}, Resources(cpu=500, extended=(("licenses", 3),))),
        ({"b": 1, "a": 2, "c": 0}, Resources(extended=(("a", 2), ("b", 1)))),
        ({}, Resources()),
    ],
)
def test_amounts_are_read_as_people_write_them(tree: object, amounts: Resources) -> None:
    assert parse(Resources, tree) == amounts


def test_amounts_are_shown_in_the_units_of_people() -> None:
    shown = render(Resources(1500, 1536, 0, 2000, (("licenses", 3),)))
    assert shown == {"cpu": "1500m", "memory": "1536Mi", "gpu": 2, "licenses": 3}


@pytest.mark.parametrize(
    ("tree", "pointer", "message", "hint"),
    [
        ({"memory": 4}, "/memory", "expected an amount with its unit, got the number 4", "such as"),
        ({"memroy": "4Gi"}, "/memroy", "there is no resource 'memroy'", "did you mean memory?"),
        ({"CPU": 2}, "/CPU", "there is no resource 'CPU'", "did you mean cpu?"),
        ({"cpu": math.nan}, "/cpu", "expected an amount such as 500m, 2 or 0.5, got the number nan", ""),
        ({"cpu": True}, "/cpu", "expected an amount such as 500m, 2 or 0.5, got true", ""),
        ({"cpu": 0.0005}, "/cpu", "expected an amount such as 500m, 2 or 0.5, got the number 0.0005", ""),
        ({"licenses": 1.0}, "/licenses", "expected a whole number, got the number 1.0", ""),
        ({"memory": "9999999999999999999Ti"}, "/memory", "expected a number of at most 63 bits", ""),
        ([], "", "expected a map of resources, got a list", "such as"),
    ],
)
def test_an_amount_that_is_none_is_told_with_its_place(tree: object, pointer: str, message: str, hint: str) -> None:
    [fault] = faults_of(Resources, tree)
    assert fault.pointer == pointer
    assert fault.message.startswith(message)
    assert hint in fault.hint


def test_all_faults_are_told_and_not_only_the_first() -> None:
    tree = {
        "replica": 3,
        "priorityClass": 7,
        "exclusive": "true",
        "failover": "leasd",
        "deadline": 30,
        "template": {"need": {"cpu": "lots"}, "apart": [{"most": 1.0}]},
    }
    found = {fault.pointer: fault for fault in faults_of(WorkloadSpec, tree)}
    assert found["/replicas"].message == "replicas is missing"
    assert found["/replica"] == FieldError("/replica", "there is no field 'replica'", "did you mean replicas?")
    assert found["/priorityClass"].hint == "write it in quotes"
    assert found["/exclusive"].hint == "write it without quotes"
    assert found["/failover"].hint == "did you mean leased?"
    assert found["/deadline"].hint == "30s is seconds"
    assert found["/template/need/cpu"].message.endswith("got the text 'lots'")
    assert found["/template/apart/0/group"].message == "group is missing"
    assert found["/template/apart/0/most"].message == "expected a whole number, got the number 1.0"
    assert len(found) == 9


@pytest.mark.parametrize(
    "number", [True, 1.0, math.nan, math.inf, 2**63, -(2**63) - 1, "3", None, [], pytest.param(10**5000, id="huge")]
)
def test_what_is_no_whole_number_is_refused(number: object) -> None:
    [fault] = faults_of(Settings, {"driftPerMillion": number})
    assert fault.pointer == "/driftPerMillion"


def test_a_field_in_snake_case_is_told_its_name() -> None:
    [fault] = faults_of(Settings, {"session_lease": "10s"})
    assert fault.hint == "did you mean sessionLease?"


def test_keys_in_a_pointer_are_escaped() -> None:
    [fault] = faults_of(PolicyDocument, {"freshness": {"a/b~c": 5}})
    assert fault.pointer == "/freshness/a~1b~0c"


def test_maps_are_read_in_the_order_of_their_keys() -> None:
    document = parse(PolicyDocument, {"freshness": {"b": "5s", "a": "1m"}, "scores": {"y": 1, "x": 2}})
    assert document == PolicyDocument(freshness=(("a", 60_000), ("b", 5_000)), scores=(("x", 2), ("y", 1)))


def test_a_tree_of_many_levels_is_refused_before_it_is_read() -> None:
    tree: Any = {}
    for _ in range(10_000):
        tree = {"below": [tree]}
    [fault] = faults_of(PendingReason, tree)
    assert "nested deeper" in fault.message


def test_faults_are_bounded_however_much_is_wrong() -> None:
    assert len(faults_of(RecoveryBudgetSpec, {"regions": [1] * 10_000, "each": {}})) == ERRORS_MAX


def test_half_a_surrogate_pair_is_no_text() -> None:
    [fault] = faults_of(RecoveryBudgetSpec, {"regions": ["\ud800"], "each": {}})
    assert fault.pointer == "/regions/0"


@given(INSTANTS)
def test_times_read_back_to_the_millisecond(ms: int) -> None:
    assert parse_instant(format_instant(ms)) == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T02:00:00.5+02:00", 500),
        ("1969-12-31t23:59:59.999999999z", -1),
        ("2026-11-15T17:00:00.000Z", 1_794_762_000_000),
        ("2026-11-15", None),
        ("2026-11-15T17:00:00", None),
        ("2026-02-30T17:00:00Z", None),
        ("2026-11-15T17:00:60Z", None),
        ("2026-11-15T17:00:00+99:00", None),
        ("0001-01-01T00:00:00+14:00", -62_135_647_200_000),
        ("٢٠٢٦-11-15T17:00:00Z", None),
    ],
)
def test_times_are_rfc_3339(text: str, ms: int | None) -> None:
    assert parse_instant(text) == ms


def test_times_beyond_the_calendar_are_shown_as_its_ends() -> None:
    assert format_instant(2**62) == "9999-12-31T23:59:59.999Z"
    assert format_instant(-(2**62)) == "0001-01-01T00:00:00.000Z"


def test_names_outside_are_those_of_the_model() -> None:
    """The model names its documents' fields outside; rows have no such names, and get them by the same rule."""
    for struct in (WorkloadSpec, Settings, PolicyDocument):
        assert struct.__struct_encode_fields__ == tuple(map(camel, struct.__struct_fields__))


def test_a_form_says_bad_where_it_notes_a_fault() -> None:
    faults = FieldErrors()
    ResourcesSerializer().parse({"cpu": "x"}, "/a", faults)
    assert [fault.pointer for fault in faults.found] == ["/a/cpu"]
