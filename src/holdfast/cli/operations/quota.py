"""`holdfast quota`: what each tenant was promised, what of it is lent and used where, and what cannot be kept."""

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

Tenant = Annotated[
    str,
    typer.Argument(metavar="[TENANT]", help="Of this tenant only.", autocompletion=complete_tenants),
]
#: What is told of a whole quota, by its heading.
AMOUNTS = {
    "HARD": "hard",
    "PROTECTED": "protected",
    "ASKED": "asked",
    "GRANTED": "granted",
    "CHARGED": "charged",
    "EFFECTIVE": "effective",
}
BUILT_IN = ("cpu", "memory", "disk", "gpu")


@command(app, without=("region",))
def quota(options: GlobalOptions, name: Tenant = "", output: OutputOption = OutputFormat.TEXT) -> None:
    """Show how quotas stand: promised, lent, asked for and used, over all and in each region."""
    context = resolve(options)
    found = connect(options, context).quota(name or context.tenant)
    if printer.print_structured(found, output):
        return
    items = found.get("items") or ()
    if not items:
        print_note("nothing found")
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
    lines = printer.table(["RESOURCE", *AMOUNTS], rows).splitlines() if rows else ["nothing"]
    percent = one.get("reclaimablePercent")
    lines += [f"reclaimable: {percent} percent of what each region has"] if percent else []
    return [f"  {line}" for line in (*lines, *_regions(one))]


def _names(one: Mapping[str, Any]) -> list[str]:
    """The resources that it says anything of."""
    said = {name for key in AMOUNTS.values() for name in one.get(key) or {}}
    return [*(name for name in BUILT_IN if name in said), *sorted(said - set(BUILT_IN))]


def _regions(one: Mapping[str, Any]) -> list[str]:
    headings = ["REGION", "HEALTH", "ASKED", "LENT", "SETTLED", "CHARGED", "ENDS IN", "TOLD"]
    rows = [
        [
            printer.format_value(part.get("region")),
            printer.format_value(part.get("health")),
            *(printer.format_value(part.get(key)) for key in ("asked", "target", "settled", "charged")),
            printer.format_until(part.get("ends")),
            _told(part.get("toldMsAgo")),
        ]
        for part in one.get("regions") or ()
    ]
    return printer.table(headings, rows).splitlines() if rows else []


def _told(ago: int | None) -> str:
    return "never" if ago is None else f"{printer.format_span(ago / 1000)} ago"
