"""Requests for a stream of shipments: where it resumes, and evidence about this server's store.

    cursor in this log ──▶ from there    trimmed, another log, or a list requested ──▶ from a full list
    not in this log    ──▶ a server of this log has signed it: this store went backwards, the server stops
                       ──▶ no server has: this region is shipped nothing, other regions are not affected

A signed position was shipped by a leader of this log (RULES 9). If the log lacks that batch, its store lost the end of
the log, and would issue uids that are in use. A cursor alone is a claim of any holder of the region's token, and stops
no server.

Proofs of positions in the platform's log: the shipping server signs one, the region keeps the newest (ADR 0028).

    leader ──signs (log, term, batch, digest)──▶ region logs it with its cursor ──presents it──▶ any later leader

A region's token proves the sender, not the claimed position. Only a server of this ledger can prove that the log once
had that position. Only a proven position is evidence about this server's own store (RULES 9). The digest matters: an
older copy of the store reaches the same term and the same batch again, with other content.
"""

from __future__ import annotations

import base64
from binascii import Error as NotBase64
from collections.abc import Callable
from typing import Never

from msgspec import Struct

from holdfast.core.ledger.answers import Code
from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import (
    DIGITS_MAX,
    INDEX_MAX,
    RevisionToken,
    pack_revision,
    parse_revision,
    seq_of,
)
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.objects.topology import RegionHealth
from holdfast.core.model.records.servers import ledger_of
from holdfast.core.model.values.structs import Revision
from holdfast.core.platform.state.tables import PlatformState
from holdfast.host.errors import Diverged, Gone, Halted, NotLeading, StoreWentBackwards, show_token
from holdfast.host.leader.leader import Leader
from holdfast.host.ledger.ledger import Ledger
from holdfast.host.ledger.reads import ReadLevel
from holdfast.host.ports.transport import Reply, Request, first_value
from holdfast.host.protocol.problem import problem_reply
from holdfast.host.protocol.request_signatures import SigningToken, is_signed_by, sign
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.streams.resume import proven_leader, resume_point

#: Largest length of a proof, in characters.
PROOF_MAX = 256
#: Prefix of the signed text: no other Holdfast signature starts with it.
_SIGNED_KIND = "holdfast shipped 2"


class ShipmentRequest(Struct, frozen=True):
    """A region's cursor and session, and whether it requests a full list."""

    region: str
    log_id: str
    term: int
    cursor: Revision
    session: Revision
    wants_list: bool
    proof: str = ""


def read_shipment_request(request: Request, region: str) -> ShipmentRequest | Reply:
    """Return the request of the authenticated region, or a problem reply."""
    query = request.query
    cursor, session = (parse_revision(first_value(query, name, "0.0")) for name in ("cursor", "session"))
    term = first_value(query, "term", "0")
    if cursor is None or session is None or not (term.isascii() and term.isdecimal() and len(term) < DIGITS_MAX):
        return problem_reply(400, Code.MALFORMED, "cursor and session are revisions (`41.3`), term is a number")
    if first_value(query, "region", region) != region:
        return problem_reply(403, Code.WRONG_SCOPE, f"this is region {region}: it gets no other region's shipments")
    wants_list, proof = first_value(query, "list") == "yes", first_value(query, "proof")
    return ShipmentRequest(region, first_value(query, "log"), int(term), cursor, session, wants_list, proof)


def session_problem(ledger: Ledger[PlatformState], region: str, session: Revision) -> Reply | None:
    """Refuse any session but the one in which the region has joined with its log (ADR 0010).

    A region that was lost must join again if it has reported nothing since. It returns only by a sign of life (RULES
    8), and a region whose log does not grow has no other.
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
        return problem_reply(409, Code.NO_SESSION, f"region {region} was silent since it was lost: join again")
    return None


async def resume_after(
    ledger: Ledger[PlatformState], asked: ShipmentRequest, evidence: PositionProofs
) -> RevisionToken | Reply | None:
    """Return the batch after which the region lacks changes; None: it needs a full list. A reply: the request is
    refused."""
    facts, leader = ledger.durable.state.info, proven_leader(ledger)
    seq = seq_of(asked.cursor)
    if asked.log_id != facts.log_id or seq == 0:
        return None
    try:
        at = await _place_of(ledger, RevisionToken(asked.log_id, asked.term, seq, b""))
        signed = read_position_proof(ledger.durable.state, asked.log_id, asked.proof)
        if at is None or at.term != asked.term or (signed is not None and not await _has(ledger, signed)):
            return await _not_here(ledger, leader, asked, evidence)
        if asked.wants_list or seq == 1:
            return None
        is_whole = asked.cursor == pack_revision(seq, INDEX_MAX)
        return at if is_whole else await _place_of(ledger, RevisionToken(asked.log_id, asked.term, seq - 1, b""))
    except Gone:
        return None


async def _place_of(ledger: Ledger[PlatformState], asked: RevisionToken) -> RevisionToken | None:
    """Return the log's token of that batch; None: the log lacks it. A cursor contains no digest, a proof does."""
    try:
        return await resume_point(ledger, asked)
    except Diverged:
        return None


