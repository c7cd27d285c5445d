"""The six questions asked of every run, answered from its logs. Each answer names revisions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.registry import Rule
from holdfast.core.ledger.revision import revision, show
from holdfast.core.platform.book import PLATFORM
from holdfast.core.region.book import REGION
from holdfast.sim.chronicle import Entry
from holdfast.sim.scene import PLATFORM_NAME, Scene

#: How many revisions an answer names at most: the first ones, and the last.
NAMED = 4

QUESTIONS = {
    "desired": "What desired state changed?",
    "first": "Who acted first?",
    "progress": "What partial progress was recorded?",
    "invariant": "Which invariant held?",
    "telemetry": "Which telemetry proves it?",
    "repair": "Which repair path exists?",
}


class Answer(Struct, frozen=True):
    """One answer, and the places in the logs that it stands on."""

    question: str
    answer: str
    revisions: tuple[str, ...]


def answers(scene: Scene, struck: int, counters: dict[str, int]) -> dict[str, Answer]:
    """All six, about what happened from the moment in which the first fault struck."""
    looks, chronicle = scene.scenario.answers, scene.chronicle
    after = list(chronicle.since(struck))
    desired = _of(chronicle.entries, looks.desired)
    first = _of(after, looks.first or looks.repair)
    progress = _of(after, looks.progress)
    repair = _of(after, looks.repair)
    return {
        "desired": _answer("desired", desired, _counted(desired)),
        "first": _answer("first", first[:1], _first(first, struck)),
        "progress": _answer("progress", progress, _counted(progress)),
        "invariant": _invariants(scene),
        "telemetry": _telemetry(scene, counters),
        "repair": _answer("repair", repair, _undone(repair or progress)),
    }


def _of(entries: Iterable[Entry], commands: tuple[str, ...]) -> list[Entry]:
    return [entry for entry in entries if entry.command in commands]


def _answer(question: str, entries: list[Entry], text: str) -> Answer:
    named = entries if len(entries) <= NAMED else [*entries[: NAMED - 1], entries[-1]]
    return Answer(QUESTIONS[question], text, tuple(entry.place for entry in named))


def _counted(entries: list[Entry]) -> str:
    counts: dict[str, int] = {}
    for entry in entries:
        what = f"{entry.command} by {entry.actor.partition('/')[0]}"
        counts[what] = counts.get(what, 0) + 1
    return ", ".join(f"{count} × {what}" for what, count in sorted(counts.items())) or "nothing"


def _first(entries: list[Entry], struck: int) -> str:
    if not entries:
        return "nobody"
    first = entries[0]
    return f"{first.actor} with {first.command} in {first.ledger}, {first.when - struck} ms after the first fault"


def _invariants(scene: Scene) -> Answer:
    named = ", ".join(scene.scenario.answers.invariants)
    text = f"{named}, and all others of both ledgers, in full at each of these and near every commit before"
    places = [f"{name} {show(revision(audit.state.facts.seq))}" for name, audit in scene.audits.items()]
    return Answer(QUESTIONS["invariant"], text, tuple(places))


def _telemetry(scene: Scene, counters: dict[str, int]) -> Answer:
    """Counters of the servers, and in the logs the last time that something came to serve."""
    wanted = tuple(f"meter.{name}" for name in scene.scenario.answers.counters)
    found = {name: count for name, count in counters.items() if name in wanted or name.startswith("refused.")}
    said = ", ".join(f"{name} = {count}" for name, count in sorted(found.items())) or "no counter moved"
    served = [entry for entry in scene.chronicle.entries if entry.actor == "controller/endpoints"]
    moved = served or [entry for entry in scene.chronicle.entries if entry.ledger == PLATFORM_NAME]
    return _answer("telemetry", moved[-NAMED:], f"{said}; {len(served)} times something came to serve")


def _undone(entries: list[Entry]) -> str:
    """What takes back what was done: the rule of each command says it."""
    rules: list[Rule[Any]] = [*PLATFORM.rules.values(), *REGION.rules.values()]
    undone = {getattr(rule.command, "__struct_config__").tag: rule.undone for rule in rules}  # noqa: B009
    return "; ".join(f"{command}: {undone[command]}" for command in sorted({entry.command for entry in entries}))


def unanswered(found: dict[str, Answer]) -> list[str]:
    """Questions whose answers stand on nothing."""
    return [name for name in QUESTIONS if not found[name].revisions]
