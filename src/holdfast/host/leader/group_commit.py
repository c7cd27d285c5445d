"""Group commit: decide the queued commands, append once, and only then answer, publish and show.

    lanes --> draft on an overlay --> append --> committed: merge, publish, answer, in one loop turn
                                             --> lost:      step down; no command took effect
                                             --> full:      answered `read-only`; no command took effect
                                             --> given up:  step down; answered `outcome-unknown`

One batch is in flight, and none is decided meanwhile (ADR 0016). Answers wait for their batch; so do refusals, which
may depend on state that is not durable yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.draft import BatchDraft, CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import LedgerState, S
from holdfast.host.errors import Failed, NotLeading, OutcomeUnknown, ReadOnly, Unavailable
from holdfast.host.leader.append import AppendResult, AppendTask, BatchCommitted, BatchRejected, BatchUnknown
from holdfast.host.leader.lanes import QueuedCommand, reject, take_batch
from holdfast.host.leader.refusal_cache import RefusalCache
from holdfast.host.leader.term import LeaderTerm, SteppedDown
from holdfast.host.ports.store import BATCH_BYTES, StoredBatch, WriteFull

#: Largest number of commands in one batch, refusals included.
COMMANDS_MAX = 4_096
#: The longest time for decisions in one batch. They block the loop; so does the end of the batch, for half as long.
JUDGE_MS = 25

#: Proves within this many milliseconds that this server still leads, by a new proof.
ProveNow = Callable[[int], Awaitable[None]]


class DraftBatch(Generic[S]):
    """A draft, its commands, and their answers."""

    def __init__(self, draft: BatchDraft[S]) -> None:
        self.draft = draft
        self.taken: list[QueuedCommand] = []
        self.answers: list[CommandAnswer] = []
        self.sealed = (b"", b"")
        #: The number of its append among the proof requests.
        self.question = 0
        #: The sessions that it ends.
        self.ends: list[int] = []

    def tell(self, error: Exception) -> None:
        """Reject all commands of the batch."""
        for one in self.taken:
            reject(one, error)


class GroupCommit(Generic[S]):
    """The single writer of a term."""

    def __init__(self, term: LeaderTerm[S], prove_now: ProveNow) -> None:
        self._term = term
        self._prove_now = prove_now
        #: After a decision failed: the number of suspect commands, and how many of them are decided at a time.
        self._suspects = self._at_a_time = 0
        self._append: AppendTask | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self) -> None:
        """Commit queued commands, batch after batch, until the term ends."""
        term = self._term
        while not term.is_over:
            await term.lanes.wait()
            now = self._decide()
            if len(now.draft):
                await self._commit(now)
            elif now.taken:
                await self._answer_unchanged(now)
            # A sender can react to an answer before another batch is closed.
            await asyncio.sleep(0)

    def in_flight(self) -> bytes | None:
        """Return the digest of the batch in flight."""
        return None if self._append is None else self._append.digest

    def is_stuck(self, longer_than: int) -> bool:
        """Whether the store gave no clear outcome, or none for this long: then nothing can be proven."""
        append = self._append
        return append is not None and (bool(append.last_error) or self._term.clock.boot() - append.began > longer_than)

    def degraded_reason(self) -> str:
        """Return the store's last error for the batch in flight; empty: none."""
        return self._append.last_error if self._append is not None else ""

    async def quiet(self) -> None:
        """Return when the batch in flight, if any, is answered."""
        await self._idle.wait()

    def is_finished(self) -> bool:
        """Whether no append is in flight."""
        return self._append is None or self._append.is_finished()

    def _decide(self) -> DraftBatch[S]:
        """Decide queued commands and seal the batch. After an error, retry with smaller parts."""
        while True:
            decided = DraftBatch(BatchDraft(self._term.durable.definition, self._term.durable.state))
            try:
                self._judge(decided, self._at_a_time if self._suspects > 0 else COMMANDS_MAX)
                if len(decided.draft):
                    decided.sealed = decided.draft.seal()
            except Exception as error:
                self._judge_apart(decided.taken, error)
            else:
                self._suspects -= len(decided.taken)
                return decided

    def _judge(self, decided: DraftBatch[S], most: int) -> None:
        term, draft, taken = self._term, decided.draft, decided.taken
        at, consider, answered = term.now(), draft.add, decided.answers.append
        # A duplicate packet is not decided twice, even within one batch.
        fresh, until = RefusalCache(), term.clock.boot() + JUDGE_MS
        may_be_known, before, waiting = bool(term.refusals), 0, take_batch(term.lanes, BATCH_BYTES)
        one = next(waiting)
        while one is not None:
            if not one.answer.done():  # otherwise the caller stopped waiting, and the command is skipped
                envelope = one.envelope
                taken.append(one)
                known = (term.refusals.earlier(envelope) or fresh.earlier(envelope)) if may_be_known else None
                answer = known or consider(envelope, at)
                answered(answer)
                if type(answer) is Refused:
                    may_be_known = True
                    _keep(fresh, draft.state, envelope, answer)
                if len(taken) >= most or term.clock.boot() >= until:
                    return
            before, took = draft.size_bytes, draft.size_bytes - before
            one = waiting.send(took)

    def _judge_apart(self, taken: list[QueuedCommand], error: Exception) -> None:
        """Retry with half of the commands after an error; reject a single command."""
        if len(taken) > 1:
            self._suspects, self._at_a_time = len(taken), len(taken) // 2
            self._term.lanes.put_back(taken)
            return
        (one,) = taken
        command = type(one.envelope.command).__name__
        self._term.metrics.count("commands_failed", command=command)
        self._term.logger.error("command-failed", error, command=command, actor=one.envelope.actor)
        reject(one, Failed(f"an internal error in {command}: {type(error).__name__}; it was logged"))

    async def begin(self, draft: BatchDraft[S]) -> None:
        """Append the first batch of a term. Raise `SteppedDown` if another server was faster."""
        now = DraftBatch(draft)
        now.sealed = draft.seal()
        await self._commit(now)

    async def _commit(self, now: DraftBatch[S]) -> None:
        """Append a sealed batch and process its outcome. Raise `SteppedDown` if the term has ended."""
        term, facts = self._term, now.draft.state.info
        raw, digest = now.sealed
        batch = StoredBatch(facts.log_id, facts.seq, digest, raw)
        now.question = term.proof.next_question()
        now.ends = term.sessions.end_in(now.draft.state)
        self._append = AppendTask(term.store, term.clock, term.metrics, term.durable.head(), batch)
        self._idle.clear()
        try:
            self._conclude(await self._append.settled(facts.settings.session_lease), now, batch)
        except BaseException:
            now.tell(OutcomeUnknown("this server stopped while it wrote the command; retry with the same key"))
            raise
        finally:
            self._idle.set()

    def _conclude(self, settled: AppendResult, now: DraftBatch[S], batch: StoredBatch) -> None:
        """Process the outcome of an append completely, in one loop turn."""
        term = self._term
        if not isinstance(settled, BatchUnknown):
            self._append = None
        match settled:
            case BatchCommitted(began, overtaken):
                term.durable.commit(now.draft, len(batch.raw))
                self._answer(now)
                term.space.committed()
                term.metrics.count("batches")
                term.metrics.time("commit_ms", term.clock.boot() - began)
                if overtaken is not None:
                    raise SteppedDown(f"another server leads: the head is at {overtaken.seq}", deposed=True)
                term.proof.confirm(began, now.question)
            case BatchRejected(head):
                now.tell(NotLeading("another server leads; the command was not executed"))
                raise term.depose(term.durable.head(), head)
            case WriteFull(why):
                term.space.full(why)
                for session in now.ends:
                    term.sessions.end_failed(session)
                now.tell(ReadOnly(term.space.why()))
            case BatchUnknown(why):
                now.tell(OutcomeUnknown(f"{why}; retry with the same key"))
                raise SteppedDown(f"it is unknown whether batch {batch.seq} is in the log: {why}")

    async def _answer_unchanged(self, now: DraftBatch[S]) -> None:
        """Answer refusals, which only a proven leader may give, on the newest state."""
        settings = self._term.durable.state.info.settings
        try:
            await self._prove_now(settings.session_lease // 2)
        except Unavailable as error:
            now.tell(error)
        except BaseException:
            now.tell(NotLeading("this server stepped down; the command was not executed"))
            raise
        else:
            self._answer(now)

    def _answer(self, now: DraftBatch[S]) -> None:
        metrics = self._term.metrics
        for one, answer in zip(now.taken, now.answers, strict=True):
            if type(answer) is Refused:
                metrics.count("commands_refused", code=answer.code.value)
                self._term.denied(one.envelope, answer)
                _keep(self._term.refusals, self._term.durable.state, one.envelope, answer)
            future = one.answer
            if not future.done():
                future.set_result(answer)
        metrics.count("commands", len(now.taken))


def _keep(refusals: RefusalCache, state: LedgerState, envelope: Envelope[Any], answer: Refused) -> None:
    """Cache a refusal, unless its number came too early or belongs to another principal's session."""
    if answer.code in (Code.TOO_MANY_IN_FLIGHT, Code.TOO_MANY_KEYS):
        return
    session = state.sessions.get(envelope.session)
    if envelope.session and (session is None or session.principal != envelope.actor):
        return
    refusals.remember(envelope, answer)
