"""The program of a scheduler apart: the production one, and whoever starts it again when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.region.definition import REGION
from holdfast.host.protocol.session_client import Sender, Superseded
from holdfast.host.runtime.telemetry import Meters
from holdfast.host.scheduler.standalone import SchedulerApart
from holdfast.sim.actors.ack_recorder import Heard, Saying, Witness
from holdfast.sim.actors.reserve_then_bind import with_two_steps
from holdfast.sim.world.world import Process, Program
from holdfast.wiring.scheduler import scheduler_of

#: Whoever looks after it starts it again after so long, give or take.
AGAIN_MS = 1_000, 3_000

#: Told of every scheduler that begins, and on which machine.
Begun = Callable[[str, SchedulerApart, Meters], None]


def scheduler(servers: Sequence[str], heard: Heard, said: Saying, begun: Begun) -> Program:
    """The program of a scheduler of the region that has these servers."""

    async def run(process: Process) -> None:
        actor = process.transport.certificate = f"scheduler/{process.machine}"
        way = Witness(process.transport, dict.fromkeys(servers, (REGION, heard)), said)
        chance = process.chance("scheduler")
        while True:
            meters, sender = Meters(), Sender(actor, tuple(servers))
            one = scheduler_of(sender, way, process.clock, with_two_steps(), meters)
            begun(process.machine, one, meters)
            try:
                await one.run()
            except Superseded:  # this network copies questions: an opening of its own came twice, and once too late
                await process.clock.sleep(chance.randrange(*AGAIN_MS))

    return run
