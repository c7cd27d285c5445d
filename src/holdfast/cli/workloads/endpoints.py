"""`holdfast endpoints`: where the replicas of a workload are reached, and which of them serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import region_requests
from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import ApiClient
from holdfast.cli.context import resolve
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app()

Workload = Annotated[str, typer.Argument(metavar="WORKLOAD", help="NAME or TENANT/NAME.")]
Watched = Annotated[
    bool, typer.Option("--watch", "-w", help="Go on with every change, one JSON object in a line; of one region.")
]
HEADINGS = ("ADDRESSES", "REPLICA", "PHASE", "NODE", "ZONE", "SINCE")


@command(app)
def endpoints(
    options: GlobalOptions, workload: Workload, watch: Watched = False, output: OutputOption = OutputFormat.TEXT
) -> None:
    """Show where a workload is reached; in one region with --region, or in all.

    Those that serve have been asked by their region and have answered; those that are ready have yet to, or do not any
    more. A load balancer watches: what a line shows is to be used while its phase is serving, what is DELETED no more.
    """
    context = resolve(options)
    owner, slash, name = workload.partition("/")
    tenant, name = (owner, name) if slash else (options.tenant or context.tenant, workload)
    selector = f"workload={name}"
    regions = region_requests.region_clients(options, context)
    if watch:
        if len(regions) != 1:
            raise usage_error("a watch is of one region", "say --region NAME")
        for client in regions.values():
            _watch(client, tenant, selector)
        return
    found = region_requests.ask_regions(regions, lambda client: _listed(client, tenant, selector), options.verbose)
    items = [one for answer in found.values() for one in answer["items"]]
    if printer.print_structured({"apiVersion": "holdfast/v1", "kind": "List", "items": items}, output):
        return
    if not items:
        print_note(f"{workload} has no endpoints: nothing of it is ready, or it asks for no ports")
        return
    printer.print_data(printer.table(HEADINGS, map(_row, items)))


def _listed(client: ApiClient, tenant: str, selector: str) -> Mapping[str, Any]:
    return {"items": client.list("endpoints", tenant=tenant, selector=selector).items}


def _watch(client: ApiClient, tenant: str, selector: str) -> None:
    """What is there, and then every change, until the user has seen enough."""
    listed = client.list("endpoints", tenant=tenant, selector=selector)
    for one in listed.items:
        printer.print_data(printer.as_json({"type": "ADDED", "object": one}, compact=True))
    printer.flush()
    for event in client.watch("endpoints", tenant=tenant, selector=selector, since=listed.token):
        if event.type != "BOOKMARK":
            printer.print_data(printer.as_json({"type": event.type, "object": event.object}, compact=True))
            printer.flush()


def _row(one: Mapping[str, Any]) -> list[str]:
    status = one.get("status") or {}
    said = [printer.format_value(status.get(key)) for key in ("phase", "node", "zone")]
    name = printer.format_value((one.get("metadata") or {}).get("name"))
    return [", ".join(status.get("addresses") or ()), name, *said, printer.format_age(status.get("since"))]
