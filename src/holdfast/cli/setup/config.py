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
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.core.model.values.addresses import without_user

app = make_app("Show and change contexts: which servers are asked, and as whom.", no_args_is_help=True)

#: Only its owner reads it: there may be a token in it.
MODE = 0o600


@command(app)
def contexts(options: GlobalOptions, output: OutputOption = OutputFormat.TEXT) -> None:
    """List the contexts; a star marks the one in use."""
    kept = read_config(config_path())
    current = options.context or os.environ.get("HOLDFAST_CONTEXT") or kept.get("current")
    known = kept.get("contexts") or {}
    if printer.print_structured(
        [{"name": name, "current": name == current, **_safe(known[name])} for name in known], output
    ):
        return
    if not known:
        print_note("there are no contexts. hint: `holdfast config set --context NAME servers=http://127.0.0.1:7400`")
        return
    rows = [
        ["*" if name == current else "", name]
        + [printer.format_value(_safe(known[name]).get(key)) for key in ("servers", "tenant", "region")]
        for name in sorted(known)
    ]
    printer.print_data(printer.table(["", "NAME", "SERVERS", "TENANT", "REGION"], rows))


@command(app)
def use(options: GlobalOptions, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Use this context from now on."""
    kept = read_config(config_path())
    known = kept.get("contexts") or {}
    if name not in known:
        raise usage_error(f"there is no context {name!r}; there are: {', '.join(sorted(known)) or 'none'}")
    _write({**kept, "current": name})
    printer.print_data(f"context {name} is in use")


@command(app, "set")
def set_fields(
    options: GlobalOptions,
    fields: Annotated[list[str], typer.Argument(metavar="FIELD=VALUE...", help=f"Of {', '.join(FIELDS)}.")],
) -> None:
    """Change fields of the context in use, or of --context NAME, which is made if there is none.

    Several servers have commas between them; an empty value removes the field.
    """
    kept = read_config(config_path())
    name = options.context or os.environ.get("HOLDFAST_CONTEXT") or kept.get("current") or "default"
    changed = dict((kept.get("contexts") or {}).get(name) or {})
    for word in fields:
        field, equals, value = word.partition("=")
        field = {"server": "servers"}.get(field, field)
        if not equals or field not in FIELDS:
            raise usage_error(f"{word!r} sets nothing", f"FIELD=VALUE, where FIELD is one of {', '.join(FIELDS)}")
        changed[field] = list(parse_servers(value)) if field == "servers" else value
        if not value:
            del changed[field]
    known = {**(kept.get("contexts") or {}), name: changed}
    _write({"current": kept.get("current") or name, "contexts": known})
    printer.print_data(f"context {name} changed")


@command(app)
def show(options: GlobalOptions, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show what is in force: the file, the environment and flags together. Tokens are not shown."""
    found = resolve(options)
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
    """Print where the configuration is kept."""
    printer.print_data(config_path())


def _safe(said: dict[str, Any] | None) -> dict[str, Any]:
    found = {key: value for key, value in (said or {}).items() if key != "token"}
    servers = found.get("servers") or ()
    if servers:
        found["servers"] = [without_user(str(one)) for one in ([servers] if isinstance(servers, str) else servers)]
    return found


def _write(config: dict[str, Any]) -> None:
    """Replace the file in one step: another command may be reading it."""
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
