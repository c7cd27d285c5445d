"""`holdfast describe`: tell about one object; in the end its conditions, the reasons, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.cli.command import ObjectArgument, command, make_app
from holdfast.cli.connect import ApiClient, connect, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import conditions, field_path, printer, regional_status
from holdfast.cli.targets import ObjectRef, region_for, resolve_object

app = make_app()


@command(app)
def describe(options: GlobalOptions, words: ObjectArgument) -> None:
    """Tell about one object: what is wanted, what is, and what to do next."""
    context = resolve(options)
    one = resolve_object(words, context)
    client = connect(options, context, region=region_for(one.kind, context, options.region))
    try:
        found = client.get(one.kind.plural, one.name, tenant=one.tenant)
    except Exception as error:
        raise to_cli_error(error, options.verbose, what=str(one)) from None
    for section in (_head(one.kind, found), _body("Spec", found.get("spec")), _body("Status", _facts(found))):
        if section:
            printer.print_data(section)
    for title, lines in (*regional_status.status_sections(found.get("status") or {}), *_related(client, one)):
        printer.print_data(f"{printer.paint(title, 'bold')}\n{_indented(lines)}")
    printer.print_data(_ending(found, one))


def _head(kind: ResourceKind, found: Mapping[str, Any]) -> str:
    meta = found.get("metadata") or {}
    rows = [
        (name, printer.format_value(meta.get(key)))
        for name, key in (
            ("Name", "name"),
            ("Tenant", "tenant"),
            ("Labels", "labels"),
            ("Annotations", "annotations"),
            ("Uid", "uid"),
            ("Revision", "revision"),
            ("Generation", "generation"),
            ("Created", "created"),
            ("Created by", "createdBy"),
        )
        if meta.get(key)
    ]
    deletion = meta.get("deletion")
    if deletion:
        rows.append(("Ending", f"since {deletion.get('at')}, asked for by {deletion.get('by')}"))
        held = ", ".join(f"{one.get('name')} ({one.get('owner')})" for one in meta.get("finalizers") or ())
        rows.append(("Held by", held or "nothing"))
    return printer.pairs([("Kind", kind.name), *rows])


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    """The status without what comes later: what regions have told, and last its conditions."""
    later = ("conditions", *regional_status.PARTS)
    return {key: value for key, value in (found.get("status") or {}).items() if key not in later}


def _body(title: str, values: Any) -> str:
    lines = list(_tree(values or {}, "  "))
    return "\n".join([printer.paint(title, "bold"), *lines]) if lines else ""


def _tree(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Names and values, one line each; what is not set is left out."""
    there = {key: value for key, value in values.items() if value not in (None, "", [], {})}
    width = max((len(key) for key in there), default=0) + 2
    for key, value in there.items():
        if isinstance(value, Mapping) and any(isinstance(one, Mapping | list) for one in value.values()):
            yield f"{indent}{key}"
            yield from _tree(value, f"{indent}  ")
        elif isinstance(value, list) and any(isinstance(one, Mapping) for one in value):
            yield f"{indent}{key}"
            yield from (f"{indent}  - {printer.format_value(one)}" for one in value)
        else:
            yield f"{indent}{key.ljust(width)}{printer.format_value(value)}"


def _related(client: ApiClient, one: ObjectRef) -> Iterator[regional_status.Section]:
    """What belongs to it: for a workload, where it is. What cannot be told does not keep back the rest."""
    if one.kind.name != "Workload":
        return
    try:
        listed = client.list("assignments", tenant=one.tenant).items
    except Exception as error:
        print_note(f"its assignments are not shown: {to_cli_error(error)}")
        return
    columns = ("spec.region", "spec.purpose", "spec.stage", "status.replicas")
    mine = [found for found in listed if field_path.value_at(found, "spec.workload") == one.name]
    if mine:
        rows = [[printer.format_value(field_path.value_at(found, path)) for path in columns] for found in mine]
        yield "Assignments", printer.table(["REGION", "PURPOSE", "STAGE", "REPLICAS"], rows).splitlines()


def _ending(found: Mapping[str, Any], one: ObjectRef) -> str:
    """Conditions, what is wrong, and what to do next."""
    said = field_path.conditions_of(found)
    table = conditions.condition_table(said)
    text = [printer.paint("Conditions", "bold"), _indented(table) if table else "  none are reported"]
    bad = [f"  {conditions.format_condition(condition)}" for condition in said if conditions.is_bad(condition)]
    if bad:
        text += [printer.paint("Reasons", "bold"), *bad]
    todo = [] if _is_ending(found) else conditions.condition_hints(said, one.kind.name.lower(), _typed(one), one.tenant)
    todo = todo or _otherwise(found, one, bad)
    return "\n".join([*text, printer.paint("Next", "bold"), *(f"  {line}" for line in todo)])


def _is_ending(found: Mapping[str, Any]) -> bool:
    """Whether somebody has asked for the end of it."""
    return bool((found.get("metadata") or {}).get("deletion"))


def _otherwise(found: Mapping[str, Any], one: ObjectRef, bad: list[str]) -> list[str]:
    kind, name = one.kind.name.lower(), _typed(one)
    if _is_ending(found):
        waits = f"it ends once nothing holds it: `holdfast wait {kind} {name} --for=delete`"
        return [waits, "`holdfast repair list` shows whom that waits for, since when, and what can be done"]
    return ["`holdfast audit` shows what was done lately" if bad else "nothing to do"]


def _typed(one: ObjectRef) -> str:
    """The name as it is typed."""
    return f"{one.tenant}/{one.name}" if one.tenant else one.name


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