async def _not_here(
    ledger: Ledger[PlatformState], leader: Leader[PlatformState], asked: ShipmentRequest, evidence: PositionProofs
) -> Reply:
    """Handle a position that this log lacks: stop if a server of this log has signed it, otherwise refuse.

    Stop only after a new proof that this server leads: a deposed leader merely lacks what its successor shipped.
    """
    await ledger.read(ReadLevel.LINEAR)
    if ledger.leader is not leader:
        raise NotLeading(f"{ledger.identity.server} no longer leads, or leads in another term")
    signed = read_position_proof(ledger.durable.state, asked.log_id, asked.proof)
    if signed is not None and not await _has(ledger, signed):
        _stop(ledger, leader, asked.region, signed)
    claimed, here = f"{asked.log_id}:{asked.term}:{seq_of(asked.cursor)}", show_token(ledger.durable.token())
    evidence.doubted[asked.region] = (
        f"region {asked.region} requests what follows {claimed}, which this log, at {here}, lacks and no "
        "server of it has signed. It is shipped nothing: revoke its token, unless this store was restored"
    )
    ledger.metrics.count("shipping_unproven")
    logger = Logger("shipping", server=ledger.identity.server, region=asked.region)
    logger.warning("unproven-place", claimed=claimed, here=here)
    return problem_reply(409, Code.DIVERGED, f"{claimed} is not in this log, and no server of it has signed it")


async def _has(ledger: Ledger[PlatformState], signed: RevisionToken) -> bool:
    try:
        at = await _place_of(ledger, signed)
    except Gone:
        return True  # it was in this log, which has trimmed it
    return at is not None and at.term == signed.term


def _stop(ledger: Ledger[PlatformState], leader: Leader[PlatformState], region: str, signed: RevisionToken) -> Never:
    """Stop this server: its log lacks a batch that was shipped from it (RULES 9)."""
    error = StoreWentBackwards(
        f"{ledger.store.name} was at {show_token(signed)} when it shipped to region {region}, and is at "
        f"{show_token(ledger.durable.token())} now, without it; this server stops. "
        "hint: if the store was restored from a backup, start a new log from it; if it was copied, use the original"
    )
    leader.stop(error)
    raise Halted(f"{ledger.identity.server} has stopped: {error}") from error


class PositionProofs:
    """Signs positions for one server, and lists the regions with unproven positions."""

    def __init__(self, own: Callable[[], SigningToken | None] = lambda: None) -> None:
        self._own = own
        #: By region: the warning about its unproven position, since it was last shipped anything.
        self.doubted: dict[str, str] = {}

    def sign(self, state: LedgerState, position: RevisionToken) -> str:
        """Return the proof that this log has the position; empty while the log does not contain this server's key."""
        own = self._own()
        if own is None or own.name not in state.servers:
            return ""
        signature = base64.urlsafe_b64encode(sign(own, _signed(position, own.name))).decode()
        return f"{position.term} {position.seq} {position.digest_start.hex()} {own.name} {signature}"

    def warnings(self, state: LedgerState) -> list[str]:
        """Return the warnings for operators, region by region."""
        known = getattr(state, "regions", {})
        return [self.doubted[region] for region in sorted(self.doubted) if region in known]


def read_position_proof(state: LedgerState, log_id: str, proof: str) -> RevisionToken | None:
    """Return the position that a server of this log has signed; None: the proof is not valid.

    A key counts for as long as the log has it: it was valid at the time of the signature.
    """
    words = [*proof.split(" "), "", "", "", ""][:5] if len(proof) <= PROOF_MAX else [""] * 5
    term, seq, digest, name, signature = words
    token = state.servers.get(name)
    if token is None or ledger_of(token.principal) != state.info.ledger:
        return None
    if not all(one.isascii() and one.isdecimal() and len(one) < DIGITS_MAX for one in (term, seq)):
        return None
    try:
        position = RevisionToken(log_id, int(term), int(seq), bytes.fromhex(digest))
        raw = base64.urlsafe_b64decode(signature.encode())
    except (NotBase64, ValueError):
        return None
    return position if is_signed_by(token.hash, raw, _signed(position, name)) else None


def _signed(position: RevisionToken, token: str) -> bytes:
    return encode((_SIGNED_KIND, position.log_id, position.term, position.seq, position.digest_start, token))
