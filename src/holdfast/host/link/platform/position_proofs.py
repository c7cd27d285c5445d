"""Proofs of positions in the platform's log: the shipping server signs one, the region keeps the newest (ADR 0028).

    leader ──signs (log, term, position)──▶ region logs it with its cursor ──presents it──▶ any later leader

A region's token proves the sender, not the claimed position. Only a server of this ledger can prove that the log once
had that position. Only a proven position is evidence about this server's own store (RULES 9).
"""

from __future__ import annotations

import base64
from binascii import Error as NotBase64
from collections.abc import Callable

from msgspec import Struct

from holdfast.core.ledger.codec import encode
from holdfast.core.ledger.revision import DIGITS_MAX, format_revision, parse_revision
from holdfast.core.ledger.state.ledger_state import LedgerState
from holdfast.core.model.records.servers import ledger_of
from holdfast.core.model.values.structs import Revision
from holdfast.host.protocol.request_signatures import SigningToken, is_signed_by, sign

#: Largest length of a proof, in characters.
PROOF_MAX = 256
#: Prefix of the signed text: no other Holdfast signature starts with it.
_WHAT = "holdfast shipped 1"


class LogPosition(Struct, frozen=True):
    """A position in a log, as in a cursor."""

    log_id: str
    term: int
    cursor: Revision


class PositionProofs:
    """Signs positions for one server, and lists the regions with unproven positions."""

    def __init__(self, own: Callable[[], SigningToken | None] = lambda: None) -> None:
        self._own = own
        #: By region: the warning about its unproven position, since it was last shipped anything.
        self.doubted: dict[str, str] = {}

    def sign(self, state: LedgerState, position: LogPosition) -> str:
        """Return the proof that this log has the position; empty while the log does not contain this server's key."""
        own = self._own()
        if own is None or own.name not in state.servers:
            return ""
        signature = base64.urlsafe_b64encode(sign(own, _signed(position, own.name))).decode()
        return f"{position.term} {format_revision(position.cursor)} {own.name} {signature}"

    def warnings(self, state: LedgerState) -> list[str]:
        """Return the warnings for operators, region by region."""
        known = getattr(state, "regions", {})
        return [self.doubted[region] for region in sorted(self.doubted) if region in known]


def read_position_proof(state: LedgerState, log_id: str, proof: str) -> LogPosition | None:
    """Return the position that a server of this log has signed; None: the proof is not valid.

    A key counts for as long as the log has it: it was valid at the time of the signature.
    """
    term, cursor, name, signature = [*proof.split(" "), "", "", ""][:4] if len(proof) <= PROOF_MAX else [""] * 4
    token, at = state.servers.get(name), parse_revision(cursor)
    if token is None or at is None or ledger_of(token.principal) != state.info.ledger:
        return None
    if not (term.isascii() and term.isdecimal() and len(term) < DIGITS_MAX):
        return None
    place = LogPosition(log_id, int(term), at)
    try:
        raw = base64.urlsafe_b64decode(signature.encode())
    except (NotBase64, ValueError):
        return None
    return place if is_signed_by(token.hash, raw, _signed(place, name)) else None


def _signed(position: LogPosition, token: str) -> bytes:
    return encode((_WHAT, position.log_id, position.term, position.cursor, token))
