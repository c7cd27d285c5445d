"""For whom a server may act, and what a server is told whose word is not taken.

    a server of this ledger      people, tenants, and machines: their envelopes go through followers, too
    the platform's, in a region  people and tenants: machines of a region ask their region
    any other                    nobody

Nobody acts for a server, and nobody for what runs beside a leader.
"""

from __future__ import annotations

from holdfast.api.problems import Problem, from_refusal, problem
from holdfast.core.ledger.answers import Code, Refused
from holdfast.core.ledger.commit.authorization import MACHINES, PEOPLE
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.records.servers import ServerToken, is_server_name, ledger_of
from holdfast.host.ports.transport import Pairs, Reply, first_value
from holdfast.host.protocol.request_signatures import PROOF

#: On an answer to a server whose proof was not taken: what is wrong is between servers, and no fault of their caller.
PROOF_REJECTED = ((PROOF, "not-taken"),)
_PLATFORM = "platform"


def server_token(state: LedgerState, name: str) -> ServerToken | None:
    """The token of this name, of one of this ledger's own servers or, in a region, of the platform's."""
    tables = ("servers",) if state.info.ledger == _PLATFORM else ("servers", "platform_servers")
    return next((found for table in tables if (found := state.table(table).get(name)) is not None), None)


def refuse_delegation(ledger: str, server: ServerToken, actor: str) -> Problem | None:
    """Why this server does not act for this principal in this ledger; None: it may."""
    of, kind = ledger_of(server.principal), actor.partition("/")[0]
    kinds = (*PEOPLE, *MACHINES) if of == ledger else PEOPLE if of == _PLATFORM else ()
    if kind in kinds and not is_server_name(actor) and not actor.endswith("/*"):
        return None
    return from_refusal(Refused(Code.NO_RIGHT, f"{server.principal} cannot act for {actor[:80]!r} here", {}))


def rejected_proof(why: str) -> Problem:
    """A proof that is not taken."""
    return problem("unauthenticated", why, facts={"proof": "not-taken"})


def problem_headers(found: Problem) -> Pairs:
    """What the answer with this problem says to another server."""
    return PROOF_REJECTED if (found.facts or {}).get("proof") else ()


def is_proof_rejected(reply: Reply) -> bool:
    """Whether another server did not take this one's proof."""
    return reply.status == 401 and first_value(reply.headers, PROOF) == PROOF_REJECTED[0][1]
