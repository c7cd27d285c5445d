"""A ledger of things that are wanted or made, and a reconciler that makes them: for tests of what runs reconcilers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

from msgspec import Struct

from holdfast.core.ledger.answers import Refused, Repeated, stale
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.reconciler import ProposedCommand, ReconcileKey, ReconcileResult, WatchKey
from holdfast.core.model.values.structs import Instant
from holdfast.host.controllers.controller import ControllerOptions
from holdfast.host.controllers.leader_controllers import ControllerManager
from holdfast.host.controllers.ledger_client import LedgerView
from holdfast.host.ports.clock import Clock
from holdfast.host.runtime.telemetry import Metrics
from holdfast.host.watch.changes import ChangedKeys
from holdfast.sim.world.virtual_loop import VirtualClock, VirtualLoop

#: A thing's name, and whether it is made.
Things = dict[str, bool]
Answered = Committed | Refused | Repeated


class Make(Struct, frozen=True):
    """Make a thing that is wanted."""

    name: str


class ThingLedger:
    """Accepts everything, unless `judge` says something else first."""

    def __init__(self, clock: Clock) -> None:
        self.things: Things = {}
        self.revision = 0
        self.sent: list[tuple[str, str]] = []
        self.judge: Callable[[Envelope[Any]], Awaitable[Answered | None]] | None = None
        self._clock = clock
        self.listeners: list[Listener] = []

    def view(self) -> LedgerView[Things]:
        return LedgerView(self.things, self._clock.wall(), self.revision)

    async def submit(self, envelope: Envelope[Any]) -> Answered:
        self.sent.append((envelope.actor, envelope.command.name))
        answer = await self.judge(envelope) if self.judge is not None else None
        if answer is None:
            answer = Committed(self.write(envelope.command.name, made=True), b"")
        return answer

    def changes(self) -> Listener:
        listener = Listener(self)
        self.listeners.append(listener)
        return listener

    def write(self, name: str, *, made: bool = False, unheard: bool = False) -> int:
        """A batch about one thing lands. `unheard`: nobody is told which."""
        self.things[name] = made
        self.revision += 1
        for listener in self.listeners:
            listener.news.put_nowait(ChangedKeys(self.revision, () if unheard else (("thing", name),)))
        return self.revision

    def leave_out(self) -> None:
        """Listeners were too slow: they have to begin anew."""
        for listener in list(self.listeners):
            listener.close()


class Listener:
    """One who hears of every batch until it is closed."""

    def __init__(self, ledger: ThingLedger) -> None:
        self._ledger = ledger
        self.news: asyncio.Queue[ChangedKeys | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[ChangedKeys]:
        while (change := await self.news.get()) is not None:
            yield change

    def close(self) -> None:
        if self in self._ledger.listeners:
            self._ledger.listeners.remove(self)
            self.news.put_nowait(None)


class Maker:
    """Makes the things whose names begin with its letter; all of them, if it has none."""

    watches: tuple[str, ...] = ("thing",)

    def __init__(self, name: str = "maker", letter: str = "") -> None:
        self.name = name
        self.letter = letter
        #: Every look: at which key, when.
        self.looks: list[tuple[ReconcileKey, Instant]] = []
        self.trouble: Callable[[ReconcileKey], None] = lambda key: None
        self.again: Callable[[ReconcileKey, Instant], Instant | None] = lambda key, now: None

    def keys(self, state: Things) -> Iterable[ReconcileKey]:
        return [name for name in sorted(state) if name.startswith(self.letter)]

    def wake(self, state: Things, touched: WatchKey) -> Iterable[ReconcileKey]:
        return [touched[1]] if str(touched[1]).startswith(self.letter) else []

    def reconcile(self, state: Things, key: ReconcileKey, now: Instant) -> ReconcileResult:
        self.looks.append((key, now))
        self.trouble(key)
        wanted = () if state.get(str(key), True) else (ProposedCommand(Make(str(key))),)
        return ReconcileResult(wanted, self.again(key, now))


class World:
    """A running runner on virtual time, and what a test wants to see of it."""

    def __init__(
        self, *makers: Maker, options: ControllerOptions | None = None, seed: int = 0, ledger: ThingLedger | None = None
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop = loop
        self.clock = VirtualClock(loop)
        self.metrics = Metrics()
        self.ledger = ledger or ThingLedger(self.clock)
        self.gave_up: list[str] = []
        self.runner: ControllerManager[Things] = ControllerManager(
            makers,
            self.ledger,
            self.clock,
            self.metrics,
            on_give_up=lambda name, error: self.gave_up.append(name),
            seed=seed,
            options=options,
        )

    async def __aenter__(self) -> World:
        self.runner.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runner.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"
        assert self.ledger.listeners == [], "somebody still listens"

    async def pass_ms(self, duration: int) -> None:
        await self.clock.sleep(duration)

    def made(self) -> list[str]:
        return sorted(name for name, made in self.ledger.things.items() if made)

    def looked(self, result: str, controller: str = "maker") -> int:
        return self.metrics.counted("reconcile_total", controller=controller, result=result)


def refuse_stale(catch_up_to: int) -> Refused:
    return stale("thing/a", 0, catch_up_to, "it was changed")
