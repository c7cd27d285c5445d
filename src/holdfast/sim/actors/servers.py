"""The programs of servers: a production ledger, link and controllers, beside one another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from holdfast.api.server import Api, Limits
from holdfast.core.ledger.draft import Book
from holdfast.core.ledger.house import StartLog
from holdfast.core.ledger.levels import LEVEL
from holdfast.core.platform.book import PLATFORM
from holdfast.core.reconcilers import registry
from holdfast.core.region.book import REGION
from holdfast.host.asker import Habits
from holdfast.host.controller import Care
from holdfast.host.controllers import Controllers
from holdfast.host.endpoints import Endpoints
from holdfast.host.expiry import Expiry
from holdfast.host.ledger import Identity, Ledger
from holdfast.host.link.link import Link
from holdfast.host.link.speaker import Platform
from holdfast.host.meters import Meters
from holdfast.host.own_token import OwnToken
from holdfast.host.servers import ServerAdmission
from holdfast.host.snapshots import Keeping
from holdfast.host.waiting import together
from holdfast.host.workqueue import Pace
from holdfast.sim.actors import desk
from holdfast.sim.actors.asking import Lives, SimAsker
from holdfast.sim.actors.ears import Ears
from holdfast.sim.actors.paths import Paths
from holdfast.sim.actors.planners import Failing
from holdfast.sim.actors.remote import Heard
from holdfast.sim.actors.token_file import TokenFile, drawing
from holdfast.sim.actors.witness import Witness
from holdfast.sim.world import Process, Program

#: Full lists come in parts of few objects, so that some are under way when something breaks.
LIMITS = Limits(shipped_objects=5)


class Manner(Struct, frozen=True):
    """How servers of a world are set up: how much log between two snapshots, and how often controllers resync.

    So little log that every run takes snapshots and trims behind them, while whoever lags or sleeps still wants it.
    """

    keeping: Keeping = Keeping(log_batches=10, retention_ms=2_000)
    care: Care = Care(pace=Pace(backoff_max_ms=10_000), resync_ms=30_000, measure_ms=10_000)
    habits: Habits = Habits(workers=4, resync_ms=30_000)


class Servers:
    """Whom a world's servers are, by machine: for whoever looks at them from outside."""

    def __init__(self, manner: Manner, lives: Lives) -> None:
        self.manner = manner
        self._lives = lives
        self.ledgers: dict[str, Ledger[Any]] = {}
        #: Every life's counters, to be added up at the end.
        self.meters: list[Meters] = []
        self.heard: dict[str, int] = {}
        self.ears: dict[str, Ears] = {}
        #: The files in which machines keep their servers' tokens, through all their lives.
        self._files: dict[str, TokenFile] = {}

    def platform(self, start: StartLog) -> Program:
        """A server of the platform's ledger."""

        async def run(process: Process) -> None:
            ledger = Ledger(
                PLATFORM,
                process.store("platform"),
                process.clock,
                Identity(process.name, start),
                keeping=self.manner.keeping,
            )
            planners = [*registry.of_platform(), Failing()]
            ledger.beside["controllers"] = Controllers(ledger, planners, care=self.manner.care).run
            token = self._token(process, ledger)
            api = Api(ledger, process.transport, limits=LIMITS, own=token.current)
            await self._run(process, ledger, api, token, Paths(api.serve))

        return run

    def region(self, start: StartLog, platform: Sequence[str], heard: Heard) -> Program:
        """A server of a region's ledger."""

        async def run(process: Process) -> None:
            name = start.ledger.removeprefix("region/")
            ledger = Ledger(
                REGION, process.store(name), process.clock, Identity(process.name, start), keeping=self.manner.keeping
            )
            ledger.beside["controllers"] = Controllers(ledger, registry.of_region(), care=self.manner.care).run
            asker = SimAsker(process, self._lives)
            ledger.beside["endpoints"] = Endpoints(ledger, asker, habits=self.manner.habits).run
            process.transport.certificate = f"region/{name}"
            way = Witness(process.transport, PLATFORM, heard)
            ledger.beside["link"] = Link(ledger, way, process.clock, Platform(tuple(platform), name)).run
            ledger.beside["expiry"] = Expiry(ledger).run
            token = self._token(process, ledger)
            api = Api(ledger, process.transport, limits=LIMITS, own=token.current)
            paths = Paths(api.serve)
            desk.serve_nodes(paths, ledger)
            await self._run(process, ledger, api, token, paths)

        return run

    def behind(self, book: Book[Any], store: str) -> Program:
        """A server that an upgrade has left out: it reads one format level less than the others write."""

        async def run(process: Process) -> None:
            ledger = Ledger(book.of_level(LEVEL - 1), process.store(store), process.clock, Identity(process.name))
            self.ledgers[process.machine] = ledger
            await ledger.run()

        return run

    def _token(self, process: Process, ledger: Ledger[Any]) -> OwnToken:
        """The server's own token, and what puts those of all servers into the log."""
        admission = ServerAdmission(ledger)
        ledger.beside["servers"] = admission.run
        file = self._files.setdefault(process.machine, TokenFile())
        return OwnToken(ledger, file, drawing(process.chance("server-token")), admission.wake)

    async def _run(self, process: Process, ledger: Ledger[Any], api: Api, token: OwnToken, paths: Paths) -> None:
        desk.serve(paths, ledger)
        process.transport.serve(paths.serve)
        self.ledgers[process.machine] = ledger
        self.meters.append(ledger.meters)
        self.ears.setdefault(process.machine, Ears(self.heard)).put_on(ledger.hub)
        await together(ledger.run(), api.run(), token.run())
