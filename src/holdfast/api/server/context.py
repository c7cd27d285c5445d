"""The context of every handler: ledger, transport, limits, and the position in the log.

Every reply states the server, its role, the leader, the log position, and the age of the last proof that this position
was the head. So a client can judge how stale a reply is without another request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from holdfast.api.problems import Problem
from holdfast.api.server.authentication import Authenticator
from holdfast.api.server.limits import ConcurrencyLimiter, RateLimiter, ServerLimits
from holdfast.api.server.request import ApiError, ApiRequest
from holdfast.api.server.streams import StreamSlots
from holdfast.core.ledger.commit.dedup import is_known_key
from holdfast.core.model.objects.topology import Region
from holdfast.core.model.values.structs import Instant
from holdfast.host.errors import show_token
from holdfast.host.indexes.audit_index import AuditIndex
from holdfast.host.indexes.decision_index import DecisionIndex
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ledger.reads import ReadResult
from holdfast.host.link.platform.request import PositionProofs
from holdfast.host.ports.transport import Pairs, Transport
from holdfast.host.protocol.request_signatures import SigningToken
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.watch.subscription import KeepaliveRounds

#: Number of headers in a brief reply.
BRIEF_HEADERS = 3
#: A machine needs one stream, and may open others before this server notices that the last one broke.
STREAMS_PER_MACHINE = 4


class LinkStatus(Protocol):
    """A region's link, for status."""

    def age_ms(self) -> int | None:
        """Return the time since the last contact with the platform; None: never."""

    def degraded_reason(self) -> str:
        """Return why the link is degraded; empty if it is not."""


class ServerContext:
    """The API of one server, for its handlers."""

    def __init__(
        self,
        ledger: Ledger[Any],
        transport: Transport,
        *,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        link: LinkStatus | None = None,
        decisions: DecisionIndex | None = None,
        warnings: Callable[[], Sequence[str]] = tuple,
        own: Callable[[], SigningToken | None] = lambda: None,
        addresses: tuple[str, ...] = (),
        audit: AuditIndex | None = None,
    ) -> None:
        self.ledger = ledger
        self.transport = transport
        self.denials = ledger.denials
        self.limits = limits
        self.link = link
        #: The decision index of a region's server; None: it has none.
        self.decisions = decisions
        #: Warnings about this server itself, for its operators.
        self.warnings = warnings
        #: Token with which this server signs forwarded requests; None while no other server would accept it.
        self.own = own
        #: Signed positions of the platform's log for regions, and the regions whose evidence was rejected.
        self.evidence = PositionProofs(own)
        #: The audit index; None: the server has none.
        self.audit = audit
        self.clock = ledger.clock
        self.metrics = ledger.metrics
        self.logger = Logger("api", server=ledger.identity.server)
        self.callers = Authenticator(ledger.clock, tuple(dict.fromkeys((ledger.identity.server, *addresses))))
        self.paces = RateLimiter(ledger.clock, limits)
        self.lists = ConcurrencyLimiter(limits.lists_at_a_time, "lists")
        self.watches = ConcurrencyLimiter(limits.watches, "watches")
        self.to_regions = ConcurrencyLimiter(limits.to_regions, "requests to regions")
        self.streams = StreamSlots(limits.watches, STREAMS_PER_MACHINE)
        #: Sends a keepalive with a bookmark to watches that received nothing for a while.
        self.watchers = KeepaliveRounds()
        self._at: tuple[Any, ...] = ()
        self._place: Pairs = ()

    @property
    def state(self) -> Any:
        """The current durable state. Not to be kept across an `await`."""
        return self.ledger.durable.state

    def now(self) -> Instant:
        """Return ledger time: the leader's if this server leads, else the later of its clock and its state."""
        leader = self.ledger.leader
        at: Instant = self.state.info.at
        return leader.term.now() if leader is not None else max(at, self.clock.wall())

    def place(self, *, brief: bool = False) -> Pairs:
        """Return the log position of a reply as headers. A brief one omits what machines read from the token."""
        ledger, facts = self.ledger, self.state.info
        at = (facts.seq, facts.term, facts.log_id, ledger.role)
        if at != self._at:
            self._at = at
            self._place = (
                ("holdfast-server", ledger.identity.server),
                ("holdfast-token", show_token(ledger.durable.token())),
                ("holdfast-term", str(facts.term)),
                ("holdfast-role", ledger.role.value),
                ("holdfast-ledger", facts.ledger),
                ("holdfast-leader", ledger.leading_server()),
            )
        age = self.age()
        place = self._place[:BRIEF_HEADERS] if brief else self._place
        return place if age is None else (*place, ("holdfast-age-ms", str(age)))

    def age(self) -> int | None:
        """Return milliseconds since this server's state was proven to be the newest; None: never."""
        return self.ledger.age()

    def heard_at(self, region: Region) -> Instant:
        """Return the last contact with a region: from its session if it is here, else from the log; 0: never."""
        leader = self.ledger.leader
        quiet = leader.term.sessions.quiet_ms(region.status.session) if leader is not None else None
        return region.status.heard_at if quiet is None else max(region.status.heard_at, self.now() - quiet)

    async def view(self, call: ApiRequest) -> ReadResult[Any]:
        """Return the state at the read level of the request."""
        level, token = call.level()
        return await self.ledger.read(level, token, call.timeout_ms)

    def no_longer(self, call: ApiRequest) -> Problem | None:
        """Return why a stream of this request must end now; None: it may continue."""
        seq, expires = self.state.info.seq, call.caller.expires
        # Called before each message: since the last batch only the caller's end can have changed.
        if call.held_at == seq and (not expires or self.clock.wall() < expires):
            return None
        refused = self.callers.no_longer(self.state, call.request, call.caller)
        if refused is None:
            call.held_at = seq
        return refused

    def require(self, call: ApiRequest, refused: Problem | None, tenant: str = "") -> None:
        """End a refused request, and record the denial."""
        if refused is None:
            return
        # A denied caller must not choose what is recorded: only the route, and the tenant if it exists.
        endpoint = "/".join(call.request.path.strip("/").split("/")[:2])
        known = tenant if tenant in getattr(self.state, "tenants", ()) else ""
        self.denials.note(call.caller.actor, f"{call.request.verb} /{endpoint}", refused.code, known)
        raise ApiError(refused)


def check_rate(ctx: ServerContext, call: ApiRequest, *keys: str) -> None:
    """Enforce the rate limit. A retry is not counted: it always gets its first answer."""
    caller, state = call.caller, ctx.state
    tenant = getattr(state, "tenants", {}).get(caller.tenant()) if caller.tenant() else None
    per_minute = tenant.spec.submits_per_minute if tenant is not None else None
    count = (
        len(keys) if call.is_dry_run() else sum(not is_known_key(state, caller.actor, key, ctx.now()) for key in keys)
    )
    # The rate of a tenant is shared by all principals that act for it.
    who = caller.actor if tenant is None else f"tenant/{tenant.meta.name}"
    refused = ctx.paces.refuse(who, per_minute, count) if count else None
    if refused is not None:
        raise ApiError(refused)
