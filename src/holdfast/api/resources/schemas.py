"""The kinds that users write, parsed and rendered as complete documents; JSON Schema of all kinds and commands."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import Struct

from holdfast.api.kinds import public_name
from holdfast.api.resources import platform_types, region_types, reported_types
from holdfast.api.resources.command_catalog import rules
from holdfast.api.resources.platform_types import SchedulerPolicyView
from holdfast.api.resources.region_types import NodeView
from holdfast.api.serialization import registry
from holdfast.api.serialization.field_errors import FieldErrors, InvalidDocument
from holdfast.api.serialization.json_schema import DIALECT, Schema, SchemaBuilder
from holdfast.api.serialization.objects import AnyObjectSerializer
from holdfast.api.serialization.scalars import Serializer
from holdfast.core.model.objects.principals import Principal, Token
from holdfast.core.model.objects.tenants import PriorityClass, Quota, RecoveryBudget, Tenant
from holdfast.core.model.objects.topology import NodePool, Region
from holdfast.core.model.objects.workloads import Workload


@cache
def kind_schema(name: str, *, shown: bool = False) -> Schema:
    """Return the self-contained schema of a kind: as it is written, if it is writable and not `shown`, or as it is
    shown."""
    schemas = SchemaBuilder("#/$defs/")
    ref: str = schemas.of(serializer_for_kind(name, shown=shown))["$ref"]
    title = ref.removeprefix(schemas.refs)
    own = schemas.named.pop(title)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:schema:{title}", "title": title, **own, "$defs": schemas.named}


@cache
def command_schema(ledger: str, tag: str) -> Schema:
    """Return the self-contained schema of a command's fields."""
    command: Any = rules(ledger)[tag].command
    schemas = SchemaBuilder("#/$defs/")
    schemas.of(registry.struct_serializer_for(command))
    own = schemas.named.pop(command.__name__)
    return {"$schema": DIALECT, "$id": f"urn:holdfast:command:{tag}", "title": tag, **own, "$defs": schemas.named}


def serializer_for_kind(name: str, *, shown: bool = False) -> Serializer:
    """Return the serializer of a kind: as it is written, if it is writable and not `shown`, or as it is shown."""
    written: Any = WRITABLE.get(name)
    if written is not None and not shown:
        return registry.writable_serializer_for(written)
    view = reported_types.VIEWS_BY_KIND.get(name)
    of: Any = view or written or getattr(platform_types, f"{name}View", None) or getattr(region_types, f"{name}View")
    return registry.serializer_for(of)


_STRUCTS: tuple[type[Struct], ...] = (
    Tenant, Quota, PriorityClass, Principal, Token, Region, NodePool, RecoveryBudget, SchedulerPolicyView, Workload,
    NodeView,
)  # fmt: skip
WRITABLE: dict[str, type[Struct]] = {public_name(struct): struct for struct in _STRUCTS}


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
