"""`holdfast repair`: what hangs, whose turn it is, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli.command import Printed, an_app, command
from holdfast.cli.connect import connect
from holdfast.cli.context import resolve
from holdfast.cli.options import Options, note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import Data

app = an_app("Show what waits to be ended or put right.", no_args_is_help=True)

Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="No more than so many.")]


@app.callback()
def main() -> None:
    """Show what waits to be ended or put right."""


@command(app, "list")
def list_repairs(options: Options, limit: Limit = 100, output: Printed = Data.TEXT) -> None:
    """List what waits to be ended or put right, the most urgent first; what a region knows of with --region.

    Deletions that a region has not released, broken promises, rights of lost regions, grants that were not
    acknowledged; in a region, replicas that do not end.
    """
    context = resolve(options)
    found = connect(options, context, region=options.region).repairs(tenant=options.tenant, limit=limit)
    if printer.printed(found, output):
        return
    items = found.get("items") or []
    if not items:
        note("nothing waits")
        return
    rows = [[*_row(one), printer.cell(one.get("waitsFor"))] for one in items]
    printer.say(printer.table(["WHAT", "WHICH", "OWNER", "SINCE", "DEADLINE", "", "WAITS FOR"], rows))
    todo = dict.fromkeys(str(one["todo"]) for one in items if one.get("todo"))
    if todo:
        printer.say("\n".join([printer.paint("Next", "bold"), *(f"  {line}" for line in todo)]))
    left = int((found.get("metadata") or {}).get("total") or 0) - len(items)
    if left > 0:
        note(f"and {left} more; `--limit` shows more of them")


def _row(one: Mapping[str, Any]) -> list[str]:
    said = [printer.cell(one.get(key)) for key in ("what", "key", "owner")]
    return [
        *said,
        printer.ago(one.get("since")),
        printer.until(one.get("deadline")),
        "overdue" if one.get("overdue") else "",
    ]
