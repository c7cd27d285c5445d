"""A ledger as a server runs it: load, follow, be a candidate, lead, step down, follow again.

    loading --> following --(no leader, and the head can be read)--> standing --> leading
                    ^                                                                   |
                    +--------------- deposed, not proven, store does not answer --------+
    stopped: the store went backwards, the log cannot be read, or the state differs: an operator has to act

Safety does not depend on this, since an append to an old head conflicts. It provides order: one server tries at a time.

Size: what a server can be asked, and the one life in which it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Generic

from msgspec import Struct

from holdfast.core.ledger.answers import Refused
from holdfast.core.ledger.builtin.log import RaiseLevel, StartLog, StartTerm
from holdfast.core.ledger.codec import UpgradeNeeded
from holdfast.core.ledger.commit.definition import LedgerDefinition
from holdfast.core.ledger.commit.draft import CommandAnswer
from holdfast.core.ledger.envelope import Envelope
from holdfast.core.ledger.revision import RevisionToken
from holdfast.core.ledger.state.ledger_state import S
from holdfast.host.errors import Halted, NotLeading, NotReached, Stopped
from holdfast.host.leader.denials import Denials
from holdfast.host.leader.dry_run import DryRunResult
from holdfast.host.leader.leader import Leader
from holdfast.host.leader.term import LeaderTerm, SessionRenewal, SteppedDown
from holdfast.host.ledger.follower import Election, Follower, LeftBehind
from holdfast.host.ledger.reads import ReadLevel, ReadResult, ReadService
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.store import Store, StoreCorrupt, StoreError
from holdfast.host.runtime import gc_tuning
from holdfast.host.runtime.supervisor import SideTask, run_with_side_tasks
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.host.storage.digests import DigestChecker
from holdfast.host.storage.durable_state import DurableState
from holdfast.host.storage.load import Damaged, LoadedState, load
from holdfast.host.storage.snapshots import SnapshotPolicy, Snapshotter
from holdfast.host.watch.changes import WatchFilter
from holdfast.host.watch.hub import WatchHub
from holdfast.host.watch.subscription import Subscription

#: Default timeout of a read.
READ_WITHIN_MS = 5_000
RETRY_MS = 500


class Role(StrEnum):
    """The role of a server in its ledger."""

    LOADING = "loading"
    FOLLOWING = "following"
    STANDING = "standing"
    LEADING = "leading"
    STOPPED = "stopped"


class ServerIdentity(Struct, frozen=True):
    """This server's name, and the log that it may start if there is none."""

    server: str
    start: StartLog | None = None
    may_lead: bool = True


