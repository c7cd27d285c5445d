"""Who asks: a bearer token or a client's certificate, judged by the server's own copy of principals and tokens.

A server proves itself by a token of its own (`core.model.servers`), and in no other way: no token of people's, no
certificate and no chosen name is taken for a server's. It has no rights.

A region has its copy from the platform's log and judges by it while it is cut off. So a revocation reaches it only when
it hears from the platform again: that is why every token has an end.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from holdfast.api.problems import Problem, problem
from holdfast.core.ledger.judge import MACHINES
from holdfast.core.ledger.state import LedgerState
from holdfast.core.model.meta import Meta
from holdfast.core.model.secrets import matches, parse
from holdfast.core.model.servers import ServerToken, ledger_of, looks_like_a_server
from holdfast.core.model.shapes import Instant
from holdfast.core.model.tenancy import Principal, PrincipalSpec, Right, Token
from holdfast.host.clock import Clock
from holdfast.host.transport import Request, named

_BEARER = "bearer "
#: Of so many callers it is remembered that they have proven who they are.
REMEMBERED_MAX = 10_000
#: Of longer names it is not: whoever has a token of many chooses them.
ACTOR_MAX = 256
#: Names one of those whom a token stands for.
ACTOR = "holdfast-actor"
#: What servers are called as callers: the platform's, and a region's own.
SERVERS = ("platform", "server")


class Caller(Struct, frozen=True):
    """A principal that was proven. `token` is the name of the token that proved it; empty: a certificate did."""

    actor: str
    principal: Principal
    token: str = ""
    expires: Instant = 0
    #: Whether its token stands for many, of which the request has chosen this one.
    is_chosen: bool = False
    #: Of which ledger it is a server: `platform` or `region/NAME`; empty: it is none.
    server_of: str = ""

    @property
    def kind(self) -> str:
        """`person`, `tenant`, `scheduler`, `agent` or `region`; of a server `platform`, or `server` for a region's."""
        kind = self.actor.partition("/")[0]
        return "server" if self.server_of and kind == "region" else kind

    def has(self, right: Right) -> bool:
        """Whether it was given this right."""
        return right in self.principal.spec.rights

    def tenant(self) -> str:
        """The one tenant it speaks for; empty: none, or all."""
        if self.kind == "tenant":
            return self.actor.partition("/")[2]
        return self.principal.spec.scope.tenant


class _Known(Struct):
    """A caller, and the rows that it was proven by; `many` is the principal of a token that stands for many."""

    caller: Caller
    #: In which table its token is.
    table: str
    token: Token | ServerToken
    many: Principal
    #: After which batch it was last seen to hold: until the next one it does, but for its end.
    held_at: int


