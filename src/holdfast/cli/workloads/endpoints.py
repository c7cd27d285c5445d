"""`holdfast endpoints`: addresses of a workload's replicas, and which of them serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import connect
from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import ApiClient
from holdfast.cli.context import resolve
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat
from holdfast.cli.output.report import Cell, print_report

app = make_app()

Workload = Annotated[str, typer.Argument(metavar="WORKLOAD", help="NAME or TENANT/NAME.")]
Watched = Annotated[
    bool, typer.Option("--watch", "-w", help="Print changes of one region as JSON lines until interrupted.")
]
COLUMNS: dict[str, Cell] = {
    "ADDRESSES": lambda one: ", ".join((one.get("status") or {}).get("addresses") or ()), "REPLICA": "metadata.name",
    "PHASE": "status.phase", "NODE": "status.node", "ZONE": "status.zone", "SINCE": ("status.since", "age"),
}  # fmt: skip


@command(app)
def endpoints(
    options: GlobalOptions, workload: Workload, watch: Watched = False, output: OutputOption = OutputFormat.TEXT
) -> None:
    """Show the addresses of a workload, in one region (--region) or in all.

    A serving replica has passed its region's probes. A ready one has not passed them yet, or fails them now. A load
    balancer uses `--watch`: send traffic to an endpoint while its phase is `serving`, and stop at DELETED.
    """
    context = resolve(options)
    owner, slash, name = workload.partition("/")
    tenant, name = (owner, name) if slash else (options.tenant or context.tenant, workload)
    selector = f"workload={name}"
    regions = connect.region_clients(options, context)
    if watch:
        if len(regions) != 1:
            raise usage_error("--watch needs one region", "pass --region NAME")
        for client in regions.values():
            _watch(client, tenant, selector)
        return
    found = connect.ask_regions(regions, lambda client: _listed(client, tenant, selector), options.verbose)
    items = [one for answer in found.values() for one in answer["items"]]
    why = f"{workload} has no endpoints: no replica is ready, it has no ports, or its nodes have no address"
    print_report({"apiVersion": "holdfast/v1", "kind": "List", "items": items}, output, items, COLUMNS, empty=why)


def _listed(client: ApiClient, tenant: str, selector: str) -> Mapping[str, Any]:
    return {"items": client.list("endpoints", tenant=tenant, selector=selector).items}


def _watch(client: ApiClient, tenant: str, selector: str) -> None:
    """Print the current endpoints, then every change until interrupted."""
    listed = client.list("endpoints", tenant=tenant, selector=selector)
    for one in listed.items:
        printer.print_data(printer.as_json({"type": "ADDED", "object": one}, compact=True))
    printer.flush()
    for event in client.watch("endpoints", tenant=tenant, selector=selector, since=listed.token):
        if event.type != "BOOKMARK":
            printer.print_data(printer.as_json({"type": event.type, "object": event.object}, compact=True))
            printer.flush()
