"""Nodes about which this view and the ledger do not agree: after three refusals in a row such a node is left alone.

A refusal that the age of the view explains does not count. What each side says of the node is kept: whoever reads it
can tell which of them is wrong.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.model.values.structs import Duration, Instant, Revision
from holdfast.core.scheduling.nodes.table import NodeTable

REFUSALS = 3
#: How long a node is left alone; doubled each time, up to the most.
QUARANTINE_MS, QUARANTINE_MAX_MS = 30_000, 600_000


class QuarantinedNode(Struct, frozen=True):
    """A node that is left alone: until when, what the ledger said, and what this view says."""

    node: Revision
    name: str
    until: Instant
    times: int
    ledger: str
    view: str


class NodeQuarantine:
    """Strikes and shunned nodes."""

    def __init__(self) -> None:
        self._strikes: dict[Revision, int] = {}
        self._times: dict[Revision, int] = {}
        self.now: dict[Revision, QuarantinedNode] = {}
        #: What was shunned and has not been told yet.
        self.new_entries: list[QuarantinedNode] = []

    def record_refusal(self, table: NodeTable, node: Revision, said: str, now: Instant) -> None:
        """The ledger refused a node that fits by this view."""
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
        """What was shunned since this was asked last."""
        news, self.new_entries = self.new_entries, []
        return news

    def record_success(self, node: Revision) -> None:
        """The ledger took a placement there: no strikes in a row."""
        self._strikes.pop(node, None)

    @property
    def any_strikes(self) -> bool:
        """Whether some node was refused lately."""
        return bool(self._strikes)

    def release_due(self, table: NodeTable, now: Instant) -> bool:
        """Try those again whose time is over; whether there were some. Nodes that are gone are forgotten."""
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
        """Time is lower by so much than it was said to be: nodes are left alone for as long as they were to be."""
        self.now = {node: replace(shun, until=shun.until - step) for node, shun in self.now.items()}
