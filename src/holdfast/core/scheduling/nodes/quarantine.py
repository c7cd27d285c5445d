"""Quarantine: after three refusals in a row on which view and ledger disagree, the scheduler skips the node.

Refusals with a stale view do not count. Each entry records both sides, so that a reader can find out which is wrong.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model.values.structs import Duration, Instant, Revision
from holdfast.core.scheduling.nodes.table import NodeTable

REFUSALS = 3
#: Quarantine of a node; it doubles each time, up to the maximum.
QUARANTINE_MS, QUARANTINE_MAX_MS = 30_000, 600_000


class QuarantinedNode(Struct, frozen=True):
    """A node in quarantine: until when, the ledger's refusal, and the view's free amounts."""

    node: Revision
    name: str
    until: Instant
    times: int
    ledger: str
    view: str


class NodeQuarantine:
    """Refusals in a row, and nodes in quarantine."""

    def __init__(self) -> None:
        self._strikes: dict[Revision, int] = {}
        self._times: dict[Revision, int] = {}
        self.now: dict[Revision, QuarantinedNode] = {}
        #: Entries not yet taken by `take_new_entries`.
        self.new_entries: list[QuarantinedNode] = []

    def record_refusal(self, table: NodeTable, node: Revision, said: str, now: Instant) -> None:
        """Count a refusal of a node that is feasible by this view."""
        row = table.rows.get(node)
        if row is None or node in self.now:
            return
        self._strikes[node] = self._strikes.get(node, 0) + 1
        if self._strikes[node] < REFUSALS:
            return
        times = self._times[node] = self._times.get(node, 0) + 1
        until = now + min(QUARANTINE_MAX_MS, QUARANTINE_MS << (times - 1))
        free = {name: int(table.free_any[number, row]) for name, number in table.resources.items()}
        shun = QuarantinedNode(node, table.nodes[row].name, until, times, said, f"at {table.revision} free: {free}")
        self.now[node] = shun
        self.new_entries.append(shun)
        del self._strikes[node]
        table.quarantined[row] = True

    def take_new_entries(self) -> list[QuarantinedNode]:
        """Return the entries since the last call."""
        news, self.new_entries = self.new_entries, []
        return news

    def record_success(self, node: Revision) -> None:
        """Reset a node's refusals in a row: a placement there was accepted."""
        self._strikes.pop(node, None)

    @property
    def any_strikes(self) -> bool:
        """Whether some node has refusals in a row."""
        return bool(self._strikes)

    def release_due(self, table: NodeTable, now: Instant) -> bool:
        """Release due nodes and forget deleted ones. Return whether one was released."""
        for known in (self._strikes, self._times):
            for node in [node for node in known if node not in table.rows]:
                del known[node]
        over = [node for node, shun in self.now.items() if shun.until <= now]
        for node in over:
            del self.now[node]
            row = table.rows.get(node)
            if row is not None:
                table.quarantined[row] = False
                table.change(row)
        return bool(over)

    def go_back(self, step: Duration) -> None:
        """Adjust to a ledger time lower by `step`: quarantines keep their length."""
        self.now = {node: replace(shun, until=shun.until - step) for node, shun in self.now.items()}
