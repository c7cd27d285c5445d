"""Authentication by bearer token or client certificate, against the server's own copy of principals and tokens.

A server that acts for a caller sends nothing in its own name. It signs the request with its own token, for one address,
and names the principal it acts for (`host.protocol.request_signatures`). That principal is then checked as if it had
sent the request. A region accepts servers of the platform for users only, and its own servers for machines, too.

A region copies principals and tokens from the platform's log and uses its copy while it is cut off. A revocation
reaches it only with the next contact: for this reason every token has an end.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct

from holdfast.api.problems import Problem, problem
from holdfast.api.server.delegation import refuse_delegation, rejected_proof, server_token
from holdfast.core.ledger.commit.authorization import MACHINES
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.principals import Permission, Principal, Token, parse_token, verify_secret
from holdfast.core.model.records.servers import ServerToken, is_server_name
from holdfast.core.model.values.structs import Instant
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Request, first_value
from holdfast.host.protocol.request_signatures import ACTING_FOR, PROOF, RequestTarget, is_fresh, is_signed, read_proof

_BEARER = "bearer "
#: Largest number of cached callers.
CACHED_CALLERS_MAX = 10_000
#: Longest name that is cached: the holder of a token for many principals chooses the names.
ACTOR_MAX = 256
#: Names one of the principals that a token stands for.
ACTOR_HEADER = "holdfast-actor"


class Caller(Struct, frozen=True):
    """An authenticated principal. `token` is the name of its token; empty: it used a certificate."""

    actor: str
    principal: Principal
    token: str = ""
    expires: Instant = 0
    #: Whether its token stands for many principals and the request chose this one.
    is_chosen: bool = False
    #: The server that acts for it, and the name of that server's token; empty: it sent the request itself.
    via: str = ""
    via_token: str = ""

    @property
    def kind(self) -> str:
        """The kind: `person`, `tenant`, `scheduler`, `agent` or `region`."""
        return self.actor.partition("/")[0]

    def has(self, right: Permission) -> bool:
        return right in self.principal.spec.rights

    def tenant(self) -> str:
        """Return the one tenant that it acts for; empty: none, or all."""
        if self.kind == "tenant":
            return self.actor.partition("/")[2]
        return self.principal.spec.scope.tenant


class _CachedCaller(Struct):
    """A caller with the rows that authenticated it; `many` is the principal of a token that stands for many."""

    caller: Caller
    token: Token
    many: Principal
    #: The batch at which it was last checked: it holds until the next batch, except for its end.
    held_at: int


class Authenticator:
    """Authenticates callers, and caches the result, so that a secret is not hashed for every request.

    A cached caller counts only while token and principal are the same rows: rows are never changed, only replaced.
    """

    def __init__(self, clock: Clock, addresses: tuple[str, ...] = ()) -> None:
        self._clock = clock
        #: Addresses of this server: a signature for another address is not valid here.
        self._addresses = addresses
        #: By the authorization header and, for a token that stands for many, the named principal.
        self._known: OrderedDict[tuple[str, str], _CachedCaller] = OrderedDict()

    def no_longer(self, state: LedgerState, request: Request, caller: Caller) -> Problem | None:
        """Return why a stream of this caller must end; None: it may continue. A stream outlives its authentication."""
        found = self._acted_for(state, caller) if caller.via else self.of(state, request)
        if found is caller:
            return None
        if isinstance(found, Problem):
            return found
        if found.principal.spec == caller.principal.spec:
            return None
        return problem("gone", f"the permissions of {caller.actor} have changed: list again")

    def of(self, state: LedgerState, request: Request) -> Caller | Problem:
        spoken = first_value(request.headers, "authorization")
        if first_value(request.headers, PROOF) or first_value(request.headers, ACTING_FOR):
            return self._by_server(state, request, spoken)
        now = max(state.info.at, self._clock.wall())
        known = self._known.get((spoken, "")) or self._known.get((spoken, first_value(request.headers, ACTOR_HEADER)))
        if known is not None and known.caller.expires > now:
            # Most requests come after no relevant change: a thousand watchers with one token get the same batch.
            if known.held_at == state.info.seq or self._still_holds(state, known):
                known.held_at = state.info.seq
                return known.caller
        found = authenticate(state, request, now)
        if isinstance(found, Caller) and found.token and len(found.actor) <= ACTOR_MAX:
            token = state.table("tokens")[found.token]
            many = state.principals[token.spec.principal] if found.is_chosen else found.principal
            self._known[spoken, found.actor if found.is_chosen else ""] = _CachedCaller(
                found, token, many, state.info.seq
            )
            if len(self._known) > CACHED_CALLERS_MAX:
                self._known.popitem(last=False)
        return found

    def _still_holds(self, state: LedgerState, known: _CachedCaller) -> bool:
        caller, principals = known.caller, state.principals
        return (
            state.table("tokens").get(caller.token) is known.token
            and (principals.get(caller.actor) or principals.get(f"{caller.kind}/*")) is caller.principal
            and (not caller.is_chosen or principals.get(known.token.spec.principal) is known.many)
        )

    def _by_server(self, state: LedgerState, request: Request, spoken: str) -> Caller | Problem:
        """Return the caller that a server acts for. Only servers act for others; they have no other credentials."""
        proof = read_proof(request)
        if spoken or proof is None:
            return problem("unauthenticated", f"{ACTING_FOR} is for servers, with a signature and nothing else")
        token = server_token(state, proof.token)
        goals = [RequestTarget(address, state.info.ledger) for address in self._addresses]
        if token is None or not is_signed(request, proof, token.hash, goals):
            where = " or ".join(self._addresses)
            return rejected_proof(f"no known server has signed this request for {where}, {state.info.ledger}")
        wall = self._clock.wall()
        if not is_fresh(proof, wall):
            return rejected_proof(
                f"the signature of {token.principal} is {abs(wall - proof.at)} ms off the time of this server"
            )
        return self._acting(state, token, proof.actor)

    def _acted_for(self, state: LedgerState, caller: Caller) -> Caller | Problem:
        """Return the caller's present state. The server has authenticated itself when it opened the stream."""
        token = server_token(state, caller.via_token)
        if token is None or token.principal != caller.via:
            return problem("unauthenticated", f"{caller.via} may no longer act for callers")
        return self._acting(state, token, caller.actor)

    def _acting(self, state: LedgerState, token: ServerToken, actor: str) -> Caller | Problem:
        if token.expires <= max(state.info.at, self._clock.wall()):
            return rejected_proof(f"the token {token.name} of {token.principal} has expired")
        refused = refuse_delegation(state.info.ledger, token, actor)
        if refused is not None:
            return refused
        found = _principal(state, actor)
        if isinstance(found, Problem):
            return found
        return Caller(actor, found, expires=token.expires, via=token.principal, via_token=token.name)


