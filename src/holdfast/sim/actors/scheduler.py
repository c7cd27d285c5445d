"""The program of a scheduler apart: the production one, and whoever starts it again when it ends."""

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

#: Whoever looks after it starts it again after so long, give or take.
AGAIN_MS = 1_000, 3_000

#: Told of every scheduler that begins, and on which machine.
Begun = Callable[[str, StandaloneScheduler, Metrics], None]


def scheduler(servers: Sequence[str], heard: AckSink, said: SendListener, begun: Begun) -> Program:
    """The program of a scheduler of the region that has these servers."""

    async def run(process: SimProcess) -> None:
        actor = process.transport.certificate = f"scheduler/{process.machine}"
        way = AckRecorder(process.transport, dict.fromkeys(servers, (REGION, heard)), said)
        chance = process.chance("scheduler")
        while True:
            metrics, sender = Metrics(), SessionConfig(actor, tuple(servers))
            one = build_scheduler(sender, way, process.clock, with_reserve_then_bind(), metrics)
            begun(process.machine, one, metrics)
            try:
                await one.run()
            except Superseded:  # this network copies questions: an opening of its own came twice, and once too late
                await process.clock.sleep(chance.randrange(*AGAIN_MS))

    return run
