"""One server, from its settings to its exit code.

    store ──▶ log owner ──▶ ledger, with its leader tasks ──▶ API ──▶ listen ──▶ run ──▶ ready
    on a stop: stop accepting, step down, close the store

| exit code | |
|---|---|
| 0 | stopped by SIGTERM or SIGINT |
| 1 | it could not start: the message names the cause and the next step |
| 3 | its ledger stopped it: the store went backwards, is damaged, or newer than this version; an operator must act |

Size: everything that a server is put together from, in one place.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from holdfast.api.server.app import ApiServer
from holdfast.api.server.context import ServerContext
from holdfast.core.ledger.builtin.log import StartLog
from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.core.ledger.reconciler import scheduler_principal
from holdfast.core.platform.definition import PLATFORM
from holdfast.core.reconcilers import registry
from holdfast.core.region.definition import REGION
from holdfast.host.controllers.endpoint_checks import EndpointController
from holdfast.host.controllers.leader_controllers import LeaderControllers
from holdfast.host.controllers.reservation_expiry import ReservationExpiry
from holdfast.host.errors import Stopped
from holdfast.host.indexes.audit_index import AuditIndex
from holdfast.host.indexes.decision_index import DecisionIndex
from holdfast.host.indexes.log_index import IndexRetention
from holdfast.host.ledger.ledger import Ledger, Role, ServerIdentity
from holdfast.host.ledger.server_admission import ServerAdmission
from holdfast.host.ledger.server_token import ServerTokenKeeper
from holdfast.host.link.region.link import Link
from holdfast.host.link.region.session import PlatformTarget
from holdfast.host.ports.clock import SystemClock
from holdfast.host.ports.store import Store, StoreCorrupt
from holdfast.host.runtime.supervisor import Supervisor
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.scheduler.embedded import EmbeddedScheduler
from holdfast.observe import log_output
from holdfast.wiring import storage
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.config.validation import ledger_settings
from holdfast.wiring.operator_token import OperatorToken
from holdfast.wiring.process import ExitCode, StartupError, raise_open_file_limit, until_signalled
from holdfast.wiring.server_ports import ServerPorts, ServerTransport, machine_ports
from holdfast.wiring.storage import ledger_name

INSECURE = "requests and answers travel without TLS, so tokens can be read on the network"


def run(settings: ServerSettings) -> int:
    """Run a server until it is stopped; return its exit code. The settings are valid."""
    log_output.configure_logging(settings.log_level, settings.log_form)
    raise_open_file_limit()
    return int(
        asyncio.run(until_signalled(lambda asked: serve(settings, machine_ports(settings, SystemClock()), asked)))
    )


async def serve(
    settings: ServerSettings,
    ports: ServerPorts,
    asked: asyncio.Event,
    opened: Callable[[Server], None] = lambda _one: None,
) -> ExitCode:
    """Run a server within this loop until `asked` to stop. `opened` is called with it before it runs."""
    try:
        async with AsyncExitStack() as stack:
            server = await Server.open(settings, ports, stack)
            opened(server)
            return await server.run(asked)
    except StartupError as error:
        ports.say(f"cannot start: {error}")
        return ExitCode.CANNOT_START
    except (Stopped, UpgradeNeeded, StoreCorrupt) as error:
        ports.say(f"stopped: {type(error).__name__}: {error}")
        return ExitCode.STOPPED


class Server:
    """One running server. `open` creates it, and registers what must be closed on a stack."""

    transport: ServerTransport

    def __init__(self, settings: ServerSettings, ports: ServerPorts, store: Store) -> None:
        self.settings = settings
        self.ports = ports
        self.clock = ports.clock
        self.logger = Logger("server", server=settings.name, ledger=ledger_name(settings))
        start = StartLog(ports.draw()[0], ledger_name(settings), settings.operator, ledger_settings(settings)[0])
        definition: Any = PLATFORM if settings.role == "platform" else REGION
        identity = ServerIdentity(settings.name, start)
        self.ledger: Ledger[Any] = Ledger(definition, store, ports.clock, identity, policy=ports.snapshot_policy)
        self.bootstrap: OperatorToken | None = None
        self.decisions: DecisionIndex | None = None
        self.link: Link | None = None

    @classmethod
    async def open(cls, settings: ServerSettings, ports: ServerPorts, stack: AsyncExitStack) -> Server:
        """Open the store, put the server together, and listen. `StartupError` if that is not possible."""
        store = await ports.store()
        stack.push_async_callback(store.close)
        await storage.check_log_owner(settings, store)
        server = cls(settings, ports, store)
        if settings.store == "memory:":
            server.logger.warning("store-in-memory", why="all data is lost when this process ends")
        if settings.insecure:
            server.logger.warning("insecure", why=INSECURE)
        await server._put_together(stack)
        return server

    async def _put_together(self, stack: AsyncExitStack) -> None:
        settings, ports, ledger = self.settings, self.ports, self.ledger
        self.transport = transport = ports.transport()
        if settings.role == "platform":
            self._be_platform()
        else:
            self._be_region(stack)
        admission = ServerAdmission(ledger)
        ledger.leader_tasks["servers"] = admission.run
        self.token = ServerTokenKeeper(ledger, ports.own_token, ports.draw, admission.wake)
        done = ports.audit()
        stack.push_async_callback(done.close)
        self.audit = AuditIndex(ledger, done, IndexRetention(settings.retention, settings.audit_bytes))
        ctx = ServerContext(
            ledger,
            transport,
            limits=ports.limits,
            link=self.link,
            decisions=self.decisions,
            warnings=lambda: _warnings(settings, transport.last_error()),
            own=self.token.current,
            addresses=(settings.advertise, *settings.reached_at),
            audit=self.audit,
        )
        self.api = ApiServer(ctx, ports.draw()[0])
        transport.serve(self.api.serve)
        stack.push_async_callback(transport.close)
        try:
            await transport.start()
        except ssl.SSLError as error:
            raise StartupError(f"the certificates are not valid: {error}\nhint: {settings.tls_certificate}") from error
        except OSError as error:
            hint = "hint: another process uses it, or it is no address of this machine; use --listen ADDRESS:PORT"
            raise StartupError(f"listening on {settings.listen}: {error.strerror or error}\n{hint}") from error

    def _be_platform(self) -> None:
        settings, ports, ledger = self.settings, self.ports, self.ledger
        self.bootstrap = OperatorToken(ports.operator_token, ports.draw, settings.operator, settings.bootstrap_life)
        ledger.leader_tasks["bootstrap"] = self.bootstrap.run
        planners = [*registry.of_platform(), *ports.planners]
        ledger.leader_tasks["controllers"] = LeaderControllers(ledger, planners, options=ports.controller_options).run

    def _be_region(self, stack: AsyncExitStack) -> None:
        settings, ports, ledger = self.settings, self.ports, self.ledger
        address = (*settings.reached_at, settings.advertise)[0]
        platform = PlatformTarget(settings.platform, settings.region, address, ports.proof())
        self.link = Link(ledger, self.transport, self.clock, platform)
        ledger.leader_tasks["link"] = self.link.run
        ledger.leader_tasks["controllers"] = LeaderControllers(
            ledger, registry.of_region(), options=ports.controller_options
        ).run
        ledger.leader_tasks["endpoints"] = EndpointController(ledger, ports.asker, ports.habits).run
        if settings.scheduler == "beside":
            plugins = ports.plugins(self.logger)
            for number in range(1, settings.schedulers + 1):
                ledger.leader_tasks[scheduler_task(number)] = EmbeddedScheduler(ledger, plugins, number).run
        ledger.leader_tasks["expiry"] = ReservationExpiry(ledger).run
        kept = ports.decisions()
        stack.push_async_callback(kept.close)
        self.decisions = DecisionIndex(ledger, kept, IndexRetention(settings.retention, settings.decisions_bytes))

    async def run(self, asked: asyncio.Event) -> ExitCode:
        """Serve until a stop is requested. Raises the error that stopped the ledger."""
        ended: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

        def give_up(name: str, error: BaseException) -> None:
            if not ended.done():
                ended.set_exception(Stopped(f"{name} failed repeatedly: {error!r}"))

        beside = Supervisor(self.clock, self.ledger.metrics, self.logger, on_give_up=give_up)
        beside.start("api", self.api.run)
        beside.start("server-token", self.token.run)
        beside.start("audit", self.audit.run)
        if self.decisions is not None:
            beside.start("decisions", self.decisions.run)
        beside.start("ready", self._get_ready, once=True)
        ledger = asyncio.create_task(self.ledger.run(), name="ledger")
        stop = asyncio.create_task(asked.wait(), name="stop")
        waited: tuple[asyncio.Future[Any], ...] = (ledger, stop, ended)
        try:
            done, _ = await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
            for one in done - {stop}:
                _must_not_have_failed(one)
            self.logger.info("stopping", why="requested")
            return ExitCode.ASKED
        finally:
            self.ports.ready(None)
            await beside.stop()
            await self.transport.close()  # no new requests arrive while this server steps down
            for one in waited:
                one.cancel()
            await asyncio.gather(*waited, return_exceptions=True)

    async def _get_ready(self) -> None:
        """Report ready, once reads are served and a platform's operator has a token."""
        # If no other server can use the store, a follower is about to lead, so only a leader is ready.
        roles = (Role.LEADING, Role.FOLLOWING) if self.ledger.store.shared else (Role.LEADING,)
        await self.ledger.begun(*roles)
        if self.bootstrap is not None and self.ledger.role is Role.LEADING:
            await self.bootstrap.done.wait()
        log_id = self.ledger.durable.state.info.log_id
        ledger = ledger_name(self.settings)
        self.ports.ready(
            {"address": self.settings.advertise, "server": self.settings.name, "ledger": ledger, "logId": log_id}
        )
        self.logger.info("ready", address=self.settings.advertise, log=log_id, role=self.ledger.role.value)


def scheduler_task(number: int) -> str:
    """Return the name of the leader task of a scheduler, by its number from 1."""
    return scheduler_principal(number).partition("/")[2]


def _warnings(settings: ServerSettings, trouble: str) -> list[str]:
    """Return warnings about this server, as opposed to its ledger."""
    said = [f"{settings.name} runs with --insecure: {INSECURE}"] if settings.insecure else []
    return [*said, *([f"{settings.name}: {trouble}"] if trouble else [])]


def _must_not_have_failed(one: asyncio.Future[Any]) -> None:
    """Raise the error that stopped the server; an internal error stops it, too."""
    error = one.exception()
    if error is not None and not isinstance(error, Stopped | UpgradeNeeded):
        raise Stopped(
            f"{error!r}, an internal error, which was logged\nhint: start the server again; please report the error"
        ) from error
    one.result()
