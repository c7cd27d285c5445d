"""`holdfast repair`: stuck operations, their owner and the next step."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import connect
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, and_more, print_report

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
    found = connect(options, region=options.region).repairs(tenant=options.tenant, limit=limit)
    items = found.get("items") or []
    columns: dict[str, Cell] = {
        "WHAT": "what", "WHICH": "key", "OWNER": "owner", "SINCE": ("since", "age"), "DEADLINE": ("deadline", "until"),
        "": lambda one: "overdue" if one.get("overdue") else "", "WAITS FOR": "waitsFor",
    }  # fmt: skip
    print_report(found, output, items, columns, empty="no stuck operations")
    if output is not OutputFormat.TEXT:
        return
    todo = dict.fromkeys(str(one["todo"]) for one in items if one.get("todo"))
    if todo:
        printer.print_data("\n".join([printer.paint("Next", "bold"), *(f"  {line}" for line in todo)]))
    left = and_more(int((found.get("metadata") or {}).get("total") or 0), items)
    if items and left:
        print_note(left)
