"""Every command has a rule, every event has an effect, and both have one way to be written."""

import re
from typing import Any, get_args

import pytest

from holdfast.core.ledger.commit.authorization import BUILT_IN, MACHINES, PEOPLE
from holdfast.core.platform.commands import PlatformCommand
from holdfast.core.platform.definition import PLATFORM, RULES
from holdfast.core.platform.events import PlatformEvent

COMMANDS: tuple[Any, ...] = get_args(PlatformCommand)
EVENTS: tuple[Any, ...] = get_args(PlatformEvent)


def name(thing: Any) -> str:
    return str(thing.__name__)


def test_every_command_has_a_rule_and_every_rule_a_command() -> None:
    assert sorted(map(name, RULES)) == sorted(map(name, COMMANDS))


def test_every_event_has_an_effect_and_every_effect_an_event() -> None:
    assert sorted(map(name, PLATFORM.apply)) == sorted(map(name, EVENTS))


@pytest.mark.parametrize("command", COMMANDS, ids=name)
def test_a_rule_says_what_the_command_does_and_what_undoes_it(command: Any) -> None:
    rule = RULES[command]
    assert rule.side_effect.strip()
    assert rule.undone.strip()


@pytest.mark.parametrize("command", COMMANDS, ids=name)
def test_a_rule_names_owners_that_can_exist(command: Any) -> None:
    owners = RULES[command].owners
    assert owners
    for owner in owners:
        kind, _, rest = owner.partition("/")
        assert (owner in (*MACHINES, *PEOPLE, "ledger")) if not rest else (kind in BUILT_IN), owner


@pytest.mark.parametrize("command", COMMANDS, ids=name)
def test_a_command_says_in_a_sentence_what_it_asks(command: Any) -> None:
    assert (command.__doc__ or "").strip().endswith(".")


def test_tags_are_used_once() -> None:
    for structs in (COMMANDS, EVENTS):
        tags = [struct.__struct_config__.tag for struct in structs]
        assert len(set(tags)) == len(tags)


def test_no_event_holds_a_dict_or_a_set() -> None:
    """Their order would depend on how they were made, and the same fact would have two spellings."""
    for event in EVENTS:
        for annotation in event.__annotations__.values():
            of_all = str(annotation).startswith("ClassVar")
            assert of_all or not re.search(r"\b(dict|Mapping|set|frozenset)\b", str(annotation)), (event, annotation)


def test_invariants_have_an_id_of_this_ledger_and_a_sentence() -> None:
    ids = [invariant.id for invariant in PLATFORM.invariants]
    assert len(set(ids)) == len(ids)
    for invariant in PLATFORM.invariants:
        assert invariant.id.startswith("platform.")
        assert invariant.sentence.endswith(".")
