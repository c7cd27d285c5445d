"""A standalone scheduler, from its options to its exit code.

| exit code | |
|---|---|
| 0 | stopped by SIGTERM or SIGINT |
| 1 | it could not start: the message names the cause and the next step |
| 3 | it cannot read the region's log: a newer version is needed |
| 4 | another scheduler has its name: do not restart it while that one runs |
"""

from __future__ import annotations

import asyncio
import socket

from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.core.scheduling.framework import Plugins
from holdfast.host.ports.clock import Clock, SystemClock
from holdfast.host.ports.transport import Transport
from holdfast.host.protocol.session_client import SessionClient, SessionConfig, Superseded
from holdfast.host.runtime import gc_tuning
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.scheduler.standalone import StandaloneScheduler
from holdfast.host.streams.mirror import Mirror
from holdfast.observe import log_output
from holdfast.wiring.machine import MachineOptions, connected, credentials
from holdfast.wiring.plugins import plugins
from holdfast.wiring.process import ExitCode, StartupError, print_machine_status, until_signalled

SCHEDULER = "scheduler"


def run(options: MachineOptions) -> int:
    """Run a scheduler until it is stopped or superseded; return its exit code. The options are valid."""
    log_output.configure_logging(options.log_level, options.log_form)
    gc_tuning.disable_full_collections()
    return int(asyncio.run(until_signalled(lambda asked: run_scheduler(options, SystemClock(), asked))))


async def run_scheduler(options: MachineOptions, clock: Clock, asked: asyncio.Event) -> ExitCode:
    """Run a scheduler within this loop until `asked` to stop."""
    metrics = Metrics()
    try:
        proof = credentials(options)
        async with connected(options, clock, metrics) as transport:
            sender = SessionConfig(options.actor, options.servers, proof)
            found = plugins(Logger(SCHEDULER, actor=options.actor))
            one = build_scheduler(sender, transport, clock, found, metrics, socket.gethostname())
            await run_until_first(one.run(), asked.wait())
    except StartupError as error:
        print_machine_status(SCHEDULER, f"cannot start: {error}")
        return ExitCode.CANNOT_START
    except Superseded as error:
        hint = "hint: each scheduler needs its own name; use another --name, or stop the other one first"
        print_machine_status(SCHEDULER, f"stopped: {error}\n{hint}")
        return ExitCode.SUPERSEDED
    except UpgradeNeeded as error:
        print_machine_status(SCHEDULER, f"stopped: {error}\nhint: start a newer version")
        return ExitCode.STOPPED
    Logger(SCHEDULER, actor=options.actor).info("stopping", why="requested")
    return ExitCode.ASKED


def build_scheduler(
    sender: SessionConfig, transport: Transport, clock: Clock, plugins: Plugins, metrics: Metrics, where: str
) -> StandaloneScheduler:
    """Return a standalone scheduler on a machine: it reads a mirror of its region, and proposes in a session."""
    session = SessionClient(transport, clock, sender, clock.boot)
    return StandaloneScheduler(session, Mirror(session, transport, clock, metrics), plugins, clock, metrics, where)
