"""Servers that have read the complete log have the state of that log, row by row."""

from __future__ import annotations

from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.cluster.cluster import SimulatedCluster


def differing_servers(scene: SimulatedCluster) -> list[Finding]:
    """Find servers that have folded the complete log, but differ from the audit's state."""
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
    """Return whether two states have the same rows in every stored table.

    Derived tables may differ: a loaded state has no row where a folded one may have an empty row.
    """
    names = [spec.name for spec in mine.TABLES if not spec.derived]
    return all(dict(mine.table(name).unordered()) == dict(theirs.table(name).unordered()) for name in names)
