"""Servers of one ledger under random faults: what was acknowledged is in the log once, and everybody agrees.

Two or three servers share one store, each by its own way that is cut, hangs, loses answers and lets appends land late;
they are paused, killed and started anew, and their clocks are wrong. People send commands and repeat them with the same
key until they are answered; readers ask for linear reads; agents send heartbeats. When the faults are over somebody
must lead within a bounded time, and the run is judged:

    safety     every acknowledged key is in the log once, where the answer said; no key is there twice; no linear read
               saw less than was known before it was asked; no session was ended while a renewal of it still held;
               terms grow; every server's state is the fold of the log; the chain holds; no server stopped
    liveness   somebody leads and takes a command; every command was answered in the end
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from holdfast.core.ledger.answers import Refused, Repeated
from holdfast.core.ledger.builtin.log import TermStarted
from holdfast.core.ledger.builtin.overrides import EndOverride, OpenOverride
from holdfast.core.ledger.builtin.sessions import SessionEnded
from holdfast.core.ledger.codec import Batch, key_id
from holdfast.core.ledger.commit.draft import Committed, fold
from holdfast.core.ledger.revision import INDEX_BITS, seq_of
from holdfast.core.ledger.state.chunks import state_digest
from holdfast.core.model.objects.policies import OverrideAction
from holdfast.core.model.values.settings import DEFAULTS
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Unavailable
from holdfast.host.leader.term import SessionRenewal
from holdfast.host.ledger.ledger import Role
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.store import Head, StoredBatch, WriteOk, WriteOutcome
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.sim.world.machine import SimClock
from holdfast.stores.memory import MemoryStore
from tests.support.hosts.faulty_store import FaultyStore
from tests.support.hosts.ledger_world import Server, World, in_world
from tests.support.ledgers.region import ROOT

LEASE = DEFAULTS.session_lease
#: The longest wait before a follower stands, a lease for whoever still believes that it leads, and some.
RECOVERS_WITHIN_MS = 120_000 + 4 * LEASE
DAY = 86_400_000
AGENT = "agent/n{}"
#: What a clock within the drift bound may show too much or too little of a lease.
DRIFT_MS = 2 * LEASE * DEFAULTS.drift_per_million // 1_000_000


class Fault(Struct, frozen=True):
    """Something goes wrong at one server, so long after the fault before, for so long. Server 3 is whoever leads."""

    after_ms: int
    server: int
    kind: str
    for_ms: int


LEADING = 3
KINDS = (
    "lands-later", "lands-unheard", "never-lands", "append-hangs", "cut", "hang", "pause", "kill", "restart",
    "slow", "no-touch", "clock-set", "full",
)  # fmt: skip

faults = st.builds(
    Fault,
    st.integers(0, 6_000),
    st.integers(0, 4).map(lambda drawn: min(drawn, LEADING)),
    st.sampled_from(KINDS),
    st.one_of(st.integers(1, 1_000), st.integers(1_000, 15_000)),
)


class Life(Struct, frozen=True):
    """A run: how many servers, how wrong their clocks are, how slow the store is, and what goes wrong."""

    servers: int
    wrong_by: tuple[int, int, int]
    fast: tuple[int, int, int]
    latency_ms: int
    faults: tuple[Fault, ...]


lives = st.builds(
    Life,
    st.integers(2, 3),
    st.tuples(*[st.sampled_from([0, 0, 250, -3_000, 3_600_000, -3_600_000])] * 3),
    st.tuples(*[st.integers(-900, 900)] * 3),
    st.sampled_from([0, 0, 1, 7, 60]),
    st.lists(faults, min_size=3, max_size=14).map(tuple),
)


class Witness(MemoryStore):
    """The shared store, which notes every batch that ever landed, trimmed or not, and when."""

    def __init__(self) -> None:
        super().__init__()
        self.landed: list[tuple[int, StoredBatch]] = []

    async def append(self, after: Head, batch: StoredBatch) -> WriteOutcome:
        outcome = await super().append(after, batch)
        if isinstance(outcome, WriteOk):
            self.landed.append((now_ms(), batch))
        return outcome

    def log(self) -> list[Batch[Any]]:
        """Every batch, decoded and with its chain verified."""
        found: list[Batch[Any]] = []
        for _, stored in self.landed:
            found.append(REGION.batches.read(stored.raw, found[-1].digest if found else b"", stored.digest))
        return found


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


class Seat:
    """A place for a server: the one that sits there now, its way to the store, and its clock."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.lives = 0
        self.paused = 0
        self.server: Server
        self.way: FaultyStore
        self.clock: SimClock
        self.start()

    def start(self) -> None:
        life, number = self.cluster.life, self.number
        self.lives += 1
        self.paused = 0
        self.way = FaultyStore(self.cluster.store)
        self.way.request_ms = self.way.answer_ms = life.latency_ms
        self.cluster.ways.append(self.way)
        self.clock = SimClock(
            self.cluster.world.loop,
            booted=1_000 * (number + 1) + now_ms() % 7,
            wrong_by=life.wrong_by[number],
            fast_per_million=life.fast[number],
        )
        name = f"s{number}.{self.lives}"
        self.server = self.cluster.world.server(self.way, name, clock=self.clock, policy=SnapshotPolicy(log_batches=40))
        self.server.start()

    async def awake(self) -> Server:
        """The server, once somebody who talks to it could be heard."""
        while self.paused:
            await asyncio.sleep(0.05)
        return self.server


