"""Evidence of places in the platform's log: who ships up to one signs it, the region keeps the newest (ADR 0028).

    leader ──signs (log, term, place)──▶ region logs it with its cursor ──shows it when it asks──▶ any later leader

A region's token proves who asks, not what is asked for. That this log once was where a region says is proven by a
server of this very ledger, or not at all; only what is proven says anything about this server's own store (RULES 9).
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

#: Characters of a proof, at most.
PROOF_MAX = 256
#: What is signed begins with this: no signature of ours means anything else.
_WHAT = "holdfast shipped 1"


class LogPosition(Struct, frozen=True):
    """A place in a log, as a cursor names it."""

    log_id: str
    term: int
    cursor: Revision


class PositionProofs:
    """What one server signs, and which regions it does not believe."""

    def __init__(self, own: Callable[[], SigningToken | None] = lambda: None) -> None:
        self._own = own
        #: By region: where it claims to have come to, which nobody has proven, since it was last shipped anything.
        self.doubted: dict[str, str] = {}

    def sign(self, state: LedgerState, position: LogPosition) -> str:
        """The proof that this log is there; empty while the log does not know this server's key."""
        own = self._own()
        if own is None or own.name not in state.servers:
            return ""
        signature = base64.urlsafe_b64encode(sign(own, _signed(position, own.name))).decode()
        return f"{position.term} {format_revision(position.cursor)} {own.name} {signature}"

    def warnings(self, state: LedgerState) -> list[str]:
        """What operators should look at, region by region."""
        known = getattr(state, "regions", {})
        return [self.doubted[region] for region in sorted(self.doubted) if region in known]


def read_position_proof(state: LedgerState, log_id: str, proof: str) -> LogPosition | None:
    """The place that a server of this log has signed; None: that is no proof.

    A key counts for as long as the log remembers it: when it was signed with, it was good.
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
