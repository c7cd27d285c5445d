"""The leader's side of an agent's stream.

    the node changed ──▶ all bindings, if they differ from the last message; the more bindings, the longer the pause
    a binding waits  ──▶ checked again soon: a right may have expired, and no event reports it
    nothing          ──▶ a heartbeat now and then

Only a proven leader sends, and only to the session of the request: the stream ends when the agent opens another one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import NamedTuple

from holdfast.core.agent.bindings import BoundSlot, bindings_of_node
from holdfast.core.ledger.answers import Code, Refused, not_found
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import INDEX_MAX, pack_revision
from holdfast.core.model.values.structs import Revision
from holdfast.core.region.state.tables import RegionState
from holdfast.core.region.watch import NODE
from holdfast.host.errors import ListAgain, NotLeading, Unavailable
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.store import StoreError
from holdfast.host.ports.transport import Framing, StreamReply
from holdfast.host.protocol.bindings import BindingsHeartbeat, Message, NodeBindings, TemplateMessage
from holdfast.host.runtime.deadlines import DeadlinePassed, within
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.streams.resume import proven_leader
from holdfast.host.watch.changes import filter_for
from holdfast.host.watch.subscription import KeepaliveRounds, Subscription

#: The interval of checks while a binding waits.
WAITS_MS = 500
#: Slots per millisecond of pause after a message.
SLOTS_IN_A_MS = 100


class BindingsReader(NamedTuple):
    """A node's agent: its name, and the session of its request."""

    name: str
    session: Revision


async def serve_bindings(
    ledger: Ledger[RegionState], reader: BindingsReader, watch_ms: int, rounds: KeepaliveRounds
) -> StreamReply | Refused:
    """Answer `GET /v1/bindings` of a node's agent. Raise `Unavailable` if this server cannot.

    The rounds send a heartbeat while nothing changes.
    """
    proven_leader(ledger)
    name, session = reader.name, reader.session
    uid = ledger.durable.state.node_names.get(name)
    if uid is None:
        return not_found("node", name)
    current = ledger.durable.state.session_of.get(f"agent/{name}") or 0
    if current != session:
        return Refused(Code.NO_SESSION, f"{name} has no session {session}", {"current": current})
    subscription = await ledger.watch(filter_for((NODE, uid)), None, watch_ms)
    frames = _Stream(ledger, subscription, rounds, reader, uid).frames()
    await anext(frames)  # started: closing it unread ends its subscription, too
    return StreamReply(frames, Framing.FRAMES)


class _Stream:
    """One agent's stream, and the bindings that it has sent."""

    def __init__(
        self,
        ledger: Ledger[RegionState],
        subscription: Subscription,
        rounds: KeepaliveRounds,
        reader: BindingsReader,
        node: Revision,
    ) -> None:
        self._ledger = ledger
        self._subscription = subscription
        self._rounds = rounds
        self._actor = f"agent/{reader.name}"
        self._session = reader.session
        self._node = node
        self._told: tuple[BoundSlot, ...] | None = None
        #: The last batch of the state that was examined.
        self._seen = 0
        #: Whether a binding depends on a leased right, which time alone can end.
        self._may_lapse = True
        self._templates: set[str] = set()
        self._logger = Logger("bindings", server=ledger.identity.server)

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield every message, encoded, until this server stops leading or the session ends.

        The creator of the stream takes the first item, which is empty.
        """
        metrics = self._ledger.metrics
        metrics.gauge("bindings_streams", metrics.gauged("bindings_streams") + 1)
        self._rounds.add(self._subscription)
        try:
            yield b""
            while self._is_of_now():
                for message in self._news():
                    yield encode(message)
                await self._rest()
                if not await self._changed():
                    yield encode(BindingsHeartbeat())
            yield encode(BindingsHeartbeat(over=True))
        except (Unavailable, ListAgain, StoreError) as error:
            self._logger.info("stream-ended", agent=self._actor, why=error)
        finally:
            self._rounds.leave(self._subscription)
            self._subscription.close()
            metrics.gauge("bindings_streams", metrics.gauged("bindings_streams") - 1)

    def _is_of_now(self) -> bool:
        proven_leader(self._ledger)
        return self._ledger.durable.state.session_of.get(self._actor) == self._session

    def _news(self) -> list[Message]:
        """Return all bindings if they have changed, preceded by new templates."""
        ledger = self._ledger
        state = ledger.durable.state
        if self._seen == state.info.seq and not self._may_lapse:
            return []  # only a keepalive: the log has nothing newer
        self._seen = state.info.seq
        assert ledger.leader is not None
        now = ledger.leader.term.now()
        slots = tuple(bindings_of_node(state, self._node, now))
        behind = [state.assignments[state.slots[one.slot].assignment] for one in slots]
        self._may_lapse = any(assignment.right_until for assignment in behind)
        if slots == self._told:
            return []
        self._told = slots
        wanted = dict.fromkeys(one.template for one in slots if one.template not in self._templates)
        self._templates = {one.template for one in slots}
        found: list[Message] = [TemplateMessage(digest, state.templates[digest]) for digest in wanted]
        facts = state.info
        ledger.metrics.count("bindings_told")
        return [*found, NodeBindings(facts.log_id, facts.term, pack_revision(facts.seq, INDEX_MAX), now, slots)]

    async def _rest(self) -> None:
        """Pause in proportion to the number of bindings: a crowded node leaves time to others."""
        rest_ms = len(self._told or ()) // SLOTS_IN_A_MS
        if rest_ms:
            await self._ledger.clock.sleep(rest_ms)

    async def _changed(self) -> bool:
        """Wait for a change; False on a keepalive, when there was none."""
        while any(one.waits for one in self._told or ()):
            with suppress(DeadlinePassed):
                return await within(self._ledger.clock, WAITS_MS, self._next())
            if self._may_differ():
                return True
        return await self._next()

    def _may_differ(self) -> bool:
        leader = self._ledger.leader
        return (
            leader is None
            or tuple(bindings_of_node(self._ledger.durable.state, self._node, leader.term.now())) != self._told
        )

    async def _next(self) -> bool:
        async for changes in self._subscription:
            if not changes.changes or changes.token.seq > self._seen:
                return bool(changes.changes)
        raise NotLeading("the watch ended")