class Callers:
    """Callers by what they said, so that a secret is not hashed for every request of the same one.

    One that is remembered counts only while token and principal are the very rows it was proven by: rows are never
    changed, only replaced.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        #: By the token as it was spoken and, where that stands for many, by the one that was named.
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def no_longer(self, state: LedgerState, request: Request, caller: Caller) -> Problem | None:
        """Why a stream that this caller opened has to end: it outlives the moment in which the caller was proven."""
        found = self.of(state, request)
        if found is caller:
            return None
        if isinstance(found, Problem):
            return found
        if found.principal.spec == caller.principal.spec:
            return None
        return problem("gone", f"what {caller.actor} may see has changed: list again")

    def of(self, state: LedgerState, request: Request) -> Caller | Problem:
        """Who asks, or why that is not known."""
        now = max(state.facts.at, self._clock.wall())
        spoken = named(request.headers, "authorization")
        known = self._known.get((spoken, "")) or self._known.get((spoken, named(request.headers, ACTOR)))
        if known is not None and known.caller.expires > now:
            # A thousand watchers with one token hear of the same batch, and agents ask where nothing changes.
            if known.held_at == state.facts.seq or self._still_holds(state, known):
                known.held_at = state.facts.seq
                return known.caller
        found = authenticate(state, request, now)
        if isinstance(found, Caller) and found.token and len(found.actor) <= ACTOR_MAX:
            table = _table_of(found, state.facts.ledger)
            token = state.table(table)[found.token]
            many = state.principals[token.spec.principal] if found.is_chosen else found.principal
            known = _Known(found, table, token, many, state.facts.seq)
            self._known[spoken, found.actor if found.is_chosen else ""] = known
            if len(self._known) > REMEMBERED_MAX:
                self._known.popitem(last=False)
        return found

    def _still_holds(self, state: LedgerState, known: _Known) -> bool:
        caller, principals = known.caller, state.principals
        if state.table(known.table).get(caller.token) is not known.token:
            return False
        return bool(caller.server_of) or (
            (principals.get(caller.actor) or principals.get(f"{caller.kind}/*")) is caller.principal
            and (not caller.is_chosen or principals.get(known.many.meta.name) is known.many)
        )


def authenticate(state: LedgerState, request: Request, now: Instant) -> Caller | Problem:
    """Who asks, or why that is not known."""
    spoken = named(request.headers, "authorization")
    if spoken:
        return _by_token(state, request, spoken, now)
    if request.proven:
        return _as_principal(state, request, request.proven, "", 0)
    return problem("unauthenticated", "send a bearer token, or use a client certificate")


def _by_token(state: LedgerState, request: Request, spoken: str, now: Instant) -> Caller | Problem:
    parts = parse(spoken[len(_BEARER) :]) if spoken[: len(_BEARER)].lower() == _BEARER else None
    if parts is None:
        return problem("unauthenticated", "the Authorization header holds no bearer token of Holdfast")
    name, secret = parts
    server = _server(state, name, secret)
    if server is not None:
        return _as_server(state, server, now)
    token: Token | None = state.table("tokens").get(name)
    if token is None or not matches(secret, token.spec.hash):
        return problem("unauthenticated", "no such token is known here")
    if token.spec.revoked:
        return problem("unauthenticated", f"token {name} was revoked")
    if token.spec.expires <= now:
        return problem("unauthenticated", f"token {name} has expired", facts={"expires": token.spec.expires})
    return _as_principal(state, request, token.spec.principal, name, token.spec.expires)


def _server(state: LedgerState, name: str, secret: str) -> ServerToken | None:
    """The server that made this token: what was made for somebody else has another hash, whatever it is called."""
    found = [state.table(table).get(name) for table in _tables_of_servers(state)]
    return next((one for one in found if one is not None and matches(secret, one.hash)), None)


def _as_server(state: LedgerState, token: ServerToken, now: Instant) -> Caller | Problem:
    if token.expires <= now:
        return problem("unauthenticated", f"token {token.name} has expired", facts={"expires": token.expires})
    principal = Principal(meta=Meta(name=token.principal), spec=PrincipalSpec())
    return Caller(token.principal, principal, token.name, token.expires, server_of=ledger_of(token.principal))


def _tables_of_servers(state: LedgerState) -> tuple[str, ...]:
    """This ledger's own servers; in a region also the platform's."""
    return ("servers",) if state.facts.ledger == "platform" else ("servers", "platform_servers")


def _table_of(caller: Caller, ledger: str) -> str:
    if not caller.server_of:
        return "tokens"
    return "servers" if caller.server_of == ledger else "platform_servers"


def _as_principal(state: LedgerState, request: Request, name: str, token: str, expires: Instant) -> Caller | Problem:
    """A token of `agent/*` speaks for any agent, which the request names. One of `person/*` speaks for nobody."""
    actor = name
    if name.endswith("/*"):
        whole = state.principals.get(name)
        if whole is None or whole.spec.disabled:
            return problem("unauthenticated", f"there is no principal {name}, or it is disabled")
        if name.partition("/")[0] not in MACHINES:
            # It would have the rights of whomever it names, which who made it need not have.
            return problem("unauthenticated", f"a token of {name} is nobody's: people have tokens of their own")
        actor = named(request.headers, ACTOR)
        if not actor.startswith(name[:-1]) or actor == name:
            return problem("unauthenticated", f"{name} stands for many: name one in Holdfast-Actor")
    if looks_like_a_server(actor):
        return problem("unauthenticated", f"{actor} is a server, which proves itself by a token of its own")
    principal = state.principals.get(actor) or state.principals.get(f"{actor.partition('/')[0]}/*")
    if principal is None:
        return problem("unauthenticated", f"there is no principal {actor}")
    if principal.spec.disabled:
        return problem("unauthenticated", f"{actor} is disabled")
    return Caller(actor, principal, token, expires, is_chosen=actor != name)
