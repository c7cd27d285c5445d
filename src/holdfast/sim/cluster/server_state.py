"""Whether servers that have read the whole log hold what the log says, row by row."""

from __future__ import annotations

from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.cluster.cluster import SimulatedCluster


def differing_servers(scene: SimulatedCluster) -> list[Finding]:
    """Servers that have folded the whole log and hold another state than the audit: none should."""
    found = []
    for ledger, names in scene.cast.servers.items():
        state = scene.audits[ledger].state
        there = [name for name in names if name in scene.servers.ledgers]
        servers = [(name, scene.servers.ledgers[name].durable.state) for name in there]
        found += [
            Finding("same-state", f"{name} differs from the fold of its log at {state.info.seq}")
            for name, theirs in servers
            if theirs.info.seq == state.info.seq and not _equal(theirs, state)
        ]
    return found


def _equal(mine: LedgerState, theirs: LedgerState) -> bool:
    """Whether two states have the same rows in every stored table.

    Not in derived ones: a state that was loaded has no row where one that was folded may have a row of nothing.
    """
    names = [spec.name for spec in mine.TABLES if not spec.derived]
    return all(dict(mine.table(name).unordered()) == dict(theirs.table(name).unordered()) for name in names)
