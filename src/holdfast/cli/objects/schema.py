"""`holdfast schema`: the fields of a kind, from its JSON Schema. It sends no request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from holdfast.api.kinds import KINDS
from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.targets import resolve_kind

app = make_app()

What = Annotated[str, typer.Argument(metavar="[KIND[.FIELD...]]", help="For example workload.spec.template.")]


@command(app)
def schema(options: GlobalOptions, what: What = "", output: OutputOption = OutputFormat.TEXT) -> None:
    """Explain the fields of a kind: `holdfast schema workload.spec.template`. With -o json, the JSON Schema."""
    if not what:
        _kinds(output)
        return
    word, _, path = what.partition(".")
    kind = resolve_kind(word)
    whole = _schema_of(kind.name, path)
    part = _found(whole, path, kind.name)
    if printer.print_structured(whole if not path else {"$defs": whole.get("$defs", {}), **part}, output):
        return
    printer.print_data("\n".join(_told(whole, part, f"{kind.name}{f'.{path}' if path else ''}")))


def _kinds(output: OutputFormat) -> None:
    rows = [[kind.name, plural, ",".join(kind.short), _writer(kind)] for plural, kind in KINDS.items()]
    if not printer.print_structured([{"kind": row[0], "plural": row[1]} for row in rows], output):
        printer.print_data(printer.table(["KIND", "PLURAL", "SHORT", "WRITTEN"], rows))


def _writer(kind: Any) -> str:
    return "apply" if kind.writable else "-"


def _schema_of(name: str, path: str) -> dict[str, Any]:
    """Return the schema of the written form; for `status`, which no user writes, of the shown form."""
    from holdfast.api.resources.schemas import kind_schema

    return kind_schema(name, shown=path.split(".")[0] == "status")


def _found(whole: dict[str, Any], path: str, kind: str) -> dict[str, Any]:
    """Return the schema of one field."""
    here, walked = whole, kind
    for step in path.split(".") if path else ():
        here = _resolved(whole, here)
        fields = _fields(whole, here)
        if step.partition("[")[0] not in fields:
            near = _near(step, fields)
            known = ", ".join(fields) or "it has none"
            said = f"; did you mean {near}?" if near else ""
            raise usage_error(f"{walked} has no field {step!r}{said}", f"its fields: {known}")
        here, walked = fields[step.partition("[")[0]], f"{walked}.{step}"
    return here


def _near(word: str, known: Mapping[str, Any]) -> str:
    from holdfast.api.spelling import nearest

    return nearest(word, known)


def _resolved(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Resolve references, and alternatives with null."""
    while True:
        if "$ref" in part:
            name = str(part["$ref"]).rpartition("/")[2]
            part = {**whole.get("$defs", {}).get(name, {}), **{key: one for key, one in part.items() if key != "$ref"}}
        elif "anyOf" in part or "oneOf" in part:
            some = [one for one in part.get("anyOf") or part["oneOf"] if one.get("type") != "null"]
            if len(some) != 1:
                return part
            part = {**some[0], **{key: one for key, one in part.items() if key not in ("anyOf", "oneOf")}}
        else:
            return part


def _fields(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a part; for a list, those of its items."""
    part = _resolved(whole, part)
    if isinstance(part.get("items"), Mapping):
        return _fields(whole, part["items"])
    found = dict(part.get("properties") or {})
    if not found and isinstance(part.get("additionalProperties"), Mapping):
        return _fields(whole, part["additionalProperties"])
    return found


def _told(whole: dict[str, Any], part: dict[str, Any], title: str) -> Iterator[str]:
    here = _resolved(whole, part)
    yield f"{printer.paint(title, 'bold')}  <{_type(whole, here)}>"
    if here.get("description"):
        yield f"  {here['description']}"
    yield from (f"  {line}" for line in _limits(here))
    fields = _fields(whole, here)
    required = set(here.get("required") or ())
    width = max((len(name) for name in fields), default=0) + 2
    if fields:
        yield "Fields"
    for name, one in fields.items():
        inner = _resolved(whole, one)
        marks = [f"<{_type(whole, inner)}>"]
        marks += ["required"] if name in required else []
        marks += [f"default {printer.as_json(inner['default'], compact=True)}"] if _has_default(inner) else []
        yield f"  {name.ljust(width)}{' '.join(marks)}"
        if inner.get("description"):
            yield f"  {' ' * width}{str(inner['description']).splitlines()[0]}"


def _has_default(part: Mapping[str, Any]) -> bool:
    return part.get("default") not in (None, "", [], {})


def _type(whole: dict[str, Any], part: dict[str, Any]) -> str:
    part = _resolved(whole, part)
    if isinstance(part.get("items"), Mapping):
        return f"list of {_type(whole, part['items'])}"
    if "enum" in part:
        return "|".join(map(str, part["enum"]))
    if "const" in part:
        return str(part["const"])
    some = part.get("anyOf") or part.get("oneOf")
    if some:
        return "|".join(dict.fromkeys(_type(whole, one) for one in some))
    kind = part.get("type", "any")
    if isinstance(kind, list):
        kind = "|".join(map(str, kind))
    if kind == "object" and isinstance(part.get("additionalProperties"), Mapping):
        return f"map of {_type(whole, part['additionalProperties'])}" if not part.get("properties") else "map"
    named = {"string": "text", "integer": "number", "object": "map", "boolean": "true|false"}
    return str(part.get("format") or named.get(str(kind), kind))


#: Limits of the number type itself, which are not shown.
_ANY_NUMBER = (-(2**63), 2**63 - 1)


def _limits(part: Mapping[str, Any]) -> Iterator[str]:
    for key, words in (("minimum", "at least"), ("maximum", "at most"), ("pattern", "matches"), ("maxLength", "up to")):
        if key in part and part[key] not in _ANY_NUMBER:
            yield f"{words} {part[key]}"
    for one in part.get("examples") or ():
        yield f"for example {printer.as_json(one, compact=True)}"
