"""`holdfast quota`: quota, grants and usage of each tenant, by region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli.command import OutputOption, command, complete_tenants, make_app
from holdfast.cli.connect import connect
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions, print_note
from holdfast.cli.output import printer
from holdfast.cli.output.printer import OutputFormat

app = make_app()

Tenant = Annotated[str, typer.Argument(metavar="[TENANT]", help="This tenant only.", autocompletion=complete_tenants)]
#: Columns of a quota: heading and field.
AMOUNTS = {
    "HARD": "hard",
    "PROTECTED": "protected",
    "REQUESTED": "requested",
    "GRANTED": "granted",
    "CHARGED": "charged",
    "EFFECTIVE": "effective",
}
BUILT_IN = ("cpu", "memory", "disk", "gpu")


@command(app, without=("region",))
def quota(options: GlobalOptions, name: Tenant = "", output: OutputOption = OutputFormat.TEXT) -> None:
    """Show quota, grants and usage by tenant and region."""
    context = resolve(options)
    found = connect(options, context).quota(name or context.tenant)
    if printer.print_structured(found, output):
        return
    items = found.get("items") or ()
    if not items:
        print_note("no quotas found")
    for number, one in enumerate(items):
        printer.print_data(
            ("\n" if number else "") + "\n".join([printer.paint(str(one.get("tenant")), "bold"), *_block(one)])
        )
    for one in items:
        for warning in one.get("warnings") or ():
            print_note(f"warning: {one.get('tenant')}: {warning}")
    for warning in found.get("warnings") or ():
        print_note(f"warning: {warning}")


def _block(one: Mapping[str, Any]) -> list[str]:
    rows = [
        [name, *(printer.format_value((one.get(key) or {}).get(name, 0)) for key in AMOUNTS.values())]
        for name in _names(one)
    ]
    lines = printer.table(["RESOURCE", *AMOUNTS], rows).splitlines() if rows else ["no amounts"]
    percent = one.get("reclaimablePercent")
    lines += [f"reclaimable: {percent} percent of each region's capacity"] if percent else []
    return [f"  {line}" for line in (*lines, *_regions(one))]


def _names(one: Mapping[str, Any]) -> list[str]:
    """Return the resources that a quota mentions."""
    said = {name for key in AMOUNTS.values() for name in one.get(key) or {}}
    return [*(name for name in BUILT_IN if name in said), *sorted(said - set(BUILT_IN))]


def _regions(one: Mapping[str, Any]) -> list[str]:
    headings = ["REGION", "HEALTH", "REQUESTED", "GRANTED", "SETTLED", "CHARGED", "ENDS IN", "LAST REPORT"]
    rows = [
        [
            printer.format_value(part.get("region")),
            printer.format_value(part.get("health")),
            *(printer.format_value(part.get(key)) for key in ("requested", "target", "settled", "charged")),
            printer.format_until(part.get("ends")),
            _last_report(part.get("reportedMsAgo")),
        ]
        for part in one.get("regions") or ()
    ]
    return printer.table(headings, rows).splitlines() if rows else []


def _last_report(ago: int | None) -> str:
    return "never" if ago is None else f"{printer.format_span(ago / 1000)} ago"
