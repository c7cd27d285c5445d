"""`holdfast decisions`: what schedulers decided, newest first, within the retention time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from holdfast.cli import connect
from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.context import CliContext, resolve
from holdfast.cli.errors import usage_error
from holdfast.cli.options import GlobalOptions, parse_time_option
from holdfast.cli.output.explanation import workloads_of
from holdfast.cli.output.printer import OutputFormat, format_value
from holdfast.cli.output.report import Cell, print_report
from holdfast.core.model.records.decisions import DecisionOutcome

app = make_app()

Workload = Annotated[str, typer.Option(metavar="NAME", help="Decisions about this workload, which may be deleted.")]
Slot = Annotated[str, typer.Option(metavar="SLOT", help="Decisions about this slot: WORKLOAD/REGION/ORDINAL.")]
Node = Annotated[str, typer.Option(metavar="NAME", help="Placements on this node.")]
Since = Annotated[str, typer.Option(metavar="TIME", help="Not older than 1h, 2d or 2026-11-15T17:00:00Z.")]
Until = Annotated[str, typer.Option(metavar="TIME", help="Not newer than 1h, 2d or 2026-11-15T17:00:00Z.")]
Of = Annotated[DecisionOutcome | None, typer.Option(help="Decisions with this outcome.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Maximum per region.")]
#: Characters of a decision's summary in a table.
SHOWN = 80


@command(app)
def decisions(
    options: GlobalOptions,
    workload: Workload = "",
    slot: Slot = "",
    node: Node = "",
    since: Since = "",
    until: Until = "",
    outcome: Of = None,
    limit: Limit = 50,
    output: OutputOption = OutputFormat.TEXT,
) -> None:
    """Show scheduler decisions, newest first, of one region (--region) or of all.

    One line per group of equal placements. `holdfast explain SLOT` shows the full decision that placed a slot.
    """
    context = resolve(options)
    if workload and slot:
        raise usage_error("use either --workload or --slot: a slot's name contains its workload")
    asked = {
        "workload": with_default_tenant(workload, context, 0),
        "slot": with_default_tenant(slot, context, 2),
        "node": node,
        "tenant": "" if workload or slot else options.tenant,
        "since": parse_time_option(since, "--since"),
        "until": parse_time_option(until, "--until"),
        "outcome": outcome.value if outcome is not None else "",
    }
    where = connect.region_clients(options, context, slot_region(slot) if slot else "")
    found = connect.ask_regions(where, lambda client: client.decisions(limit=limit, **asked), options.verbose)
    items = [{"region": name, **one} for name, answer in found.items() for one in answer.get("items") or ()]
    items.sort(key=lambda one: str(one.get("at")), reverse=True)
    goes_on = any((answer.get("metadata") or {}).get("continue") for answer in found.values())
    more = "there are more: raise `--limit`, or narrow by `--since` and `--until`" if goes_on else ""
    columns: dict[str, Cell] = {
        "AT": "at", "REGION": "region", "TENANT": "tenant", "WORKLOAD": lambda one: format_value(workloads_of(one)),
        "OUTCOME": "outcome", "PLACED": "placed", "EXAMINED": "examined", "SCHEDULER": "scheduler", "WHAT": _what,
    }  # fmt: skip
    whole = {"kind": "DecisionList", "items": items}
    print_report(whole, output, items, columns, empty="no decisions found", more=more)


def with_default_tenant(name: str, context: CliContext, slashes: int) -> str:
    """Return the name with the context's tenant, if it has none; a slot contains two slashes itself."""
    return f"{context.tenant}/{name}" if name and context.tenant and name.count("/") == slashes else name


def slot_region(slot: str) -> str:
    """Return the region in a slot's name."""
    parts = slot.split("/")
    if len(parts) not in (3, 4) or not parts[-1].isdigit() or not all(parts):
        raise usage_error(f"--slot {slot}: not a slot name", "[TENANT/]WORKLOAD/REGION/ORDINAL, for example web/eu/0")
    return parts[-2]


def _what(one: Mapping[str, Any]) -> str:
    went = [f"{str(place['slot']).rpartition('/')[2]} to {place['node']}" for place in one.get("placements") or ()]
    first: Mapping[str, Any] = next(iter(one.get("reasons") or ()), {})
    why = ": ".join(str(first[key]) for key in ("code", "message") if first.get(key))
    refused = ", ".join(f"{part['count']} refused: {part['code']}" for part in one.get("refused") or ())
    text = "; ".join(part for part in (", ".join(went), refused, why) if part) or "-"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."
