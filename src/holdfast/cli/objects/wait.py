"""`holdfast wait`: wait for a condition, a value or a deletion. For scripts and CI."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from holdfast.cli.command import ObjectArgument, command, make_app
from holdfast.cli.connect import connect, to_cli_error
from holdfast.cli.context import resolve
from holdfast.cli.errors import CliError, usage_error
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import field_path, printer
from holdfast.cli.output.conditions import format_condition
from holdfast.cli.targets import region_for, resolve_object

app = make_app()

For = Annotated[
    str,
    typer.Option(
        "--for", metavar="WHAT", help="condition=TYPE[=true|false], delete, observed, or PATH=VALUE (status.ready=3)."
    ),
]
Predicate = Callable[[dict[str, Any] | None], bool]


@command(app)
def wait(options: GlobalOptions, words: ObjectArgument, wanted: For) -> None:
    """Wait for a condition, a value or a deletion of an object, at most for --timeout (30s).

    With `observed`, wait until the controllers have processed the latest change. A condition counts only for the latest
    change.
    """
    context = resolve(options)
    holds = predicate(wanted)
    one = resolve_object(words, context)
    client = connect(options, context, region=region_for(one.kind, context, options.region))
    try:
        client.wait_for(one.kind.plural, one.name, holds, options.timeout_ms, tenant=one.tenant)
    except Exception as error:
        raise _late(error, str(one), wanted, options) from None
    printer.print_data(f"{one} {'deleted' if wanted == 'delete' else f'met {wanted}'}")


def _late(error: Exception, what: str, wanted: str, options: GlobalOptions) -> CliError:
    """Return the error of a wait that timed out, with the object's conditions."""
    told = to_cli_error(error, options.verbose, what=what)
    if not hasattr(error, "last"):
        return told
    last = error.last
    stands = [format_condition(one) for one in field_path.conditions_of(last)] if last else ["no such object"]
    kind, _, name = what.partition("/")
    hint = f"`holdfast describe {kind} {name}` shows details; `--timeout 5m` waits longer"
    return CliError(f"{what}: not {wanted} within {options.timeout_ms} ms", ending=told.ending, hint=hint, lines=stands)


def predicate(wanted: str) -> Predicate:
    """Return the predicate for the value of `--for`."""
    if wanted in ("delete", "deleted"):
        return lambda found: found is None
    if wanted in ("create", "created"):
        return lambda found: found is not None
    if wanted == "observed":
        return lambda found: found is not None and _observed(found)
    subject, _, rest = wanted.partition("=")
    if subject == "condition" and rest:
        kind, _, truth = rest.partition("=")
        return lambda found: found is not None and _condition(found, kind, truth.lower() or "true")
    if subject == "jsonpath" and rest:
        wanted = rest.strip("'\"")
    path, equals, value = wanted.rpartition("=")
    if not equals or not path:
        raise usage_error(f"--for {wanted}: not understood", "condition=Available, delete, observed, or status.ready=3")
    path = path.strip("'\"")
    field_path.path_steps(path)
    return lambda found: found is not None and _text(field_path.value_at(found, path)) == value


def _observed(found: dict[str, Any]) -> bool:
    status = found.get("status") or {}
    seen = status.get("observedGeneration")
    if seen is None and isinstance(status.get("conditions"), dict):
        seen = status["conditions"].get("observedGeneration")
    return int(seen or 0) >= int((found.get("metadata") or {}).get("generation", 0))


def _condition(found: dict[str, Any], kind: str, truth: str) -> bool:
    """Return whether the latest generation has the condition; one of an older generation does not count."""
    generation = int((found.get("metadata") or {}).get("generation", 0))
    for one in field_path.conditions_of(found):
        if str(one.get("type", "")).lower() == kind.lower():
            current = int(one.get("observedGeneration") or generation) >= generation
            return current and str(one.get("status", "")).lower() == truth
    return False


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
