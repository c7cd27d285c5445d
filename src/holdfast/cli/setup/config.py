"""`holdfast config`: show and change contexts."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.context import (
    FIELDS,
    config_path,
    parse_servers,
    read_config,
    render_config,
    resolve,
    validate_config,
)
from holdfast.cli.errors import CliError, usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, print_report
from holdfast.core.model.values.addresses import without_user

app = make_app("Show and change contexts: servers, tokens, defaults.", no_args_is_help=True)

#: Readable only by its owner, because it may contain a token.
MODE = 0o600


@command(app)
def contexts(options: GlobalOptions, output: OutputOption = OutputFormat.TEXT) -> None:
    """List the contexts; a star marks the current one."""
    kept = read_config(config_path())
    current = options.context or os.environ.get("HOLDFAST_CONTEXT") or kept.get("current")
    known = kept.get("contexts") or {}
    whole = [{"name": name, "current": name == current, **_safe(known[name])} for name in known]
    columns: dict[str, Cell] = {
        "": lambda one: "*" if one["current"] else "", "NAME": "name", "SERVERS": "servers", "TENANT": "tenant",
        "REGION": "region",
    }  # fmt: skip
    hint = "no contexts. hint: `holdfast config set --context NAME servers=http://127.0.0.1:7400`"
    print_report(whole, output, sorted(whole, key=lambda one: str(one["name"])), columns, empty=hint)


@command(app)
def use(options: GlobalOptions, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Make a context the current one."""
    kept = read_config(config_path())
    known = kept.get("contexts") or {}
    if name not in known:
        raise usage_error(f"there is no context {name!r}; known: {', '.join(sorted(known)) or 'none'}")
    _write({**kept, "current": name})
    printer.print_data(f"context {name} is current")


@command(app, "set")
def set_fields(
    options: GlobalOptions,
    fields: Annotated[list[str], typer.Argument(metavar="FIELD=VALUE...", help=f"Fields: {', '.join(FIELDS)}.")],
) -> None:
    """Change fields of the current context, or of --context NAME, which is created if missing.

    Separate several servers by commas; an empty value removes the field.
    """
    kept = read_config(config_path())
    name = options.context or os.environ.get("HOLDFAST_CONTEXT") or kept.get("current") or "default"
    changed = dict((kept.get("contexts") or {}).get(name) or {})
    for word in fields:
        field, equals, value = word.partition("=")
        field = {"server": "servers"}.get(field, field)
        if not equals or field not in FIELDS:
            raise usage_error(f"{word!r} sets no field", f"FIELD=VALUE, where FIELD is one of {', '.join(FIELDS)}")
        changed[field] = list(parse_servers(value)) if field == "servers" else value
        if not value:
            del changed[field]
    known = {**(kept.get("contexts") or {}), name: changed}
    _write({"current": kept.get("current") or name, "contexts": known})
    printer.print_data(f"context {name} changed")


@command(app)
def show(options: GlobalOptions, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show the configuration in force: file, environment and flags. Tokens are hidden."""
    try:
        found = resolve(options)
    except CliError as error:
        found = resolve(options, with_token=False)
        print_note(f"warning: {error}")
    values: dict[str, Any] = {**found._asdict(), "servers": list(found.servers)}
    values["token"] = f"{found.token[:6]}..." if found.token else ""
    if not printer.print_structured(values, output):
        printer.print_data(
            printer.pairs(
                [("file", config_path()), *((name, printer.format_value(value)) for name, value in values.items())]
            )
        )


@command(app)
def path(options: GlobalOptions) -> None:
    """Print the path of the configuration file."""
    printer.print_data(config_path())


def _safe(said: dict[str, Any] | None) -> dict[str, Any]:
    found = {key: value for key, value in (said or {}).items() if key != "token"}
    servers = found.get("servers") or ()
    if servers:
        found["servers"] = [without_user(str(one)) for one in ([servers] if isinstance(servers, str) else servers)]
    return found


def _write(config: dict[str, Any]) -> None:
    """Replace the file atomically: another command may be reading it."""
    path = config_path()
    text = render_config(validate_config(config, path))
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        draft = f"{path}.new"
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, MODE), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), MODE)
            file.write(text)
        os.replace(draft, path)
    except OSError as error:
        raise usage_error(f"the configuration {path} cannot be written: {error.strerror}") from None
