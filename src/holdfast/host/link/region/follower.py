"""The region's end of the stream: each step becomes part of the region's own log, with its cursor, in one commit.

Nothing here has to be remembered: where to go on from is in the region's state, moved by the commit that applies a
step (RULES 14). Whatever breaks, the next stream begins there; a step that comes twice is dropped by the ledger. So is
how far a full list has come: one that was begun and did not end is asked for again. So is one where a lease was told
in an earlier term: it holds only in the term in which it is told.

A stream begins with what the platform knows of this region's log. Nothing of it is taken before that was compared: a
store that lost its end, or was written to anew, must not be taken for what was acknowledged (RULES 9).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import RevisionToken, format_revision, seq_of
from holdfast.core.model.values.settings import agent_times
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.commands import Ship
from holdfast.core.region.queries.assignments import has_stale_lease
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Diverged, Unavailable
from holdfast.host.leader.group_commit import CommandAnswer
from holdfast.host.leader.leader import Leader
from holdfast.host.link.region.session import RegionLogMismatch, RegionSession, RetiredByPlatform
from holdfast.host.ports.store import LogTrimmed, StoreError
from holdfast.host.ports.transport import Request, StreamDeclined, Transport, TransportError, first_value
from holdfast.host.protocol.commands import LEADER
from holdfast.host.protocol.problem import read_problem
from holdfast.host.protocol.session_client import SessionLost
from holdfast.host.protocol.shipments import SHIPMENTS, KnownPosition, LinkHeartbeat, Shipment, read_message
from holdfast.host.runtime.clock_event import ClockEvent
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.streams.resume import close_frames

#: Who applies steps in the region's ledger.
ACTOR = "controller/link"
#: A stream without a beat for so long is broken.
IDLE_MS = 3_500
#: Why a region that was configured joins anew.
OTHER_TIMES = "this region has other times than it has joined with"


class PlatformContact(Struct, frozen=True):
    """The last word of a platform that could show that it leads: when by our even clock, its time, its place, and by
    our even clock when this region last had everything there was for it; None: not yet."""

    boot: int
    at: Instant
    token: RevisionToken
    server: str
    complete: int | None


class PlatformView:
    """What a region knows of the platform beside what is logged, and what is wrong between them."""

    def __init__(self) -> None:
        #: None: nothing was heard since this server started.
        self.last_contact: PlatformContact | None = None
        self.last_error = ""
        #: Set by every word of the platform, and by whoever has heard of something else to tell it.
        self.wake = ClockEvent()

    def on_change(self, message: Shipment | LinkHeartbeat, server: str, boot: int) -> None:
        """All is well: this came, and is applied."""
        before = self.last_contact.complete if self.last_contact is not None else None
        self.last_contact = PlatformContact(
            boot, message.at, message.token, server, boot if message.complete else before
        )
        self.last_error = ""
        self.wake.set()


class _Broken(Exception):
    """This stream cannot go on; the next one may."""


class ShipmentFollower:
    """The streams of one session, one after the other."""

    def __init__(
        self,
        leader: Leader[RegionState],
        speaker: RegionSession,
        transport: Transport,
        outlook: PlatformView,
        logger: Logger,
    ) -> None:
        self._leader = leader
        self._speaker = speaker
        self._transport = transport
        self._outlook = outlook
        self._logger = logger
        self._metrics = leader.term.metrics
        self._wants_list = False
        #: Whether this region's log was found to be the one that the sender of this stream knows.
        self._is_known = False

    async def run(self) -> None:
        """One stream after the other, each from the cursor that is logged. Raises when the session is over."""
        attempt = 0
        while True:
            before = self._outlook.last_contact
            server = self._speaker.server
            why = await self._stream(server)
            attempt = 1 if self._outlook.last_contact is not before else attempt + 1
            self._metrics.count("link_breaks", why=why)
            self._logger.info("stream-ended", why=why, platform=server)
            await self._speaker.back_off(attempt)

    async def _stream(self, server: str) -> str:
        """Apply one stream to its end; why it ended, in a word."""
        self._is_known = False
        frames = self._transport.stream(server, self._request(), IDLE_MS)
        try:
            async for frame in frames:
                await self._take(server, frame)
            return "ended"
        except _Broken as broken:
            return str(broken)
        except StreamDeclined as declined:
            return self._declined(server, declined)
        except TransportError as error:
            self._outlook.last_error = str(error)
            self._speaker.try_another_server(server)
            return "unreachable"
        finally:
            await close_frames(frames)

    def _request(self) -> Request:
        state = self._leader.term.durable.state
        place = state.region
        wants_list = self._wants_list or place.listing is not None or has_stale_lease(state)
        query = (
            ("region", self._speaker.region),
            ("log", place.platform_log),
            ("term", str(place.platform_term)),
            ("cursor", format_revision(place.cursor)),
            ("session", format_revision(self._speaker.session)),
            *([("proof", place.proof)] if place.proof else ()),
            *([("list", "yes")] if wants_list else ()),
        )
        return Request("GET", SHIPMENTS, query, self._speaker.headers())

    def _declined(self, server: str, declined: StreamDeclined) -> str:
        found = read_problem(declined.reply)
        if found.code == Code.NO_SESSION:
            raise SessionLost(found.detail)
        if found.code == Code.TOMBSTONED:
            raise RetiredByPlatform(found.detail)
        self._outlook.last_error = f"{server} ships nothing: {found.detail} ({found.code})"
        self._speaker.try_another_server(server, first_value(declined.reply.headers, LEADER))
        return found.code

    async def _take(self, server: str, frame: bytes) -> None:
        try:
            message = read_message(frame)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._outlook.last_error = f"{server} ships what this version cannot read: {error}"
            self._logger.error("unreadable", why=error, platform=server)
            raise _Broken("unreadable") from error
        if isinstance(message, LinkHeartbeat) and not message.leads:
            self._speaker.try_another_server(server)
            raise _Broken("not-leading")
        if isinstance(message, KnownPosition):
            await self._compare(message)
            return
        if not self._is_known:
            raise _Broken("nothing-known")
        led = message.token.log_id, message.token.term
        self._speaker.offset.observe(message.at, self._leader.term.now(), led)
        if isinstance(message, Shipment):
            await self._apply(server, message)
        elif message.complete and self._is_listing():
            raise _Broken("list-unfinished")  # its sender believes that it has told everything
        self._outlook.on_change(message, server, self._leader.term.clock.boot())

    async def _compare(self, known: KnownPosition) -> None:
        """`RegionLogMismatch` unless this region's log has the batch that the platform knows or has trimmed it."""
        durable, seq = self._leader.term.durable, seq_of(known.position)
        if known.position:
            held = RevisionToken(durable.state.info.log_id, 0, seq, bytes.fromhex(known.digest))
            try:
                await durable.verify(held, self._leader.term.store)
            except LogTrimmed:
                pass
            except StoreError as error:
                self._outlook.last_error = f"this region cannot look up its own batch {seq}: {error}"
                raise _Broken("not-compared") from error
            except Diverged as error:
                head = durable.state.info.seq
                here = f"ends at batch {head}" if head < seq else "has another batch there"
                raise RegionLogMismatch(f"it acknowledged batch {seq} ({known.digest}), and {here}") from error
        self._is_known = True

    async def _apply(self, server: str, shipment: Shipment) -> None:
        """Make a step part of the region's log, with its cursor; or break, and begin again where that is.

        A lease that comes with it is waited for by the times that this region has joined with (RULES 24)."""
        if agent_times(self._leader.term.durable.state.info.settings) != self._speaker.times:
            raise SessionLost(OTHER_TIMES)
        ship, offset = shipment.ship, self._speaker.offset
        step = replace(ship, puts=tuple([offset.in_our_time(put) for put in ship.puts]))
        answer = await self._submit(step)
        while isinstance(answer, Committed) and step.full and step.last and self._is_listing():
            answer = await self._submit(step)  # more was gone than one record holds
        if not isinstance(answer, Refused):
            self._wants_list = False
        elif answer.code is not Code.ALREADY:
            self._refused(server, answer, shipment)
        self._metrics.count("link_steps", kind="list" if ship.full else "step")
        self._metrics.count("link_objects", len(ship.puts) + len(ship.gone))

    async def _submit(self, step: Ship) -> CommandAnswer:
        try:
            return await self._leader.submit(Envelope(ACTOR, step, self._leader.term.now()))
        except Unavailable as error:
            self._outlook.last_error = f"this region cannot apply what was shipped: {error}"
            raise _Broken(error.code) from error

    def _is_listing(self) -> bool:
        return self._leader.term.durable.state.region.listing is not None

    def _refused(self, server: str, answer: Refused, shipment: Shipment) -> None:
        """A later term was heard of: somebody else leads there. All else is mended by a full list, if by anything."""
        self._metrics.count("link_refused", code=answer.code.value)
        self._logger.warning("step-refused", code=answer.code.value, why=answer.message, full=shipment.ship.full)
        if answer.code is Code.STALE:
            self._speaker.try_another_server(server)
        else:
            self._wants_list = True
            self._outlook.last_error = f"this region refused what was shipped: {answer.message} ({answer.code})"
        raise _Broken(answer.code.value)
