"""At rest, processes on nodes match the ledger, failing ones are noticed, and servers have one state.

- processes: the processes on a node are those of its serving slots
- withdrawn: a serving replica that does not answer probes is withdrawn
- revived: a process that fails its liveness probe is ended, so that it can be restarted
- states: servers that have read the complete log have the state of that log, row by row
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.actors.node_processes import SimulatedNode
from holdfast.sim.checks.deadlines import Unconverged
from holdfast.sim.checks.ledger_audit import Finding
from holdfast.sim.cluster.cluster import SimulatedCluster

#: Time to withdraw: a serving replica is probed every five seconds and withdrawn after three failures. A liveness probe
#: has the period of its template; the margin is for what follows.
WITHDRAWN_MS, MARGIN_MS = 18_000, 4_000
#: If at least this many fail, and most of those that serve, the brake withdraws none: the region may be cut off.
MOST_LEAST = 3


def process_mismatches(state: RegionState, metals: Iterable[SimulatedNode]) -> Iterator[Unconverged]:
    """Yield nodes whose processes are not those of their serving slots."""
    for metal in metals:
        uid = state.node_names.get(metal.name) or 0
        bound = {(k, s.epoch) for k, s in state.slots.items() if s.node == uid and s.phase is Phase.SERVING}
        runs = {(live.slot, live.epoch) for live in metal.running()}
        if bound != runs:
            yield Unconverged("processes", metal.name, f"runs {sorted(runs)}, but {sorted(bound)} serve there")


def unnoticed_failures(where: str, state: RegionState, metals: Iterable[SimulatedNode]) -> Iterator[Unconverged]:
    """Yield failing processes for which nothing was done."""
    asked = sum(bool(slot.ports) and slot.phase is Phase.SERVING for slot in state.slots.values())
    silent: list[Unconverged] = []
    for one in [process for metal in metals for process in metal.unwell()]:
        slot = state.slots.get(one.work.slot)
        if slot is None or slot.epoch != one.work.epoch:
            continue
        subject = f"{where} slot {slot.workload}/{slot.ordinal}"
        liveness = state.templates[slot.template].liveness
        if liveness is not None:
            within = liveness.period * (liveness.failures + 1) + MARGIN_MS
            yield Unconverged("revived", subject, "hangs, but is not ended", within)
        if slot.phase is Phase.SERVING and slot.ports and not state.assignments[slot.assignment].batch:
            silent.append(Unconverged("withdrawn", subject, "serves, but does not answer", WITHDRAWN_MS))
    if len(silent) < MOST_LEAST or 2 * len(silent) <= asked:
        yield from silent


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
