"""What nodes really run is what the ledger says, and what does not answer is noticed.

- processes: what runs is what serves
- withdrawn: where a replica serves that does not answer, somebody asks it, and takes it from the list
- revived: what its liveness probe calls dead is ended, so that it can be started again
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.core.model.records.lifecycle import Phase
from holdfast.core.region.state.tables import RegionState
from holdfast.sim.actors.node_processes import SimulatedNode
from holdfast.sim.checks.deadlines import Unconverged

#: Who serves is asked every five seconds, and withdrawn after the third failure. A liveness probe asks as often as its
#: template says; this is how much longer what follows may take.
WITHDRAWN_MS, MARGIN_MS = 18_000, 4_000
#: Of so many that fail, and are most of those that serve, nobody is withdrawn: then it is rather us who reach nobody.
MOST_LEAST = 3


def process_mismatches(state: RegionState, metals: Iterable[SimulatedNode]) -> Iterator[Unconverged]:
    """Nodes that run something else than what serves there."""
    for metal in metals:
        uid = state.node_names.get(metal.name) or 0
        bound = {(k, s.epoch) for k, s in state.slots.items() if s.node == uid and s.phase is Phase.SERVING}
        runs = {(live.slot, live.epoch) for live in metal.running()}
        if bound != runs:
            yield Unconverged("processes", metal.name, f"runs {sorted(runs)}, and {sorted(bound)} serve there")


def unnoticed_failures(where: str, state: RegionState, metals: Iterable[SimulatedNode]) -> Iterator[Unconverged]:
    """What does not answer, and nobody has done anything about it."""
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
            yield Unconverged("revived", subject, "hangs, and is not ended", within)
        if slot.phase is Phase.SERVING and slot.ports and not state.assignments[slot.assignment].batch:
            silent.append(Unconverged("withdrawn", subject, "serves, and does not answer", WITHDRAWN_MS))
    if len(silent) < MOST_LEAST or 2 * len(silent) <= asked:
        yield from silent
