"""`holdfast endpoints`: where the replicas of a workload are reached, and which of them serve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import region_requests
from holdfast.cli.command import Printed, an_app, command
from holdfast.cli.connect import Client
from holdfast.cli.context import resolve
from holdfast.cli.errors import misused
from holdfast.cli.options import Options, note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import Data

app = an_app()

Workload = Annotated[str, typer.Argument(metavar="WORKLOAD", help="NAME or TENANT/NAME.")]
Watched = Annotated[
    bool, typer.Option("--watch", "-w", help="Go on with every change, one JSON object in a line; of one region.")
]
HEADINGS = ("ADDRESSES", "REPLICA", "PHASE", "NODE", "ZONE", "SINCE")


@command(app)
def endpoints(options: Options, workload: Workload, watch: Watched = False, output: Printed = Data.TEXT) -> None:
    """Show where a workload is reached; in one region with --region, or in all.

    Those that serve have been asked by their region and have answered; those that are ready have yet to, or do not any
    more. A load balancer watches: what a line shows is to be used while its phase is serving, what is DELETED no more.
    """
    context = resolve(options)
    owner, slash, name = workload.partition("/")
    tenant, name = (owner, name) if slash else (options.tenant or context.tenant, workload)
    selector = f"workload={name}"
    regions = region_requests.regions(options, context)
    if watch:
        if len(regions) != 1:
            raise misused("a watch is of one region", "say --region NAME")
        for client in regions.values():
            _watch(client, tenant, selector)
        return
    found = region_requests.answers(regions, lambda client: _listed(client, tenant, selector), options.verbose)
    items = [one for answer in found.values() for one in answer["items"]]
    if printer.printed({"apiVersion": "holdfast/v1", "kind": "List", "items": items}, output):
        return
    if not items:
        note(f"{workload} has no endpoints: nothing of it is ready, or it asks for no ports")
        return
    printer.say(printer.table(HEADINGS, map(_row, items)))


def _listed(client: Client, tenant: str, selector: str) -> Mapping[str, Any]:
    return {"items": client.list("endpoints", tenant=tenant, selector=selector).items}


def _watch(client: Client, tenant: str, selector: str) -> None:
    """What is there, and then every change, until the user has seen enough."""
    listed = client.list("endpoints", tenant=tenant, selector=selector)
    for one in listed.items:
        printer.say(printer.as_json({"type": "ADDED", "object": one}, compact=True))
    printer.flush()
    for event in client.watch("endpoints", tenant=tenant, selector=selector, since=listed.token):
        if event.type != "BOOKMARK":
            printer.say(printer.as_json({"type": event.type, "object": event.object}, compact=True))
            printer.flush()


def _row(one: Mapping[str, Any]) -> list[str]:
    status = one.get("status") or {}
    said = [printer.cell(status.get(key)) for key in ("phase", "node", "zone")]
    name = printer.cell((one.get("metadata") or {}).get("name"))
    return [", ".join(status.get("addresses") or ()), name, *said, printer.ago(status.get("since"))]
