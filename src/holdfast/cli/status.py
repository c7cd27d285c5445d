"""`holdfast status`: one screen. Who leads, what is degraded now or not safe, which overrides are in force, and how old
the platform's view of each region is: nothing here pretends to be newer than it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.cli import conditions, shown
from holdfast.cli.commands import Printed, an_app, command
from holdfast.cli.connect import connect
from holdfast.cli.contexts import resolve
from holdfast.cli.options import Options
from holdfast.cli.shown import Data

app = an_app()

#: A view older than this is marked.
OLD_MS = 10_000


@command(app)
def status(options: Options, output: Printed = Data.TEXT) -> None:
    """Show who leads, what is degraded now, overrides in force, and how old the view of each region is."""
    context = resolve(options)
    found = connect(options, context, region=options.region).status()
    if shown.printed(found, output):
        return
    shown.say(_head(found))
    for title, lines in (
        ("Degraded", _degraded(found)),
        ("Warnings", [shown.paint(str(one), "yellow") for one in found.get("warnings") or ()]),
        ("Overrides", _overrides(found)),
        ("Views", _regions(found)),
        ("Lanes", _lanes(found)),
    ):
        if lines:
            shown.say("\n".join([shown.paint(title, "bold"), *(f"  {line}" for line in lines)]))


def _head(found: Mapping[str, Any]) -> str:
    age = found.get("ageMs")
    rows = [
        ("Ledger", shown.cell(found.get("ledger"))),
        ("Server", f"{shown.cell(found.get('server'))} ({shown.cell(found.get('role'))})"),
        ("Leader", found.get("leader") or shown.paint("not known", "red")),
        ("Term", shown.cell(found.get("term"))),
        ("Proven", f"{_span(age)} ago" if age is not None else shown.paint("never", "red")),
        ("Version", shown.cell(found.get("version"))),
    ]
    return shown.pairs([row for row in rows if row[1] != "-"])


def _degraded(found: Mapping[str, Any]) -> list[str]:
    """What does not work as it should. That nothing is wrong is said, too."""
    said = [shown.paint(str(one), "red") for one in found.get("degraded") or ()]
    said += [
        shown.paint(conditions.brief(one), "red")
        for one in found.get("conditions") or ()
        if conditions.is_bad(one) and str(found.get("role")) == "leading"
    ]
    said += [
        shown.paint(f"region {one['name']} was {_heard(one)}", "yellow")
        for one in found.get("regions") or ()
        if _is_old(one) and one.get("health") == "healthy"
    ]
    return said or [shown.paint("nothing", "green")]


def _overrides(found: Mapping[str, Any]) -> list[str]:
    """Those in force, with owner, reason and end; nothing is said where we may not see them."""
    if "overrides" not in found:
        return []
    rows = []
    for one in found["overrides"]:
        said = {**(one.get("spec") or {}), **(one.get("status") or {})}
        place = "/".join(str(said[key]) for key in ("region", "target") if said.get(key)) or "everywhere"
        action, owner, reason = (shown.cell(said.get(key)) for key in ("action", "owner", "reason"))
        rows.append([action, place, owner, shown.until(said.get("ends")), reason])
    return shown.table(["ACTION", "WHERE", "OWNER", "ENDS IN", "REASON"], rows).splitlines() if rows else ["none"]


def _regions(found: Mapping[str, Any]) -> list[str]:
    """How old the platform's view of each is; in a region, how long ago it heard the platform."""
    rows = [
        [shown.cell(one.get("name")), shown.cell(one.get("health")), _heard(one), "old" if _is_old(one) else ""]
        for one in found.get("regions") or ()
    ]
    platform = found.get("platform")
    if platform:
        rows.append(
            ["platform", shown.cell(platform.get("trouble")), _heard(platform), "old" if _is_old(platform) else ""]
        )
    return shown.table(["OF", "HEALTH", "AGE", ""], rows).splitlines() if rows else []


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
    return shown.roughly(ms / 1000)