class Cluster:
    """Everything in one run, and what is known about it from outside."""

    def __init__(self, world: World, life: Life) -> None:
        self.world = world
        self.life = life
        self.store = Witness()
        self.ways: list[FaultyStore] = []
        self.ends: list[asyncio.Task[Any]] = []
        self.over = False
        #: Key -> revision, of what was answered; and the highest batch that anybody was told of.
        self.acknowledged: dict[str, int] = {}
        self.known = 0
        self.at = 0
        self.reads = 0
        #: Session -> when the last renewal that its agent got runs out.
        self.renewed: dict[int, int] = {}
        self.complaints: list[str] = []
        self.seats = [Seat(self, number) for number in range(life.servers)]

    # Those who ask

    async def person(self, number: int) -> None:
        """Opens an override and ends it, over and over: each command until it is answered, to whoever comes next."""
        turn = 0
        opened: int | None = None
        while not self.over:
            key = f"p{number}-{turn}"
            command = self.opening(key) if opened is None else EndOverride(opened, key)
            await self.see_through(key, number + turn, command)
            opened = self.acknowledged.get(key) if opened is None else None
            turn += 1
            await asyncio.sleep(0.05 + 0.11 * number)

    def opening(self, key: str) -> OpenOverride:
        return OpenOverride(OverrideAction.PAUSE_AUTOSCALER, "eu", "", key, self.ledger_time() + 3 * DAY)

    async def see_through(self, key: str, where: int, command: OpenOverride | EndOverride) -> None:
        sent = self.ledger_time()
        while True:
            server = await self.seats[where % len(self.seats)].awake()
            where += 1
            try:
                async with asyncio.timeout(8):
                    answer = await server.send(ROOT, command, key=key, sent=sent)
            except (Unavailable, TimeoutError):
                await asyncio.sleep(0.2)
                continue
            if isinstance(answer, Refused):
                self.complaints.append(f"{key}: {answer}")
                return
            assert isinstance(answer, Committed | Repeated)
            self.acknowledged[key] = answer.revision
            self.known = max(self.known, seq_of(answer.revision))
            return

    def ledger_time(self) -> int:
        """What people here take for the time: the clocks of the servers are hours apart."""
        self.at = max(self.at, *(seat.server.state.info.at for seat in self.seats))
        return self.at

    async def reader(self, number: int) -> None:
        """Asks for linear reads, here and there: none may show less than anybody knew before it was asked."""
        turn = number
        while not self.over:
            turn += 1
            server = await self.seats[turn % len(self.seats)].awake()
            known = self.known
            try:
                view = await server.ledger.read(ReadLevel.LINEAR, timeout_ms=2_000)
            except Unavailable:
                pass
            except Exception as error:
                self.complaints.append(f"reading: {error!r}")
            else:
                self.reads += 1
                if view.token.seq < known:
                    self.complaints.append(f"{server.name} showed {view.token.seq} when {known} was known")
                self.known = max(self.known, view.token.seq)
            await asyncio.sleep(0.13)

    async def agent(self, number: int) -> None:
        """Opens a session and keeps it alive with heartbeats to all servers in turn."""
        actor, session, turn = AGENT.format(number), 0, number
        while not self.over:
            turn += 1
            server = await self.seats[turn % len(self.seats)].awake()
            try:
                if not session:
                    async with asyncio.timeout(8):
                        session = await server.open_session(actor)
                sent = now_ms()
                answer = server.ledger.renew(actor, session)
                if isinstance(answer, SessionRenewal):
                    self.renewed[session] = max(self.renewed.get(session, 0), sent + answer.worth)
                elif answer.code.value == "no-session":
                    session = 0
            except (Unavailable, TimeoutError, AssertionError):
                await asyncio.sleep(0.3)
                continue
            await asyncio.sleep(LEASE / 4 / 1000)

    # What goes wrong

    async def suffer(self) -> None:
        for fault in self.life.faults:
            await asyncio.sleep(fault.after_ms / 1000)
            seat = self.seats[fault.server % len(self.seats)]
            if fault.server == LEADING:
                seat = next((one for one in self.seats if one.server.ledger.leader is not None), seat)
            getattr(self, fault.kind.replace("-", "_"))(seat, fault.for_ms)

    def later(self, for_ms: int, work: Any) -> None:
        async def wait() -> None:
            await asyncio.sleep(for_ms / 1000)
            result = work()
            if asyncio.iscoroutine(result):
                await result

        self.ends.append(asyncio.create_task(wait()))

    def lands_later(self, seat: Seat, for_ms: int) -> None:
        seat.way.append_lands_later(for_ms)
        seat.way.append_never_lands(times=for_ms % 5)

    def lands_unheard(self, seat: Seat, for_ms: int) -> None:
        seat.way.append_lands_unheard()
        seat.way.append_never_lands(times=for_ms % 7)

    def never_lands(self, seat: Seat, for_ms: int) -> None:
        seat.way.append_never_lands(times=1 + for_ms % 11)

    def append_hangs(self, seat: Seat, for_ms: int) -> None:
        seat.way.append_hangs(lands=bool(for_ms % 2), after_ms=for_ms // 2)
        self.later(2 * for_ms, seat.way.release)

    def cut(self, seat: Seat, for_ms: int) -> None:
        seat.way.cut(for_ms)

    def hang(self, seat: Seat, for_ms: int) -> None:
        seat.way.hang(for_ms)

    def pause(self, seat: Seat, for_ms: int) -> None:
        way, clock, life = seat.way, seat.clock, seat.lives
        way.hang()
        clock.pause()
        seat.paused += 1

        def resume() -> None:
            clock.resume()
            way.heal()
            if seat.lives == life:
                seat.paused -= 1

        self.later(for_ms, resume)

    def kill(self, seat: Seat, for_ms: int) -> None:
        """Nobody hears of it any more, and it does nothing; another life begins in its place."""
        seat.way.hang()
        seat.clock.pause()
        seat.start()

    def restart(self, seat: Seat, for_ms: int) -> None:
        old = seat.server
        self.later(0, old.stop)
        seat.start()

    def slow(self, seat: Seat, for_ms: int) -> None:
        way = seat.way
        way.append_ms = for_ms // 4
        self.later(for_ms, lambda: setattr(way, "append_ms", 0))

    def no_touch(self, seat: Seat, for_ms: int) -> None:
        way = seat.way
        way.refuse("touch")
        self.later(for_ms, way.refuse)

    def clock_set(self, seat: Seat, for_ms: int) -> None:
        seat.clock.wrong_by += 100 * for_ms * (1 if for_ms % 2 else -1)

    def full(self, seat: Seat, for_ms: int) -> None:
        way = seat.way
        way.is_full = True
        self.later(for_ms, lambda: setattr(way, "is_full", False))

    async def heal(self) -> None:
        """The faults are over; those who were killed stay away."""
        for task in self.ends:
            await task
        for way in self.ways:
            way.release()
            way.heal()
            way._appends.clear()
        for server in self.world.servers:
            if all(server is not seat.server for seat in self.seats):
                assert isinstance(server.clock, SimClock)
                server.clock.resume()
                await server.stop()


# The run and its verdicts


async def run(world: World, life: Life) -> Cluster:
    cluster = Cluster(world, life)
    errors: list[str] = []
    world.loop.set_exception_handler(lambda _, context: errors.append(str(context)))
    first = await someone_leads(cluster)
    await first.prepare()
    people = [asyncio.create_task(cluster.person(number)) for number in range(3)]
    others = [asyncio.create_task(cluster.reader(number)) for number in range(2)]
    others += [asyncio.create_task(cluster.agent(number)) for number in range(2)]
    await cluster.suffer()
    await cluster.heal()
    await someone_leads(cluster)
    await asyncio.sleep(1)
    cluster.over = True
    await asyncio.wait_for(asyncio.gather(*people), RECOVERS_WITHIN_MS / 1000)
    await asyncio.wait_for(cluster.see_through("last", 0, cluster.opening("last")), 60)
    await asyncio.wait_for(asyncio.gather(*others), 60)
    await settled(cluster)
    assert not cluster.complaints, cluster.complaints[:3]
    assert not errors, errors[:3]
    return cluster


async def someone_leads(cluster: Cluster) -> Server:
    """Liveness: within a bounded time somebody leads."""
    deadline = now_ms() + RECOVERS_WITHIN_MS
    while True:
        for seat in cluster.seats:
            leader = seat.server.ledger.leader
            if leader is not None and leader.term.proof.is_fresh(DEFAULTS) and not seat.paused:
                return seat.server
        assert now_ms() < deadline, [seat.server.ledger.degraded_reason() for seat in cluster.seats]
        await asyncio.sleep(0.1)


async def settled(cluster: Cluster) -> None:
    """Everybody has caught up."""
    for _ in range(1_000):
        head = await cluster.store.head()
        if all(seat.server.ledger.durable.head().same_place(head) for seat in cluster.seats):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("somebody does not follow")


def judge(cluster: Cluster) -> None:
    batches = cluster.store.log()
    landed_at = {stored.seq: at for at, stored in cluster.store.landed}
    records = [(batch.header.seq, record) for batch in batches for record in batch.records]
    keys = Counter(record.key for _, record in records if record.key)
    assert set(keys.values()) <= {1}
    for key, revision in cluster.acknowledged.items():
        assert keys[key_id(ROOT, key)] == 1, key
        (seq,) = [seq for seq, record in records if record.key == key_id(ROOT, key)]
        assert seq == revision >> INDEX_BITS
    events = [(seq, one) for seq, record in records for one in record.events]
    terms = [one.term for _, one in events if isinstance(one, TermStarted)]
    assert terms == sorted(set(terms))
    stamps = [record.at for _, record in records]
    assert stamps == sorted(stamps)
    for seq, one in events:
        if isinstance(one, SessionEnded) and one.reason == "silent":
            assert cluster.renewed.get(one.session, 0) <= landed_at[seq] + DRIFT_MS
    state = RegionState()
    for batch in batches:
        fold(REGION, state, batch)
    for seat in cluster.seats:
        assert seat.server.ledger.role is not Role.STOPPED, seat.server.ledger.degraded_reason()
        assert seat.server.state.info == state.info
        assert state_digest(seat.server.state) == state_digest(state)


def live(life: Life) -> Cluster:
    async def story(world: World) -> Cluster:
        cluster = await run(world, life)
        judge(cluster)
        return cluster

    return in_world(story)


def check(life: Life) -> None:
    cluster = live(life)
    terms = next(iter(cluster.seats)).server.state.info.term
    event(f"terms: {min(terms, 8)}")
    event(f"acknowledged: {len(cluster.acknowledged) // 50 * 50}+")
    for fault in life.faults:
        event(fault.kind)


@settings(max_examples=180, suppress_health_check=[HealthCheck.too_slow])
@given(lives)
def test_whatever_fails_what_was_acknowledged_is_in_the_log_once_and_all_servers_agree(life: Life) -> None:
    check(life)


@pytest.mark.soak
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(lives)
def test_the_same_for_longer(life: Life) -> None:
    check(life)
