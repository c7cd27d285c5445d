"""The commands of each ledger that a person or a tenant may send, by tag."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import Struct

from holdfast.api.kinds import PLATFORM
from holdfast.api.serialization.registry import parse, struct_serializer_for
from holdfast.core.ledger.commit.authorization import PEOPLE
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.rules import CommandRule


@cache
def rules(ledger: str) -> dict[str, CommandRule[Any]]:
    """Return the rules of all commands of this ledger (`platform` or `region`) that users may send, by tag."""
    from holdfast.core.platform.definition import RULES as PLATFORM_RULES
    from holdfast.core.region.definition import RULES as REGION_RULES

    definition = PLATFORM_RULES if ledger in PLATFORM else REGION_RULES
    found = {tag_of(rule.command): rule for rule in definition.values() if set(PEOPLE).intersection(rule.owners)}
    return dict(sorted(found.items()))


@cache
def named_commands(ledger: str) -> dict[str, CommandRule[Any]]:
    """Return the commands that users send by name, by tag. The other commands store and delete objects and are sent as
    documents."""
    from holdfast.core.platform.commands import Delete, DeleteWorkload, PublishPolicy, Put, PutWorkload

    as_documents = (Put, PutWorkload, Delete, DeleteWorkload, PublishPolicy)
    return {tag: rule for tag, rule in rules(ledger).items() if rule.command not in as_documents}


@cache
def tags(ledger: str) -> tuple[str, ...]:
    """Return the tags of all commands of this ledger, for any sender."""
    from holdfast.core.platform.definition import RULES as PLATFORM_RULES
    from holdfast.core.region.definition import RULES as REGION_RULES

    definition = PLATFORM_RULES if ledger in PLATFORM else REGION_RULES
    return tuple(sorted(tag_of(rule.command) for rule in definition.values()))


def tag_of(command: type[Struct]) -> str:
    """Return the name of a command in the log and the API."""
    return str(command.__struct_config__.tag)


def parse_command(ledger: str, tag: str, tree: object) -> Any:
    """Return the command with these fields, or raise `InvalidDocument`; `KeyError` for a tag that users may not send
    there."""
    return parse(rules(ledger)[tag].command, tree)


def render_command(command: Any) -> dict[str, Any]:
    """Return a command's fields as users write them, without secrets."""
    of: Any = type(command)
    shown: dict[str, Any] = struct_serializer_for(of).render(command)
    return shown


def rule_of(definition: LedgerDefinition[Any], tag: str) -> CommandRule[Any] | None:
    """Return the rule of the command with this tag."""
    return next((rule for rule in definition.rules.values() if tag_of(rule.command) == tag), None)
