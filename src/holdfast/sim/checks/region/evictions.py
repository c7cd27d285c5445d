"""What a taint evicts leaves soon, judged by the log: not at the deadline of whatever else is broken.

    a node has a taint that evicts ──▶ the next batch: whoever is there and does not tolerate it is due
                                   ──▶ two more batches, decided a while later by the same leader: still there

So much time is only asked of a leader that can write, and that nobody has told to leave repair alone.
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

#: Whoever is due is stopped within this, or by the second batch after it.
SOON_MS, BATCHES = 2_000, 2


class _Due(NamedTuple):
    """Since when, in which term, and by how many batches it should have been stopped and was not."""

    since: Instant
    term: int
    late: int


class EvictionCheck:
    """The judge of one region's taints. `state` is the audited one, as it is after a batch; `hears` says whether
    controllers are told of what happens."""

    def __init__(
        self, where: str, state: RegionState, find: Callable[[Finding], None], hears: Callable[[], bool]
    ) -> None:
        self._where = where
        self._state = state
        self._find = find
        self._hears = hears
        #: By slot, and where it stands under which epoch.
        self._due: dict[tuple[SlotKey, Revision, Revision], _Due] = {}

    def take(self, batch: Batch[Any]) -> None:
        """The next batch."""
        if not batch.records:
            return
        at, term, due = batch.records[0].at, batch.header.term, dict[tuple[SlotKey, Revision, Revision], _Due]()
        if self._hears() and not self._is_paused(at):
            for key in self._evicted():
                known = self._due.get(key)
                if known is None or known.term != term:
                    known = _Due(-1, term, 0)  # it counts from the next batch: whoever wrote this one may not know yet
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
        told = f"slot {slot} stays on {self._state.nodes[node].name} for {late} ms, which a taint evicts it from"
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
