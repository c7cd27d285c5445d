"""docs/reference/all.md, written from the tables that the code runs on. It is written
by `python -m tests.support.generated.reference`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.model.records.lifecycle import _ROWS, STOP_CAUSES
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.reserved_names import RESERVED_NAMES
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.host.errors import Unavailable
from holdfast.observe.catalog import METRICS

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "all.md"
BOOKS: tuple[LedgerDefinition[Any], ...] = (PLATFORM, REGION)


def table(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    head = [f"| {' | '.join(columns)} |", f"|{'|'.join('---' for _ in columns)}|"]
    return [*head, *(f"| {' | '.join(row)} |" for row in rows), ""]


def commands(book: LedgerDefinition[Any]) -> list[str]:
    rows = [
        (
            rule.command.__name__,
            ", ".join(rule.owners),
            rule.right.value if {"person", "tenant"} & set(rule.owners) else "",
            rule.lane.name.lower(),
            rule.side_effect,
            rule.undone,
        )
        for rule in sorted(book.rules.values(), key=lambda rule: rule.command.__name__)
    ]
    columns = ("command", "who may send it", "right of people", "lane", "side effect", "undone by")
    return [f"## Commands of the {book.name} ledger", "", *table(columns, rows)]


def invariants(book: LedgerDefinition[Any]) -> list[str]:
    rows = [(f"`{i.id}`", i.sentence, i.kind.value, i.needs.value) for i in book.invariants]
    return [f"## Invariants of the {book.name} ledger", "", *table(("id", "promise", "kind", "takes"), rows)]


def edges() -> list[str]:
    rows = [
        (", ".join(sources), target, cause, owner, sentence)
        for sources, target, cause, owner, sentence in _ROWS
        if cause not in STOP_CAUSES
    ]
    stops = [
        (stop.name, stop.kind.value, stop.owner, "waits again" if stop.again else "is removed", stop.sentence)
        for stop in STOP_CAUSES.values()
    ]
    return [
        "## A slot's edges",
        "",
        *table(("from", "to", "cause", "owner", "meaning"), rows),
        "## Why a slot is stopped",
        "",
        *table(("cause", "kind", "owner", "its ordinal", "meaning"), stops),
    ]


def kinds(book: LedgerDefinition[Any]) -> list[str]:
    rows = [(f"`{kind}`", sentence) for kind, sentence in book.kinds.items()]
    return [f"## What can be watched in the {book.name} ledger", "", *table(("kind", "told of"), rows)]


def unavailable() -> list[str]:
    classes = sorted(Unavailable.__subclasses__(), key=lambda one: one.code)
    rows = [(f"`{one.code}`", (one.__doc__ or "").splitlines()[0]) for one in classes]
    return ["## When there is no answer", "", *table(("code", "meaning"), rows)]


def metrics() -> list[str]:
    rows = [(f"`{name}`", m.kind.value, ", ".join(m.labels), m.sentence) for name, m in METRICS.items()]
    return ["## Metrics of a host", "", *table(("metric", "kind", "labels", "meaning"), rows)]


def not_sent_yet() -> list[str]:
    rows = [(one.table, f"`{one.name}`", one.keeper) for one in RESERVED_NAMES]
    said = "These stand in the tables above, and nobody sends or reads them yet. The list only becomes shorter."
    return ["## Not sent yet", "", said, "", *table(("table", "name", "who will"), rows)]


def page() -> str:
    lines = ["# Reference", "", "Written from the tables that the code runs on; `make reference` writes it anew.", ""]
    lines += edges()
    for book in BOOKS:
        lines += commands(book)
    for book in BOOKS:
        lines += invariants(book)
    lines += ["## Refusal codes", "", ", ".join(f"`{code.value}`" for code in Code), ""]
    lines += unavailable()
    for book in BOOKS:
        lines += kinds(book)
    lines += metrics()
    lines += ["## Reasons of conditions", "", ", ".join(f"`{reason.value}`" for reason in ConditionReason), ""]
    lines += not_sent_yet()
    settings = [(f"`{name}`", str(getattr(DEFAULTS, name))) for name in DEFAULTS.__struct_fields__]
    lines += ["## Settings", "", "Milliseconds, unless the name says otherwise.", ""]
    return "\n".join([*lines, *table(("setting", "default"), settings)])


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
