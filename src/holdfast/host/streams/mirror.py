"""A mirror: a region's state in another process, its age, and the changes of each batch.

    load: a snapshot, then batches, until it is complete ──▶ the state ──▶ fold on
    the stream breaks: resume from the token     `gone`, `diverged`, another history: load again
    a digest in the log differs from the digest of the state: show nothing until it is loaded again

The old state is shown until the new one is complete, and replaced in one turn of the loop, which ends all key feeds. A
state that differs from the log (RULES 16) is not shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from holdfast.core.ledger.codec import Corrupt
from holdfast.core.ledger.commit.draft import fold
from holdfast.core.ledger.revision import RevisionToken, seq_of, token_of
from holdfast.core.model.values.structs import Instant, Revision
from holdfast.core.region.definition import REGION
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import NotReached, StateDiffers, show_token
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Request, StreamDeclined, Transport, TransportError, first_value
from holdfast.host.protocol import log_stream
from holdfast.host.protocol.commands import LEADER
from holdfast.host.protocol.problem import read_problem
from holdfast.host.protocol.session_client import SessionClient
from holdfast.host.protocol.time_offset import LeaderKey
from holdfast.host.runtime import gc_tuning
from holdfast.host.runtime.deadlines import run_until_first
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.storage.load import FOLD_AT_ONCE
from holdfast.host.streams.mirror_state import MirrorLoad, MirrorState
from holdfast.host.streams.resume import close_frames
from holdfast.host.watch.hub import KeyFeed

#: A stream without a message for this long is broken.
IDLE_MS = 3_500
#: Timeout of one wait for a batch.
WAIT_MS = 60_000
#: The problem codes of a position that is not in the log any more.
_START_OVER = ("gone", "diverged")


class _Broken(Exception):
    """This stream cannot continue; the next one may."""


class Mirror:
    """One mirror, of the server that its session client expects to lead."""

    def __init__(self, session: SessionClient, transport: Transport, clock: Clock, metrics: Metrics) -> None:
        self._session = session
        self._transport = transport
        self._clock = clock
        self._metrics = metrics
        self._logger = Logger("mirror", actor=session.actor)
        self.shown = MirrorState(clock, metrics)
        self._loading: MirrorLoad | None = None
        #: The leader of the shown state; that leader's time as of which it is complete; and its latest received or
        #: estimated time.
        self._led: LeaderKey = ("", 0)
        self._as_of: Instant = 0
        self._latest: Instant = 0
        #: Why the mirror cannot follow; empty if it can.
        self.last_error = ""

    # The region's state

    @property
    def state(self) -> RegionState:
        """The newest state here: one object, until another one replaces it."""
        return self.shown.durable.state

    def now(self) -> Instant:
        """Return the region's ledger time, estimated by this machine's boot clock.

        It never goes back under one leader. The next leader's time may be lower.
        """
        offset = self._session.offset
        guess = offset.to_remote(self._clock.boot()) if offset.is_measured else 0
        self._latest = max(self._latest, guess, self._as_of)
        return self._latest

    def age_ms(self) -> int:
        """Return for how long a change may be missing here."""
        return self.now() - self._as_of

    def changes(self, kinds: Iterable[str]) -> KeyFeed:
        """Return a feed of changed objects of these kinds. It ends when another state replaces this one."""
        return self.shown.hub.touched(kinds)

    async def reach(self, revision: Revision) -> None:
        """Return when the state contains this revision."""
        while True:
            try:
                await self.shown.durable.wait_for(seq_of(revision), WAIT_MS)
            except NotReached as error:
                self._logger.warning("not-reached", why=error, trouble=self.last_error)
            else:
                return

    # Following

    async def run(self) -> None:
        """Follow the log and compare the shown state with its digests. Raise `UpgradeNeeded`."""
        while True:
            try:
                await run_until_first(self._follow(), self.shown.compare())
            except StateDiffers as error:
                self._drop(error)

    async def _follow(self) -> None:
        """Run one stream after the other, each from the position of the last."""
        attempt = 0
        while True:
            before, server = self._as_of, self._session.server
            why = await self._stream(server)
            attempt = 1 if self._as_of != before else attempt + 1
            self._metrics.count("mirror_breaks", why=why)
            self._logger.info("stream-ended", why=why, server=server, trouble=self.last_error)
            await self._session.back_off(attempt)

    async def _stream(self, server: str) -> str:
        """Run one stream to its end; return why it ended, as a short code."""
        frames = self._transport.stream(server, self._request(), IDLE_MS)
        try:
            number = 0
            async for frame in frames:
                self._take(server, frame)
                number += 1
                if number % FOLD_AT_ONCE == 0:
                    await asyncio.sleep(0)
            return "ended"
        except _Broken as broken:
            return str(broken)
        except StreamDeclined as declined:
            return self._declined(server, declined)
        except Corrupt as error:
            self._start_over(f"{server} sends what does not follow: {error}")
            return "diverged"
        except TransportError as error:
            self.last_error = str(error)
            self._session.try_another_server(server)
            return "unreachable"
        finally:
            await close_frames(frames)

    def _request(self) -> Request:
        place = self._position()
        query = ((log_stream.SINCE, show_token(place)),) if place is not None else ()
        return Request("GET", log_stream.LOG, query, self._session.headers())

    def _position(self) -> RevisionToken | None:
        """Return the batch to resume after; None: start from a snapshot. An incomplete restore is discarded."""
        if self._loading is not None and not self._loading.is_restored:
            self._loading = None
        facts = (self._loading.state if self._loading is not None else self.state).info
        return token_of(facts.log_id, facts.term, facts.seq, facts.digest) if facts.seq else None

    def _declined(self, server: str, declined: StreamDeclined) -> str:
        found = read_problem(declined.reply)
        if found.code in _START_OVER:
            self._start_over(found.detail)
        else:
            self.last_error = f"{server} does not serve its log: {found.detail} ({found.code})"
            self._session.try_another_server(server, first_value(declined.reply.headers, LEADER))
        return found.code

    def _start_over(self, why: str) -> None:
        """Load again: the state is not part of that log. It is shown until the new one is complete."""
        self._logger.warning("begins-anew", why=why)
        self.last_error = why
        self._loading = MirrorLoad()

    def _drop(self, error: StateDiffers) -> None:
        """Show nothing and load again: the shown state differs from the log."""
        self._metrics.count("mirror_differed")
        self._logger.error("state-differs", why=error)
        self.last_error, self._loading = str(error), MirrorLoad()
        self.shown.drop()

    def _take(self, server: str, frame: bytes) -> None:
        try:
            message = log_stream.read_message(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self.last_error = f"{server} sends what this version cannot read: {error}"
            raise _Broken("unreadable") from error
        match message:
            case log_stream.SnapshotBegin(manifest):
                self._loading = MirrorLoad(manifest)
            case log_stream.SnapshotChunk(raw):
                (self._loading or MirrorLoad()).take(raw)
            case log_stream.LogBatch():
                self._step(message)
            case log_stream.LogHeartbeat(leads=False):
                self._session.try_another_server(server)
                raise _Broken("not-leading")
            case log_stream.LogHeartbeat(at, place):
                if place != self._position():
                    raise Corrupt(f"the log is at {show_token(place)}, this mirror is not")
                self._heard(at, at)

    def _step(self, step: log_stream.LogBatch) -> None:
        """Apply the next batch. Raise `Corrupt` if it does not follow, or `UpgradeNeeded`."""
        state = self._loading.state if self._loading is not None else self.state
        batch = REGION.batches.read(step.raw, state.info.digest, step.digest)
        if self._loading is None:
            self.shown.durable.apply(batch, len(step.raw))
        else:
            fold(REGION, state, batch)
        self._heard(step.at, step.at if step.complete else batch.records[-1].at, whole=step.complete)

    def _heard(self, at: Instant, as_of: Instant, *, whole: bool = True) -> None:
        """Record that nothing is missing as of this time, and whether the log had nothing more then."""
        facts = (self._loading.state if self._loading is not None else self.state).info
        led = facts.log_id, facts.term
        self._session.offset.observe(at, self._clock.boot(), led)
        if self._loading is not None and whole:
            self._show(self._loading.state)
        if self._loading is None:
            if led != self._led:
                # in this leader's time it is unknown until its next message
                self._led, self._as_of, self._latest = led, 0, 0
            self._as_of = max(self._as_of, as_of)
            self.last_error = ""

    def _show(self, state: RegionState) -> None:
        """Show the loaded state in place of the earlier one."""
        self._loading = None
        self.shown.show(state)
        self._led = ("", 0)
        gc_tuning.freeze()
        self._logger.info("loaded", log=state.info.log_id, seq=state.info.seq)
