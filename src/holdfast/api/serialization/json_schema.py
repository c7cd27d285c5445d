"""JSON Schema 2020-12 of every kind and command, from the serializers that parse them.

A kind has two schemas: as it is written, which editors and requests are checked against, and as it is shown, with the
fields that the ledger adds.
"""

from __future__ import annotations

from functools import cache
from inspect import cleandoc
from typing import Any

from msgspec import NODEFAULT, Struct

from holdfast.api.kinds import API_VERSION, BY_NAME, public_name
from holdfast.api.serialization import composites, objects, quantities, scalars
from holdfast.api.serialization.scalars import INT_MAX, Serializer

DIALECT = "https://json-schema.org/draft/2020-12/schema"
#: Suffix of a kind's name for the schema of what is shown.
VIEW_SUFFIX = "Shown"

Schema = dict[str, Any]


class SchemaBuilder:
    """The schemas of serializers. Every struct has one schema under its name, and references to it."""

    def __init__(self, refs: str) -> None:
        self.refs = refs
        self.named: dict[str, Schema] = {}
        self._of: dict[str, object] = {}

    def of(self, form: Serializer) -> Schema:
        match form:
            case objects.AnyObjectSerializer():
                return {"oneOf": [self.of(one) for one in form.forms.values()]}
            case objects.ObjectSerializer():
                name = form.kind if isinstance(form, objects.WritableObjectSerializer) else form.kind + VIEW_SUFFIX
                return self._named(name, form, lambda: self._whole(form))
            case composites.StructSerializer():
                return self._named(public_name(form.struct), form.struct, lambda: self._fields(form))
            case quantities.ResourcesSerializer():
                return self._named("Resources", form.__class__, _resources)
            case composites.ListSerializer():
                return {"type": "array", "items": self.of(form.item)}
            case composites.TupleSerializer():
                items = [self.of(item) for item in form.items]
                return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}
            case composites.MapSerializer():
                return {"type": "object", "additionalProperties": self.of(form.item)}
            case composites.OptionalSerializer():
                return {"anyOf": [self.of(form.item), {"type": "null"}]}
        return _scalar(form)

    def _named(self, name: str, what: object, make: Any) -> Schema:
        if name not in self.named:
            self._of[name] = what
            self.named[name] = {}
            self.named[name] = make()
        assert self._of[name] == what or isinstance(what, objects.ObjectSerializer), f"two schemas are called {name}"
        return {"$ref": f"{self.refs}{name}"}

    def _fields(self, form: composites.StructSerializer) -> Schema:
        return closed_object(
            {name: self._field(field) for name, field in form.fields.items()},
            [name for name, field in form.fields.items() if field.required],
            doc_text(form.struct),
        )

    def _field(self, field: composites.StructField) -> Schema:
        schema = self.of(field.form)
        if isinstance(field.form, scalars.SecretSerializer):
            return {**schema, "writeOnly": True}
        if field.default is NODEFAULT:
            return schema
        return {**schema, "default": field.form.render(field.default)}

    def _whole(self, form: objects.ObjectSerializer) -> Schema:
        written = isinstance(form, objects.WritableObjectSerializer)
        metadata = self._metadata(form) if written else self.of(form.meta)
        parts = {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": form.kind},
            "metadata": metadata,
            "spec": self.of(form.spec),
            "status": _passed_over("Set by the ledger; ignored in writes.") if written else self.of(form.status),
        }
        needs_spec = not isinstance(form.spec, composites.StructSerializer) or any(
            field.required for field in form.spec.fields.values()
        )
        required = ["apiVersion", "kind", "metadata", *(["spec"] if needs_spec or not written else [])]
        return closed_object(parts, required if written else [*required, "status"], doc_text(form.struct))

    def _metadata(self, form: objects.ObjectSerializer) -> Schema:
        """Return the sender's fields, with the pattern of the kind's names; fields of the ledger are read-only."""
        fields = form.meta.fields
        tenanted = BY_NAME[form.kind].tenanted
        properties = {
            name: self._field(field)
            if name in objects.SENDER_FIELDS
            else _passed_over("Set by the ledger; ignored in writes.")
            for name, field in fields.items()
        }
        properties["name"] = {"type": "string", "pattern": name_pattern(form.kind)}
        if tenanted:
            properties["tenant"] = {"type": "string", "pattern": name_pattern("Tenant")}
        else:
            properties["tenant"] = {"const": "", "description": "An object of this kind belongs to no tenant."}
        for mark in objects.MARKS if not BY_NAME[form.kind].marked else ():
            properties[mark] = {"const": {}, "description": "Objects of this kind have none."}
        return closed_object(properties, ["name", "tenant"] if tenanted else ["name"], doc_text(form.meta.struct))


