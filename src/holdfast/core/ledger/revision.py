"""Log positions.

A revision is `seq.index`: the batch, and the event in it. Packed into one integer it orders as the log does, so uids
and epochs, which are revisions, always grow and are never used again.
"""

from __future__ import annotations

from holdfast.core.model.values.structs import Revision, Row

INDEX_BITS = 20
INDEX_MAX = (1 << INDEX_BITS) - 1
SEQ_MAX = (1 << 63 - INDEX_BITS) - 1
#: No number of ours has as many digits: longer ones are not even read.
DIGITS_MAX = 20
#: So much of a digest tells a batch from any other that was ever at its place.
DIGEST_START_BYTES = 8


def pack_revision(seq: int, index: int = 0) -> Revision:
    """The revision of an event in a batch."""
    assert 0 <= index <= INDEX_MAX, index
    return (seq << INDEX_BITS) | index


def seq_of(packed: Revision) -> int:
    """The batch of a revision."""
    return packed >> INDEX_BITS


def index_of(packed: Revision) -> int:
    """The place of a revision in its batch."""
    return packed & INDEX_MAX


def format_revision(packed: Revision) -> str:
    """The revision as people read it: `41.3`."""
    return f"{seq_of(packed)}.{index_of(packed)}"


def parse_revision(text: str) -> Revision | None:
    """The revision that is shown so; None when nothing is. What does not fit into 63 bits is none."""
    seq, dot, index = text.partition(".")
    if not dot or not all(part.isascii() and part.isdecimal() and len(part) < DIGITS_MAX for part in (seq, index)):
        return None
    if int(index) > INDEX_MAX or int(seq) > SEQ_MAX:
        return None
    return pack_revision(int(seq), int(index))


class RevisionToken(Row, frozen=True):
    """Where a reader stands: enough to notice a store that went backwards or beside (RULES 9)."""

    log_id: str
    term: int
    seq: int
    digest_start: bytes


def token_of(log_id: str, term: int, seq: int, digest: bytes) -> RevisionToken:
    """The token of the batch with this digest."""
    return RevisionToken(log_id, term, seq, digest[:DIGEST_START_BYTES])


def format_digest(digest: bytes) -> str:
    """The start of a digest as people read it."""
    return digest[:DIGEST_START_BYTES].hex()


def is_formatted_digest(text: str) -> bool:
    """Whether some digest is shown so."""
    return len(text) == 2 * DIGEST_START_BYTES and set(text) <= set("0123456789abcdef")
