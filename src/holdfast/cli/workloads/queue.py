"""`holdfast queue`: what waits to be placed, in the order in which schedulers look at it, and why it waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import region_requests
from holdfast.cli.command import Printed, an_app, command
from holdfast.cli.context import resolve
from holdfast.cli.options import Options, note
from holdfast.cli.output import printer, reasons
from holdfast.cli.output.printer import Data

app = an_app()

Workload = Annotated[str, typer.Argument(metavar="[WORKLOAD]", help="Only of this workload: NAME or TENANT/NAME.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=1_000, help="No more than so many of each region.")]
HEADINGS = ("POSITION", "REGION", "TENANT", "WORKLOAD", "CLASS", "OPEN", "SINCE", "REASON")


@command(app)
def queue(options: Options, workload: Workload = "", limit: Limit = 100, output: Printed = Data.TEXT) -> None:
    """Show what waits to be placed, first what is looked at first; in one region with --region, or in all.

    `holdfast explain WORKLOAD` tells more of one: all reasons, who can act, and what would change it.
    """
    context = resolve(options)
    found = region_requests.answers(
        region_requests.regions(options, context),
        lambda client: client.queue(workload=workload, tenant=options.tenant, limit=limit),
        options.verbose,
    )
    items = [one for answer in found.values() for one in answer.get("items") or ()]
    total = sum(int((answer.get("metadata") or {}).get("total") or 0) for answer in found.values())
    if printer.printed({"kind": "QueueList", "items": items, "metadata": {"total": total}}, output):
        return
    if not items:
        note("nothing waits")
        return
    printer.say(printer.table(HEADINGS, map(_row, items)))
    if total > len(items):
        note(f"and {total - len(items)} more; `--limit` shows more of them")


def _row(one: Mapping[str, Any]) -> list[str]:
    said = [printer.cell(one.get(key)) for key in ("position", "region", "tenant", "workload", "priorityClass", "open")]
    return [*said, printer.ago(one.get("since")), reasons.line(one)]
