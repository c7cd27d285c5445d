"""The reference says what the code does."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.platform.commands import PlatformCommand
from holdfast.core.platform.events import PlatformEvent
from holdfast.core.region.commands import RegionCommand
from holdfast.core.region.events import RegionEvent
from tests.support.generated.reference import BOOKS, PAGE, page


def test_the_reference_is_what_the_tables_say() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run `make reference`"


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
