"""Group commit: decide what waits, append once, and only then answer, publish and show.

    lanes --> draft on an overlay --> append --> landed:   merge, publish, answer, in one loop turn
                                             --> lost:     step down; nothing of it has happened
                                             --> full:     answered `read-only`; nothing has happened
                                             --> given up: step down; answered `outcome-unknown`

One batch is in flight, and none is decided meanwhile (ADR 0016). Answers wait for their batch, refusals too: they may
rest on what is not durable yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.commit.draft import BatchDraft, Committed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.host.errors import Failed, NotLeading, OutcomeUnknown, ReadOnly, Unavailable
from holdfast.host.leader.append import AppendResult, AppendTask, BatchCommitted, BatchRejected, BatchUnknown
from holdfast.host.leader.lanes import QueuedCommand, reject, take_batch
from holdfast.host.leader.refusal_cache import RefusalCache
from holdfast.host.leader.term import LeaderTerm, SteppedDown
from holdfast.host.ports.store import BATCH_BYTES, StoredBatch, WriteFull

S = TypeVar("S", bound=LedgerState)
CommandAnswer = Committed | Refused | Repeated

#: Commands in one batch, at most: refusals take no room in it, and still take time.
COMMANDS_MAX = 4_096
#: After so long no further command is taken into a batch: as long as it is judged nobody else has a turn, and to merge,
#: publish and answer it, in one turn too, takes about half as long again.
JUDGE_MS = 25

#: Shows within so many milliseconds that this server still leads, by a proof that begins after the call.
ProveNow = Callable[[int], Awaitable[None]]


class DraftBatch(Generic[S]):
    """A draft, the commands that it was made of, and what each will be answered."""

    def __init__(self, draft: BatchDraft[S]) -> None:
        self.draft = draft
        self.taken: list[QueuedCommand] = []
        self.answers: list[CommandAnswer] = []
        self.sealed = (b"", b"")
        #: Its append, as a question whether this server still leads.
        self.question = 0
        #: The sessions that it ends.
        self.ends: list[int] = []

    def tell(self, error: Exception) -> None:
        """Tell everybody that there is no answer."""
        for one in self.taken:
            reject(one, error)


class GroupCommit(Generic[S]):
    """The one writer of a term."""

    def __init__(self, term: LeaderTerm[S], prove_now: ProveNow) -> None:
        self._term = term
        self._prove_now = prove_now
        #: Judging commands together failed: of this many only so many at a time are judged, to find the culprit.
        self._suspects = self._at_a_time = 0
        self._append: AppendTask | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self) -> None:
        """Commit what waits, batch after batch, until the term is over."""
        term = self._term
        while not term.is_over:
            await term.lanes.wait()
            now = self._decide()
            if len(now.draft):
                await self._commit(now)
            elif now.taken:
                await self._answer_unchanged(now)
            # Whoever was answered sends what comes next before another batch is closed.
            await asyncio.sleep(0)

    def in_flight(self) -> bytes | None:
        """The digest of the batch whose end is not known yet."""
        return None if self._append is None else self._append.digest

    def is_stuck(self, longer_than: int) -> bool:
        """Whether the store did not answer plainly, or not for this long: until it does, nothing is proven."""
        append = self._append
        return append is not None and (bool(append.last_error) or self._term.clock.boot() - append.began > longer_than)

    def degraded_reason(self) -> str:
        """What the store answered to the batch in flight, if that was no plain answer."""
        return self._append.last_error if self._append is not None else ""

    async def quiet(self) -> None:
        """Return when the batch in flight, if there is one, is answered."""
        await self._idle.wait()

    def is_finished(self) -> bool:
        """Whether no append is under way any more."""
        return self._append is None or self._append.is_finished()

    def _decide(self) -> DraftBatch[S]:
        """Judge what waits, and seal it. What cannot be judged together is judged in ever smaller parts."""
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
        # A packet that comes twice is not judged twice, nor on what came in between: not even within a batch.
        fresh, until = RefusalCache(), term.clock.boot() + JUDGE_MS
        may_be_known, before, waiting = bool(term.refusals), 0, take_batch(term.lanes, BATCH_BYTES)
        one = next(waiting)
        while one is not None:
            if not one.answer.done():  # otherwise nobody waits any more, and it was never looked at
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
        """Judge half at a time what could not be judged together; a single command is set aside."""
        if len(taken) > 1:
            self._suspects, self._at_a_time = len(taken), len(taken) // 2
            self._term.lanes.put_back(taken)
            return
        (one,) = taken
        command = type(one.envelope.command).__name__
        self._term.metrics.count("commands_failed", command=command)
        self._term.logger.error("command-failed", error, command=command, actor=one.envelope.actor)
        reject(one, Failed(f"judging {command} failed: {type(error).__name__}; it was logged"))

    async def begin(self, draft: BatchDraft[S]) -> None:
        """Append the first batch of a term. Raises `SteppedDown` when somebody else was faster."""
        now = DraftBatch(draft)
        now.sealed = draft.seal()
        await self._commit(now)

    async def _commit(self, now: DraftBatch[S]) -> None:
        """Append a sealed batch and see it through. Raises `SteppedDown` when the term is over."""
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
        """Everything that follows from how an append ended, in one loop turn."""
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
                raise SteppedDown(f"whether batch {batch.seq} landed cannot be told: {why}")

    async def _answer_unchanged(self, now: DraftBatch[S]) -> None:
        """Refusals change nothing, but they are answers: only who leads may give them, on the newest state."""
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
    """A number that came too early is not used up, and nobody uses up the numbers of another's session."""
    if answer.code in (Code.TOO_MANY_IN_FLIGHT, Code.TOO_MANY_KEYS):
        return
    session = state.sessions.get(envelope.session)
    if envelope.session and (session is None or session.principal != envelope.actor):
        return
    refusals.remember(envelope, answer)
