"""The generated pages of docs/reference say what the code does."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.model.values.settings import Settings
from holdfast.core.platform.commands import PlatformCommand
from holdfast.core.platform.events import PlatformEvent
from holdfast.core.region.commands import RegionCommand
from holdfast.core.region.events import RegionEvent
from tests.architecture.promises import condition_types
from tests.architecture.test_promises import production
from tests.support.generated.markdown import FOLDER
from tests.support.generated.meanings import CONDITIONS, REFUSALS, SETTINGS
from tests.support.generated.reference import BOOKS, PAGES

#: Pages that other generators write, or that are written by hand.
OTHERS = {"README", "access", "cli", "rules-map", "settings"}


@pytest.mark.parametrize("name", PAGES)
def test_each_page_is_what_the_tables_say(name: str) -> None:
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == PAGES[name](), "run `make reference`"


def test_no_page_is_left_that_nothing_writes() -> None:
    assert {path.stem for path in FOLDER.glob("*.md")} == {*PAGES, *OTHERS}


def test_every_code_condition_and_setting_has_a_meaning_and_none_is_left_over() -> None:
    assert set(REFUSALS) == {code.value for code in Code}
    assert set(CONDITIONS) == condition_types(production())
    assert set(SETTINGS) == set(Settings.__struct_fields__)


@pytest.mark.parametrize("definition", BOOKS, ids=lambda definition: definition.name)
def test_every_command_names_its_side_effect_and_what_undoes_it(definition: LedgerDefinition[Any]) -> None:
    for rule in definition.rules.values():
        assert rule.owners, rule.command
        assert len(rule.side_effect) > 10, rule.command
        assert len(rule.undone) > 4, rule.command
        assert rule.command.__doc__, rule.command


@pytest.mark.parametrize(
    ("definition", "commands", "events"),
    [(BOOKS[0], PlatformCommand, PlatformEvent), (BOOKS[1], RegionCommand, RegionEvent)],
    ids=["platform", "region"],
)
def test_every_command_has_a_rule_and_every_event_is_applied(
    definition: LedgerDefinition[Any], commands: Any, events: Any
) -> None:
    assert set(get_args(commands)) == set(definition.rules)
    assert set(get_args(events)) == set(definition.apply)


@pytest.mark.parametrize("definition", BOOKS, ids=lambda definition: definition.name)
def test_invariants_have_unique_ids_and_sentences(definition: LedgerDefinition[Any]) -> None:
    assert len({i.id for i in definition.invariants}) == len(definition.invariants)
    assert all(i.id.startswith(f"{definition.name}.") and i.sentence.endswith(".") for i in definition.invariants)
