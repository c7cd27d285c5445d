"""The table of kinds: words, paths, columns, and that it costs nothing to read."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holdfast.api.kinds import BY_NAME, KINDS, SOFT_KINDS, ResourceKind, find_kind, suggest_kind
from holdfast.api.resources.schemas import serializer_for_kind
from holdfast.api.serialization.composites import StructSerializer
from holdfast.api.serialization.objects import ObjectSerializer
from holdfast.core.platform import watch as platform_keys
from holdfast.core.region import watch as region_keys


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("workloads", "Workload"),
        ("workload", "Workload"),
        ("Workload", "Workload"),
        ("wl", "Workload"),
        ("WL", "Workload"),
        ("policy", "SchedulerPolicy"),
        ("pol", "SchedulerPolicy"),
        ("requests", "SchedulingRequest"),
        ("breach", "Breach"),
        ("priorityclass", "PriorityClass"),
        ("rep", "Replica"),
    ],
)
def test_a_kind_is_found_by_every_word_for_it(word: str, name: str) -> None:
    assert find_kind(word) is BY_NAME[name]


def test_a_word_that_is_none_gets_the_nearest_one() -> None:
    assert find_kind("wrokloads") is None
    assert suggest_kind("wrokloads") == "workloads"
    assert suggest_kind("polices") == "policies"
    assert suggest_kind("xyzzy") == ""


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_kind_is_told_by_keys_that_its_ledgers_know(kind: ResourceKind) -> None:
    for ledger, known in (("platform", platform_keys.WATCH_KINDS), ("region", region_keys.WATCH_KINDS)):
        assert ledger not in kind.ledger or kind.key in known
    assert all(key in platform_keys.WATCH_KINDS or key in region_keys.WATCH_KINDS for key in kind.also)


@pytest.mark.parametrize("kind", [*KINDS.values(), *SOFT_KINDS.values()], ids=lambda kind: kind.name)
def test_every_document_has_the_name_by_which_its_kind_is_found(kind: ResourceKind) -> None:
    form = serializer_for_kind(kind.name, shown=True)
    assert isinstance(form, ObjectSerializer)
    assert form.kind == kind.name
    assert find_kind(form.kind) is kind


@pytest.mark.parametrize("kind", [*KINDS.values(), *SOFT_KINDS.values()], ids=lambda kind: kind.name)
def test_every_column_shows_a_field_that_exists(kind: ResourceKind) -> None:
    for column in kind.columns:
        form: Any = serializer_for_kind(kind.name, shown=True)
        assert isinstance(form, ObjectSerializer)
        form = {"metadata": form.meta, "spec": form.spec, "status": form.status}[column.path.split(".")[0]]
        for name in column.path.split(".")[1:]:
            form = getattr(form, "item", form) if name != "0" else form
            form = form.item if name == "0" else form.fields[name.partition("[")[0]].form
        assert not isinstance(form, StructSerializer), column


def test_the_table_is_read_without_anything_heavy() -> None:
    script = (
        "import sys, holdfast.api.kinds; "
        "print([name for name in sys.modules if name.split('.')[0] in ('yaml', 'msgspec', 'difflib') "
        "or name.startswith('holdfast.core')])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
