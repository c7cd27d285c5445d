"""The kinds that users write, as documents; the commands that they may send, by tag; JSON Schema of both."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import Struct

from holdfast.api.kinds import PLATFORM, public_name
from holdfast.api.resources import platform_types, region_types, reported_types
from holdfast.api.resources.platform_types import SchedulerPolicyView
from holdfast.api.resources.region_types import NodeView
from holdfast.api.serialization import registry
from holdfast.api.serialization.field_errors import FieldErrors, InvalidDocument
from holdfast.api.serialization.json_schema import DIALECT, Schema, SchemaBuilder
from holdfast.api.serialization.objects import AnyObjectSerializer
from holdfast.api.serialization.registry import parse, struct_serializer_for
from holdfast.api.serialization.scalars import Serializer
from holdfast.core.ledger.commit.authorization import PEOPLE
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.rules import CommandRule
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.tenants import PriorityClass, Quota, RecoveryBudget, Tenant
from holdfast.core.model.objects.topology import NodePool, Region
from holdfast.core.model.objects.workloads import Workload

_STRUCTS: tuple[type[Struct], ...] = (
    Tenant, Quota, PriorityClass, Principal, Token, Region, NodePool, RecoveryBudget, SchedulerPolicyView, Workload,
    NodeView,
)  # fmt: skip
WRITABLE: dict[str, type[Struct]] = {public_name(struct): struct for struct in _STRUCTS}


@cache
def kind_schema(name: str, *, shown: bool = False) -> Schema:
    """Return the self-contained schema of a kind: as it is written, if it is writable and not `shown`, or as it is
    shown."""
    schemas = SchemaBuilder("#/$defs/")
    ref: str = schemas.of(serializer_for_kind(name, shown=shown))["$ref"]
    title = ref.removeprefix(schemas.refs)
    own = schemas.named.pop(title)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:schema:{title}", "title": title, **own, "$defs": schemas.named}


def serializer_for_kind(name: str, *, shown: bool = False) -> Serializer:
    """Return the serializer of a kind: as it is written, if it is writable and not `shown`, or as it is shown."""
    written: Any = WRITABLE.get(name)
    if written is not None and not shown:
        return registry.writable_serializer_for(written)
    view = reported_types.VIEWS_BY_KIND.get(name)
    of: Any = view or written or getattr(platform_types, f"{name}View", None) or getattr(region_types, f"{name}View")
    return registry.serializer_for(of)


@cache
def _writable_serializer() -> AnyObjectSerializer:
    return AnyObjectSerializer(tuple(registry.writable_serializer_for(struct) for struct in WRITABLE.values()))


@cache
def _object_serializer() -> AnyObjectSerializer:
    return AnyObjectSerializer(tuple(registry.serializer_for(struct) for struct in WRITABLE.values()))  # type: ignore[misc]


def parse_object(tree: object, *, whole: bool = False) -> Any:
    """Return the object that the document describes, or raise `InvalidDocument` with all faults.

    Status is ignored, and all metadata but name, tenant, labels, annotations, uid and revision. So a document that was
    read can be written back. `whole` parses those fields, too. A missing token hash is empty, which leaves the stored
    one unchanged.
    """
    faults = FieldErrors()
    registry.refuse_depth(tree, "", faults)
    if not faults.found:
        value = (_object_serializer() if whole else _writable_serializer()).parse(tree, "", faults)
        if not faults.found:
            return value
    raise InvalidDocument(faults.found)


def render_object(obj: Any, *, secrets: bool = False) -> dict[str, Any]:
    """Return the complete document: metadata without empty fields, spec and status in full."""
    tree: dict[str, Any] = registry.render(obj, secrets=secrets)
    return tree


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
    return next((rule for rule in definition.rules.values() if tag_of(rule.command) == tag), None)
