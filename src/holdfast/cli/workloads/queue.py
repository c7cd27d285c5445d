"""`holdfast queue`: scheduling requests in the order in which schedulers try them, and why they wait; or how tenants
share the capacity for which they wait."""

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
Fairness = Annotated[bool, typer.Option("--fairness", help="Show how tenants share a region, or all regions.")]
COLUMNS: dict[str, Cell] = {
    "POSITION": "position", "REGION": "region", "TENANT": "tenant", "WORKLOAD": "workload", "CLASS": "priorityClass",
    "OPEN": "open", "SINCE": ("since", "age"), "REASON": conditions.reason_line,
}  # fmt: skip
#: Shares in percent: the part of the resource of which the tenant has most.
SHARES: dict[str, Cell] = {
    "TENANT": "tenant", "WEIGHT": "weight", "RESOURCE": "dominantResource", "SHARE %": "sharePercent",
    "ENTITLED %": "entitledPercent", "LAST HOUR %": "recentPercent", "PROTECTED": ("protected", "amounts"),
    "WAITING": "waiting", "OLDEST": ("oldestSince", "age"),
}  # fmt: skip


@command(app)
def queue(
    options: GlobalOptions,
    workload: Workload = "",
    limit: Limit = 100,
    fairness: Fairness = False,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show scheduling requests in queue order, of one region (--region) or of all.

    With `--fairness`: how tenants share one region, or all regions together by their last reports.
    `holdfast explain WORKLOAD` shows all reasons of one workload, who can act, and what resolves them.
    """
    context = resolve(options)
    if fairness:
        region = options.region or context.region
        client = connect.connect(options, context, region=region)
        shares = client.fairness(tenant=options.tenant, limit=limit)
        rows = shares.get("items") or []
        count = int((shares.get("metadata") or {}).get("total") or 0)
        print_report(shares, output, rows, SHARES, empty="no tenant uses or wants anything", more=and_more(count, rows))
        return
    found = connect.ask_regions(
        connect.region_clients(options, context),
        lambda client: client.queue(workload=workload, tenant=options.tenant, limit=limit),
        options.verbose,
    )
    items = [one for answer in found.values() for one in answer.get("items") or ()]
    total = sum(int((answer.get("metadata") or {}).get("total") or 0) for answer in found.values())
    whole = {"kind": "QueueList", "items": items, "metadata": {"total": total}}
    print_report(whole, output, items, COLUMNS, empty="no requests wait", more=and_more(total, items))
