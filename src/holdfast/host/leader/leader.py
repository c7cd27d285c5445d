"""A leader: its term, the proofs of the term, and its operations."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Generic

from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.builtin.log import RecordDigest
from holdfast.core.ledger.builtin.sessions import EndSession
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.commit.draft import BatchDraft, CommandAnswer, Committed
from holdfast.core.ledger.commit.rules import CommandLane
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.state.ledger_state import S
from holdfast.core.model.values.settings import agent_times
from holdfast.host.errors import NotLeading, NotProven, OutcomeUnknown, Overloaded, ReadOnly, Stopped, Unavailable
from holdfast.host.leader.dry_run import DryRunResult, dry_run
from holdfast.host.leader.group_commit import GroupCommit
from holdfast.host.leader.lanes import QueuedCommand, reject
from holdfast.host.leader.term import LeaderTerm, SessionRenewal, SteppedDown
from holdfast.host.ports.store import Head, StoreError, WriteConflict, WriteOk

#: The wait before another proof, after one without a clear outcome.
RETRY_MS = 20


class Leader(Generic[S]):
    """One term of this server, until `run` raises `SteppedDown`."""

    def __init__(self, term: LeaderTerm[S]) -> None:
        self.term = term
        self._loop = asyncio.get_running_loop()
        self._commits = GroupCommit(term, self.prove_now)
        self._proving: asyncio.Task[None] | None = None
        #: Why this server must stop, once that is known.
        self._stopped_by: asyncio.Future[Stopped] = self._loop.create_future()

    async def submit(self, envelope: Envelope[Any]) -> CommandAnswer:
        """Return the answer to a command, once it is durable, or raise `Unavailable`."""
        term = self.term
        rule = term.durable.definition.rules.get(type(envelope.command))
        if rule is None:
            return Refused(Code.MALFORMED, f"no such command: {type(envelope.command).__name__}", {})
        term.must_be_proven()
        lane = rule.lane_of(envelope.command)
        if term.space.is_closed_to(lane):
            raise ReadOnly(term.space.why())
        answer: asyncio.Future[CommandAnswer] = self._loop.create_future()
        size_bytes = len(encode(envelope.command)) + len(envelope.evidence)
        term.lanes.add(QueuedCommand(envelope, lane, answer, size_bytes))
        return await answer

    async def submit_as(self, actor: str, command: Any) -> CommandAnswer:
        """Submit a command of this server itself, as of now."""
        return await self.submit(Envelope(actor, command, self.term.now()))

    def dry_run(self, envelopes: Sequence[Envelope[Any]]) -> DryRunResult[S]:
        """Return the answers that commands would get now, and the resulting state."""
        self.term.must_be_proven()
        return dry_run(self.term, envelopes)

    def renew(self, actor: str, session: int) -> SessionRenewal | Refused:
        """Renew a session; its lease counts from when the heartbeat was sent."""
        term = self.term
        term.must_be_proven()
        state = term.durable.state
        known = state.sessions.get(session)
        if known is None or known.principal != actor or not term.sessions.renewed(session):
            current = state.session_of.get(actor) or 0
            return Refused(Code.NO_SESSION, f"{actor} has no session {session}; open one", {"current": current})
        facts = state.info
        return SessionRenewal(
            facts.log_id, facts.term, term.proof.lease_left(facts.settings), agent_times(facts.settings)
        )

    async def record(self, digest: RecordDigest) -> None:
        """Record a state digest in the log. A refusal does no harm."""
        answer: asyncio.Future[CommandAnswer] = self._loop.create_future()
        try:
            self.term.lanes.add(QueuedCommand(Envelope("ledger", digest, self.term.now()), CommandLane.PROOFS, answer))
            await answer
        except Unavailable as error:
            self.term.logger.warning("digest-not-recorded", seq=digest.seq, why=error)

    def degraded_reason(self) -> str:
        """Return why this leader does not accept commands; empty if it does."""
        return self._commits.degraded_reason() or self.term.last_error or self.term.space.why()

    async def start_term(self, commands: list[Any]) -> None:
        """Start the term with these commands. Raise `SteppedDown` if another server was faster."""
        draft = BatchDraft(self.term.durable.definition, self.term.durable.state)
        at = self.term.now()
        for command in commands:
            answer = draft.add(Envelope("ledger", command, at), at)
            if not isinstance(answer, Committed):
                raise SteppedDown(f"cannot lead: {answer}")
        await self._commits.begin(draft)
        if self.term.proof.age() is None:
            raise SteppedDown(f"cannot lead: {self.term.space.why()}")
        self.term.sessions.restart_observation("new-term")

    def stop(self, why: Stopped) -> None:
        """Decide nothing more, and raise this error from `run`."""
        self.term.is_over = True
        if not self._stopped_by.done():
            self._stopped_by.set_result(why)

    async def run(self) -> None:
        """Lead until the term ends."""
        tasks = (
            asyncio.create_task(self._keep_proven(), name="proofs"),
            asyncio.create_task(self._commits.run(), name="commits"),
        )
        try:
            await asyncio.wait((*tasks, self._stopped_by), return_when=asyncio.FIRST_COMPLETED)
            if self._stopped_by.done():
                raise self._stopped_by.result()
            for task in tasks:
                if task.done():
                    task.result()
        finally:
            self.term.is_over = True
            await self._commits.quiet()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for waiting in self.term.lanes.drain():
                reject(waiting, NotLeading("this server stepped down before it decided the command"))

    def is_finished(self) -> bool:
        """Whether no append of this term is in flight."""
        return self._commits.is_finished()

    # Proofs

    async def _keep_proven(self) -> None:
        term, stalled = self.term, False
        while True:
            settings = term.durable.state.info.settings
            await term.clock.sleep(settings.proof_interval)
            if (term.proof.age() or 0) >= settings.proof_interval:
                await self.prove()
            age = term.proof.age() or 0
            if age > settings.session_lease:
                raise SteppedDown(f"no proof for {age} ms: {term.last_error or term.store.name}")
            if not term.proof.is_fresh(settings):
                stalled = True
                continue
            if stalled:
                term.sessions.restart_observation("store-stalled")
                stalled = False
            await self._end_silent_sessions()

    async def prove(self) -> None:
        """Prove the term at the store; concurrent callers share one proof."""
        if self._proving is None or self._proving.done():
            self._proving = asyncio.create_task(self._ask_store(), name="proof")
            self._proving.add_done_callback(_seen)
        await asyncio.shield(self._proving)

    async def prove_now(self, timeout_ms: int) -> None:
        """Return after a proof that started after this call, or raise `NotProven`."""
        term = self.term
        asked = term.proof.questions
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not term.proof.covers(asked):
                    await self.prove()
                    if not term.proof.covers(asked):
                        await self._next_proof()
        except TimeoutError:
            raise NotProven(f"no proof within {timeout_ms} ms: {term.last_error or term.store.name}") from None

    async def _next_proof(self) -> None:
        """Return after the next proof, or when it is time for another attempt."""
        try:
            async with asyncio.timeout(RETRY_MS / 1000):
                await self.term.proof.wait_next()
        except TimeoutError:
            self.term.must_be_leading()

    async def _ask_store(self) -> None:
        term = self.term
        settings, began, ours = term.durable.state.info.settings, term.clock.boot(), term.durable.head()
        if self._commits.is_stuck(settings.proof_interval):
            return
        question = term.proof.next_question()
        try:
            async with asyncio.timeout(settings.session_lease / 5000):
                head = await self._look(ours)
        except (StoreError, TimeoutError) as error:
            term.last_error = str(error) or f"{term.store.name} does not answer"
            term.metrics.count("proofs_failed")
            return
        term.last_error = ""
        if head.same_place(ours):
            term.proof.confirm(began, question)
        elif term.durable.head().same_place(ours) and head.digest != self._commits.in_flight():
            raise term.depose(ours, head)

    async def _look(self, ours: Head) -> Head:
        """Return the head, read or touched after this call."""
        if not self.term.store.shared:
            return await self.term.store.head()
        match await self.term.store.touch(ours):
            case WriteOk(head) | WriteConflict(head):
                return head
            case other:
                raise StoreError(other.why)

    # Sessions

    async def _end_silent_sessions(self) -> None:
        """End expired sessions, after heartbeats that have arrived are processed."""
        await asyncio.sleep(0)
        term = self.term
        for session in term.sessions.expired(term.durable.state):
            self._end(session)

    def _end(self, session: int) -> None:
        term = self.term
        envelope = Envelope("ledger", EndSession(session, "silent"), term.now())
        answer: asyncio.Future[CommandAnswer] = self._loop.create_future()

        def look(done: asyncio.Future[CommandAnswer]) -> None:
            error = None if done.cancelled() else done.exception()
            # An end with an unknown outcome may be in the log: the session is never renewed again.
            if not isinstance(error, OutcomeUnknown) and (error or done.cancelled() or type(done.result()) is Refused):
                term.sessions.end_failed(session)

        answer.add_done_callback(look)
        try:
            term.lanes.add(QueuedCommand(envelope, CommandLane.PROOFS, answer))
        except Overloaded as error:
            answer.set_exception(error)


def _seen(task: asyncio.Task[None]) -> None:
    """Retrieve the error if no caller waits any more."""
    if not task.cancelled():
        task.exception()
