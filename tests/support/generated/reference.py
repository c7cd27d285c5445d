"""Pages of docs/reference that are written from the tables that the code runs on.

python -m tests.support.generated.reference    writes them anew
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.api.problems import _HINTS, API_PROBLEMS, from_refusal
from holdfast.cli.output.conditions import CONDITION_HINTS
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.model.records.lifecycle import _ROWS, STOP_CAUSES
from holdfast.core.model.values.conditions import ConditionReason
from holdfast.core.model.values.reserved_names import RESERVED_NAMES
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.host.errors import Unavailable
from holdfast.observe.catalog import METRICS
from tests.support.generated.markdown import FOLDER, page, table
from tests.support.generated.meanings import CONDITIONS, REFUSALS, SETTINGS

BOOKS: tuple[LedgerDefinition[Any], ...] = (PLATFORM, REGION)


def lifecycle() -> str:
    edges = [
        (", ".join(sources), target, cause, owner, sentence)
        for sources, target, cause, owner, sentence in _ROWS
        if cause not in STOP_CAUSES
    ]
    stops = [
        (stop.name, stop.kind.value, stop.owner, "waits again" if stop.again else "is removed", stop.sentence)
        for stop in STOP_CAUSES.values()
    ]
    intro = (
        "The phases of a slot, the one principal that may move a slot along each edge, and the causes that end a "
        "slot. Causes that nothing sends yet are listed under [reserved names](reserved-names.md)."
    )
    return page(
        "Lifecycle of a slot",
        intro,
        [
            "## Edges",
            "",
            *table(("from", "to", "cause", "owner", "meaning"), edges),
            "## Causes of a stop",
            "",
            *table(("cause", "kind", "owner", "its ordinal", "meaning"), stops),
        ],
    )


def commands() -> str:
    lines: list[str] = []
    for book in BOOKS:
        rows = [
            (
                rule.command.__name__,
                f"`{_tag(rule.command)}`",
                ", ".join(rule.owners),
                rule.right.value if {"person", "tenant"} & set(rule.owners) else "",
                rule.lane.name.lower(),
                rule.side_effect,
                rule.undone,
            )
            for rule in sorted(book.rules.values(), key=lambda rule: rule.command.__name__)
        ]
        columns = ("command", "name in the API", "senders", "right", "lane", "side effect", "undone by")
        lines += [f"## {book.name.capitalize()} ledger", "", *table(columns, rows)]
    intro = "Every command of both ledgers. `right` is what a person or tenant needs; `holdfast can-i NAME` checks it."
    return page("Commands", intro, lines)


def _tag(command: Any) -> str:
    return str(command.__struct_config__.tag)


def invariants() -> str:
    lines: list[str] = []
    for book in BOOKS:
        rows = [(f"`{i.id}`", i.sentence, i.kind.value, i.needs.value) for i in book.invariants]
        lines += [f"## {book.name.capitalize()} ledger", "", *table(("id", "promise", "kind", "coordination"), rows)]
    intro = (
        "`always`: true in every state. `at commit`: true when a command commits; an outside change can break it, "
        "which opens a breach with an owner and a deadline. [The map of rules](rules-map.md) names the code and "
        "the tests of each."
    )
    return page("Invariants", intro, lines)


def problems() -> str:
    refused = [
        (f"`{code.value}`", str(from_refusal(Refused(code, "")).status), REFUSALS[code.value], _hint(code.value))
        for code in Code
    ]
    refused_columns = ("code", "HTTP", "meaning", "next step")
    api = [(f"`{code}`", str(status), title, _hint(code)) for code, (status, title) in API_PROBLEMS.items()]
    hosts = sorted(Unavailable.__subclasses__(), key=lambda one: one.code)
    unavailable = [(f"`{one.code}`", (one.__doc__ or "").splitlines()[0]) for one in hosts]
    intro = (
        "The codes of RFC 9457 problem documents: `type` is `urn:holdfast:problem:CODE`. Codes keep their "
        "meaning; titles and texts may change. `stale` and `exists` are 412 where the request named what it "
        "expects."
    )
    return page(
        "Problem codes",
        intro,
        [
            "## Refusals of a ledger",
            "",
            "A refused command changes nothing.",
            "",
            *table(refused_columns, refused),
            "## Problems of the API and of a server",
            "",
            *table(("code", "HTTP", "title", "next step"), api),
            "## When a server gives no answer",
            "",
            *table(("code", "meaning"), unavailable),
        ],
    )


def _hint(code: str) -> str:
    return _HINTS.get(code, "")


def watch_keys() -> str:
    lines: list[str] = []
    for book in BOOKS:
        rows = [(f"`{kind}`", sentence) for kind, sentence in book.kinds.items()]
        lines += [f"## {book.name.capitalize()} ledger", "", *table(("kind", "changes"), rows)]
    return page("Watch keys", "The kinds of change that controllers and watches of each ledger subscribe to.", lines)


def metrics() -> str:
    rows = [(f"`holdfast_{name}`", m.kind.value, ", ".join(m.labels), m.sentence) for name, m in METRICS.items()]
    intro = (
        "Counts and gauges are numbers; a `time` is a distribution in milliseconds (`_bucket`, `_sum`, `_count`). "
        "Schedulers and agents serve theirs to Prometheus with `--listen`; servers do not export theirs yet "
        "(planned)."
    )
    return page("Metrics", intro, table(("metric", "kind", "labels", "meaning"), rows))


def conditions() -> str:
    reserved = {one.name for one in RESERVED_NAMES if one.table == "reason"}
    types = [(f"`{name}`", of, meaning) for name, (of, meaning) in CONDITIONS.items()]
    reasons = [
        (
            f"`{reason.value}`",
            CONDITION_HINTS.get(reason.value, "nothing to do"),
            "reserved" if reason.value in reserved else "",
        )
        for reason in ConditionReason
    ]
    intro = (
        "A condition is `true`, `false` or `unknown`, with a reason from a closed list. `false` and `unknown` ask "
        "for attention; of `Failed` it is `true`. `reserved`: nothing gives that reason yet."
    )
    return page(
        "Conditions",
        intro,
        [
            "## Types",
            "",
            *table(("type", "object", "true means"), types),
            "## Reasons",
            "",
            *table(("reason", "next step", "state"), reasons),
        ],
    )


def ledger_settings() -> str:
    rows = [(f"`{_camel(name)}`", str(getattr(DEFAULTS, name)), SETTINGS[name]) for name in DEFAULTS.__struct_fields__]
    intro = (
        "The numbers that a ledger judges by, in milliseconds unless the meaning names another unit. They are "
        "given as [`ledger`](settings.md#ledger) when a log begins, and changed with the command `configure`. A "
        "set that would break a promise is refused, with every reason."
    )
    return page("Settings of a ledger", intro, table(("setting", "default", "meaning"), rows))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def reserved_names() -> str:
    rows = [(one.table, f"`{one.name}`", one.keeper) for one in RESERVED_NAMES]
    intro = (
        "Names in the tables of these pages that nothing sends or reads yet (planned). This list only becomes shorter."
    )
    return page("Reserved names", intro, table(("table", "name", "will be used by"), rows))


PAGES: dict[str, Callable[[], str]] = {
    "lifecycle": lifecycle,
    "commands": commands,
    "invariants": invariants,
    "problems": problems,
    "watch-keys": watch_keys,
    "metrics": metrics,
    "conditions": conditions,
    "ledger-settings": ledger_settings,
    "reserved-names": reserved_names,
}

if __name__ == "__main__":
    for name, written in PAGES.items():
        (FOLDER / f"{name}.md").write_text(written(), encoding="utf-8")