def authenticate(state: LedgerState, request: Request, now: Instant) -> Caller | Problem:
    spoken = first_value(request.headers, "authorization")
    if spoken:
        return _by_token(state, request, spoken, now)
    if request.proven.endswith("/*"):
        return problem("unauthenticated", f"a certificate needs one name, and {request.proven} stands for many")
    if request.proven:
        return _as_principal(state, request, request.proven, "", 0)
    return problem("unauthenticated", "send a bearer token, or use a client certificate")


def _by_token(state: LedgerState, request: Request, spoken: str, now: Instant) -> Caller | Problem:
    parts = parse_token(spoken[len(_BEARER) :]) if spoken[: len(_BEARER)].lower() == _BEARER else None
    if parts is None:
        return problem("unauthenticated", "the Authorization header has no bearer token of Holdfast")
    name, secret = parts
    token: Token | None = state.table("tokens").get(name)
    if token is None or not verify_secret(secret, token.spec.hash):
        return problem("unauthenticated", "unknown bearer token")
    if token.spec.revoked:
        return problem("unauthenticated", f"token {name} was revoked")
    if token.spec.expires <= now:
        return problem("unauthenticated", f"token {name} has expired", facts={"expires": token.spec.expires})
    return _as_principal(state, request, token.spec.principal, name, token.spec.expires)


def _as_principal(state: LedgerState, request: Request, name: str, token: str, expires: Instant) -> Caller | Problem:
    """Return the principal. A token of `agent/*` is valid for any agent, which the request names; one of `person/*` is
    not valid."""
    actor = name
    if name.endswith("/*"):
        whole = state.principals.get(name)
        if whole is None or whole.spec.disabled:
            return problem("unauthenticated", f"there is no principal {name}, or it is disabled")
        if name.partition("/")[0] not in MACHINES:
            # The caller would get the permissions of any principal that it names, even more than the token's creator
            # has.
            return problem("unauthenticated", f"a token of {name} is not valid: each user needs a token")
        actor = first_value(request.headers, ACTOR_HEADER)
        if not actor.startswith(name[:-1]) or actor == name:
            return problem("unauthenticated", f"{name} stands for many: name one in Holdfast-Actor")
    if is_server_name(actor):
        return problem("unauthenticated", f"{actor} is a server, which signs with a token of its own")
    found = _principal(state, actor)
    return found if isinstance(found, Problem) else Caller(actor, found, token, expires, is_chosen=actor != name)


def _principal(state: LedgerState, actor: str) -> Principal | Problem:
    """Return the principal whose permissions apply."""
    found = state.principals.get(actor) or state.principals.get(f"{actor.partition('/')[0]}/*")
    if found is None:
        return problem("unauthenticated", f"there is no principal {actor}")
    return problem("unauthenticated", f"{actor} is disabled") if found.spec.disabled else found
