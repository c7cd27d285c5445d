"""Who asks for a stream of shipments, from where it goes on, and what that tells of this server's own store.

    cursor in this log ──▶ from there        trimmed, another log, or a list is wanted ──▶ from a full list
    beyond or beside   ──▶ a server of this log has signed such a place: this store went backwards, the server stops
                       ──▶ nobody has: this region is shipped nothing, and everybody else all the same

A signed place is evidence: a leader of this log has shipped it (RULES 9). Where this log does not have that batch, its
store lost its end, and what it gives out from now on, uids for one, was given out before. A cursor alone is the word of
whoever has the region's token, and stops nobody.
"""

from __future__ import annotations

from typing import Never

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.revision import DIGITS_MAX, INDEX_MAX, RevisionToken, pack_revision, parse_revision, seq_of
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.tables import PlatformState
from holdfast.host.errors import Diverged, Gone, Halted, NotLeading, StoreWentBackwards, show_token
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.link.platform.position_proofs import LogPosition, PositionProofs
from holdfast.host.link.platform.position_proofs import read_position_proof as proven_place
from holdfast.host.ports.transport import Reply, Request, first_value
from holdfast.host.protocol.problem import problem_reply
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.streams.resume import proven_leader, resume_point


class ShipmentRequest(Struct, frozen=True):
    """How far a region is, in which session, and whether it wants a full list all the same."""

    region: str
    log_id: str
    term: int
    cursor: Revision
    session: Revision
    wants_list: bool
    proof: str = ""


def read_shipment_request(request: Request, region: str) -> ShipmentRequest | Reply:
    """What the region that the sender has proven to be asks for, or what is wrong with it."""
    query = request.query
    cursor, session = (parse_revision(first_value(query, name, "0.0")) for name in ("cursor", "session"))
    term = first_value(query, "term", "0")
    if cursor is None or session is None or not (term.isascii() and term.isdecimal() and len(term) < DIGITS_MAX):
        return problem_reply(400, Code.MALFORMED, "cursor and session are revisions (`41.3`), term is a number")
    if first_value(query, "region", region) != region:
        return problem_reply(403, Code.WRONG_SCOPE, f"this is region {region}: no other region's shipments are for it")
    wants_list, proof = first_value(query, "list") == "yes", first_value(query, "proof")
    return ShipmentRequest(region, first_value(query, "log"), int(term), cursor, session, wants_list, proof)


def session_problem(ledger: Ledger[PlatformState], region: str, session: Revision) -> Reply | None:
    """Only the session in which the region has joined with its log is told anything (ADR 0010).

    A region that was lost since it was last heard has to join once more: it is back only by a sign of life (RULES 8),
    and one whose log stands still has nothing else to say.
    """
    proven_leader(ledger)
    state = ledger.durable.state
    known = state.regions.get(region)
    if known is None:
        return problem_reply(404, Code.NOT_FOUND, f"there is no Region {region}")
    if known.status.health is RegionHealth.RETIRED:
        return problem_reply(410, Code.TOMBSTONED, f"region {region} is retired: stop everything, join as a new log")
    if known.status.session != session or session not in state.sessions:
        return problem_reply(409, Code.NO_SESSION, f"this session has not joined with the log of region {region}")
    if known.status.health is RegionHealth.LOST and known.status.heard_at <= known.status.since:
        return problem_reply(409, Code.NO_SESSION, f"region {region} was not heard since it was lost: join again")
    return None


async def resume_after(
    ledger: Ledger[PlatformState], asked: ShipmentRequest, evidence: PositionProofs
) -> RevisionToken | Reply | None:
    """The batch after which the region has not heard everything; None: it needs a full list. Or why it gets nothing."""
    facts, leader = ledger.durable.state.info, proven_leader(ledger)
    seq = seq_of(asked.cursor)
    if asked.log_id != facts.log_id or seq == 0:
        return None
    try:
        at = await _place_of(ledger, asked.log_id, asked.term, seq)
        if at is None or at.term != asked.term:
            return await _not_here(ledger, leader, asked, evidence)
        if asked.wants_list or seq == 1:
            return None
        is_whole = asked.cursor == pack_revision(seq, INDEX_MAX)
        return at if is_whole else await _place_of(ledger, asked.log_id, asked.term, seq - 1)
    except Gone:
        return None


async def _place_of(ledger: Ledger[PlatformState], log_id: str, term: int, seq: int) -> RevisionToken | None:
    """Where this log has that batch; None: it lies beyond its end. A cursor names no digest."""
    try:
        return await resume_point(ledger, RevisionToken(log_id, term, seq, b""))
    except Diverged:
        return None


async def _not_here(
    ledger: Ledger[PlatformState], leader: Leader[PlatformState], asked: ShipmentRequest, evidence: PositionProofs
) -> Reply:
    """This log lacks what the region says to have been shipped from it: stop, if a server of it has signed that.

    Only if it still leads, by a proof that begins now: a deposed leader only lacks what its successor has shipped.
    """
    await ledger.read(ReadLevel.LINEAR)
    if ledger.leader is not leader:
        raise NotLeading(f"{ledger.identity.server} leads no more, or in another term")
    signed = proven_place(ledger.durable.state, asked.log_id, asked.proof)
    if signed is not None and not await _has(ledger, signed):
        _stop(ledger, leader, asked.region, signed)
    claimed, here = f"{asked.log_id}:{asked.term}:{seq_of(asked.cursor)}", show_token(ledger.durable.token())
    evidence.doubted[asked.region] = (
        f"region {asked.region} asks for what follows {claimed}, which this log, at {here}, does not have and no "
        "server of it has signed: it is shipped nothing; revoke its token unless this store was restored"
    )
    ledger.metrics.count("shipping_unproven")
    logger = Logger("shipping", server=ledger.identity.server, region=asked.region)
    logger.warning("unproven-place", claimed=claimed, here=here)
    return problem_reply(
        409, Code.DIVERGED, f"{claimed} is not in this log, and no server of it has signed that it was"
    )


async def _has(ledger: Ledger[PlatformState], signed: LogPosition) -> bool:
    try:
        at = await _place_of(ledger, signed.log_id, signed.term, seq_of(signed.cursor))
    except Gone:
        return True  # it was in this log, which has trimmed it
    return at is not None and at.term == signed.term


def _stop(ledger: Ledger[PlatformState], leader: Leader[PlatformState], region: str, signed: LogPosition) -> Never:
    """This log does not have what was shipped from it: stop this server (RULES 9)."""
    error = StoreWentBackwards(
        f"{ledger.store.name} was at {signed.log_id}:{signed.term}:{seq_of(signed.cursor)} when it shipped that to "
        f"region {region}, and is at {show_token(ledger.durable.token())} now, without it; this server stops. "
        "hint: if the store was restored from a backup, start a new log from it; if it was copied, use the original"
    )
    leader.stop(error)
    raise Halted(f"{ledger.identity.server} has stopped: {error}") from error
