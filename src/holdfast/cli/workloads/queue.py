"""`holdfast queue`: scheduling requests in the order in which schedulers try them, and why they wait."""

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

Workload = Annotated[str, typer.Argument(metavar="[WORKLOAD]", help="Requests of this workload: NAME or TENANT/NAME.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Maximum per region.")]
HEADINGS = ("POSITION", "REGION", "TENANT", "WORKLOAD", "CLASS", "OPEN", "SINCE", "REASON")


@command(app)
def queue(
    options: GlobalOptions, workload: Workload = "", limit: Limit = 100, output: OutputOption = OutputFormat.TEXT
) -> None:
    """Show scheduling requests in queue order, of one region (--region) or of all.

    `holdfast explain WORKLOAD` shows all reasons of one workload, who can act, and what resolves them.
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
        print_note("no requests wait")
        return
    printer.print_data(printer.table(HEADINGS, map(_row, items)))
    if total > len(items):
        print_note(f"and {total - len(items)} more: raise `--limit`")


def _row(one: Mapping[str, Any]) -> list[str]:
    said = [
        printer.format_value(one.get(key))
        for key in ("position", "region", "tenant", "workload", "priorityClass", "open")
    ]
    return [*said, printer.format_age(one.get("since")), reasons.reason_line(one)]
