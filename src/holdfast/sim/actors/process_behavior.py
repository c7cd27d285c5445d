"""The behavior of simulated processes: slow starts, slow stops, and occasional faults."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from msgspec.structs import replace

from holdfast.agent.drivers.driver import ExitReason, RunSpec, StartFault
from holdfast.agent.drivers.simulated import SimulatedBehavior
from holdfast.core.agent.plan import RunKey
from holdfast.core.model.objects.probes import HttpProbe, Probe
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.sim.variety import BATCH
from holdfast.sim.world.machine import SeedStreams

#: How much longer a process lives after its deadline than its slowest guard allows.
LATE_MS = 0

#: Probes of critical and exclusive workloads.
STARTUP = Probe(http=HttpProbe("/"), period=500, failures=24)
READINESS = Probe(http=HttpProbe("/"), period=2_000, failures=2)
LIVENESS = Probe(http=HttpProbe("/"), period=5_000, failures=3)

#: Faults of a binding's process with their rates per thousand; most bindings have none.
PROCESS_FAULTS = {"cannot-start": 10, "never-ready": 5, "exits": 15, "over-limit": 10, "stalls": 20, "hangs": 10}
#: Longer than a startup probe allows. Without a probe the process counts as ready meanwhile, and serves once it
#: answers.
NEVER_READY_MS = 30_000
#: Share of faulty bindings whose fault returns at every restart.
LASTING_RATE = 0.2


class ProcessBehaviors:
    """Draws a behavior for each binding on one machine, and new times for each of its processes."""

    def __init__(self, chance: SeedStreams, name: str, troubles: Mapping[str, int] = PROCESS_FAULTS) -> None:
        self._chance = chance
        self._name = name
        self._troubles = troubles
        self._begun: dict[RunKey, int] = {}

    def __call__(self, work: RunSpec) -> SimulatedBehavior:
        binding = work.slot, work.epoch
        begun = self._begun[binding] = self._begun.get(binding, 0) + 1
        fate = self._chance.stream("fate", self._name, *work.slot, work.epoch)
        troubles = self._troubles
        trouble = fate.choices((*troubles, ""), (*troubles.values(), 1_000 - sum(troubles.values())))[0]
        lasts = fate.random() < LASTING_RATE
        chance = self._chance.stream("habit", self._name, *work.slot, work.epoch, begun)
        habit = _drawn(chance, trouble if begun == 1 or lasts else "")
        if work.command[0] == BATCH and not habit.runs_ms:
            habit = replace(habit, runs_ms=habit.ready_ms + chance.randrange(1_000, 10_000))
        return habit


def _drawn(chance: Random, trouble: str) -> SimulatedBehavior:
    start_ms, ready_ms = chance.randrange(0, 1_000), chance.randrange(500, 7_000)
    stop_ms = chance.randrange(0, DEFAULTS.grace)
    after = ready_ms + chance.randrange(0, 30_000)
    stalled, hung = chance.randrange(5_000, 10_000), chance.randrange(20_000, 30_000)
    ends = {"exits": ExitReason.EXIT, "over-limit": ExitReason.OVER_MEMORY}
    return SimulatedBehavior(
        start_ms=start_ms,
        runs_ms=after if trouble in ends else 0,
        code=1 if trouble in ends else 0,
        why=ends.get(trouble, ExitReason.EXIT),
        stop_ms=stop_ms,
        slowest=True,
        late_ms=LATE_MS,
        ready_ms=NEVER_READY_MS if trouble == "never-ready" else ready_ms,
        unwell={"stalls": (after, after + stalled), "hangs": (after, after + hung)}.get(trouble, (0, 0)),
        fault=StartFault.MISSING_BINARY if trouble == "cannot-start" else None,
    )
