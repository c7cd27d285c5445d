"""A standalone scheduler, from its options to its exit code, and the plugins of every scheduler.

| exit code | |
|---|---|
| 0 | stopped by SIGTERM or SIGINT |
| 1 | it could not start: the message names the cause and the next step |
| 3 | it cannot read the region's log: a newer version is needed |
| 4 | another scheduler has its name: do not restart it while that one runs |

Plugins are those of Holdfast first, then the other installed ones, by entry point.

A score or post-bind plugin that cannot be used is logged and left out: nodes are ranked without it, and slots are bound
all the same. Any other one prevents the start: what it should exclude, spare or hold back would not be.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.core.scheduling.builtin import BUILT_IN
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
from holdfast.wiring.process import ExitCode, StartupError, print_machine_status, until_signalled

SCHEDULER = "scheduler"
FILTERS, SCORES = "holdfast.filters", "holdfast.scores"
VICTIMS, RESERVES, BINDS, POST_BINDS = "holdfast.victims", "holdfast.reserves", "holdfast.binds", "holdfast.post-binds"
#: The package of built-in plugins, which are present independently of entry points.
_OWN = "holdfast.core.scheduling."


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


#: Returns the entry points of a group.
Points = Callable[[str], Iterable[EntryPoint]]


class UnusablePlugin(Exception):
    """An entry point was loaded, and is not a valid plugin."""


def _installed(group: str) -> Iterable[EntryPoint]:
    return entry_points(group=group)


def plugins(logger: Logger, points: Points = _installed) -> Plugins:
    """Return all installed plugins; `StartupError` if one that holds something back cannot be used."""

    def found(group: str, method: str, kind: str, own: tuple[Any, ...] = (), *, left_out: bool = False) -> Any:
        every = [*own]
        for point in _others(points(group)):
            try:
                every.append(_made(point, method, [one.name for one in every]))
            except Exception as error:
                if not left_out:
                    raise StartupError(f"the {kind} {_told(point)} cannot be used: {error}") from error
                logger.error(f"{kind} left out", error, plugin=_told(point))
        return tuple(every)

    return Plugins(
        found(FILTERS, "passes", "filter", BUILT_IN.filters),
        found(SCORES, "score", "score", BUILT_IN.scores, left_out=True),
        found(RESERVES, "refuses", "reserve plugin"),
        found(BINDS, "waits", "bind plugin"),
        found(POST_BINDS, "on_bound", "post-bind plugin", left_out=True),
        found(VICTIMS, "spares", "victim plugin"),
    )


def _others(points: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Return those of other packages, sorted by name: the order of installation has no effect."""
    return sorted({one for one in points if not one.value.startswith(_OWN)}, key=lambda one: (one.name, one.value))


def _told(point: EntryPoint) -> str:
    return f"{point.name} ({point.value})"


def _made(point: EntryPoint, method: str, taken: list[str]) -> Any:
    """Return the plugin of an entry point; raises its errors, or `UnusablePlugin`."""
    plugin = point.load()()
    name, version = getattr(plugin, "name", ""), getattr(plugin, "version", "")
    if not isinstance(name, str) or not all(name.partition("/")):
        raise UnusablePlugin(f"its name must be VENDOR/NAME, not {name!r}")
    if name in taken:
        raise UnusablePlugin(f"{name} is there already")
    if not isinstance(version, str) or not version:
        raise UnusablePlugin("it has no version, which decisions record")
    if not callable(getattr(plugin, method, None)):
        raise UnusablePlugin(f"it has no method {method}")
    if method == "passes" and not isinstance(getattr(plugin, "code", None), Code):
        raise UnusablePlugin("it has no refusal code of the ledger for the nodes it excludes")
    return plugin
