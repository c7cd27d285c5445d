"""A scheduler in a process of its own, from what it is told to its exit code.

| exit code | |
|---|---|
| 0 | it was asked to stop, by SIGTERM or SIGINT |
| 1 | it could not start: the message names what, and what to do next |
| 3 | it cannot read what the region writes: a newer version is needed |
| 4 | another scheduler has its name: it must not be started again as long as that one runs |
"""

from __future__ import annotations

import asyncio

from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.core.scheduling.framework import Plugins
from holdfast.host.ports.clock import Clock, SystemClock
from holdfast.host.ports.transport import Transport
from holdfast.host.protocol.session_client import Sender, Superseded, Voice
from holdfast.host.runtime import gc_tuning
from holdfast.host.runtime.deadlines import together
from holdfast.host.runtime.telemetry import Journal, Meters
from holdfast.host.scheduler.standalone import SchedulerApart
from holdfast.host.streams.mirror import Mirror
from holdfast.observe import log_output
from holdfast.wiring.machine import MachineWish, credentials, on_the_wire
from holdfast.wiring.plugins import plugins
from holdfast.wiring.process import CannotStart, Ending, say, until_signalled

SCHEDULER = "scheduler"


def run(wish: MachineWish) -> int:
    """Run a scheduler until it is asked to stop or has to; its exit code. Of a wish with nothing wrong."""
    log_output.set_up(wish.log_level, wish.log_form)
    gc_tuning.no_full_passes()
    return int(asyncio.run(until_signalled(lambda asked: schedule(wish, SystemClock(), asked))))


async def schedule(wish: MachineWish, clock: Clock, asked: asyncio.Event) -> Ending:
    """Run a scheduler within this loop until `asked` to stop."""
    meters = Meters()
    try:
        proof = credentials(wish)
        async with on_the_wire(wish, clock, meters) as transport:
            sender = Sender(wish.actor, wish.servers, proof)
            found = plugins(Journal(SCHEDULER, actor=wish.actor))
            await together(scheduler_of(sender, transport, clock, found, meters).run(), _until(asked))
    except CannotStart as error:
        say(SCHEDULER, f"cannot start: {error}")
        return Ending.CANNOT_START
    except Superseded as error:
        hint = "hint: a name is for one scheduler; say another --name, or stop the other one first"
        say(SCHEDULER, f"stopped: {error}\n{hint}")
        return Ending.SUPERSEDED
    except UpgradeNeeded as error:
        say(SCHEDULER, f"stopped: {error}\nhint: start a newer version")
        return Ending.STOPPED
    Journal(SCHEDULER, actor=wish.actor).info("stopping", why="asked to")
    return Ending.ASKED


def scheduler_of(
    sender: Sender, transport: Transport, clock: Clock, plugins: Plugins, meters: Meters
) -> SchedulerApart:
    """A scheduler apart from its region: what it sees is a mirror, what it says is said in a session."""
    voice = Voice(transport, clock, sender, clock.boot)
    return SchedulerApart(voice, Mirror(voice, transport, clock, meters), plugins, clock, meters)


async def _until(asked: asyncio.Event) -> None:
    await asked.wait()
