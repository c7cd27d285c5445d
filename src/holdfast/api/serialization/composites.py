"""Serializers made of others: lists, maps, structs, and optional values."""

from __future__ import annotations

from typing import Any, NamedTuple

from msgspec import NODEFAULT, Struct

from holdfast.api.serialization import scalars
from holdfast.api.serialization.field_errors import FieldErrors, child_pointer
from holdfast.api.serialization.scalars import INVALID, Serializer
from holdfast.api.spelling import did_you_mean
from holdfast.core.model.objects.workloads import with_implied

_TEXT = scalars.TextSerializer()
#: Serializers whose values are plain JSON already.
_AS_THEY_ARE = (scalars.TextSerializer, scalars.BoolSerializer, scalars.IntSerializer)


class ListSerializer:
    """A list of any length, of one type."""

    def __init__(self, item: Serializer) -> None:
        self.item = item

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, list | tuple):
            faults.expected(at, "a list", tree)
            return INVALID
        read = self.item.parse
        return _unless_bad(tuple([read(item, child_pointer(at, index), faults) for index, item in enumerate(tree)]))

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        return [self.item.render(item, secrets) for item in value]


class TupleSerializer:
    """A list of fixed length, each item of its own type."""

    def __init__(self, items: tuple[Serializer, ...]) -> None:
        self.items = items

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, list | tuple) or len(tree) != len(self.items):
            faults.expected(at, f"a list of {len(self.items)}", tree)
            return INVALID
        pairs = enumerate(zip(self.items, tree, strict=True))
        return _unless_bad(tuple([form.parse(item, child_pointer(at, index), faults) for index, (form, item) in pairs]))

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        return [form.render(item, secrets) for form, item in zip(self.items, value, strict=True)]


class MapSerializer:
    """A map from text to one type, sorted by key: the order in the text has no meaning."""

    def __init__(self, item: Serializer) -> None:
        self.item = item

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        if not isinstance(tree, dict):
            faults.expected(at, "a map", tree)
            return INVALID
        found = []
        for key, item in tree.items():
            if _TEXT.parse(key, at, faults) is not INVALID:
                found.append((key, self.item.parse(item, child_pointer(at, key), faults)))
            else:
                found.append(("", INVALID))
        bad = any(value is INVALID for _, value in found)
        return INVALID if bad else tuple(sorted(found, key=lambda pair: pair[0]))

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        return {key: self.item.render(item, secrets) for key, item in value}


class OptionalSerializer:
    """A value, or null."""

    def __init__(self, item: Serializer) -> None:
        self.item = item

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        return None if tree is None else self.item.parse(tree, at, faults)

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        return None if value is None else self.item.render(value, secrets)


class StructField(NamedTuple):
    """One field of a struct: its names outside and inside, its serializer, and its default if it has one."""

    name: str
    inside: str
    form: Serializer
    required: bool
    default: Any


class StructSerializer:
    """A struct, as a map of its fields."""

    def __init__(self, struct: type[Struct]) -> None:
        self.struct = struct
        self.fields: dict[str, StructField] = {}

    def parse(self, tree: object, at: str, faults: FieldErrors) -> Any:
        values = self.values(tree, at, faults)
        return INVALID if values is None else self.struct(**values)

    def values(self, tree: object, at: str, faults: FieldErrors) -> dict[str, Any] | None:
        """Return the given values by the names inside; None if anything is wrong."""
        if not isinstance(tree, dict):
            faults.expected(at, f"a map of {', '.join(self.fields)}" if self.fields else "an empty map", tree)
            return None
        before = len(faults.found)
        values = {}
        for name, field in self.fields.items():
            if name in tree:
                values[field.inside] = field.form.parse(tree[name], child_pointer(at, name), faults)
            elif field.required:
                faults.add(child_pointer(at, name), f"{name} is missing")
            elif field.default is NODEFAULT:
                values[field.inside] = ""
        refuse_unknown(tree, self.fields, at, faults)
        return values if len(faults.found) == before else None

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        shown = {}
        for name, field in self.fields.items():
            mine, form = getattr(value, field.inside), field.form
            if type(form) in _AS_THEY_ARE:
                shown[name] = mine
            elif secrets or type(form) is not scalars.SecretSerializer:
                shown[name] = form.render(mine, secrets)
        return shown


class WorkloadSpecSerializer(StructSerializer):
    """The spec of a workload; missing fields follow from its kind."""

    def values(self, tree: object, at: str, faults: FieldErrors) -> dict[str, Any] | None:
        said = super().values(tree, at, faults)
        return None if said is None else with_implied(said)


class MetadataSerializer(StructSerializer):
    """Metadata, without empty fields. A stored object also shows its generation, to compare the observed one with."""

    def render(self, value: Any, secrets: bool = False, /) -> Any:
        stored = value.created_by != ""
        return {
            name: field.form.render(mine, secrets)
            for name, field in self.fields.items()
            if (mine := getattr(value, field.inside)) != field.default or (stored and name == "generation")
        }


def refuse_unknown(tree: dict[Any, Any], names: dict[str, Any], at: str, faults: FieldErrors) -> None:
    """Add a fault for every key that is not the name of a field."""
    for key in tree:
        if not isinstance(key, str):
            faults.expected(at, "the name of a field", key)
        elif key not in names:
            hint = did_you_mean(key, names) or f"fields: {', '.join(names)}"
            faults.add(child_pointer(at, key), f"there is no field {key[:64]!r}", hint)


def _unless_bad(values: tuple[Any, ...]) -> Any:
    return INVALID if any(value is INVALID for value in values) else values
