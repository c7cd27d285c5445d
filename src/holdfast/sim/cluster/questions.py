"""The six questions asked of every run, answered from what this run did. Each answer names revisions.

Everything counts from the moment in which the first fault really struck: what was durable then, who acted first after
it, which commands were sent to repair it, which counters it moved. What did not hold is said, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.commit.rules import CommandRule
from holdfast.core.ledger.revision import format_revision, pack_revision
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.region.definition import REGION
from holdfast.core.region.events import SlotsMoved, SlotsReleased, SlotsStopping
from holdfast.replay.recording import PLATFORM_NAME
from holdfast.sim.checks.history import HistoryEntry
from holdfast.sim.cluster.cluster import SimulatedCluster

#: How many revisions an answer names at most: the first ones, and the last.
NAMED = 4
#: How many counters are told with their numbers.
COUNTERS_MOST = 12
#: Why a slot moves or ends where nothing is wrong: no repair.
ORDINARY = (
    "started", "running", "probe-passed", "published", "completed", "collected", "stopped", "scaled-down", "deleted",
    "suspended", "rollout", "superseded",
)  # fmt: skip

QUESTIONS = {
    "desired": "What desired state changed?",
    "first": "Who acted first?",
    "progress": "What partial progress was recorded?",
    "invariant": "Which invariant held?",
    "telemetry": "Which telemetry proves it?",
    "repair": "Which repair path exists?",
}


class QuestionAnswer(Struct, frozen=True):
    """One answer, and the places in the logs that it stands on."""

    question: str
    answer: str
    revisions: tuple[str, ...]


class FaultSnapshot(Struct, frozen=True):
    """The moment in which the first fault struck: which, and what there was then.

    `entries` is how much was in the logs, `heads` the last batch of each, `slots` how many were in which phase.
    """

    when: int
    what: str
    entries: int
    heads: dict[str, int]
    slots: dict[str, int]
    counts: dict[str, int]


def snapshot_at_fault(scene: SimulatedCluster, when: int, what: str, counts: dict[str, int]) -> FaultSnapshot:
    """What there is at this moment, in which something strikes."""
    heads = {name: audit.state.info.seq for name, audit in scene.audits.items()}
    phases = Counter(slot.phase.value for name in scene.cast.nodes for slot in scene.audits[name].state.slots.values())
    return FaultSnapshot(when, what, len(scene.chronicle.entries), heads, dict(sorted(phases.items())), counts)


def answer_questions(
    scene: SimulatedCluster, snapshot: FaultSnapshot | None, counts: dict[str, int], broken: Sequence[str]
) -> dict[str, QuestionAnswer]:
    """All six; `broken` are promises that were not kept, of safety and of liveness. Of a run in which nothing struck
    there is nothing to be said but what was asked for, and what held."""
    looks, entries = scene.scenario.answers, scene.chronicle.entries
    before, after = (
        (entries[: snapshot.entries], entries[snapshot.entries :]) if snapshot is not None else (entries, [])
    )
    desired = _of(entries, looks.desired)
    progress = _of(before, looks.progress)
    repair = [entry for entry in _of(after, looks.repair) if not _is_ordinary(entry)]
    return {
        "desired": _answer("desired", desired, _counted(desired)),
        "first": _answer("first", after[:1], _first(after[:1], snapshot)),
        "progress": _recorded(progress, snapshot),
        "invariant": _invariants(scene, snapshot, counts, broken),
        "telemetry": _telemetry(scene, snapshot, counts, after),
        "repair": _answer("repair", repair, _repaired(repair, snapshot)) if repair else _unrepaired(scene, snapshot),
    }


def _of(entries: Iterable[HistoryEntry], commands: tuple[str, ...]) -> list[HistoryEntry]:
    return [entry for entry in entries if entry.command in commands]


def _answer(question: str, entries: list[HistoryEntry], text: str) -> QuestionAnswer:
    named = entries if len(entries) <= NAMED else [*entries[: NAMED - 1], entries[-1]]
    return QuestionAnswer(QUESTIONS[question], text, tuple(entry.position for entry in named))


def _is_ordinary(entry: HistoryEntry) -> bool:
    """Whether all that an entry did was to let replicas come up, or end, as they do where nothing is wrong."""
    causes = [move.cause for event in entry.events if isinstance(event, SlotsMoved) for move in event.moves]
    causes += [one.cause for event in entry.events if isinstance(event, SlotsReleased) for one in event.releases]
    causes += [event.cause for event in entry.events if isinstance(event, SlotsStopping)]
    return entry.command in ("move", "stop") and all(cause in ORDINARY for cause in causes)


def _counted(entries: list[HistoryEntry]) -> str:
    counts = Counter(f"{entry.command} by {entry.actor.partition('/')[0]}" for entry in entries)
    return _listed(counts) or "nothing"


def _listed(counts: dict[str, int] | Counter[str]) -> str:
    return ", ".join(f"{count} × {what}" for what, count in sorted(counts.items()))


def _first(entries: list[HistoryEntry], snapshot: FaultSnapshot | None) -> str:
    if not entries or snapshot is None:
        return "nobody" if snapshot is not None else "nothing struck"
    first = entries[0]
    after = f"{first.when - snapshot.when} ms after {snapshot.what} struck"
    return f"{first.actor} with {first.command} in {first.ledger}, {after}"


def _recorded(progress: list[HistoryEntry], snapshot: FaultSnapshot | None) -> QuestionAnswer:
    """By what was in the logs when it struck: the last of it, or how far each of them was."""
    if snapshot is None:
        return _answer("progress", [], "nothing struck")
    said = f"{_counted(progress)}; of the replicas {_listed(snapshot.slots) or 'none was there'}"
    heads = tuple(f"{name} {format_revision(pack_revision(seq))}" for name, seq in snapshot.heads.items())
    places = tuple(entry.position for entry in progress[-NAMED:]) or heads
    return QuestionAnswer(QUESTIONS["progress"], f"durable when {snapshot.what} struck: {said}", places)


def _invariants(
    scene: SimulatedCluster, snapshot: FaultSnapshot | None, counts: dict[str, int], broken: Sequence[str]
) -> QuestionAnswer:
    """Every invariant of both ledgers is checked near each batch: so many were, and these promises were not kept."""
    since = snapshot.heads if snapshot is not None else {}
    checked = {name: audit.state.info.seq - since.get(name, 0) for name, audit in scene.audits.items()}
    kept = [name for name in scene.scenario.answers.invariants if name not in broken]
    refused = _changed(snapshot, counts, "refused.")
    said = f"{', '.join(kept) or 'none of those asked about'}, checked after each of {_listed(checked)} batches since"
    said += f"; kept by refusals: {_listed(refused)}" if refused else ""
    said += f"; did not hold: {', '.join(dict.fromkeys(broken))}" if broken else ""
    places = [f"{name} {format_revision(pack_revision(audit.state.info.seq))}" for name, audit in scene.audits.items()]
    return QuestionAnswer(QUESTIONS["invariant"], said, tuple(places))


def _changed(snapshot: FaultSnapshot | None, counts: dict[str, int], kind: str) -> dict[str, int]:
    """By how much counters of a kind have moved since."""
    then = snapshot.counts if snapshot is not None else {}
    moved = {name: count - then.get(name, 0) for name, count in counts.items() if name.startswith(kind)}
    return {name.removeprefix(kind): by for name, by in moved.items() if by}


def _telemetry(
    scene: SimulatedCluster, snapshot: FaultSnapshot | None, counts: dict[str, int], after: list[HistoryEntry]
) -> QuestionAnswer:
    """The servers' counters that have moved since, those that the scenario is about first; and in the logs the last
    time that something came to serve."""
    moved = _changed(snapshot, counts, "meter.")
    wanted = [name for name in scene.scenario.answers.counters if name in moved]
    told = list(dict.fromkeys((*wanted, *sorted(moved))))[:COUNTERS_MOST]
    said = ", ".join(f"{name} +{moved[name]}" for name in told) or "no counter moved"
    said += f", and {len(moved) - len(told)} others" if len(moved) > len(told) else ""
    served = [entry for entry in after if entry.actor == "controller/endpoints"]
    last = served or [entry for entry in scene.chronicle.entries if entry.ledger == PLATFORM_NAME]
    return _answer("telemetry", last[-NAMED:], f"{said}; {len(served)} times something came to serve since")


def _unrepaired(scene: SimulatedCluster, snapshot: FaultSnapshot | None) -> QuestionAnswer:
    """Nothing had to be mended: that is said of how far the logs are."""
    heads = tuple(
        f"{name} {format_revision(pack_revision(audit.state.info.seq))}" for name, audit in scene.audits.items()
    )
    return QuestionAnswer(QUESTIONS["repair"], "no repair was sent", heads if snapshot is not None else ())


def _repaired(entries: list[HistoryEntry], snapshot: FaultSnapshot | None) -> str:
    """What was sent, when first and last, and what takes it back: the rule of each command says that."""
    assert snapshot is not None, "what is repaired was struck"
    rules: list[CommandRule[Any]] = [*PLATFORM.rules.values(), *REGION.rules.values()]
    undone = {getattr(rule.command, "__struct_config__").tag: rule.undone for rule in rules}  # noqa: B009
    back = "; ".join(f"{command}: {undone[command]}" for command in sorted({entry.command for entry in entries}))
    times = f"{entries[0].when - snapshot.when} to {entries[-1].when - snapshot.when} ms after {snapshot.what} struck"
    return f"{_counted(entries)}, {times}; taken back by {back}"


def unanswered_questions(found: dict[str, QuestionAnswer]) -> list[str]:
    """Questions whose answers stand on nothing."""
    return [name for name in QUESTIONS if not found[name].revisions]
