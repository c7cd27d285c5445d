"""`holdfast status`: one screen. Who leads, what is degraded now or not safe, which overrides are in force, and how old
the platform's view of each region is: nothing here pretends to be newer than it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import connect
from holdfast.cli.context import resolve
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import conditions, printer
from holdfast.cli.output.printer import OutputFormat

app = make_app()

#: A view older than this is marked.
OLD_MS = 10_000


@command(app)
def status(options: GlobalOptions, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show who leads, what is degraded now, overrides in force, and how old the view of each region is."""
    context = resolve(options)
    found = connect(options, context, region=options.region).status()
    if printer.print_structured(found, output):
        return
    printer.print_data(_head(found))
    for title, lines in (
        ("Degraded", _degraded(found)),
        ("Warnings", [printer.paint(str(one), "yellow") for one in found.get("warnings") or ()]),
        ("Overrides", _overrides(found)),
        ("Views", _regions(found)),
        ("Lanes", _lanes(found)),
    ):
        if lines:
            printer.print_data("\n".join([printer.paint(title, "bold"), *(f"  {line}" for line in lines)]))


def _head(found: Mapping[str, Any]) -> str:
    age = found.get("ageMs")
    rows = [
        ("Ledger", printer.format_value(found.get("ledger"))),
        ("Server", f"{printer.format_value(found.get('server'))} ({printer.format_value(found.get('role'))})"),
        ("Leader", found.get("leader") or printer.paint("not known", "red")),
        ("Term", printer.format_value(found.get("term"))),
        ("Proven", f"{_span(age)} ago" if age is not None else printer.paint("never", "red")),
        ("Version", printer.format_value(found.get("version"))),
    ]
    return printer.pairs([row for row in rows if row[1] != "-"])


def _degraded(found: Mapping[str, Any]) -> list[str]:
    """What does not work as it should. That nothing is wrong is said, too."""
    said = [printer.paint(str(one), "red") for one in found.get("degraded") or ()]
    said += [
        printer.paint(conditions.format_condition(one), "red")
        for one in found.get("conditions") or ()
        if conditions.is_bad(one) and str(found.get("role")) == "leading"
    ]
    said += [
        printer.paint(f"region {one['name']} was {_heard(one)}", "yellow")
        for one in found.get("regions") or ()
        if _is_old(one) and one.get("health") == "healthy"
    ]
    return said or [printer.paint("nothing", "green")]


def _overrides(found: Mapping[str, Any]) -> list[str]:
    """Those in force, with owner, reason and end; nothing is said where we may not see them."""
    if "overrides" not in found:
        return []
    rows = []
    for one in found["overrides"]:
        said = {**(one.get("spec") or {}), **(one.get("status") or {})}
        place = "/".join(str(said[key]) for key in ("region", "target") if said.get(key)) or "everywhere"
        action, owner, reason = (printer.format_value(said.get(key)) for key in ("action", "owner", "reason"))
        rows.append([action, place, owner, printer.format_until(said.get("ends")), reason])
    return printer.table(["ACTION", "WHERE", "OWNER", "ENDS IN", "REASON"], rows).splitlines() if rows else ["none"]


def _regions(found: Mapping[str, Any]) -> list[str]:
    """How old the platform's view of each is; in a region, how long ago it heard the platform."""
    rows = [
        [
            printer.format_value(one.get("name")),
            printer.format_value(one.get("health")),
            _heard(one),
            "old" if _is_old(one) else "",
        ]
        for one in found.get("regions") or ()
    ]
    platform = found.get("platform")
    if platform:
        rows.append(
            [
                "platform",
                printer.format_value(platform.get("trouble")),
                _heard(platform),
                "old" if _is_old(platform) else "",
            ]
        )
    return printer.table(["OF", "HEALTH", "AGE", ""], rows).splitlines() if rows else []


def _heard(one: Mapping[str, Any]) -> str:
    ago = one.get("heardMsAgo")
    return "never heard" if ago is None else f"heard {_span(ago)} ago"


def _is_old(one: Mapping[str, Any]) -> bool:
    ago = one.get("heardMsAgo")
    return ago is None or ago > OLD_MS


def _lanes(found: Mapping[str, Any]) -> list[str]:
    """Only those in which something waits."""
    return [f"{one.get('lane')}: {one['waiting']} wait" for one in found.get("lanes") or () if one.get("waiting")]


def _span(ms: float) -> str:
    return printer.format_span(ms / 1000)
