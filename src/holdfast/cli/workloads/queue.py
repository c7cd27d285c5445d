"""`holdfast queue`: scheduling requests in the order in which schedulers try them, and why they wait."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli import connect
from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import conditions
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, and_more, print_report

app = make_app()

Workload = Annotated[str, typer.Argument(metavar="[WORKLOAD]", help="Requests of this workload: NAME or TENANT/NAME.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="Maximum per region.")]
COLUMNS: dict[str, Cell] = {
    "POSITION": "position", "REGION": "region", "TENANT": "tenant", "WORKLOAD": "workload", "CLASS": "priorityClass",
    "OPEN": "open", "SINCE": ("since", "age"), "REASON": conditions.reason_line,
}  # fmt: skip


@command(app)
def queue(
    options: GlobalOptions, workload: Workload = "", limit: Limit = 100, output: OutputOption = OutputFormat.TEXT
) -> None:
    """Show scheduling requests in queue order, of one region (--region) or of all.

    `holdfast explain WORKLOAD` shows all reasons of one workload, who can act, and what resolves them.
    """
    context = resolve(options)
    found = connect.ask_regions(
        connect.region_clients(options, context),
        lambda client: client.queue(workload=workload, tenant=options.tenant, limit=limit),
        options.verbose,
    )
    items = [one for answer in found.values() for one in answer.get("items") or ()]
    total = sum(int((answer.get("metadata") or {}).get("total") or 0) for answer in found.values())
    whole = {"kind": "QueueList", "items": items, "metadata": {"total": total}}
    print_report(whole, output, items, COLUMNS, empty="no requests wait", more=and_more(total, items))
