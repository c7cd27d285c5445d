"""`holdfast status`: leader, degraded parts, overrides in force, and the last contact with each region."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli.command import OutputOption, command, make_app
from holdfast.cli.connect import connect
from holdfast.cli.options import GlobalOptions
from holdfast.cli.output import conditions, printer
from holdfast.cli.output.printer import OutputFormat

app = make_app()

#: A contact older than this is marked as stale.
OLD_MS = 10_000
#: The field of a region or platform with the time since the last contact; None: there was none.
CONTACT = "lastContactMsAgo"


@command(app)
def status(options: GlobalOptions, output: OutputOption = OutputFormat.TEXT) -> None:
    """Show the leader, what is degraded, overrides in force, and the last contact with each region."""
    found = connect(options, region=options.region).status()
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
        ("Leader", found.get("leader") or printer.paint("unknown", "red")),
        ("Term", printer.format_value(found.get("term"))),
        ("Leadership", f"proven {_span(age)} ago" if age is not None else printer.paint("never proven", "red")),
        ("Version", printer.format_value(found.get("version"))),
    ]
    return printer.pairs([row for row in rows if row[1] != "-"])


def _degraded(found: Mapping[str, Any]) -> list[str]:
    """Return what is degraded, or that nothing is."""
    said = [printer.paint(str(one), "red") for one in found.get("degraded") or ()]
    said += [
        printer.paint(conditions.format_condition(one), "red")
        for one in found.get("conditions") or ()
        if conditions.is_bad(one) and str(found.get("role")) == "leading"
    ]
    said += [
        printer.paint(f"region {one['name']}: last contact {_last_contact(one)}", "yellow")
        for one in found.get("regions") or ()
        if _is_stale(one) and one.get("health") == "healthy"
    ]
    return said or [printer.paint("nothing", "green")]


def _overrides(found: Mapping[str, Any]) -> list[str]:
    """Return the overrides in force with owner, reason and end; nothing if the caller may not see them."""
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
    """Return each region's last contact; in a region, that of the platform."""
    rows = [
        [
            printer.format_value(one.get("name")),
            printer.format_value(one.get("health")),
            _last_contact(one),
            "stale" if _is_stale(one) else "",
        ]
        for one in found.get("regions") or ()
    ]
    platform = found.get("platform")
    if platform:
        rows.append(
            [
                "platform",
                printer.format_value(platform.get("degradedReason")),
                _last_contact(platform),
                "stale" if _is_stale(platform) else "",
            ]
        )
    return printer.table(["PEER", "HEALTH", "LAST CONTACT", ""], rows).splitlines() if rows else []


def _last_contact(one: Mapping[str, Any]) -> str:
    if CONTACT not in one:  # The server has another version.
        return "-"
    return "never" if one[CONTACT] is None else f"{_span(one[CONTACT])} ago"


def _is_stale(one: Mapping[str, Any]) -> bool:
    return CONTACT in one and (one[CONTACT] is None or one[CONTACT] > OLD_MS)


def _lanes(found: Mapping[str, Any]) -> list[str]:
    """Return the lanes with waiting commands."""
    return [f"{one.get('lane')}: {one['waiting']} wait" for one in found.get("lanes") or () if one.get("waiting")]


def _span(ms: float) -> str:
    return printer.format_span(ms / 1000)
