"""The six questions that every run answers from its logs and counters. Each answer names revisions.

All answers count from the start of the first fault: what was durable then, which actor acted first, which repair
commands followed, which counters moved, and which properties were violated.
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

#: Most revisions that an answer names: the first ones, and the last.
NAMED = 4
#: Most counters that an answer names.
COUNTERS_MOST = 12
#: Causes of moves and ends without a fault: not a repair.
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
    """One answer, and the log positions that support it."""

    question: str
    answer: str
    revisions: tuple[str, ...]


class FaultSnapshot(Struct, frozen=True):
    """The state at the start of the first fault.

    `entries` is the number of log entries, `heads` the last batch of each ledger, `slots` the number of slots by phase.
    """

    when: int
    what: str
    entries: int
    heads: dict[str, int]
    slots: dict[str, int]
    counts: dict[str, int]


def snapshot_at_fault(scene: SimulatedCluster, when: int, what: str, counts: dict[str, int]) -> FaultSnapshot:
    """Return the state at the start of a fault."""
    heads = {name: audit.state.info.seq for name, audit in scene.audits.items()}
    phases = Counter(slot.phase.value for name in scene.cast.nodes for slot in scene.audits[name].state.slots.values())
    return FaultSnapshot(when, what, len(scene.chronicle.entries), heads, dict(sorted(phases.items())), counts)


def answer_questions(
    scene: SimulatedCluster, snapshot: FaultSnapshot | None, counts: dict[str, int], broken: Sequence[str]
) -> dict[str, QuestionAnswer]:
    """Answer all six questions; `broken` are violated properties of safety and liveness. Without a fault only the
    desired changes and the invariants have an answer."""
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
    """Return whether an entry only started or ended replicas for ordinary causes."""
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
    """Answer with the progress that was in the logs at the fault, or with the heads of the logs."""
    if snapshot is None:
        return _answer("progress", [], "nothing struck")
    said = f"{_counted(progress)}; replicas: {_listed(snapshot.slots) or 'none'}"
    heads = tuple(f"{name} {format_revision(pack_revision(seq))}" for name, seq in snapshot.heads.items())
    places = tuple(entry.position for entry in progress[-NAMED:]) or heads
    return QuestionAnswer(QUESTIONS["progress"], f"durable when {snapshot.what} struck: {said}", places)


def _invariants(
    scene: SimulatedCluster, snapshot: FaultSnapshot | None, counts: dict[str, int], broken: Sequence[str]
) -> QuestionAnswer:
    """Answer with the number of checked batches since, and the violated properties. Invariants are checked after each
    batch."""
    since = snapshot.heads if snapshot is not None else {}
    checked = {name: audit.state.info.seq - since.get(name, 0) for name, audit in scene.audits.items()}
    kept = [name for name in scene.scenario.answers.invariants if name not in broken]
    refused = _changed(snapshot, counts, "refused.")
    said = f"{', '.join(kept) or 'no listed invariant'}, checked after each of {_listed(checked)} batches since"
    said += f"; enforced by refusals: {_listed(refused)}" if refused else ""
    said += f"; did not hold: {', '.join(dict.fromkeys(broken))}" if broken else ""
    places = [f"{name} {format_revision(pack_revision(audit.state.info.seq))}" for name, audit in scene.audits.items()]
    return QuestionAnswer(QUESTIONS["invariant"], said, tuple(places))


def _changed(snapshot: FaultSnapshot | None, counts: dict[str, int], kind: str) -> dict[str, int]:
    """Return by how much counters of a kind have moved since."""
    then = snapshot.counts if snapshot is not None else {}
    moved = {name: count - then.get(name, 0) for name, count in counts.items() if name.startswith(kind)}
    return {name.removeprefix(kind): by for name, by in moved.items() if by}


def _telemetry(
    scene: SimulatedCluster, snapshot: FaultSnapshot | None, counts: dict[str, int], after: list[HistoryEntry]
) -> QuestionAnswer:
    """Answer with the counters that have moved since, those of the scenario first, and the last replicas that began to
    serve."""
    moved = _changed(snapshot, counts, "meter.")
    wanted = [name for name in scene.scenario.answers.counters if name in moved]
    told = list(dict.fromkeys((*wanted, *sorted(moved))))[:COUNTERS_MOST]
    said = ", ".join(f"{name} +{moved[name]}" for name in told) or "no counter moved"
    said += f", and {len(moved) - len(told)} others" if len(moved) > len(told) else ""
    served = [entry for entry in after if entry.actor == "controller/endpoints"]
    last = served or [entry for entry in scene.chronicle.entries if entry.ledger == PLATFORM_NAME]
    return _answer("telemetry", last[-NAMED:], f"{said}; {len(served)} times a replica began to serve since")


def _unrepaired(scene: SimulatedCluster, snapshot: FaultSnapshot | None) -> QuestionAnswer:
    """Answer that no repair was needed, up to the heads of the logs."""
    heads = tuple(
        f"{name} {format_revision(pack_revision(audit.state.info.seq))}" for name, audit in scene.audits.items()
    )
    return QuestionAnswer(QUESTIONS["repair"], "no repair was sent", heads if snapshot is not None else ())


def _repaired(entries: list[HistoryEntry], snapshot: FaultSnapshot | None) -> str:
    """Describe the repair commands, their times, and by their rules what takes them back."""
    assert snapshot is not None, "a repair follows a fault"
    rules: list[CommandRule[Any]] = [*PLATFORM.rules.values(), *REGION.rules.values()]
    undone = {getattr(rule.command, "__struct_config__").tag: rule.undone for rule in rules}  # noqa: B009
    back = "; ".join(f"{command}: {undone[command]}" for command in sorted({entry.command for entry in entries}))
    times = f"{entries[0].when - snapshot.when} to {entries[-1].when - snapshot.when} ms after {snapshot.what} struck"
    return f"{_counted(entries)}, {times}; taken back by {back}"


def unanswered_questions(found: dict[str, QuestionAnswer]) -> list[str]:
    """Return questions whose answers name no revision."""
    return [name for name in QUESTIONS if not found[name].revisions]
