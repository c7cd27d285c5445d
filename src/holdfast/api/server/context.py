"""What every endpoint of a server works with: its ledger, its way to others, its limits, and where it stands.

Every answer says where it is from: which server, in which role, who leads, up to which place in the log, and how long
ago that was proven to be the head. Whoever gets it can tell how old it is without asking again.
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
from holdfast.host.link.platform.position_proofs import PositionProofs
from holdfast.host.ports.transport import Pairs, Transport
from holdfast.host.protocol.request_signatures import SigningToken
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.watch.keepalive import KeepaliveRounds

#: How many of the headers a brief answer has.
BRIEF_HEADERS = 3
#: A machine needs one stream. It may begin others before this server has seen that the last one broke.
STREAMS_PER_MACHINE = 4


class LinkStatus(Protocol):
    """A region's link, as far as status tells of it."""

    def age_ms(self) -> int | None:
        """How long ago the platform was heard; None: never."""

    def degraded_reason(self) -> str:
        """What keeps the link from its work; empty when nothing does."""


class ServerContext:
    """One server's API, as its endpoints see it."""

    def __init__(
        self,
        ledger: Ledger[Any],
        transport: Transport,
        limits: ServerLimits,
        link: LinkStatus | None,
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
        #: Where a region's server keeps decisions; None: it keeps none.
        self.decisions = decisions
        #: What its operators should look at of this server itself.
        self.warnings = warnings
        #: With what this server signs what it sends for others; None while it has nothing that would be honoured.
        self.own = own
        #: What of the platform's log it has signed for regions, and whom of them it does not believe.
        self.evidence = PositionProofs(own)
        #: Where a server keeps what people did; None: it keeps nothing of it.
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
        #: Whoever hears of nothing is told now and then that the stream lives, and where to resume from.
        self.watchers = KeepaliveRounds()
        self._at: tuple[Any, ...] = ()
        self._place: Pairs = ()

    @property
    def state(self) -> Any:
        """The durable state as it is now. Not to be kept across an `await`."""
        return self.ledger.durable.state

    def now(self) -> Instant:
        """Ledger time: the leader's where this server leads, else the later of its clock and what it has read."""
        leader = self.ledger.leader
        at: Instant = self.state.info.at
        return leader.term.now() if leader is not None else max(at, self.clock.wall())

    def place(self, *, brief: bool = False) -> Pairs:
        """Where an answer given now is from, as headers. A brief one leaves out what machines know from its token."""
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
        """How many milliseconds ago this server's state was proven to be the newest; None: never."""
        return self.ledger.age()

    def heard_at(self, region: Region) -> Instant:
        """When a region was heard last: by its session where it is kept here, else by what it has logged; 0: never."""
        leader = self.ledger.leader
        quiet = leader.term.sessions.quiet_ms(region.status.session) if leader is not None else None
        return region.status.heard_at if quiet is None else max(region.status.heard_at, self.now() - quiet)

    async def view(self, call: ApiRequest) -> ReadResult[Any]:
        """The state, as fresh as the caller asks for."""
        level, token = call.level()
        return await self.ledger.read(level, token, call.timeout_ms)

    def no_longer(self, call: ApiRequest) -> Problem | None:
        """Why a stream that was opened by this call has to end now; None: it may go on."""
        seq, expires = self.state.info.seq, call.caller.expires
        # A stream that tells much asks before each word: nothing but its end can have come since the last batch.
        if call.held_at == seq and (not expires or self.clock.wall() < expires):
            return None
        refused = self.callers.no_longer(self.state, call.request, call.caller)
        if refused is None:
            call.held_at = seq
        return refused

    def deny(self, call: ApiRequest, found: Problem, tenant: str = "") -> Problem:
        """Put a refusal of identity or right on record, and hand it on."""
        # Nobody who is denied chooses what is written: the endpoint, and the tenant if there is one of that name.
        endpoint = "/".join(call.request.path.strip("/").split("/")[:2])
        known = tenant if tenant in getattr(self.state, "tenants", ()) else ""
        self.denials.note(call.caller.actor, f"{call.request.verb} /{endpoint}", found.code, known)
        return found


def check_rate(ctx: ServerContext, call: ApiRequest, *keys: str) -> None:
    """Refuse what comes too fast. A repeat is not counted: it gets its first answer, whatever came since."""
    caller, state = call.caller, ctx.state
    tenant = getattr(state, "tenants", {}).get(caller.tenant()) if caller.tenant() else None
    per_minute = tenant.spec.submits_per_minute if tenant is not None else None
    count = (
        len(keys) if call.is_dry_run() else sum(not is_known_key(state, caller.actor, key, ctx.now()) for key in keys)
    )
    # A tenant's pace is that of all who speak for it.
    who = caller.actor if tenant is None else f"tenant/{tenant.meta.name}"
    refused = ctx.paces.refuse(who, per_minute, count) if count else None
    if refused is not None:
        raise ApiError(refused)
