"""docs/reference/rules-map.md is up to date, and every rule and invariant has code that keeps it and a test."""

from __future__ import annotations

import pytest

from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from tests.architecture import test_rules
from tests.architecture.checkout import ROOT
from tests.support.generated.rules_map import EVERYWHERE, KEEPERS, PAGE, Entry, invariants, rules, written

ENTRIES = [*rules(), *invariants()]


def test_the_map_is_what_code_and_tests_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == written(), "run `make reference`"


def test_every_rule_and_every_invariant_is_on_the_map() -> None:
    ids = [one.id for book in (PLATFORM, REGION) for one in book.invariants]
    assert [one.name.split(".")[0] for one in rules()] == [str(number) for number in test_rules.rules()]
    assert [one.name for one in invariants()] == ids
    assert set(KEEPERS) == set(ids)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_each_has_code_that_keeps_it_and_a_test(entry: Entry) -> None:
    assert entry.code
    assert entry.tests
    assert [file for file in (*entry.code, *entry.checks, *entry.tests) if not (ROOT / file).is_file()] == []


def test_the_tests_of_all_invariants_exist() -> None:
    assert [file for file in EVERYWHERE if not (ROOT / file).is_file()] == []
