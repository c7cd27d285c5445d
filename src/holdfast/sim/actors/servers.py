"""The programs of servers: the production server over a world's store, network, files and randomness, restarted when it
could not start.

Only `wiring.server` builds its reconcilers, link, endpoints, scheduler, indexes and API.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from itertools import count
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, fields, replace

from holdfast.api.server.limits import ServerLimits
from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.ledger.reconciler import SCHEDULERS_MAX
from holdfast.core.model.values.settings import DEFAULTS, Settings
from holdfast.core.model.values.structs import Instant
from holdfast.core.platform.definition import PLATFORM
from holdfast.host.controllers.controller import ControllerOptions
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger, ServerIdentity
from holdfast.host.ledger.server_token import DrawSecret
from holdfast.host.ports.endpoint_prober import EndpointOptions
from holdfast.host.ports.store import Store
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.sim.actors.ack_recorder import AckRecorder, AckSink, SendListener, SubmitRecorder
from holdfast.sim.actors.background_clients import ROOT
from holdfast.sim.actors.failover_stub import FailoverStub
from holdfast.sim.actors.node_processes import IsAlive, SimEndpointProber
from holdfast.sim.actors.scheduler import with_reserve_then_bind
from holdfast.sim.actors.server_files import ServerFiles, token_source
from holdfast.sim.actors.watch_faults import WatchFaults
from holdfast.sim.world.world import Program, SimProcess
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.process import ExitCode
from holdfast.wiring.server import Server, scheduler_task, serve
from holdfast.wiring.server_ports import CONTROLLER_OPTIONS, ServerPorts, ServerTransport

#: Called with a refused command, the refusal, and its ledger time.
OnRefused = Callable[[Envelope[Any], Refused, Instant], None]

LeaderTask = Callable[[Leader[Any]], Coroutine[Any, Any, None]]
#: Parts of a full list contain few objects, so that faults hit lists that are under way.
LIMITS = ServerLimits(shipped_objects=5)
#: Wait before the restart of a server that could not start.
AGAIN_MS = 1_000


class ServerSetup(Struct, frozen=True):
    """Options of the servers of a world that differ from production.

    Snapshots are so frequent that every run takes some and trims behind them, while slow readers still need the trimmed
    log.
    """

    snapshot_policy: SnapshotPolicy = SnapshotPolicy(log_batches=10, retention_ms=2_000)
    controller_options: ControllerOptions = CONTROLLER_OPTIONS
    habits: EndpointOptions = EndpointOptions()


class ServerEnded(Exception):
    """A server has ended without a fault that explains it."""


def url(machine: str) -> str:
    """Return the address of a server, which is also its name."""
    return f"https://{machine}"


def platform_settings(times: Settings) -> ServerSettings:
    """Return the settings of the platform servers, without names."""
    return ServerSettings(role="platform", store="sim:platform", operator=ROOT, ledger=_written(times))


def region_settings(name: str, platform: Sequence[str], times: Settings, *, beside: int) -> ServerSettings:
    """Return the settings of a region's servers, without names; `beside`: how many schedulers the leader runs."""
    return ServerSettings(
        role="region",
        region=name,
        store=f"sim:{name}",
        operator=ROOT,
        platform=tuple(map(url, platform)),
        scheduler="beside" if beside else "none",
        schedulers=max(1, beside),
        ledger=_written(times),
    )


def _written(times: Settings) -> tuple[tuple[str, str], ...]:
    """Return the ledger settings that differ from their defaults, in the form of the settings file."""
    names = {field.name: field.encode_name for field in fields(Settings)}
    usual = asdict(DEFAULTS)
    return tuple((names[name], f"{value}ms") for name, value in asdict(times).items() if value != usual[name])


