"""`holdfast audit`: who sent which command, when, and the outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import connect
from holdfast.cli.options import GlobalOptions, parse_time_option
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, print_report

app = make_app()

Since = Annotated[str, typer.Option("--since", metavar="TIME", help="Not older than 1h, 2d or 2026-11-15T17:00:00Z.")]
Actor = Annotated[str, typer.Option("--actor", metavar="PRINCIPAL", help="Commands of this principal.")]
Tag = Annotated[str, typer.Option("--command", metavar="TAG", help="Commands with this tag, such as declare-lost.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Maximum.")]
#: Characters of a command's content in a table.
SHOWN = 60


@command(app, without=("tenant",))
def audit(
    options: GlobalOptions,
    since: Since = "",
    actor: Actor = "",
    tag: Tag = "",
    limit: Limit = 100,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show the commands of principals, newest first; those of a region with --region."""
    client = connect(options, region=options.region)
    found = client.audit(since=parse_time_option(since, "--since"), actor=actor, command=tag, limit=limit)
    columns: dict[str, Cell] = {
        "AT": "at", "ACTOR": _actor, "COMMAND": "command", "OUTCOME": "outcome", "WHAT": _what,
    }  # fmt: skip
    print_report({"items": list(found)}, output, found, columns, empty="no commands found")


def _actor(one: Mapping[str, Any]) -> str:
    actor = printer.format_value(one.get("actor"))
    return f"{actor} via {one['via']}" if one.get("via") else actor


def _often(one: Mapping[str, Any]) -> bool:
    return int(one.get("count") or 1) > 1


def _what(one: Mapping[str, Any]) -> str:
    """Return the object or content of a command in short; JSON has all of it."""
    body = one.get("body")
    if isinstance(body, Mapping):
        inner = next((value for value in body.values() if isinstance(value, Mapping) and "metadata" in value), body)
        meta = inner.get("metadata")
        if isinstance(meta, Mapping):
            words = (inner.get("kind", ""), meta.get("tenant", ""), meta.get("name", ""))
            return "/".join(str(word) for word in words if word)
        body = {key: value for key, value in body.items() if value not in (None, "", [], {})}
    if body is None:  # A denial: its tenant, and how often it occurred.
        said = [f"tenant {one['tenant']}" if one.get("tenant") else "", f"{one['count']} times" if _often(one) else ""]
        return ", ".join(filter(None, said)) or "-"
    text = printer.format_value(body)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
