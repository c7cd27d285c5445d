"""The region's end of the stream: each step is committed to the region's own log, with its cursor.

The follower stores nothing itself. The commit that applies a step moves the cursor in the region's state (RULES 14).
After any failure the next stream resumes there, and the ledger drops a repeated step. An unfinished full list, also in
the state, is requested again. A list is also requested if a lease was received in an earlier term: it is valid only in
the term in which it is received.

A stream begins with the platform's position of this region's log. The follower compares it before it applies anything:
a store that lost its end, or was overwritten, must not pass for the acknowledged one (RULES 9).
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import CommandAnswer, Committed
from holdfast.core.ledger.revision import RevisionToken, format_revision, seq_of
from holdfast.core.model.values.settings import agent_times
from holdfast.core.model.values.structs import Instant
from holdfast.core.region.commands import Ship
from holdfast.core.region.queries.assignments import has_stale_lease
from holdfast.core.region.state.tables import RegionState
from holdfast.host.errors import Diverged, Unavailable
from holdfast.host.leader.leader import Leader
from holdfast.host.link.region.session import RegionLogMismatch, RegionSession, RetiredByPlatform
from holdfast.host.ports.store import LogTrimmed, StoreError
from holdfast.host.ports.transport import Request, StreamDeclined, Transport, TransportError, first_value
from holdfast.host.protocol.commands import LEADER
from holdfast.host.protocol.problem import read_problem
from holdfast.host.protocol.session_client import SessionLost
from holdfast.host.protocol.shipments import SHIPMENTS, KnownPosition, LinkHeartbeat, Shipment, read_message
from holdfast.host.runtime.deadlines import ClockEvent
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.streams.resume import close_frames

#: The actor that applies steps in the region's ledger.
ACTOR = "controller/link"
#: A stream without a message for this long is broken.
IDLE_MS = 3_500
#: Why a region joins again after new settings.
OTHER_TIMES = "the times of this region have changed since it joined"


class PlatformContact(Struct, frozen=True):
    """The last message of a leading platform server: when it arrived by the boot clock, its ledger time and position,
    and when this region was last complete by the boot clock; None: not yet."""

    boot: int
    at: Instant
    token: RevisionToken
    server: str
    complete: int | None


class PlatformView:
    """A region's view of the platform beyond its log, and the last error between them."""

    def __init__(self) -> None:
        #: None: no message since this server started.
        self.last_contact: PlatformContact | None = None
        self.last_error = ""
        #: Set by every message of the platform, and by tasks with something new to report.
        self.wake = ClockEvent()

    def on_change(self, message: Shipment | LinkHeartbeat, server: str, boot: int) -> None:
        """Record a message that was received and applied."""
        before = self.last_contact.complete if self.last_contact is not None else None
        self.last_contact = PlatformContact(
            boot, message.at, message.token, server, boot if message.complete else before
        )
        self.last_error = ""
        self.wake.set()


class _Broken(Exception):
    """This stream cannot continue; the next one may."""


class ShipmentFollower:
    """Follows the streams of one session, one after the other."""

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
        #: Whether this region's log matches the position that the sender of this stream has.
        self._is_known = False

    async def run(self) -> None:
        """Follow one stream after the other, each from the logged cursor. Raise once the session has ended."""
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
        """Apply one stream to its end; return why it ended, in a word."""
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
            self._outlook.last_error = f"{server} shipped a message that this version cannot read: {error}"
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
            raise _Broken("list-unfinished")  # its sender has sent everything
        self._outlook.on_change(message, server, self._leader.term.clock.boot())

    async def _compare(self, known: KnownPosition) -> None:
        """Raise `RegionLogMismatch` unless this region's log has the platform's batch or has trimmed it."""
        durable, seq = self._leader.term.durable, seq_of(known.position)
        if known.position:
            held = RevisionToken(durable.state.info.log_id, 0, seq, bytes.fromhex(known.digest))
            try:
                await durable.verify(held, self._leader.term.store)
            except LogTrimmed:
                pass
            except StoreError as error:
                self._outlook.last_error = f"this region cannot read its own batch {seq}: {error}"
                raise _Broken("not-compared") from error
            except Diverged as error:
                head = durable.state.info.seq
                here = f"ends at batch {head}" if head < seq else "has another batch there"
                raise RegionLogMismatch(f"it acknowledged batch {seq} ({known.digest}), but {here}") from error
        self._is_known = True

    async def _apply(self, server: str, shipment: Shipment) -> None:
        """Commit a step to the region's log, with its cursor; on failure break the stream, and resume at the cursor.

        The platform waits for a shipped lease by the times with which this region has joined (RULES 24).
        """
        if agent_times(self._leader.term.durable.state.info.settings) != self._speaker.times:
            raise SessionLost(OTHER_TIMES)
        ship, offset = shipment.ship, self._speaker.offset
        step = replace(ship, puts=tuple([offset.in_our_time(put) for put in ship.puts]))
        answer = await self._submit(step)
        while isinstance(answer, Committed) and step.full and step.last and self._is_listing():
            answer = await self._submit(step)  # more to delete than one record holds
        if not isinstance(answer, Refused):
            self._wants_list = False
        elif answer.code is not Code.ALREADY:
            self._refused(server, answer, shipment)
        self._metrics.count("link_steps", kind="list" if ship.full else "step")
        self._metrics.count("link_objects", len(ship.puts) + len(ship.gone))

    async def _submit(self, step: Ship) -> CommandAnswer:
        try:
            return await self._leader.submit_as(ACTOR, step)
        except Unavailable as error:
            self._outlook.last_error = f"this region cannot apply a shipment: {error}"
            raise _Broken(error.code) from error

    def _is_listing(self) -> bool:
        return self._leader.term.durable.state.region.listing is not None

    def _refused(self, server: str, answer: Refused, shipment: Shipment) -> None:
        """Break the stream after a refusal. A later term means that another server leads; a full list repairs the rest,
        if anything does."""
        self._metrics.count("link_refused", code=answer.code.value)
        self._logger.warning("step-refused", code=answer.code.value, why=answer.message, full=shipment.ship.full)
        if answer.code is Code.STALE:
            self._speaker.try_another_server(server)
        else:
            self._wants_list = True
            self._outlook.last_error = f"this region refused a shipment: {answer.message} ({answer.code})"
        raise _Broken(answer.code.value)
