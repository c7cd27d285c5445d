"""Links between the machines of a simulated world: latency, loss, duplication, partitions.

Everything sent is a `Packet`. The network conditions decide its fate when it departs. A cut link loses it at departure
and at arrival, so a partition also loses packets under way. Conditions do not apply to packets that a peer sends to
itself.

    send -> (sender paused: waits) -> lost | cut | in flight -> cut | (receiver paused: waits) -> delivered

All chance is drawn from the given `random.Random`, one packet after the other. Fates are counted in `tally` and folded
line by line into `digest()`. Two runs with equal digests sent the same packets to the same fates at the same times.

Size: one object, with every verb that breaks a link or mends it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random

from msgspec import Struct

from holdfast.sim.world.virtual_loop import VirtualLoop

#: How many trace lines are stored. The digest covers all of them.
TRACE_LINES = 2_000

#: Names of the counters. A coverage test requires that each of them is above zero.
TALLIED = (
    "sent", "delivered", "lost", "cut", "answers_lost", "duplicated", "reordered", "slowed", "held",
    "late", "refused", "reset", "broken", "deaths",
)  # fmt: skip


@dataclass(frozen=True)
class NetworkConditions:
    """Network conditions between any two peers. Rates are shares of packets, from 0 to 1."""

    #: Range of the latency of one packet. Each packet draws its own, so packets can overtake one another.
    latency_ms: tuple[int, int] = (1, 1)
    loss: float = 0.0
    #: Rate of requests that arrive twice: the handler runs twice, and the first reply counts.
    duplication: float = 0.0
    #: Rate of replies lost in addition to `loss`: the peer has acted and the caller has no proof.
    answer_loss: float = 0.0
    #: Rate of packets that take up to `slow_ms` longer.
    slow: float = 0.0
    slow_ms: int = 0


CALM = NetworkConditions()


@dataclass
class OrderedChannel:
    """Packets that arrive in the order in which they were sent."""

    flying: deque[Packet] = field(default_factory=deque)
    last: float = 0.0


class Packet(Struct, eq=False):
    """One message under way, with callbacks for arrival and loss."""

    sender: str
    receiver: str
    #: Shown to developers and in the trace.
    what: str
    arrive: Callable[[], None]
    lost: Callable[[], None] = lambda: None
    lane: OrderedChannel | None = None
    #: Whether this is the reply to a request.
    is_answer: bool = False
    number: int = 0


class LinkLayer:
    """All links of one world, with the verbs that break and mend them."""

    def __init__(self, loop: VirtualLoop, chance: Random, weather: NetworkConditions = CALM) -> None:
        self.loop = loop
        self.chance = chance
        #: May be set at any time; applies to packets that depart later.
        self.weather = weather
        self.tally: dict[str, int] = dict.fromkeys(TALLIED, 0)
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self._digest = blake2b(digest_size=16)
        #: Lines not yet in the digest: hashing many at once is faster than one by one.
        self._undigested: list[str] = []
        self._cut: dict[tuple[str, str], None] = {}
        self._isolated: dict[str, None] = {}
        self._clogged_ms: dict[tuple[str, str], int] = {}
        #: By peer: packets to it that contain this text are late, by so many milliseconds.
        self._lagging: dict[str, tuple[str, int]] = {}
        #: For each paused peer: its waiting actions, and whether each is a departure.
        self._waiting: dict[str, list[tuple[bool, Callable[[], None]]]] = {}
        self._highest: dict[tuple[str, str], int] = {}

    def partition(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Cut the link between two peers; with `one_way`, only from `a` to `b`."""
        self._cut[a, b] = None
        if not one_way:
            self._cut[b, a] = None
        self.note(f"partition {a} {b}{' one way' if one_way else ''}")

    def isolate(self, name: str) -> None:
        """Cut all links of this peer, also to peers that join later."""
        self._isolated[name] = None
        self.note(f"isolate {name}")

    def clog(self, a: str, b: str, ms: int, *, one_way: bool = False) -> None:
        """Delay every later departure between two peers by `ms`."""
        self._clogged_ms[a, b] = ms
        if not one_way:
            self._clogged_ms[b, a] = ms
        self.note(f"clog {a} {b} {ms}{' one way' if one_way else ''}")

    def lag(self, name: str, what: str, ms: int) -> None:
        """Delay later packets to this peer by `ms` if their text contains `what`."""
        self._lagging[name] = what, ms
        self.note(f"lag {name} {what} {ms}")

    def keep_up(self, name: str) -> None:
        """End the delay of packets to this peer."""
        self._lagging.pop(name, None)
        self.note(f"keep up {name}")

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        """End partitions, clogs and isolation: all of them and all lags; or those of one peer; or only partitions and
        clogs between two peers."""
        if a is None:
            self._lagging.clear()
        for pair in [*self._cut, *self._clogged_ms]:
            if (a is None or a in pair) and (b is None or b in pair):
                self._cut.pop(pair, None)
                self._clogged_ms.pop(pair, None)
        for name in list(self._isolated):
            if b is None and a in (None, name):
                del self._isolated[name]
        self.note(f"heal {a or 'all'} {b or ''}")

    def pause(self, name: str) -> None:
        """Hold arrivals, deadlines and departures of this peer until it resumes or dies."""
        self._waiting.setdefault(name, [])
        self.note(f"pause {name}")

    def resume(self, name: str) -> None:
        """Continue what was held, in its order."""
        self.note(f"resume {name}")
        self._release(name, departures=True)

    def forget(self, name: str) -> None:
        """End the pause of a dead process. Its unsent packets are dropped."""
        self._release(name, departures=False)

    def when_awake(self, name: str, act: Callable[[], None]) -> None:
        """Call `act` now, or when this peer resumes."""
        if name in self._waiting:
            self._hold(name, act, departs=False)
        else:
            act()

    def is_open(self, a: str, b: str) -> bool:
        """Whether a request between these peers could be answered: neither is cut off or paused."""
        if not (self._cut or self._isolated or self._waiting):
            return True
        ways = (a, b), (b, a)
        alone = any(name in self._isolated or name in self._waiting for name in (a, b))
        return a == b or not (alone or any(way in self._cut for way in ways))

    def send(self, packet: Packet) -> None:
        """Let the packet depart. Either `arrive` or `lost` is called once, unless the sender dies while paused."""
        self.tally["sent"] += 1
        packet.number = self.tally["sent"]
        self._depart(packet)

    def note(self, line: str) -> None:
        """Record a line with the current time."""
        line = f"{round(self.loop.now * 1000)} {line}"
        self.trace.append(line)
        self._undigested.append(line)
        if len(self._undigested) >= TRACE_LINES:
            self._fold_lines()

    def digest(self) -> str:
        """Return a digest of everything that happened so far, in order."""
        self._fold_lines()
        return self._digest.hexdigest()

    def _fold_lines(self) -> None:
        self._digest.update("".join(f"{line}\n" for line in self._undigested).encode())
        self._undigested.clear()

    def _depart(self, packet: Packet) -> None:
        if packet.sender in self._waiting:
            self._hold(packet.sender, lambda: self._depart(packet), departs=True)
            return
        delay_ms = self._drawn_delay(packet)
        if delay_ms is None:
            self._lose(packet, "lost")
        elif self._is_cut(packet):
            self._lose(packet, "cut")
        elif packet.lane is None:
            self.loop.call_later(delay_ms / 1000, self._land, packet)
        else:
            self._follow(packet, packet.lane, delay_ms)

    def _follow(self, packet: Packet, lane: OrderedChannel, delay_ms: int) -> None:
        # Timers due at the same time may fire in any order: the nth timer of a channel lands its nth packet.
        lane.flying.append(packet)
        lane.last = max(lane.last, self.loop.time() + delay_ms / 1000)
        self.loop.call_at(lane.last, lambda: self._land(lane.flying.popleft()))

    def _land(self, packet: Packet) -> None:
        if self._is_cut(packet):
            self._lose(packet, "cut")
        elif packet.receiver in self._waiting:
            # A packet that reached the machine is read when its process resumes, even if the link is cut by then.
            self._hold(packet.receiver, lambda: self._deliver(packet), departs=False)
        else:
            self._deliver(packet)

    def _deliver(self, packet: Packet) -> None:
        link = packet.sender, packet.receiver
        self.tally["delivered"] += 1
        if packet.number < self._highest.get(link, 0):
            self.tally["reordered"] += 1
        else:
            self._highest[link] = packet.number
        self.note(f"deliver {packet.number} {packet.sender}>{packet.receiver} {packet.what}")
        packet.arrive()

    def _drawn_delay(self, packet: Packet) -> int | None:
        """Draw the delay of a packet, or None if it is lost."""
        if packet.sender == packet.receiver:
            return 0
        weather, chance = self.weather, self.chance
        is_lost = chance.random() < weather.loss
        if packet.is_answer:
            is_lost |= chance.random() < weather.answer_loss
        least, most = weather.latency_ms
        delay_ms = least + int(chance.random() * (most - least + 1))
        if self._clogged_ms:
            delay_ms += self._clogged_ms.get((packet.sender, packet.receiver), 0)
        what, lag_ms = self._lagging.get(packet.receiver, ("", 0))
        if lag_ms and what in packet.what:
            delay_ms += lag_ms
        if chance.random() < weather.slow:
            self.tally["slowed"] += 1
            delay_ms += chance.randint(0, weather.slow_ms)
        return None if is_lost else delay_ms

    def _is_cut(self, packet: Packet) -> bool:
        a, b = packet.sender, packet.receiver
        return a != b and ((a, b) in self._cut or a in self._isolated or b in self._isolated)

    def _lose(self, packet: Packet, how: str) -> None:
        self.tally[how] += 1
        self.tally["answers_lost"] += packet.is_answer
        self.note(f"{how} {packet.number} {packet.sender}>{packet.receiver} {packet.what}")
        packet.lost()

    def _hold(self, name: str, act: Callable[[], None], *, departs: bool) -> None:
        self.tally["held"] += 1
        self._waiting[name].append((departs, act))

    def _release(self, name: str, *, departures: bool) -> None:
        for departs, act in self._waiting.pop(name, []):
            if departures or not departs:
                act()
