"""From a type of the model to its serializer, and the two functions of this package: `parse` and `render`.

A tuple becomes a list, pairs of text and a value become a map, and a struct becomes a map with camelCase names. Each
serializer is made from its type on first use, and cached.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import NODEFAULT, Struct, inspect

from holdfast.api.serialization import composites, scalars
from holdfast.api.serialization.field_errors import FieldErrors, InvalidDocument
from holdfast.api.serialization.objects import AnyObjectSerializer, ObjectSerializer, WritableObjectSerializer
from holdfast.api.serialization.quantities import ResourcesSerializer
from holdfast.api.serialization.scalars import INVALID, Serializer
from holdfast.core.model.objects.workloads import WorkloadSpec
from holdfast.core.model.values.metadata import Meta
from holdfast.core.model.values.resources import Resources

#: More levels than any document has.
DEPTH_MAX = 64


def camel(name: str) -> str:
    """Return a field's name in documents."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


class SerializerRegistry:
    """The serializers of the types used so far. A struct that contains itself has one serializer."""

    def __init__(self) -> None:
        self._structs: dict[type, composites.StructSerializer] = {}

    def of(self, info: inspect.Type, default: Any = NODEFAULT) -> Serializer:
        """Return the serializer of a type. With a default of 0, a time or revision of 0 means none."""
        if isinstance(info, inspect.Metadata):
            return self._marked(info, default)
        simple = _SIMPLE.get(type(info))
        if simple is not None:
            return simple
        match info:
            case inspect.EnumType(cls=words):
                return scalars.EnumSerializer(words)
            case inspect.VarTupleType(item_type=inspect.TupleType(item_types=(inspect.StrType(), item))):
                return composites.MapSerializer(self.of(item))
            case inspect.VarTupleType(item_type=item):
                return composites.ListSerializer(self.of(item))
            case inspect.TupleType(item_types=items):
                return composites.TupleSerializer(tuple(self.of(item) for item in items))
            case inspect.UnionType(types=types):
                return self._union(types)
            case inspect.StructType(cls=struct):
                return ResourcesSerializer() if struct is Resources else self._struct(info)
        raise TypeError(f"{info} has no serializer")

    def _marked(self, info: inspect.Metadata, default: Any) -> Serializer:
        match (info.extra or {}).get("form"):
            case "instant":
                return scalars.InstantSerializer(unset=default == 0)
            case "revision":
                return scalars.RevisionSerializer(unset=default == 0)
            case "duration":
                return scalars.DurationSerializer()
            case "percent":
                return scalars.PercentSerializer()
            case "secret":
                return scalars.SecretSerializer()
        return self.of(info.type, default)

    def _union(self, types: tuple[inspect.Type, ...]) -> Serializer:
        others = [info for info in types if not isinstance(info, inspect.NoneType)]
        if len(others) == 1:
            return composites.OptionalSerializer(self.of(others[0]))
        found = [self.of(info) for info in others]
        return AnyObjectSerializer(tuple(form for form in found if isinstance(form, WritableObjectSerializer)))

    def _struct(self, info: inspect.StructType) -> Serializer:
        return self.whole(info, WritableObjectSerializer) if is_object(info) else self.fields(info)

    def whole(self, info: inspect.StructType, form: type[ObjectSerializer]) -> ObjectSerializer:
        """Return the serializer of a complete document, of the given class."""
        meta, spec, status = (self.of(field.type) for field in info.fields)
        assert isinstance(meta, composites.StructSerializer), info.cls
        return form(info.cls, meta, spec, status)

    def fields(self, info: inspect.StructType) -> composites.StructSerializer:
        """Return the serializer of a struct, field by field."""
        known = self._structs.get(info.cls)
        if known is not None:
            return known
        form = self._structs[info.cls] = _SPECIAL.get(info.cls, composites.StructSerializer)(info.cls)
        for field in info.fields:
            inner = self.of(field.type, field.default)
            required = field.required and not isinstance(inner, scalars.SecretSerializer)
            name = camel(field.name)
            form.fields[name] = composites.StructField(name, field.name, inner, required, field.default)
        return form


#: Structs with a serializer of their own.
_SPECIAL: dict[type, type[composites.StructSerializer]] = {
    Meta: composites.MetadataSerializer,
    WorkloadSpec: composites.WorkloadSpecSerializer,
}
_SIMPLE: dict[type, Serializer] = {
    inspect.StrType: scalars.TextSerializer(),
    inspect.BoolType: scalars.BoolSerializer(),
    inspect.IntType: scalars.IntSerializer(),
}
_registry = SerializerRegistry()


@cache
def struct_serializer_for(struct: Any) -> composites.StructSerializer:
    """Return the serializer of any struct's fields."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType), struct
    return _registry.fields(info)


def is_object(info: inspect.Type) -> bool:
    """Whether the type is a complete document, with kind and metadata."""
    return isinstance(info, inspect.StructType) and info.tag is not None and "meta" in info.cls.__struct_fields__[:1]


@cache
def serializer_for(type_: Any) -> Serializer:
    """Return the serializer of a type. A complete document is parsed with all fields; one inside a command, as users
    write it."""
    info = inspect.type_info(type_)
    if isinstance(info, inspect.StructType) and is_object(info):
        return _registry.whole(info, ObjectSerializer)
    return _registry.of(info)


@cache
def writable_serializer_for(struct: type[Struct]) -> WritableObjectSerializer:
    """Return the serializer of a complete document as users write it."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType), struct
    form = _registry.whole(info, WritableObjectSerializer)
    assert isinstance(form, WritableObjectSerializer), struct
    return form


def parse(type_: Any, tree: object, pointer: str = "") -> Any:
    """Return the value of this type that the tree represents, or raise `InvalidDocument` with all faults."""
    faults = FieldErrors()
    refuse_depth(tree, pointer, faults)
    value = serializer_for(type_).parse(tree, pointer, faults) if not faults.found else INVALID
    if faults.found:
        raise InvalidDocument(faults.found)
    return value


def render(value: Any, *, secrets: bool = False) -> Any:
    """Return the value as a tree of plain JSON values."""
    of: Any = type(value)
    return serializer_for(of).render(value, secrets)


def refuse_depth(tree: object, pointer: str, faults: FieldErrors) -> None:
    """Add a fault if the tree has more than `DEPTH_MAX` levels."""
    level = [tree]
    for _ in range(DEPTH_MAX):
        deeper: list[object] = []
        for node in level:
            if isinstance(node, dict):
                deeper.extend(node.values())
            elif isinstance(node, list | tuple):
                deeper.extend(node)
        if not deeper:
            return
        level = deeper
    faults.add(pointer, f"nested deeper than {DEPTH_MAX} levels")
