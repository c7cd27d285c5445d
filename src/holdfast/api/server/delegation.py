"""For which principals another server may act, and how a rejected signature is reported to it.

    a server of this ledger                users and machines: their envelopes pass through followers, too
    a server of the platform, in a region  users; machines of a region send their requests to the region
    any other server                       none

No server acts for another server, or for what runs embedded in a leader.
"""

from __future__ import annotations

from holdfast.api.problems import Problem, from_refusal, problem
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.authorization import MACHINES, PEOPLE
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.records.servers import ServerToken, is_server_name, ledger_of
from holdfast.host.ports.transport import Pairs, Reply, first_value
from holdfast.host.protocol.request_signatures import PROOF

#: In a reply to a server whose signature was rejected: the error is between the servers, not with the caller.
PROOF_REJECTED = ((PROOF, "not-taken"),)
_PLATFORM = "platform"


def server_token(state: LedgerState, name: str) -> ServerToken | None:
    """Return the token of this name that belongs to a server of this ledger or, in a region, of the platform."""
    tables = ("servers",) if state.info.ledger == _PLATFORM else ("servers", "platform_servers")
    return next((found for table in tables if (found := state.table(table).get(name)) is not None), None)


def refuse_delegation(ledger: str, server: ServerToken, actor: str) -> Problem | None:
    """Refuse a server that may not act for this principal in this ledger; None: it may."""
    of, kind = ledger_of(server.principal), actor.partition("/")[0]
    kinds = (*PEOPLE, *MACHINES) if of == ledger else PEOPLE if of == _PLATFORM else ()
    if kind in kinds and not is_server_name(actor) and not actor.endswith("/*"):
        return None
    return from_refusal(Refused(Code.NO_RIGHT, f"{server.principal} cannot act for {actor[:80]!r} here", {}))


def rejected_proof(why: str) -> Problem:
    """Return the problem of a rejected signature."""
    return problem("unauthenticated", why, facts={"proof": "not-taken"})


def problem_headers(found: Problem) -> Pairs:
    """Return the headers that report this problem to another server."""
    return PROOF_REJECTED if (found.facts or {}).get("proof") else ()


def is_proof_rejected(reply: Reply) -> bool:
    """Whether another server rejected this one's signature."""
    return reply.status == 401 and first_value(reply.headers, PROOF) == PROOF_REJECTED[0][1]
