"""The program of a standalone scheduler: the production one, restarted when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.region.definition import REGION
from holdfast.host.protocol.session_client import SessionConfig, Superseded
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.scheduler.standalone import StandaloneScheduler
from holdfast.sim.actors.ack_recorder import AckRecorder, AckSink, SendListener
from holdfast.sim.actors.reserve_then_bind import with_reserve_then_bind
from holdfast.sim.world.world import Program, SimProcess
from holdfast.wiring.scheduler import build_scheduler

#: Range of the wait before a restart.
AGAIN_MS = 1_000, 3_000

#: Called for every scheduler that starts, with its machine.
Begun = Callable[[str, StandaloneScheduler, Metrics], None]


def scheduler(servers: Sequence[str], heard: AckSink, said: SendListener, begun: Begun) -> Program:
    """Return the program of a scheduler of the region with these servers."""

    async def run(process: SimProcess) -> None:
        actor = process.transport.certificate = f"scheduler/{process.machine}"
        way = AckRecorder(process.transport, dict.fromkeys(servers, (REGION, heard)), said)
        chance = process.chance("scheduler")
        while True:
            metrics, sender = Metrics(), SessionConfig(actor, tuple(servers))
            one = build_scheduler(sender, way, process.clock, with_reserve_then_bind(), metrics, process.machine)
            begun(process.machine, one, metrics)
            try:
                await one.run()
            except Superseded:  # the network duplicated the request that opened its session, and the copy came late
                await process.clock.sleep(chance.randrange(*AGAIN_MS))

    return run
