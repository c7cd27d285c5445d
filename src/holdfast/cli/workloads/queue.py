"""`holdfast queue`: what waits to be placed, in the order in which schedulers look at it, and why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import region_requests
from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer, reasons
from holdfast.cli.output.printer import OutputFormat

app = make_app()

Workload = Annotated[str, typer.Argument(metavar="[WORKLOAD]", help="Only of this workload: NAME or TENANT/NAME.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="No more than so many of each region.")]
HEADINGS = ("POSITION", "REGION", "TENANT", "WORKLOAD", "CLASS", "OPEN", "SINCE", "REASON")


@command(app)
def queue(
    options: GlobalOptions, workload: Workload = "", limit: Limit = 100, output: OutputOption = OutputFormat.TEXT
) -> None:
    """Show what waits to be placed, first what is looked at first; in one region with --region, or in all.

    `holdfast explain WORKLOAD` tells more of one: all reasons, who can act, and what would change it.
    """
    context = resolve(options)
    found = region_requests.ask_regions(
        region_requests.region_clients(options, context),
        lambda client: client.queue(workload=workload, tenant=options.tenant, limit=limit),
        options.verbose,
    )
    items = [one for answer in found.values() for one in answer.get("items") or ()]
    total = sum(int((answer.get("metadata") or {}).get("total") or 0) for answer in found.values())
    if printer.print_structured({"kind": "QueueList", "items": items, "metadata": {"total": total}}, output):
        return
    if not items:
        print_note("nothing waits")
        return
    printer.print_data(printer.table(HEADINGS, map(_row, items)))
    if total > len(items):
        print_note(f"and {total - len(items)} more; `--limit` shows more of them")


def _row(one: Mapping[str, Any]) -> list[str]:
    said = [
        printer.format_value(one.get(key))
        for key in ("position", "region", "tenant", "workload", "priorityClass", "open")
    ]
    return [*said, printer.format_age(one.get("since")), reasons.reason_line(one)]
