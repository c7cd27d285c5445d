"""Checks by the log that slots leave a node soon after an evicting taint.

    a node has an evicting taint ──▶ the next batch: each slot there without a toleration is due
                                 ──▶ two more batches, a while later in the same term: still there

The limit applies only if the leader can write and no override pauses repair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from holdfast.core.ledger.codec import Batch
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.objects.topology import TaintEffect
from holdfast.core.model.records.lifecycle import STOPPABLE
from holdfast.core.model.values.structs import Instant, Revision, SlotKey
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.checks.ledger_audit import Finding

#: A due slot is stopped within this time, or by this many batches after it.
SOON_MS, BATCHES = 2_000, 2


class _Due(NamedTuple):
    """Since when, and in which term, a slot is due, and how many late batches did not stop it."""

    since: Instant
    term: int
    late: int


class EvictionCheck:
    """Checks the evictions of one region. `state` is the audited state after each batch; `hears` returns whether
    controllers receive all changes."""

    def __init__(
        self, where: str, state: RegionState, find: Callable[[Finding], None], hears: Callable[[], bool]
    ) -> None:
        self._where = where
        self._state = state
        self._find = find
        self._hears = hears
        #: Due slots, each with its node and binding epoch.
        self._due: dict[tuple[SlotKey, Revision, Revision], _Due] = {}

    def take(self, batch: Batch[Any]) -> None:
        """Check the next batch."""
        if not batch.records:
            return
        at, term, due = batch.records[0].at, batch.header.term, dict[tuple[SlotKey, Revision, Revision], _Due]()
        if self._hears() and not self._is_paused(at):
            for key in self._evicted():
                known = self._due.get(key)
                if known is None or known.term != term:
                    known = _Due(-1, term, 0)  # counts from the next batch: this one may have been decided before
                elif known.since < 0:
                    known = known._replace(since=at)
                elif at >= known.since + SOON_MS:
                    known = known._replace(late=known.late + 1)
                    if known.late == BATCHES:
                        self._tell(key, at - known.since, batch.header.seq)
                due[key] = known
        self._due = due

    def _tell(self, key: tuple[SlotKey, Revision, Revision], late: int, seq: int) -> None:
        slot, node, _ = key
        told = f"slot {slot} stays on {self._state.nodes[node].name} for {late} ms despite an evicting taint"
        self._find(Finding("evicted", f"{self._where} batch {seq}: {told}"))

    def _is_paused(self, at: Instant) -> bool:
        return any(one.action is OverrideAction.PAUSE_REPAIR and one.ends > at for one in self._state.every_override())

    def _evicted(self) -> Iterator[tuple[SlotKey, Revision, Revision]]:
        taints = {
            uid: evicting
            for uid, node in self._state.nodes.items()
            if (evicting := [one for one in node.taints if one.effect is TaintEffect.EVICT])
        }
        if not taints:
            return
        for key, slot in self._state.slots.items():
            for taint in taints.get(slot.node, ()) if slot.phase in STOPPABLE else ():
                tolerated = self._state.templates[slot.template].tolerate
                if not any(one.key == taint.key and one.value in ("", taint.value) for one in tolerated):
                    yield key, slot.node, slot.epoch
                    break