class ServerPrograms:
    """The servers of a world by machine, for access from outside."""

    def __init__(self, manner: ServerSetup, lives: IsAlive) -> None:
        self.manner = manner
        self._lives = lives
        self.ledgers: dict[str, Ledger[Any]] = {}
        #: The metrics of every incarnation, including standalone schedulers and agents. They are added up at the end.
        self.metrics: list[Metrics] = []
        self.heard: dict[str, int] = {}
        #: By region: called with every command that is refused as a whole.
        self.on_refused: dict[str, OnRefused] = {}
        #: By region: called with everything that its embedded and standalone schedulers send.
        self.on_said: dict[str, SendListener] = {}
        #: Incarnations of embedded schedulers; each numbers its proposals from one.
        self._scheduler_lives = count(1)
        self.watch_faults: dict[str, WatchFaults] = {}
        #: Files of each machine's server, across incarnations.
        self._files: dict[str, ServerFiles] = {}

    def server(self, settings: ServerSettings, heard: AckSink) -> Program:
        """Return the program of a server. `heard` records what the platform acknowledges to it."""

        async def run(process: SimProcess) -> None:
            own = _named(settings, process.machine)
            if own.role == "region":
                process.transport.certificate = f"region/{own.region}"
            words: list[str] = []
            draw = token_source(process.chance("server"))
            while True:
                process.transport.is_listening = False
                ports = self._ports(process, own, heard, draw, words.append)
                ending = await serve(own, ports, asyncio.Event(), lambda server: self._begun(process, own, server))
                if ending is not ExitCode.CANNOT_START:
                    raise ServerEnded(f"{process.machine} ended with {ending.name}: {words[-1:]}")
                await process.clock.sleep(AGAIN_MS)
                process.rejoin()

        return run

    def operator_token(self) -> str:
        """Return the operator's token from the disk of a platform machine; empty: none has one yet."""
        return next((text for one in self._files.values() if (text := one.operator_token.text)), "")

    def behind(self, definition: LedgerDefinition[Any], store: str) -> Program:
        """Return the program of a server without the upgrade: it reads one ledger level less than the others write."""

        async def run(process: SimProcess) -> None:
            ledger = Ledger(
                definition.of_level(LEVEL - 1), process.store(store), process.clock, ServerIdentity(process.name)
            )
            self.ledgers[process.machine] = ledger
            await ledger.run()

        return run

    def _ports(
        self,
        process: SimProcess,
        settings: ServerSettings,
        heard: AckSink,
        draw: DrawSecret,
        say: Callable[[str], None],
    ) -> ServerPorts:
        files = self._files.setdefault(process.machine, ServerFiles())

        async def store() -> Store:
            return process.store(settings.store.removeprefix("sim:"))

        def transport() -> ServerTransport:
            if settings.role == "region":
                return AckRecorder(process.transport, dict.fromkeys(settings.platform, (PLATFORM, heard)))
            return process.transport

        return ServerPorts(
            clock=process.clock,
            store=store,
            transport=transport,
            proof=lambda: tuple,  # a certificate is enough
            asker=SimEndpointProber(process, self._lives),
            plugins=lambda _journal: with_reserve_then_bind(),
            decisions=lambda: files.decisions,
            audit=lambda: files.audit,
            own_token=files.own_token,
            operator_token=files.operator_token,
            draw=draw,
            ready=lambda _said: None,
            say=say,
            snapshot_policy=self.manner.snapshot_policy,
            limits=LIMITS,
            controller_options=self.manner.controller_options,
            habits=self.manner.habits,
            planners=(FailoverStub(),),
        )

    def _begun(self, process: SimProcess, settings: ServerSettings, server: Server) -> None:
        self.ledgers[process.machine] = server.ledger
        self.metrics.append(server.ledger.metrics)
        self.watch_faults.setdefault(process.machine, WatchFaults(self.heard)).put_on(server.ledger.hub)
        told = self.on_refused.get(settings.region)
        if told is not None:
            self.listen(server.ledger, told)
        said = self.on_said.get(settings.region)
        if said is not None:
            self.overhear(server.ledger, said)

    def listen(self, ledger: Ledger[Any], told: OnRefused) -> None:
        """Call a listener for every later refusal of a ledger."""
        denials, noted = ledger.denials, ledger.denials.refused

        def refused(envelope: Envelope[Any], answer: Refused) -> None:
            noted(envelope, answer)
            leader = ledger.leader  # a candidate, whose lead is not proven yet, refuses nothing of a scheduler
            told(envelope, answer, leader.term.now() if leader is not None else ledger.durable.state.info.at)

        denials.refused = refused  # type: ignore[method-assign]

    def overhear(self, ledger: Ledger[Any], said: SendListener) -> None:
        """Call a listener for everything that embedded schedulers send, if there are any."""
        for number in range(1, SCHEDULERS_MAX + 1):
            run = ledger.leader_tasks.get(scheduler_task(number))
            if run is not None:
                ledger.leader_tasks[scheduler_task(number)] = self._overheard(run, said)

    def _overheard(self, run: LeaderTask, said: SendListener) -> LeaderTask:
        def heard(leader: Leader[Any]) -> Coroutine[Any, Any, None]:
            return run(SubmitRecorder(leader, next(self._scheduler_lives), said))  # type: ignore[arg-type]

        return heard


def _named(settings: ServerSettings, machine: str) -> ServerSettings:
    return replace(settings, name=url(machine), advertise=url(machine), listen=machine)