class Ledger(Generic[S]):
    """One server's part in one ledger. Operations may be called at any time."""

    def __init__(
        self,
        definition: LedgerDefinition[S],
        store: Store,
        clock: Clock,
        identity: ServerIdentity,
        *,
        policy: SnapshotPolicy | None = None,
    ) -> None:
        self.definition = definition
        self.store = store
        self.clock = clock
        self.identity = identity
        self.metrics = Metrics()
        self.logger = Logger("ledger", server=identity.server, store=store.name)
        self.durable: DurableState[S] = DurableState(definition, definition.empty())
        self._role, self._turned = Role.LOADING, asyncio.Event()
        self.durable.listeners.append(lambda _batch: self._turned.set())
        #: Work that runs while this server leads, by name, such as controllers.
        self.leader_tasks: dict[str, Callable[[Leader[S]], Coroutine[Any, Any, None]]] = {}
        self._last_error, self._last_error_of = "", 0
        self.hub = WatchHub(definition, store, self.durable.token(), self.metrics)
        self.durable.listeners.append(self.hub.publish)
        self._terms = Election(clock, alone=not store.shared)
        self.denials = Denials(clock, self.metrics, self.logger)
        self._digests = DigestChecker(self.durable, clock, self.metrics)
        self.snapshots = Snapshotter(self.durable, store, clock, self.metrics, self.logger, policy or SnapshotPolicy())
        self._follower = Follower(self.durable, store, clock, self.metrics, self._terms)
        self._reads = ReadService(self.durable, store, clock, self._follower)
        self.leader: Leader[S] | None = None
        #: The last term's leader. Nothing is appended before its append has ended.
        self._last: Leader[S] | None = None

    @property
    def role(self) -> Role:
        """The server's present role."""
        return self._role

    @role.setter
    def role(self, role: Role) -> None:
        self._role = role
        self._turned.set()

    # Operations

    async def begun(self, *roles: Role) -> None:
        """Return when this server has one of these roles and the log has begun."""
        while self.role not in roles or not self.durable.state.info.log_id:
            self._turned.clear()
            await self._turned.wait()

    def submit(self, envelope: Envelope[Any]) -> Coroutine[Any, Any, CommandAnswer]:
        """Return the answer to a command, once it is durable, or raise `Unavailable`."""
        return self._leading().submit(envelope)

    def dry_run(self, *envelopes: Envelope[Any]) -> DryRunResult[S]:
        """Return the answers that commands would get now, and the resulting state."""
        return self._leading().dry_run(envelopes)

    def leading_server(self) -> str:
        """Return the server that leads, by the newest term seen here; empty if unknown."""
        if self.leader is not None:
            return self.identity.server
        return self.durable.leader if self.durable.leader != self.identity.server else ""

    def renew(self, actor: str, session: int) -> SessionRenewal | Refused:
        """Renew a session; its lease counts from when the heartbeat was sent."""
        return self._leading().renew(actor, session)

    async def read(
        self, level: ReadLevel = ReadLevel.ANY, token: RevisionToken | None = None, timeout_ms: int = READ_WITHIN_MS
    ) -> ReadResult[S]:
        """Return the durable state, at the requested read level."""
        self._must_serve()
        await self._reads.read(self.leader, level, token, timeout_ms)
        self._must_serve()
        return self._reads.view(self.leader)

    def age(self) -> int | None:
        """Return the milliseconds since the state was proven to be the newest; None: never."""
        return self._reads.age(self.leader)

    async def watch(
        self, interest: WatchFilter, since: RevisionToken | None = None, timeout_ms: int = READ_WITHIN_MS
    ) -> Subscription:
        """Return matching changes after `since`, or from now on, or raise `ListAgain`."""
        self._must_serve()
        if self.role is Role.LOADING:
            raise NotReached(f"{self.identity.server} is loading its state")
        if since is not None:
            await self._reads.reach(since, timeout_ms)
        return await self.hub.subscribe(interest, since)

    def _must_serve(self) -> None:
        if self.role is Role.STOPPED:
            raise Halted(f"{self.identity.server} has stopped: {self._last_error}")

    def degraded_reason(self) -> str:
        """Return why this server is degraded; empty if it is not."""
        if self.leader is not None:
            return self.leader.degraded_reason()
        # The error that ended this server's own term is obsolete once another one leads.
        own = self._last_error if self.durable.state.info.term == self._last_error_of else ""
        return self._follower.last_error or own

    def _leading(self) -> Leader[S]:
        if self.leader is None:
            raise NotLeading(f"{self.identity.server} is {self.role.value}")
        return self.leader

    # Roles

    async def run(self) -> None:
        """Serve until cancelled. Raise `Stopped` or `UpgradeNeeded` if an operator has to act."""
        try:
            await self._load()
            while True:
                try:
                    await self._follow()
                    await self._lead()
                except LeftBehind as error:
                    self.logger.warning("left-behind", why=error)
                    await self._load()
        except Exception as error:
            self.role = Role.STOPPED
            self._record_error(str(error) or repr(error))
            known = isinstance(error, Stopped | UpgradeNeeded)
            self.logger.error("stopped", None if known else error, why=error)
            raise

    def _record_error(self, why: str) -> None:
        self._last_error, self._last_error_of = why, self.durable.state.info.term

    async def _load(self) -> None:
        self.role = Role.LOADING
        loaded = await self._try_to_load()
        while loaded is None:
            await self.clock.sleep(RETRY_MS)
            loaded = await self._try_to_load()
        self.durable.install(loaded.state, loaded.leader)
        self.hub.reset(self.durable.token())
        self.snapshots.begin_from(loaded.snapshot, loaded.size_bytes, loaded.tail_bytes)

    async def _try_to_load(self) -> LoadedState[S] | None:
        try:
            loaded = await load(self.definition, self.store, self.logger)
        except StoreCorrupt as error:
            raise Damaged(str(error)) from error
        except StoreError as error:
            self._record_error(str(error))
            self.logger.warning("cannot-load", why=error)
            return None
        self._last_error = ""
        return loaded

    async def _follow(self) -> None:
        self.role = Role.FOLLOWING
        await self._run(self._follower.run(self._may_start_term), {"digests": self._digests.watch})

    def _may_start_term(self) -> bool:
        """Whether there is a log to lead or start, and no append of an earlier term."""
        has_log = self.durable.state.info.seq > 0 or self.identity.start is not None
        return self.identity.may_lead and has_log and (self._last is None or self._last.is_finished())

    async def _lead(self) -> None:
        parts = (self.durable, self.store, self.clock, self.metrics, self.logger, self.denials.refused)
        self._last = leader = Leader(LeaderTerm(*parts))
        deposed = False
        try:
            self.role = Role.STANDING
            await leader.start_term(self._opening())
            self.role, self.leader, self._last_error = Role.LEADING, leader, ""
            gc_tuning.disable_full_collections()
            number = self.durable.state.info.term
            self.metrics.gauge("leading_term", number)
            self.logger.info("leading", term=number, seq=self.durable.state.info.seq)
            await self._run(leader.run(), self._work_of(leader))
        except SteppedDown as error:
            deposed = error.deposed
            self._record_error("" if deposed else str(error))
            self.metrics.count("stepped_down")
            self.logger.warning("stepped-down", why=error)
        finally:
            if self.leader is not None:
                facts = self.durable.state.info
                self._terms.led(facts.term, leader.term.proof.span(), facts.settings)
            self.role, self.leader = Role.FOLLOWING, None
            self._terms.stepped_down(deposed=deposed)

    def _opening(self) -> list[Any]:
        """Return the first commands of a term. They raise the level only if no other server can open the store."""
        facts, level = self.durable.state.info, self.durable.definition.level
        first = [self.identity.start] if facts.seq == 0 and self.identity.start is not None else []
        is_behind = facts.seq > 0 and facts.level < level and not self.store.shared
        higher = [RaiseLevel(level)] if is_behind else []
        return [*first, StartTerm(facts.term + 1, self.identity.server, level), *higher]

    def _work_of(self, leader: Leader[S]) -> dict[str, SideTask]:
        async def record_digests() -> None:
            await self._digests.watch(leader.record)

        def beside(work: Callable[[Leader[S]], Coroutine[Any, Any, None]]) -> SideTask:
            return lambda: work(leader)

        own: dict[str, SideTask] = {
            "denials": lambda: self.denials.run(leader),
            "digests": record_digests,
            "room": leader.term.space.watch,
            "snapshots": lambda: self.snapshots.watch(leader.term.space),
        }
        return own | {name: beside(work) for name, work in self.leader_tasks.items()}

    async def _run(self, main: Coroutine[Any, Any, None], work: dict[str, SideTask]) -> None:
        await run_with_side_tasks(main, work, self.clock, self.metrics, self.logger)
