"""Tables of what regions reported: a workload's counts in each region, and the nodes of a region."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from holdfast.cli.output import printer

#: Parts of a status that are shown here and not with its other fields.
PARTS = ("regions", "summary")
#: Characters of a template's digest, enough to distinguish the few templates of one workload.
DIGEST_SHOWN = 12

Section = tuple[str, list[str]]


def status_sections(status: Mapping[str, Any]) -> Iterator[Section]:
    """Yield titles and lines; none without reports."""
    regions = status.get("regions")
    if regions:
        yield (
            "Regions",
            _table(("REGION", "TEMPLATE", *map(str.upper, _COUNTS), "LAST REPORT"), map(_region_row, regions)),
        )
    for title, told in (("Waiting", _waiting), ("Failing", _failing)):
        lines = [line for one in regions or () for line in told(one)]
        if lines:
            yield title, lines
    summary = status.get("summary")
    if isinstance(summary, Mapping):
        yield from _summary(summary)


_COUNTS = ("assigned", "bound", "ready", "serving", "done", "failed", "generation")


def _region_row(one: Mapping[str, Any]) -> list[str]:
    template = str(one.get("template") or "")[:DIGEST_SHOWN]
    counts = [printer.format_value(one.get(name)) for name in _COUNTS]
    return [
        printer.format_value(one.get("region")),
        printer.format_value(template),
        *counts,
        printer.format_age(one.get("reportedAt")),
    ]


def _waiting(one: Mapping[str, Any]) -> Iterator[str]:
    for reason in one.get("waiting") or ():
        said = ": ".join(str(reason[key]) for key in ("code", "message") if reason.get(key))
        yield f"{one.get('region')}: {reason.get('count')} wait for {printer.format_age(reason.get('since'))}: {said}"


def _failing(one: Mapping[str, Any]) -> Iterator[str]:
    for failing in one.get("failing") or ():
        where = f" on {failing['node']}" if failing.get("node") else ""
        said = ": ".join(str(failing[key]) for key in ("code", "detail") if failing.get(key))
        yield f"{one.get('region')}: {failing.get('count')}{where}: {said}"


def _summary(summary: Mapping[str, Any]) -> Iterator[Section]:
    told = f"Nodes, as reported {printer.format_age(summary.get('at'))} ago"
    nodes = [
        [printer.format_value(one.get(key)) for key in ("pool", "labels", "count", "capacity", "free")]
        + [_pieces(one.get("largest")), _pieces(one.get("largestFree"))]
        for one in summary.get("nodes") or ()
    ]
    headings = ("POOL", "LABELS", "NODES", "CAPACITY", "FREE", "LARGEST", "LARGEST FREE")
    yield told, _table(headings, nodes) if nodes else ["none accept work"]
    uses = [[name, printer.format_value(charged)] for name, charged in (summary.get("uses") or {}).items()]
    if uses:
        yield "Charged", _table(("ACCOUNT", "AMOUNT"), uses)
    issues = [
        [printer.format_value(one.get("kind")), printer.format_value(one.get("count")),
         printer.format_age(one.get("since")),
         printer.format_value(one.get("message"))]
        for one in summary.get("issues") or ()
    ]  # fmt: skip
    if issues:
        yield "Issues", _table(("KIND", "COUNT", "SINCE", "MESSAGE"), issues)


def _pieces(pieces: Sequence[Mapping[str, Any]] | None) -> str:
    return " or ".join(printer.format_value(piece) for piece in pieces or ()) or "-"


def _table(headings: Sequence[str], rows: Any) -> list[str]:
    return printer.table(headings, rows).splitlines()
