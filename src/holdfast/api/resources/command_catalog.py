"""What people may ask of each ledger: the commands that a person or a tenant owns, by tag."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import Struct

from holdfast.api.kinds import PLATFORM
from holdfast.api.serialization.registry import parse, struct_serializer_for
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.rules import CommandRule

#: Kinds of senders that are people.
_PEOPLE = frozenset({"person", "tenant"})


@cache
def rules(ledger: str) -> dict[str, CommandRule[Any]]:
    """By tag: the rule of every command of this ledger (`platform` or `region`) that people may send."""
    from holdfast.core.platform.definition import RULES as PLATFORM_RULES
    from holdfast.core.region.definition import RULES as REGION_RULES

    definition = PLATFORM_RULES if ledger in PLATFORM else REGION_RULES
    found = {tag_of(rule.command): rule for rule in definition.values() if _PEOPLE.intersection(rule.owners)}
    return dict(sorted(found.items()))


@cache
def named_commands(ledger: str) -> dict[str, CommandRule[Any]]:
    """By tag: those of them that are sent by name. The others store and end objects, and are sent as documents."""
    from holdfast.core.platform.commands import Delete, DeleteWorkload, PublishPolicy, Put, PutWorkload

    as_documents = (Put, PutWorkload, Delete, DeleteWorkload, PublishPolicy)
    return {tag: rule for tag, rule in rules(ledger).items() if rule.command not in as_documents}


@cache
def tags(ledger: str) -> tuple[str, ...]:
    """Every command of this ledger, whoever sends it."""
    from holdfast.core.platform.definition import RULES as PLATFORM_RULES
    from holdfast.core.region.definition import RULES as REGION_RULES

    definition = PLATFORM_RULES if ledger in PLATFORM else REGION_RULES
    return tuple(sorted(tag_of(rule.command) for rule in definition.values()))


def tag_of(command: type[Struct]) -> str:
    """The name of a command, as the log and the API have it."""
    return str(command.__struct_config__.tag)


def parse_command(ledger: str, tag: str, tree: object) -> Any:
    """The command with these fields, or `InvalidDocument`; `KeyError` for a tag that people may not send there."""
    return parse(rules(ledger)[tag].command, tree)


def render_command(command: Any) -> dict[str, Any]:
    """A command's fields as people write them; secrets are left out."""
    of: Any = type(command)
    shown: dict[str, Any] = struct_serializer_for(of).render(command)
    return shown


def rule_of(definition: LedgerDefinition[Any], tag: str) -> CommandRule[Any] | None:
    """The rule of the command with this tag."""
    return next((rule for rule in definition.rules.values() if tag_of(rule.command) == tag), None)
