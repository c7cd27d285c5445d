"""An agent: makes what is bound to its node true, and says so. One heartbeat carries what it needs to know back.

beat ──▶ renewal (how long guards may let exclusive work live), and what stands on the node
     ──▶ start, stop, adopt ──▶ moves, each along an edge that agents own
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from holdfast.core.ledger.answers import Refused
from holdfast.core.model.lifecycle import Phase
from holdfast.core.model.placement import EMPTY_ROOM, standing
from holdfast.core.model.resources import Resources
from holdfast.core.model.settings import DEFAULTS
from holdfast.core.model.shapes import Revision, SlotKey
from holdfast.core.region import commands as c
from holdfast.core.region.assigned import may_begin
from holdfast.core.region.rooms import victims_left
from holdfast.core.region.state import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.ledger import Ledger
from holdfast.sim.actors.desk import encode
from holdfast.sim.actors.metal import Metal
from holdfast.sim.actors.paths import Paths
from holdfast.sim.actors.remote import Heard, Remote, Speaker
from holdfast.sim.world import Process

BEAT_MS = DEFAULTS.session_lease // 4
#: While something is under way it looks more often.
BUSY_MS = 400
#: The part of bindings that an agent does not want to start, for reasons of its own.
DECLINES = 0.02
#: How long it waits for an answer to what it says: less than a heartbeat may be late.
PATIENCE_MS = 2_000


class Standing(Struct, frozen=True, array_like=True):
    """One slot on the node, as the ledger has it. `waits`: whoever it follows has not ended yet, or its region may not
    begin it now."""

    slot: SlotKey
    epoch: Revision
    phase: str
    exclusive: bool
    waits: bool


class Beat(Struct, frozen=True, array_like=True):
    """What a heartbeat is answered: why not, or what the renewal is worth and what stands on the node."""

    said: str
    log_id: str = ""
    term: int = 0
    worth: int = 0
    newest: Revision = 0
    slots: list[Standing] | None = None


_beats = msgspec.msgpack.Decoder(Beat)
_asked = msgspec.msgpack.Decoder(tuple[str, int, int, int])


def serve_beats(paths: Paths, ledger: Ledger[RegionState]) -> None:
    """Answer agents, and whoever asks which nodes there are. What stands on a node is told when its room changed, in a
    new term, and while something waits."""

    async def beat(body: bytes) -> bytes:
        name, session, known, term = _asked.decode(body)
        try:
            renewal = ledger.renew(f"agent/{name}", session)
        except Unavailable as error:
            return encode(Beat(error.code))
        if isinstance(renewal, Refused):
            return encode(Beat(renewal.code.value))
        state = ledger.durable.state
        room = state.rooms.get(state.node_names.get(name) or 0) or EMPTY_ROOM
        keys = standing(room)
        newest = max([room.revision, *[state.slots[key].revision for key in keys]])
        told = [_told(state, key) for key in keys]
        is_known = (known, term) == (newest, renewal.term) and not any(one.waits for one in told)
        slots = None if is_known else told
        return encode(Beat("renewed", renewal.log_id, renewal.term, renewal.worth, newest, slots))

    async def nodes(_body: bytes) -> bytes:
        return encode([uid for uid, _ in ledger.durable.state.nodes.items()])

    paths.add("/beat", beat)
    paths.add("/nodes", nodes)


def _told(state: RegionState, key: SlotKey) -> Standing:
    slot = state.slots[key]
    assignment = state.assignments[slot.assignment]
    waits = bool(slot.after and victims_left(state, slot)) or not may_begin(state, assignment, state.facts.at)
    return Standing(key, slot.epoch, slot.phase.value, assignment.exclusive, waits)


class Agent:
    """One life of an agent on its metal."""

    def __init__(
        self, process: Process, metal: Metal, servers: list[str], capacity: Resources, heard: Heard, quick: bool
    ) -> None:
        self._process = process
        self._clock = process.clock
        self._metal = metal
        self._capacity = capacity
        self._quick = quick
        self._chance = process.chance("agent")
        self._speaker = Speaker(process, Remote(process, servers, heard), f"agent/{metal.name}")
        self._registered = False
        #: The newest room it was told, what stood there, and until when exclusive work may live.
        self._known: Revision = 0
        self._slots: list[Standing] = []
        self._lease = 0
        #: Whether all is as it should be, and stays so until something else is told.
        self._rests = False

    async def run(self) -> None:
        await self._clock.sleep(self._chance.randrange(BEAT_MS))
        while True:
            busy = False
            if not self._speaker.session:
                self._registered = self._rests = False
                self._known = 0
                await self._speaker.open()
            if self._speaker.session and not self._registered:
                await self._register()
            heard = self._registered and await self._beat()
            if heard and not self._rests:
                busy = await self._act()
            await self._clock.sleep(BEAT_MS if heard and not busy else BUSY_MS)

    async def _register(self) -> None:
        metal = self._metal
        command = c.RegisterNode(metal.name, "pool", metal.zone, self._capacity)
        reply = await self._speaker.send(command, PATIENCE_MS)
        self._registered = reply is not None and (reply.said == "landed" or reply.code == "already")

    async def _beat(self) -> bool:
        """Whether the leader was heard: then guards are extended, from when the heartbeat was sent."""
        sent = self._metal.boot()
        known = self._metal.name, self._speaker.session, self._known, self._metal.newest[1]
        raw = await self._speaker.remote.ask("/beat", encode(known))
        self._rests &= not self._metal.sweep()
        if raw is None:
            return False
        beat = _beats.decode(raw)
        if beat.said == "no-session":
            self._speaker.session = 0
        elif beat.said != "renewed":
            self._speaker.remote.elsewhere()
        if beat.said != "renewed" or not self._is_newest(beat):
            return False
        self._lease = sent + beat.worth
        self._metal.extend(self._lease)
        if beat.slots is not None:
            self._known, self._slots, self._rests = beat.newest, beat.slots, False
        return True

    def _is_newest(self, beat: Beat) -> bool:
        """A lower term is a deposed leader's, who may be followed no more."""
        log_id, term = self._metal.newest
        if beat.log_id == log_id and beat.term < term:
            self._speaker.remote.elsewhere()
            return False
        self._metal.newest = beat.log_id, beat.term
        return True

    async def _act(self) -> bool:
        """Bring the node to what stands there; whether something is under way."""
        metal, wanted = self._metal, {one.slot: one for one in self._slots}
        for slot, live in list(metal.running.items()):
            found = wanted.get(slot)
            if found is None or found.epoch != live.epoch:
                metal.reap(slot)
        moves = [move for one in self._slots if (move := self._next(one)) is not None]
        if moves:
            await self._speaker.send(c.Move(tuple(moves)), PATIENCE_MS)
            self._known = 0
        busy = bool(moves) or any(one.phase not in ("ready", "serving") for one in self._slots)
        self._rests = not busy
        return busy

    def _next(self, one: Standing) -> c.MoveSlot | None:
        """The next edge of one slot, once it is true: nothing is said of what its guard is still ending."""
        metal, slot = self._metal, one.slot
        if slot in metal.dying:
            return None
        live = metal.running.get(slot)

        def move(target: Phase, cause: str) -> c.MoveSlot:
            return c.MoveSlot(slot, one.epoch, target, cause)

        match one.phase:
            case "bound" if metal.ended.get(slot, 0) >= one.epoch:
                return move(Phase.RELEASED, "declined")
            case "bound" if live is None and (one.waits or metal.boot() >= self._lease):
                return None
            case "bound":
                if live is None and not self._quick and self._chance.random() < DECLINES:
                    return move(Phase.RELEASED, "declined")
                if live is None:
                    metal.start(slot, one.epoch, exclusive=one.exclusive, deadline=self._lease)
                return move(Phase.STARTING, "started")
            case "starting" | "running" | "ready" | "serving" if live is None:
                return move(Phase.FAILED, "exit")
            case "starting":
                return move(Phase.RUNNING, "running")
            case "running" if live is not None and metal.boot() - live.started >= self._start_ms():
                return move(Phase.READY, "probe-passed")
            case "unknown":
                return move(Phase.FAILED, "gone") if live is None else move(Phase.RUNNING, "found-again")
            case "failed":
                if live is not None:
                    metal.reap(slot)
                return move(Phase.RELEASED, "given-up")
            case "terminating":
                return self._end(one, live is not None)
        return None

    def _end(self, one: Standing, lives: bool) -> c.MoveSlot | None:
        metal = self._metal
        if lives:
            metal.ask_to_end(one.slot)
            asked = metal.running[one.slot].asked
            if metal.boot() - asked < self._stop_ms():
                return None
            metal.reap(one.slot)
        return c.MoveSlot(one.slot, one.epoch, Phase.RELEASED, "stopped")

    def _start_ms(self) -> int:
        return 0 if self._quick else self._chance.randrange(500, 8_000)

    def _stop_ms(self) -> int:
        return 0 if self._quick else self._chance.randrange(0, DEFAULTS.grace)


def agent(metal: Metal, servers: list[str], capacity: Resources, heard: Heard, *, quick: bool = False) -> Any:
    """The program of a node's agent."""

    async def run(process: Process) -> None:
        metal.power(process.clock)
        await Agent(process, metal, servers, capacity, heard, quick).run()

    return run
