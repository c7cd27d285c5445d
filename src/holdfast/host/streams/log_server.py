"""The leader's side of a mirror: its log as it becomes durable, from a token, or from the newest snapshot.

    since ──▶ in this log, and not trimmed ──▶ batches ──▶ ... nothing for a while ──▶ a heartbeat
    none  ──▶ manifest, chunks ──▶ batches after it          a damaged snapshot: start over with the one before

The leader reads from the store, as a follower does, and never beyond the durable state (RULES 10): it neither forks nor
buffers for slow mirrors. Only a proven leader sends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from holdfast.core.ledger.codec import Corrupt, UpgradeNeeded
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.ledger.state.snapshot import decode_manifest, verify
from holdfast.host.errors import NotReached
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ports.store import StoreCorrupt, StoreError
from holdfast.host.ports.transport import Framing, StreamReply
from holdfast.host.protocol import log_stream
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.streams.resume import proven_leader, resume_point, stream_frames

#: The longest silence of a stream, and so the precision of a mirror's age.
HEARTBEAT_MS = 250
#: Bytes of the log per read.
READ_BYTES = 1 << 20


async def serve_log(ledger: Ledger[Any], since: RevisionToken | None) -> StreamReply:
    """Answer `GET /v1/log`. Raise `Unavailable` or `ListAgain` if it cannot be served."""
    proven_leader(ledger)
    if since is not None:
        await resume_point(ledger, since)
    return StreamReply(_Stream(ledger, since).frames(), Framing.FRAMES)


class _Stream:
    """One mirror's stream, and its position."""

    def __init__(self, ledger: Ledger[Any], since: RevisionToken | None) -> None:
        self._ledger = ledger
        self._told: int | None = since.seq if since is not None else None
        self._logger = Logger("mirror", server=ledger.identity.server)

    def frames(self) -> AsyncGenerator[bytes, None]:
        """Return every message, encoded, until this server stops leading."""
        return stream_frames(self._messages(), self._last, self._count_streams, self._logger)

    def _count_streams(self, by: int) -> None:
        metrics = self._ledger.metrics
        metrics.gauge("mirror_streams", metrics.gauged("mirror_streams") + by)

    async def _messages(self) -> AsyncGenerator[log_stream.Message, None]:
        if self._told is None:
            async with aclosing(self._snapshot()) as parts:
                async for part in parts:
                    yield part
        while True:
            for message in await self._next():
                yield message

    def _last(self) -> log_stream.Message:
        return log_stream.LogHeartbeat(self._ledger.durable.state.info.at, self._ledger.durable.token(), leads=False)

    async def _snapshot(self) -> AsyncGenerator[log_stream.Message, None]:
        """Yield the newest intact snapshot; without one, an empty begin."""
        store = self._ledger.store
        self._ledger.metrics.count("mirror_loads")
        for seq, raw in await store.manifests():
            try:
                manifest = decode_manifest(raw)
                yield log_stream.SnapshotBegin(raw)
                for place, part in enumerate(manifest.parts):
                    chunk = await store.get_chunk(seq, part.name)
                    verify(manifest, place, chunk)
                    yield log_stream.SnapshotChunk(chunk)
            except (Corrupt, StoreCorrupt, UpgradeNeeded) as error:
                self._logger.error("snapshot-damaged", store=store.name, snapshot=seq, why=error)
                continue
            self._told = manifest.seq
            return
        yield log_stream.SnapshotBegin()
        self._told = 0

    async def _next(self) -> list[log_stream.Message]:
        """Return the batches after the position; after a while without one, a heartbeat."""
        ledger, told = self._ledger, self._told
        assert told is not None, "a snapshot, or an empty begin, comes first"
        try:
            await ledger.durable.wait_for(told + 1, HEARTBEAT_MS)
        except NotReached:
            leader = proven_leader(ledger)
            is_here = ledger.durable.state.info.seq == told
            return [log_stream.LogHeartbeat(leader.term.now(), ledger.durable.token())] if is_here else []
        stored = await ledger.store.read(told + 1, READ_BYTES)
        # No turn of the loop from here on: completeness and time are of the same moment.
        leader, head = proven_leader(ledger), ledger.durable.state.info.seq
        now = leader.term.now()
        steps: list[log_stream.Message] = [
            log_stream.LogBatch(one.raw, one.digest, now, one.seq == head) for one in stored if told < one.seq <= head
        ]
        if not steps:
            raise StoreError(f"{ledger.store.name}: batch {told + 1} is in the log and cannot be read yet")
        self._told = told + len(steps)
        return steps
