"""`holdfast repair`: stuck operations, their owner and the next step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import connect
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app("List stuck operations, their owner and the next step.", no_args_is_help=True)

Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Maximum.")]


@app.callback()
def main() -> None:
    """List stuck operations and breaches."""


@command(app, "list")
def list_repairs(options: GlobalOptions, limit: Limit = 100, output: OutputOption = OutputFormat.TEXT) -> None:
    """List stuck operations and breaches, most urgent first; those of a region with --region.

    On the platform: deletions that a region has not released, breaches, rights of lost regions, unacknowledged grants.
    In a region: breaches, and replicas that do not stop.
    """
    context = resolve(options)
    found = connect(options, context, region=options.region).repairs(tenant=options.tenant, limit=limit)
    if printer.print_structured(found, output):
        return
    items = found.get("items") or []
    if not items:
        print_note("no stuck operations")
        return
    rows = [[*_row(one), printer.format_value(one.get("waitsFor"))] for one in items]
    printer.print_data(printer.table(["WHAT", "WHICH", "OWNER", "SINCE", "DEADLINE", "", "WAITS FOR"], rows))
    todo = dict.fromkeys(str(one["todo"]) for one in items if one.get("todo"))
    if todo:
        printer.print_data("\n".join([printer.paint("Next", "bold"), *(f"  {line}" for line in todo)]))
    left = int((found.get("metadata") or {}).get("total") or 0) - len(items)
    if left > 0:
        print_note(f"and {left} more: raise `--limit`")


def _row(one: Mapping[str, Any]) -> list[str]:
    said = [printer.format_value(one.get(key)) for key in ("what", "key", "owner")]
    return [
        *said,
        printer.format_age(one.get("since")),
        printer.format_until(one.get("deadline")),
        "overdue" if one.get("overdue") else "",
    ]