def closed_object(properties: Schema, required: list[str], description: str = "") -> Schema:
    """Return the schema of a map with exactly these fields."""
    schema: Schema = {"description": description} if description else {}
    schema |= {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": required} if required else schema


def _passed_over(why: str) -> Schema:
    return {"description": why, "readOnly": True}


def doc_text(struct: type[Struct]) -> str:
    """Return the text of a struct's docstring."""
    return " ".join(cleandoc(struct.__doc__ or "").split())


@cache
def name_pattern(kind: str) -> str:
    """Return the pattern of a kind's names, from the ledger's own refusal."""
    from holdfast.core.platform.decide.checks import refuse_name

    if kind == "Node":
        return r"^.{1,253}$"
    refused = refuse_name(kind, "")
    assert refused is not None, kind
    return f"^{refused.facts['form']}$"


def _scalar(form: Serializer) -> Schema:
    match form:
        case scalars.TextSerializer():
            return {"type": "string"}
        case scalars.BoolSerializer():
            return {"type": "boolean"}
        case scalars.IntSerializer():
            return {"type": "integer", "minimum": -INT_MAX - 1, "maximum": INT_MAX}
        case scalars.EnumSerializer():
            return {"type": "string", "enum": list(form.members), "description": doc_text(form.names)}  # type: ignore[arg-type]
        case scalars.PercentSerializer():
            return {"type": "string", "pattern": scalars.PERCENT_PATTERN, "examples": ["15%"]}
        case scalars.DurationSerializer():
            pattern, example, most = scalars.DURATION_PATTERN, "1h30m", scalars.QUANTITY_CHARS
            return {"type": "string", "pattern": pattern, "maxLength": most, "examples": [example]}
        case scalars.InstantSerializer():
            schema = {"type": "string", "format": "date-time", "pattern": scalars.INSTANT_PATTERN}
            return {"anyOf": [schema, {"type": "null"}]} if form.unset else schema
        case scalars.RevisionSerializer():
            pattern = scalars.PLACE_PATTERN if form.unset else scalars.REVISION_PATTERN
            schema = {"type": "string", "pattern": pattern, "examples": ["41.3"]}  # type: ignore[dict-item]
            return {"anyOf": [schema, {"type": "null"}]} if form.unset else schema
    raise TypeError(f"{form} has no schema")


def _resources() -> Schema:
    counted = {
        "description": "Counted in thousandths: 2, 0.5 or 500m.",
        "anyOf": [
            {"type": "integer", "minimum": -(INT_MAX // 1000), "maximum": INT_MAX // 1000},
            {"type": "number", "multipleOf": 0.001, "minimum": -(10**12), "maximum": 10**12},
            {"type": "string", "pattern": quantities.COUNTED_PATTERN},
        ],
        "examples": ["500m", 2],
    }
    size = {
        "description": "An amount with a unit.",
        "anyOf": [{"const": 0}, {"type": "string", "pattern": quantities.SIZE_PATTERN}],
        "examples": ["512Mi", "4Gi"],
    }
    return {
        "description": "An amount of each resource; one that is not named is 0. Other keys are extended resources.",
        "type": "object",
        "properties": {"cpu": counted, "memory": size, "disk": size, "gpu": counted},
        "propertyNames": {"minLength": 1},
        "additionalProperties": {"type": "integer", "minimum": -INT_MAX - 1, "maximum": INT_MAX},
    }
