"""The platform's side of the link: one stream per region, from the cursor that the region has logged.

    cursor in this log ──▶ watch from there ──▶ steps ──▶ ...    nothing for a second ──▶ a heartbeat
    any other position ──▶ a full list, then watch from its token     trimmed past it ──▶ a full list again
                           (in parts, all of one moment)

A step leads from one cursor to the next and contains the objects changed between them. A stream that keeps up makes a
step after it has received every change: the state is then exactly that of the step's end. A stream far behind ends its
steps at an event, and sends the present form of the objects (see `content`).

Only a leader with a fresh proof ships: a region takes shipments as the platform's present state. A stream begins with
the platform's position of the region's log, which the region compares before it applies anything. The server signs each
position that it ships: without a signature, a later claim of it proves nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec.structs import replace

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import INDEX_MAX, RevisionToken, format_revision, pack_revision, seq_of
from holdfast.core.platform.state.tables import PlatformState
from holdfast.core.region.commands import Ship
from holdfast.host.errors import ListAgain, NotLeading, Unavailable
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.link.platform.batching import ChangeBuffer, list_parts
from holdfast.host.link.platform.content import changed, everything, region_filter
from holdfast.host.link.platform.request import (
    PositionProofs,
    ShipmentRequest,
    read_shipment_request,
    resume_after,
    session_problem,
)
from holdfast.host.ports.transport import Framing, Reply, Request, StreamReply
from holdfast.host.protocol.problem import problem_reply
from holdfast.host.protocol.shipments import KnownPosition, LinkHeartbeat, Message, Shipment
from holdfast.host.runtime.deadlines import DeadlinePassed, within
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.streams.resume import proven_leader, stream_frames
from holdfast.host.watch.subscription import Subscription

#: Largest time between two messages of a stream: a heartbeat reports that nothing has changed.
HEARTBEAT_MS = 1_000
#: Largest number of objects and size of a step or a part of a list. Its record has a limit of 1 MiB, and the region
#: does nothing else while it decides the record. Only the objects of one event are never divided.
STEP_OBJECTS = PART_OBJECTS = 500
STEP_BYTES = PART_BYTES = 256 << 10
#: Batches without anything for a region after which its cursor moves anyway, so that it stays within the retained log.
#: Each such step costs a batch here for its acknowledgement. So the number is far larger than the number of regions:
#: otherwise acknowledgements would cause further steps.
MARK_BATCHES = 1_024


async def serve_shipments(
    ledger: Ledger[PlatformState], request: Request, region: str, evidence: PositionProofs, part_objects: int = 0
) -> Reply | StreamReply:
    """Answer `GET /v1/shipments` for the authenticated region, with lists in parts of this size."""
    asked = read_shipment_request(request, region)
    if isinstance(asked, Reply):
        return asked
    try:
        refused = session_problem(ledger, region, asked.session)
        if refused is not None:
            return refused
        since = await resume_after(ledger, asked, evidence)
    except Unavailable as error:
        return problem_reply(503, error.code, str(error))
    if isinstance(since, Reply):
        return since
    evidence.doubted.pop(region, None)
    return StreamReply(_Stream(ledger, asked, since, evidence, part_objects or PART_OBJECTS).frames(), Framing.FRAMES)


class _Stream:
    """One region's stream: its cursor, and the changes received since."""

    def __init__(
        self,
        ledger: Ledger[PlatformState],
        asked: ShipmentRequest,
        since: RevisionToken | None,
        evidence: PositionProofs,
        part_objects: int,
    ) -> None:
        self._ledger = ledger
        self._evidence = evidence
        self._part_objects = part_objects
        self._region = asked.region
        self._session = asked.session
        self._since = since
        self._cursor = asked.cursor
        self._gathered = ChangeBuffer(asked.region)
        self._told_at = ledger.clock.boot()
        self._logger = Logger("shipping", server=ledger.identity.server, region=asked.region)

    def frames(self) -> AsyncGenerator[bytes, None]:
        """Return every message, encoded, until this server no longer leads or the region's session has ended."""
        return stream_frames(self._messages(), self._last, self._count_streams, self._logger)

    def _count_streams(self, by: int) -> None:
        metrics = self._ledger.metrics
        metrics.gauge("shipping_streams", metrics.gauged("shipping_streams") + by)

    async def _messages(self) -> AsyncGenerator[Message, None]:
        self._told_at = self._ledger.clock.boot()
        if session_problem(self._ledger, self._region, self._session) is None:
            status = self._ledger.durable.state.regions[self._region].status
            yield KnownPosition(status.position, status.digest)
        while session_problem(self._ledger, self._region, self._session) is None:
            if self._since is None:
                async with aclosing(self._full_list()) as parts:
                    async for part in parts:
                        self._told_at = self._ledger.clock.boot()
                        yield part
                        if session_problem(self._ledger, self._region, self._session) is not None:
                            return
            assert self._since is not None
            try:
                with await self._ledger.watch(region_filter(self._region), self._since) as subscription:
                    while session_problem(self._ledger, self._region, self._session) is None:
                        for message in await self._next(subscription):
                            self._told_at = self._ledger.clock.boot()
                            yield message
            except ListAgain as error:
                self._logger.info("list-again", why=error)
                self._since = None

    def _last(self) -> Message:
        at, token = self._ledger.durable.state.info.at, self._ledger.durable.token()
        return LinkHeartbeat(at, token, complete=False, leads=False)

    async def _next(self, subscription: Subscription) -> list[Message]:
        """Return the next messages: none while more changes of the same step are being read."""
        try:
            left_ms = self._told_at + HEARTBEAT_MS - self._ledger.clock.boot()
            changes = await within(self._ledger.clock, left_ms, subscription.__anext__())
            self._gathered.on_change(changes, self._cursor)
        except DeadlinePassed:
            pass
        except StopAsyncIteration:
            raise NotLeading("this server's watches have ended") from None
        # From here on the loop does not yield: the received changes and the state are of one moment.
        leader, head = proven_leader(self._ledger), self._ledger.durable.token()
        steps = self._steps(head, has_heard_all=subscription.has_told_all)
        if not steps and self._ledger.clock.boot() >= self._told_at + HEARTBEAT_MS:
            return [LinkHeartbeat(leader.term.now(), head, subscription.has_told_all)]
        return steps

    def _steps(self, head: RevisionToken, *, has_heard_all: bool) -> list[Message]:
        steps: list[Message] = []
        while self._gathered and (has_heard_all or len(self._gathered) > STEP_OBJECTS):
            steps.append(self._step(head, has_heard_all=has_heard_all))
        if has_heard_all and head.seq - seq_of(self._cursor) >= MARK_BATCHES:
            steps.append(self._shipment(Ship(head.log_id, head.term, self._cursor, pack_revision(head.seq, INDEX_MAX))))
        return steps

    def _step(self, head: RevisionToken, *, has_heard_all: bool) -> Shipment:
        """Return the next step: to the head if that fits, otherwise as far as it fits."""
        objects = STEP_OBJECTS
        while True:
            cut = self._gathered.first(objects)
            whole = has_heard_all and cut.is_all
            to, term = (pack_revision(head.seq, INDEX_MAX), head.term) if whole else (cut.to, cut.term)
            puts, gone = changed(self._ledger.durable.state, self._region, cut.names)
            ship = Ship(head.log_id, term, self._cursor, to, puts, gone)
            if cut.events == 1 or len(cut.names) == 1 or len(encode(ship)) <= STEP_BYTES:
                self._gathered.drop(cut)
                return self._shipment(ship, whole=whole)
            objects = len(cut.names) // 2

    async def _full_list(self) -> AsyncGenerator[Shipment, None]:
        """Yield everything, in parts, from a fork of this moment; later changes follow in steps."""
        fork, head, clock = self._ledger.durable.state.fork(), self._ledger.durable.token(), self._ledger.clock
        self._gathered, self._since = ChangeBuffer(self._region), head
        self._ledger.metrics.count("shipping_lists")
        cursor, objects = self._cursor, 0
        whole = Ship(head.log_id, head.term, 0, pack_revision(head.seq, INDEX_MAX), (), full=True)
        puts = everything(fork, self._region)
        for part in list_parts(whole, puts, self._part_objects, PART_BYTES):
            if part is None:
                await clock.sleep(0)
            else:
                objects += len(part.puts)
                yield self._shipment(part, whole=part.last)
        self._logger.info("full-list", objects=objects, seq=head.seq, cursor=format_revision(cursor))
        for _ in fork.release():
            await clock.sleep(0)

    def _shipment(self, ship: Ship, *, whole: bool = True) -> Shipment:
        self._cursor = ship.to
        if ship.last:
            durable = self._ledger.durable
            ship = replace(ship, proof=self._evidence.sign(durable.state, durable.token()))
        self._ledger.metrics.count("shipping_steps")
        self._ledger.metrics.count("shipping_objects", len(ship.puts) + len(ship.gone))
        return Shipment(ship, proven_leader(self._ledger).term.now(), self._ledger.durable.token(), whole)
