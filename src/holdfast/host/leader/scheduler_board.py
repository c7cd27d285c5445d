"""The schedulers of a region as its leader sees them: who is live, and how their proposals fare. Soft state of a term.

    embedded: entered while they run ───────────┐
    standalone: heard with each heartbeat ──────┼──▶ names that divide the work · a row for each
    answers to proposals ───────────────────────┘

A scheduler without a cycle for long, or with an old view, has a row and no part of the work. If that is so of all, all
have one.

Nothing of this is in the log: a new leader hears of every scheduler within a heartbeat, and counts from zero.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Struct, field

from holdfast.core.ledger.answers import Refused, Repeated
from holdfast.core.ledger.commit.draft import CommandAnswer, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.partial import RefusedPart
from holdfast.core.region.commands import Propose
from holdfast.host.ports.clock import Clock
from holdfast.host.protocol.commands import SchedulerVitals
from holdfast.host.runtime.telemetry import Metrics

#: Rates are of the last minute, in steps.
STEP_MS, STEPS = 10_000, 6
#: A scheduler with an older view, or an earlier last cycle, does not work. Working ones run a cycle every second.
SILENT_MS = 10_000
#: Longest time until it is noticed that an embedded scheduler does not work, or works again.
CHECK_MS = 1_000
#: Schedulers with counters of their own, of all that a server ever led; those of more are counted under `others`.
LABELS_MAX = 32
OTHERS = "others"
_COUNTERS = ("scheduler_bound", "scheduler_conflicts")

_unmet = msgspec.msgpack.Decoder(list[RefusedPart])


class SchedulerRow(Struct, frozen=True):
    """One scheduler: where it runs, since when it is known, and its last minute.

    `heard_ms` and `cycle_ms` are the times since it was heard, and since its last cycle. `span_ms` is the length of the
    time in which `placed` slots were bound or reserved, and `conflicts` refused, by code.
    """

    name: str
    where: str
    is_embedded: bool
    heard_ms: int
    cycle_ms: int
    view_age_ms: int
    span_ms: int
    placed: int
    conflicts: dict[str, int]
    placed_total: int


class _Step(Struct):
    begun: int
    placed: int = 0
    conflicts: Counter[str] = field(default_factory=Counter)


class _Entry(Struct):
    """What is known of one scheduler. An embedded scheduler is asked for its vitals."""

    began: int
    heard: int
    until: int
    vitals: SchedulerVitals
    ask: Callable[[], SchedulerVitals] | None = None
    steps: deque[_Step] = field(default_factory=deque)
    placed: int = 0


class SchedulerBoard:
    """All schedulers of one term."""

    def __init__(self, clock: Clock, metrics: Metrics) -> None:
        self._clock = clock
        self._metrics = metrics
        self._entries: dict[str, _Entry] = {}
        #: Names with counters of their own. The counters outlive a term.
        self._counted = {dict(labels)["scheduler"]: None for counter, labels in metrics.counts if counter in _COUNTERS}
        self._names: tuple[str, ...] = ()
        #: When the next scheduler is no longer live.
        self._until = 0

    def enter(self, name: str, ask: Callable[[], SchedulerVitals]) -> None:
        """An embedded scheduler runs, until it leaves."""
        now = self._clock.boot()
        self._entries[name] = _Entry(now, now, now, ask(), ask)
        self._list(now)

    def leave(self, name: str) -> None:
        """An embedded scheduler has ended."""
        self._entries.pop(name, None)
        self._list(self._clock.boot())

    def heard(self, name: str, vitals: SchedulerVitals, live_ms: int) -> None:
        """A standalone scheduler sent a heartbeat; it counts as live for this long."""
        now = self._clock.boot()
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = _Entry(now, now, now, vitals)
        entry.heard, entry.vitals, entry.until = now, vitals, now + live_ms
        self._list(now)

    def live(self) -> tuple[str, ...]:
        """Return the names of the schedulers that divide the work, sorted: the same tuple until they change."""
        now = self._clock.boot()
        if now > self._until:
            self._list(now)
        return self._names

    def answered(self, envelope: Envelope[Any], answer: CommandAnswer) -> None:
        """Count the outcome of a scheduler's proposal."""
        command = envelope.command
        if not isinstance(command, Propose) or isinstance(answer, Repeated):
            return
        lost, placed = _lost(command, answer), 0
        if not isinstance(answer, Refused):
            placed = sum(len(group.placements) for group in command.groups) - sum(lost.values())
        name = envelope.actor
        entry = self._entries.get(name)
        if entry is not None:
            step = self._step(entry)
            step.placed += placed
            step.conflicts.update(lost)
            entry.placed += placed
        if entry is not None and len(self._counted) < LABELS_MAX:
            self._counted[name] = None
        label = name if name in self._counted else OTHERS
        if placed:
            self._metrics.count("scheduler_bound", placed, scheduler=label)
        for code, count in lost.items():
            self._metrics.count("scheduler_conflicts", count, code=code, scheduler=label)

    def rows(self) -> list[SchedulerRow]:
        """Return all schedulers that were heard, by name."""
        now, found = self._clock.boot(), list[SchedulerRow]()
        self._list(now)
        for name, entry in sorted(self._entries.items()):
            since = now - entry.heard
            recent = [step for step in entry.steps if step.begun > now - STEP_MS * STEPS]
            conflicts: Counter[str] = Counter()
            for step in recent:
                conflicts.update(step.conflicts)
            span = min(now - entry.began, STEP_MS * STEPS)
            found.append(
                SchedulerRow(
                    name, entry.vitals.where, entry.ask is not None, since, entry.vitals.cycle_ms + since,
                    entry.vitals.view_age_ms, span, sum(step.placed for step in recent),
                    dict(sorted(conflicts.items())), entry.placed,
                )
            )  # fmt: skip
        return found

    def _list(self, now: int) -> None:
        """List the working schedulers again, and forget those that were silent for their time."""
        for name, one in list(self._entries.items()):
            if one.ask is not None:
                one.vitals, one.heard = one.ask(), now
            elif one.until < now:
                del self._entries[name]
        working = [name for name, one in self._entries.items() if _works(one.vitals)]
        names = tuple(sorted(working or self._entries))
        if names != self._names:
            self._names = names
        self._until = min((one.until for one in self._entries.values() if one.ask is None), default=1 << 62)
        if len(self._entries) > 1:
            self._until = min(self._until, now + CHECK_MS)

    def _step(self, entry: _Entry) -> _Step:
        now, steps = self._clock.boot(), entry.steps
        if not steps or steps[-1].begun <= now - STEP_MS:
            steps.append(_Step(now))
            if len(steps) > STEPS + 1:
                steps.popleft()
        return steps[-1]


def _works(vitals: SchedulerVitals) -> bool:
    return max(vitals.cycle_ms, vitals.view_age_ms) <= SILENT_MS


def _lost(command: Propose, answer: Committed | Refused) -> Counter[str]:
    """Return the refused placements of a proposal by code."""
    if isinstance(answer, Refused):
        parts = [str(one[2]) for one in answer.facts.get("refused", ())]
        return Counter(parts or [answer.code.value] * sum(len(group.placements) for group in command.groups))
    return Counter(one.code for one in _unmet.decode(answer.answer)) if answer.answer else Counter()
