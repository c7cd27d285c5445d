"""What nodes really run, whatever anybody believes: a process outlives its agent, and ends with its node's power.

Exclusive work runs under a guard, which ends it at its deadline by the node's even clock. The guard is taken at its
slowest: what it ends may live on for all its grace and the kill margin. `Truth` sees every process of every node, and
judges the one promise that no log can: never two of one exclusive identity.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.ledger.revision import show
from holdfast.core.model.settings import DEFAULTS
from holdfast.core.model.shapes import Revision, SlotKey
from holdfast.host.clock import Clock
from holdfast.sim.audit import Finding

#: How long after its deadline an exclusive process may still live.
LINGERS_MS = DEFAULTS.grace + DEFAULTS.kill_margin


class Live(Struct):
    """One process: of which slot and binding, since when, until when its guard lets it live, and whether it was ended.

    `asked` is when it was asked to end; 0: it was not.
    """

    slot: SlotKey
    epoch: Revision
    exclusive: bool
    deadline: int
    started: int
    asked: int = 0
    ended: bool = False


class Truth:
    """All processes there are, by identity."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.started = 0
        self._exclusive: dict[SlotKey, list[tuple[Metal, Live]]] = {}

    def note_start(self, metal: Metal, live: Live) -> None:
        """A process begins: no other one of its exclusive identity may live anywhere."""
        self.started += 1
        if not live.exclusive:
            return
        others = [(where, one) for where, one in self._exclusive.get(live.slot, ()) if where.may_live(one)]
        for where, one in others:
            detail = (
                f"{live.slot} was started on {metal.name} under epoch {show(live.epoch)} "
                f"while {show(one.epoch)} may live on {where.name}"
            )
            self.findings.append(Finding("one-live-process", detail))
        self._exclusive[live.slot] = [*others, (metal, live)]


class Metal:
    """A machine, and what is kept on its disk: which bindings have ended here, and the newest term it heard of."""

    def __init__(self, name: str, region: str, zone: str, truth: Truth) -> None:
        self.name = name
        self.region = region
        self.zone = zone
        self.running: dict[SlotKey, Live] = {}
        #: What a guard is ending, and what may not be dead yet.
        self.dying: dict[SlotKey, Live] = {}
        self.ended: dict[SlotKey, Revision] = {}
        self.newest: tuple[str, int] = ("", 0)
        self._clock: Clock | None = None
        self._truth = truth

    def power(self, clock: Clock) -> None:
        """Its clock runs. It is the machine's, and outlives every agent."""
        self._clock = clock

    def boot(self) -> int:
        """Its even clock."""
        assert self._clock is not None, f"{self.name} has no power yet"
        return self._clock.boot()

    def start(self, slot: SlotKey, epoch: Revision, *, exclusive: bool, deadline: int) -> None:
        """A process begins."""
        live = self.running[slot] = Live(slot, epoch, exclusive, deadline, self.boot())
        self._truth.note_start(self, live)

    def ask_to_end(self, slot: SlotKey) -> None:
        """A process is asked to end, and takes its time."""
        live = self.running[slot]
        live.asked = live.asked or self.boot()

    def reap(self, slot: SlotKey) -> None:
        """A process has ended, and with it its binding."""
        live = self.running.pop(slot)
        live.ended = True
        self.ended[slot] = max(live.epoch, self.ended.get(slot, 0))

    def extend(self, deadline: int) -> None:
        """The guards of all exclusive work are given until then. A guard that has begun to kill does not stop."""
        for live in self.running.values():
            live.deadline = max(live.deadline, deadline)

    def sweep(self) -> bool:
        """Guards end what is past its deadline, which may take its time to die. Whether there is any such."""
        now = self.boot()
        for slot, live in list(self.running.items()):
            if live.exclusive and now >= live.deadline:
                self.dying[slot] = self.running.pop(slot)
                self.ended[slot] = max(live.epoch, self.ended.get(slot, 0))
        dying = bool(self.dying)
        self.dying = {slot: live for slot, live in self.dying.items() if self.may_live(live)}
        return dying

    def may_live(self, live: Live) -> bool:
        """Whether this process may still be alive, its guard taken at its slowest."""
        return not live.ended and (not live.exclusive or self.boot() < live.deadline + LINGERS_MS)

    def lose_power(self) -> None:
        """Everything that ran is gone, at once."""
        for live in (*self.running.values(), *self.dying.values()):
            live.ended = True
        self.running.clear()
        self.dying.clear()
