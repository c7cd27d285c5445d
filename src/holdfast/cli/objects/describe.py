"""`holdfast describe`: one object in detail, with conditions, reasons and suggested next commands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from holdfast.api.kinds import ResourceKind
from holdfast.cli.command import ObjectArgument, command, make_app
from holdfast.cli.connect import ApiClient, ask_regions, connect, explain_errors, region_clients, to_cli_error
from holdfast.cli.context import CliContext, resolve
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import conditions, explanation, field_path, printer, regional_status
from holdfast.cli.output.gangs import gang_lines
from holdfast.cli.targets import ObjectRef, region_for, resolve_object

app = make_app()


@command(app)
def describe(options: GlobalOptions, words: ObjectArgument) -> None:
    """Show one object in detail: spec, status, conditions and suggested next commands."""
    context = resolve(options)
    one = resolve_object(words, context)
    region = region_for(one.kind, context, options.region)
    client = connect(options, context, region=region)
    with explain_errors(options, one):
        found = client.get(one.kind.plural, one.name, tenant=one.tenant)
    for section in (_head(one.kind, found), _body("Spec", found.get("spec")), _body("Status", _facts(found))):
        if section:
            printer.print_data(section)
    status = found.get("status") or {}
    for title, lines in (*regional_status.status_sections(status), *_preemptions(found), *_related(client, one)):
        printer.print_data(f"{printer.paint(title, 'bold')}\n{_indented(lines)}")
    for title, lines in _gangs(options, context, one, found):
        printer.print_data(f"{printer.paint(title, 'bold')}\n{_indented(lines)}")
    printer.print_data(_ending(found, one, region))


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
        rows.append(("Deleting", f"since {deletion.get('at')}, requested by {deletion.get('by')}"))
        held = ", ".join(f"{one.get('name')} ({one.get('owner')})" for one in meta.get("finalizers") or ())
        rows.append(("Held by", held or "nothing"))
    return printer.pairs([("Kind", kind.name), *rows])


def _facts(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status without the parts that have their own sections."""
    later = ("conditions", "preempted", "preempts", *regional_status.PARTS)
    return {key: value for key, value in (found.get("status") or {}).items() if key not in later}


def _preemptions(found: Mapping[str, Any]) -> Iterator[regional_status.Section]:
    """Yield what a replica was told when it was preempted, and what it preempted."""
    status = found.get("status") or {}
    told = [*([status["preempted"]] if status.get("preempted") else []), *(status.get("preempts") or ())]
    if told:
        yield "Preemption", [explanation.preemption(one) for one in told]


def _body(title: str, values: Any) -> str:
    lines = list(_tree(values or {}, "  "))
    return "\n".join([printer.paint(title, "bold"), *lines]) if lines else ""


def _tree(values: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield names and values, one per line, without empty ones."""
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
    """Yield related objects: the assignments of a workload. A failed request hides only this section."""
    if one.kind.name != "Workload":
        return
    try:
        listed = client.list("assignments", tenant=one.tenant).items
    except Exception as error:
        print_note(f"its assignments are missing here: {to_cli_error(error)}")
        return
    columns = ("spec.region", "spec.purpose", "spec.stage", "status.replicas")
    mine = [found for found in listed if field_path.value_at(found, "spec.workload") == one.name]
    if mine:
        rows = [[printer.format_value(field_path.value_at(found, path)) for path in columns] for found in mine]
        yield "Assignments", printer.table(["REGION", "PURPOSE", "STAGE", "REPLICAS"], rows).splitlines()


def _gangs(
    options: GlobalOptions, context: CliContext, one: ObjectRef, found: Mapping[str, Any]
) -> Iterator[regional_status.Section]:
    """Yield the gangs of a workload, from its replicas in each region. A failed request hides only this section."""
    gang = field_path.value_at(found, "spec.gang")
    if one.kind.name != "Workload" or not gang:
        return
    try:
        where = region_clients(options, context)
        listed = ask_regions(where, lambda client: {"items": client.list("replicas", tenant=one.tenant).items})
    except Exception as error:
        print_note(f"its gangs are missing here: {to_cli_error(error)}")
        return
    lines = gang_lines(one.name, gang, [replica for answer in listed.values() for replica in answer["items"]])
    if lines:
        yield "Gangs", lines


def _ending(found: Mapping[str, Any], one: ObjectRef, region: str) -> str:
    """Return conditions, reasons and next commands."""
    said = field_path.conditions_of(found)
    table = conditions.condition_table(said)
    text = [printer.paint("Conditions", "bold"), _indented(table) if table else "  none reported"]
    bad = [f"  {conditions.format_condition(condition)}" for condition in said if conditions.is_bad(condition)]
    if bad:
        text += [printer.paint("Reasons", "bold"), *bad]
    todo = [] if _is_ending(found) else _condition_hints(said, one, region)
    todo = todo or _otherwise(found, one, bad)
    return "\n".join([*text, printer.paint("Next", "bold"), *(f"  {line}" for line in todo)])


def _condition_hints(said: list[dict[str, Any]], one: ObjectRef, region: str) -> list[str]:
    return conditions.condition_hints(said, one.kind.name.lower(), _typed(one), one.tenant, region)


def _is_ending(found: Mapping[str, Any]) -> bool:
    """Return whether the object is being deleted."""
    return bool((found.get("metadata") or {}).get("deletion"))


def _otherwise(found: Mapping[str, Any], one: ObjectRef, bad: list[str]) -> list[str]:
    kind, name = one.kind.name.lower(), _typed(one)
    if _is_ending(found):
        waits = f"it is deleted once no finalizer holds it: `holdfast wait {kind} {name} --for=delete`"
        return [waits, "`holdfast repair list` shows the owner, since when, and the next step"]
    if one.kind.name == "Region" and (health := (found.get("status") or {}).get("health")) in conditions.BAD_HEALTH:
        return _condition_hints([{"type": "Healthy", "status": "false", "reason": health}], one, one.name)
    return ["`holdfast audit` shows recent commands" if bad else "no action needed"]


def _typed(one: ObjectRef) -> str:
    """Return the name as the user types it."""
    return f"{one.tenant}/{one.name}" if one.tenant else one.name


def _indented(lines: list[str]) -> str:
    return "\n".join(f"  {line}" for line in lines)
