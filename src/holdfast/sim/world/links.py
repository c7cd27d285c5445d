"""What lies between the machines of a simulated world: it takes time, loses things, and can be cut.

Everything sent is a `Packet`. The weather decides its fate when it departs; a cut link loses it when it departs and
when it lands, so that a partition takes what was under way too. What a peer sends to itself knows no weather.

    send -> (sender paused: waits) -> lost | cut | in flight -> cut | (receiver paused: waits) -> delivered

All chance is drawn from the `random.Random` handed in, one packet after the other. What happened is counted in `tally`,
and folded line by line into `digest()`: two runs that agree in it sent the same packets to the same fates at the same
times.

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

#: How many lines of what happened are kept to look at. The digest is of all of them.
TRACE_LINES = 2_000

#: What is counted. A test of coverage asks that none of them stayed at zero.
TALLIED = (
    "sent", "delivered", "lost", "cut", "answers_lost", "duplicated", "reordered", "slowed", "held",
    "late", "refused", "reset", "broken", "deaths",
)  # fmt: skip


@dataclass(frozen=True)
class NetworkConditions:
    """How bad it is between any two peers. Shares are of packets, from 0 to 1."""

    #: Each packet takes its own time out of this range, so that packets overtake one another.
    latency_ms: tuple[int, int] = (1, 1)
    loss: float = 0.0
    #: Requests that arrive twice: the handler runs twice, and the first answer counts.
    duplication: float = 0.0
    #: Answers that are lost on top of `loss`: the other side has acted, and the asker will not know.
    answer_loss: float = 0.0
    #: Packets that take up to `slow_ms` longer than the others.
    slow: float = 0.0
    slow_ms: int = 0


CALM = NetworkConditions()
ROUGH = NetworkConditions(latency_ms=(1, 50), loss=0.03, duplication=0.03, answer_loss=0.03, slow=0.02, slow_ms=5_000)


@dataclass
class OrderedChannel:
    """Packets that do not overtake one another."""

    flying: deque[Packet] = field(default_factory=deque)
    last: float = 0.0


class Packet(Struct, eq=False):
    """One thing on its way: what happens when it arrives, and when it does not."""

    sender: str
    receiver: str
    #: For people, and for the trace.
    what: str
    arrive: Callable[[], None]
    lost: Callable[[], None] = lambda: None
    lane: OrderedChannel | None = None
    #: It tells the asker what came of its question.
    is_answer: bool = False
    number: int = 0


class LinkLayer:
    """All links of one world, with the verbs that break and mend them."""

    def __init__(self, loop: VirtualLoop, chance: Random, weather: NetworkConditions = CALM) -> None:
        self.loop = loop
        self.chance = chance
        #: May be set at any time; what departs from then on meets it.
        self.weather = weather
        self.tally: dict[str, int] = dict.fromkeys(TALLIED, 0)
        self.trace: deque[str] = deque(maxlen=TRACE_LINES)
        self._digest = blake2b(digest_size=16)
        #: Lines that are not in it yet: one step for many costs less than one for each.
        self._undigested: list[str] = []
        self._cut: dict[tuple[str, str], None] = {}
        self._isolated: dict[str, None] = {}
        self._clogged_ms: dict[tuple[str, str], int] = {}
        #: By peer: what of all that is sent to it lags, and by how much.
        self._lagging: dict[str, tuple[str, int]] = {}
        #: For each paused peer, what waits for it, and whether that is something it sends.
        self._waiting: dict[str, list[tuple[bool, Callable[[], None]]]] = {}
        self._highest: dict[tuple[str, str], int] = {}

    def partition(self, a: str, b: str, *, one_way: bool = False) -> None:
        """Nothing passes between them any more; one way: nothing from `a` to `b`."""
        self._cut[a, b] = None
        if not one_way:
            self._cut[b, a] = None
        self.note(f"partition {a} {b}{' one way' if one_way else ''}")

    def isolate(self, name: str) -> None:
        """Nothing passes between this peer and any other, whoever joins later too."""
        self._isolated[name] = None
        self.note(f"isolate {name}")

    def clog(self, a: str, b: str, ms: int, *, one_way: bool = False) -> None:
        """Everything that departs between them from now on takes so much longer."""
        self._clogged_ms[a, b] = ms
        if not one_way:
            self._clogged_ms[b, a] = ms
        self.note(f"clog {a} {b} {ms}{' one way' if one_way else ''}")

    def lag(self, name: str, what: str, ms: int) -> None:
        """Of what is sent to this peer from now on, that which is called so takes so much longer."""
        self._lagging[name] = what, ms
        self.note(f"lag {name} {what} {ms}")

    def keep_up(self, name: str) -> None:
        """Nothing that is sent to this peer lags any more."""
        self._lagging.pop(name, None)
        self.note(f"keep up {name}")

    def heal(self, a: str | None = None, b: str | None = None) -> None:
        """End partitions and clogs: all of them, and what lags; all of one peer, and its isolation; or those between
        two."""
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
        """What is sent to this peer waits, and so do its deadlines and what it sends, until it is resumed or dies."""
        self._waiting.setdefault(name, [])
        self.note(f"pause {name}")

    def resume(self, name: str) -> None:
        """What waited goes on, in the order in which it came to wait."""
        self.note(f"resume {name}")
        self._release(name, departures=True)

    def forget(self, name: str) -> None:
        """Its process is gone: a pause ends with it, and what it had not sent yet never is."""
        self._release(name, departures=False)

    def when_awake(self, name: str, act: Callable[[], None]) -> None:
        """Do it now, or when this peer is no longer paused."""
        if name in self._waiting:
            self._hold(name, act, departs=False)
        else:
            act()

    def is_open(self, a: str, b: str) -> bool:
        """Whether what one sends would reach the other and be answered: neither is cut off, or paused."""
        if not (self._cut or self._isolated or self._waiting):
            return True
        ways = (a, b), (b, a)
        alone = any(name in self._isolated or name in self._waiting for name in (a, b))
        return a == b or not (alone or any(way in self._cut for way in ways))

    def send(self, packet: Packet) -> None:
        """Let it depart. Exactly one of `arrive` and `lost` is called, unless its sender dies while it is paused."""
        self.tally["sent"] += 1
        packet.number = self.tally["sent"]
        self._depart(packet)

    def note(self, line: str) -> None:
        """Write down that something happened now."""
        line = f"{round(self.loop.now * 1000)} {line}"
        self.trace.append(line)
        self._undigested.append(line)
        if len(self._undigested) >= TRACE_LINES:
            self._fold_lines()

    def digest(self) -> str:
        """Stands for everything that happened so far, in its order."""
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
        # Timers due at the same time may fire in any order: the nth of a lane lands the nth packet.
        lane.flying.append(packet)
        lane.last = max(lane.last, self.loop.time() + delay_ms / 1000)
        self.loop.call_at(lane.last, lambda: self._land(lane.flying.popleft()))

    def _land(self, packet: Packet) -> None:
        if self._is_cut(packet):
            self._lose(packet, "cut")
        elif packet.receiver in self._waiting:
            # What has reached the machine is read when its process goes on, whatever is cut by then.
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
        """How long it will take, or None if the weather takes it."""
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
