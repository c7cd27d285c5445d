"""Group commit: decide what waits, append once, and only then answer, publish and show.

    lanes --> draft on an overlay --> append --> landed:   merge, publish, answer, in one loop turn
                                             --> lost:     step down; nothing of it has happened
                                             --> full:     answered `read-only`; nothing has happened
                                             --> given up: step down; answered `outcome-unknown`

One batch is in flight. Answers wait for their batch, refusals too: they may rest on what is not durable yet.
"""

from __future__ import annotations

import asyncio
from typing import Any, Generic, TypeVar

from holdfast.core.ledger.answers import Code, Refused, Repeated
from holdfast.core.ledger.draft import Draft, Landed
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state import LedgerState
from holdfast.host.commit import Append, BatchLanded, BatchLost, GivenUp, Settled
from holdfast.host.errors import Failed, NotLeading, OutcomeUnknown, ReadOnly
from holdfast.host.lanes import Turn, Waiting, refuse
from holdfast.host.store import BATCH_BYTES, Full, Head, Stored
from holdfast.host.term import SteppedDown, Term

S = TypeVar("S", bound=LedgerState)
Answered = Landed | Refused | Repeated


class GroupCommit(Generic[S]):
    """The one writer of a term."""

    def __init__(self, term: Term[S]) -> None:
        self._term = term
        self._append: Append | None = None
        self._idle = asyncio.Event()
        self._idle.set()

    async def run(self) -> None:
        """Commit what waits, batch after batch, until the term is over."""
        while not self._term.is_over:
            await self._term.lanes.wait()
            draft, taken, answers = self._decide()
            if len(draft):
                await self.commit(draft, taken, answers)
            elif taken:
                await self._answer_unchanged(taken, answers)
            # Whoever was answered sends what comes next before another batch is closed.
            await asyncio.sleep(0)

    def in_flight(self) -> bytes | None:
        """The digest of the batch whose end is not known yet."""
        return None if self._append is None else self._append.digest

    def is_stuck(self, longer_than: int) -> bool:
        """Whether the store did not answer plainly, or not for this long: until it does, nothing is proven."""
        append = self._append
        return append is not None and (bool(append.trouble) or self._term.clock.boot() - append.began > longer_than)

    def trouble(self) -> str:
        """What the store answered to the batch in flight, if that was no plain answer."""
        return self._append.trouble if self._append is not None else ""

    async def quiet(self) -> None:
        """Return when the batch in flight, if there is one, is answered."""
        await self._idle.wait()

    async def finish(self) -> None:
        """Return when no append is under way any more."""
        if self._append is not None:
            await self._append.finished()

    def _decide(self) -> tuple[Draft[S], list[Waiting], list[Answered]]:
        """Judge what waits on an overlay. A command that cannot be judged is set aside, and the rest judged anew."""
        term = self._term
        while True:
            turn, draft = Turn(term.lanes, BATCH_BYTES), Draft(term.durable.book, term.durable.state)
            at, earlier, consider = term.now(), term.refusals.earlier, draft.consider
            taken: list[Waiting] = []
            answers: list[Answered] = []
            one = turn.next()
            try:
                while one is not None:
                    if not one.answer.done():  # otherwise nobody waits any more, and it was never looked at
                        before = draft.size_bytes
                        answers.append(earlier(one.envelope) or consider(one.envelope, at))
                        taken.append(one)
                        turn.took(one.lane, draft.size_bytes - before)
                    one = turn.next()
            except Exception as error:
                assert one is not None
                self._set_aside(one, error)
                term.lanes.put_back(taken)
                continue
            return draft, taken, answers

    def _set_aside(self, one: Waiting, error: Exception) -> None:
        command = type(one.envelope.command).__name__
        self._term.meters.count("commands_failed", command=command)
        self._term.journal.error("command-failed", error, command=command, actor=one.envelope.actor)
        refuse(one, Failed(f"judging {command} failed: {type(error).__name__}; it was logged"))

    async def commit(self, draft: Draft[S], taken: list[Waiting], answers: list[Answered]) -> None:
        """Append the draft and see it through. Raises `SteppedDown` when the term is over."""
        term = self._term
        raw, digest = draft.seal()
        facts, after = draft.state.facts, term.durable.head()
        batch = Stored(facts.log_id, facts.seq, digest, raw)
        self._append = Append(term.store, term.clock, term.meters, after, batch)
        self._idle.clear()
        try:
            self._conclude(
                await self._append.settled(facts.settings.session_lease), draft, batch, after, taken, answers
            )
        except asyncio.CancelledError:
            _tell(taken, OutcomeUnknown("this server shut down while it wrote the command; retry with the same key"))
            raise
        finally:
            self._idle.set()

    def _conclude(
        self,
        settled: Settled,
        draft: Draft[S],
        batch: Stored,
        after: Head,
        taken: list[Waiting],
        answers: list[Answered],
    ) -> None:
        """Everything that follows from how an append ended, in one loop turn."""
        term = self._term
        if not isinstance(settled, GivenUp):
            self._append = None
        match settled:
            case BatchLanded(began, overtaken):
                term.durable.land(draft, len(batch.raw))
                self._answer(taken, answers)
                term.proof.proven(began)
                term.room.landed()
                term.meters.count("batches")
                term.meters.time("commit_ms", term.clock.boot() - began)
                if overtaken is not None:
                    raise SteppedDown(f"another server leads: the head is at {overtaken.seq}", deposed=True)
            case BatchLost(head):
                _tell(taken, NotLeading("another server leads; the command was not executed"))
                raise term.depose(after, head)
            case Full(why):
                term.room.full(why)
                _tell(taken, ReadOnly(term.room.why()))
            case GivenUp(why):
                _tell(taken, OutcomeUnknown(f"{why}; retry with the same key"))
                raise SteppedDown(f"whether batch {batch.seq} landed cannot be told: {why}")

    async def _answer_unchanged(self, taken: list[Waiting], answers: list[Answered]) -> None:
        """Refusals and repeats change nothing, but only a proven leader may give them."""
        try:
            self._term.must_be_proven()
        except Exception as error:
            _tell(taken, error)
        else:
            self._answer(taken, answers)

    def _answer(self, taken: list[Waiting], answers: list[Answered]) -> None:
        meters = self._term.meters
        for one, answer in zip(taken, answers, strict=True):
            if isinstance(answer, Refused):
                meters.count("commands_refused", code=answer.code.value)
                self._keep_refusal(one.envelope, answer)
            if not one.answer.done():
                one.answer.set_result(answer)
        meters.count("commands", len(taken))

    def _keep_refusal(self, envelope: Envelope[Any], answer: Refused) -> None:
        """A number that came too early is not used up, and nobody uses up the numbers of another's session."""
        if answer.code in (Code.TOO_MANY_IN_FLIGHT, Code.TOO_MANY_KEYS):
            return
        session = self._term.durable.state.sessions.get(envelope.session)
        if envelope.session and (session is None or session.principal != envelope.actor):
            return
        self._term.refusals.remember(envelope, answer)


def _tell(taken: list[Waiting], error: Exception) -> None:
    for one in taken:
        refuse(one, error)
