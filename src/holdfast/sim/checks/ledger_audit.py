"""The audit of one ledger from its log alone: it folds the log independently and trusts no server.

- the chain is complete, and terms only grow
- no command is in the log twice; an acknowledged command is there, at the revision that its sender received
- a machine acts only in its own session, and only while that is open at this position of the log
- every invariant holds: after each batch near its writes, and in full at intervals, after every fault, and at the end
- a linear read is at least as new as all acknowledgements and reads before it
- a list of the newest state contains exactly the objects of that state
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from msgspec import Struct

from holdfast.core.ledger.builtin.sessions import SessionEnded, SessionOpened
from holdfast.core.ledger.codec import Batch, Corrupt, LogRecord, key_id
from holdfast.core.ledger.commit.authorization import MACHINES
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import Committed, fold
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import format_revision, pack_revision, seq_of
from holdfast.core.ledger.state.invariants import Violation, check, check_batch
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.values.structs import Revision
from holdfast.host.ports.store import LogStore, StoredBatch

FULL_EVERY = 200

#: By kind: the table of which a list shows all rows.
LISTED = {"Workload": "workloads", "Node": "nodes"}

#: Identifies a command: its session and sequence number, or -1 and its actor's key.
CommandId = tuple[int, int]


class Finding(Struct, frozen=True):
    """A violated safety property, with details."""

    promise: str
    detail: str


class PendingRead(Struct, frozen=True):
    """A read under way, and the batch that it must include: for a linear one, the newest that was acknowledged to any
    client."""

    at_least: int
    level: str = "linear"


class LedgerAudit(Generic[S]):
    """The independent fold of one ledger, with its checks."""

    def __init__(self, definition: LedgerDefinition[S], log: LogStore) -> None:
        self.state = definition.empty()
        self.findings: list[Finding] = []
        #: Number of batches, commands, acknowledgements and reads that were checked.
        self.counts = {"batches": 0, "commands": 0, "acknowledged": 0, "linear": 0, "at-least": 0, "listed": 0}
        #: Called with each batch after its check.
        self.listeners: list[Callable[[Batch[Any]], None]] = []
        self.newest = b""
        self._definition = definition
        self._log = log
        self._seen: dict[CommandId, Revision] = {}
        #: Principal of each open session, from events alone: the state's own sessions are not trusted here.
        self._open: dict[Revision, str] = {}
        self._told: dict[CommandId, Revision] = {}
        #: Acknowledged writes whose log position the client did not receive.
        self._accepted: dict[CommandId, str] = {}
        self._newest_told = 0
        self._unchecked = 0
        #: The batch of the last full check: until the next batch another one finds nothing new.
        self._judged_at = -1
        #: Violations that were reported already.
        self._broken: set[Violation] = set()

    def acknowledged(self, envelope: Envelope[Any], landed: Committed) -> None:
        """Record an acknowledged command with its revision."""
        self.counts["acknowledged"] += 1
        self._newest_told = max(self._newest_told, seq_of(landed.revision))
        name = _name(envelope)
        if name is None:
            return
        before = self._told.setdefault(name, landed.revision)
        if before != landed.revision:
            self._find("one-answer", f"{name} got {format_revision(before)} and {format_revision(landed.revision)}")

    def accepted(self, actor: str, key: str, seq: int) -> None:
        """Record an acknowledged write under a key. The server had folded the log up to `seq`."""
        self.counts["acknowledged"] += 1
        self._newest_told = max(self._newest_told, seq)
        self._accepted[-1, key_id(actor, key)] = f"{actor} {key}"

    def asks(self) -> PendingRead:
        """Start a linear read."""
        return PendingRead(self._newest_told)

    def reads(self, asked: PendingRead, seq: int, items: Sequence[Mapping[str, Any]] = ()) -> None:
        """Check an answered read: the server's batch `seq`, and the objects, if the list is complete for their kind."""
        self.counts[asked.level] += 1
        if seq == self.state.info.seq:
            self._judge_items(items)
        if seq < asked.at_least:
            self._find(asked.level, f"a read saw batch {seq}, after batch {asked.at_least} was acknowledged")
        if asked.level == "linear":
            self._newest_told = max(self._newest_told, seq)

    def _judge_items(self, items: Sequence[Mapping[str, Any]]) -> None:
        """Compare a list with the state: the same objects at the same revisions."""
        kinds = {one["kind"] for one in items}
        for kind in kinds & LISTED.keys():
            self.counts["listed"] += 1
            rows = dict(self.state.table(LISTED[kind]).items())
            there = {format_revision(uid): format_revision(_revision(row)) for uid, row in rows.items()}
            told = {one["metadata"]["uid"]: one["metadata"]["revision"] for one in items}
            if told != there:
                wrong = sorted(set(told.items()) ^ set(there.items()))
                self._find("listed", f"a list of {kind} after batch {self.state.info.seq} differs by {wrong[:3]}")

    def landed(self, stored: StoredBatch) -> bool:
        """Check a batch when it becomes durable. Return False if it does not continue the chain."""
        try:
            batch = self._definition.batches.read(stored.raw, self.state.info.digest, stored.digest)
        except Corrupt as error:
            self._find("chain", f"batch {stored.seq} does not follow batch {self.state.info.seq}: {error}")
            return False
        self._fold(batch)
        self.newest = stored.raw
        for listener in self.listeners:
            listener(batch)
        return True

    async def catch_up(self, *, in_full: bool = False) -> None:
        """Fold and check the new batches of the log."""
        head, whole = await self._log.head(), True
        while whole and self.state.info.seq < head.seq:
            for stored in await self._log.read(self.state.info.seq + 1):
                whole = whole and self.landed(stored)
        if head.seq != self.state.info.seq or head.digest != self.state.info.digest:
            self._find("chain", f"the log ends with batch {head.seq}, the audit with batch {self.state.info.seq}")
        if in_full:
            self.check_in_full()

    def _fold(self, batch: Batch[Any]) -> None:
        term = self.state.info.term
        if batch.header.term < term:
            self._find("terms-grow", f"batch {batch.header.seq} is of term {batch.header.term}, after term {term}")
        position = pack_revision(batch.header.seq)
        for record in batch.records:
            self._note(record, position)
            self._must_be_alive(record, position)
            for event in record.events:
                self._live(event, position)
                position += 1
        overlay = self.state.overlay()
        fold(self._definition, overlay, batch)
        self._tell(check_batch(self.state, overlay, self._definition.invariants), batch.header.seq)
        self.state.merge(overlay)
        self.counts["batches"] += 1
        self._unchecked += 1
        if self._unchecked >= FULL_EVERY:
            self.check_in_full()

    def _note(self, record: LogRecord[Any], position: Revision) -> None:
        self.counts["commands"] += 1
        name = (record.session, record.sequence) if record.session else (-1, record.key) if record.key else None
        if name is None:
            return
        before = self._seen.setdefault(name, position)
        if before != position:
            self._find(
                "once",
                f"{record.command} {name} is in the log at {format_revision(before)} and at "
                f"{format_revision(position)}",
            )

    def _must_be_alive(self, record: LogRecord[Any], position: Revision) -> None:
        """Check that a machine's session is open (RULES 3); without a session it may only open one."""
        if record.actor.partition("/")[0] not in MACHINES or self._open.get(record.session) == record.actor:
            return
        if record.session or not any(isinstance(event, SessionOpened) for event in record.events):
            said = f"session {format_revision(record.session)}" if record.session else "no session"
            self._find(
                "in-session",
                f"{record.actor} did {record.command} at {format_revision(position)} in {said}, which is not open",
            )

    def _live(self, event: Any, position: Revision) -> None:
        if isinstance(event, SessionOpened):
            self._open[position] = event.principal
        elif isinstance(event, SessionEnded):
            self._open.pop(event.session, None)

    def check_in_full(self) -> None:
        """Check all invariants, unless this state was checked already."""
        if self._judged_at == self.state.info.seq:
            return
        self._judged_at, self._unchecked = self.state.info.seq, 0
        self._tell(check(self.state, self._definition.invariants), self.state.info.seq)

    def _tell(self, violations: list[Violation], seq: int) -> None:
        for violation in violations:
            if violation not in self._broken:
                self._broken.add(violation)
                self._find(violation.invariant, f"after batch {seq}: {violation.detail}")

    async def finish(self) -> list[Finding]:
        """Fold the rest of the log, check all acknowledgements against it, and return all findings."""
        await self.catch_up(in_full=True)
        for name, told in self._told.items():
            found = self._seen.get(name)
            if found != told:
                where = "nowhere" if found is None else f"at {format_revision(found)}"
                self._find("acknowledged-is-durable", f"{name} got {format_revision(told)} and is in the log {where}")
        for name, who in self._accepted.items():
            if name not in self._seen:
                self._find("acknowledged-is-durable", f"{who} was acknowledged, but is nowhere in the log")
        return self.findings

    def _find(self, promise: str, detail: str) -> None:
        self.findings.append(Finding(promise, detail))


def _revision(row: Any) -> Revision:
    found: Revision = row.meta.revision if hasattr(row, "meta") else row.revision
    return found


def _name(envelope: Envelope[Any]) -> CommandId | None:
    if envelope.session:
        return envelope.session, envelope.sequence
    return (-1, key_id(envelope.actor, envelope.key)) if envelope.key else None
