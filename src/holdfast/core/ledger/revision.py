"""Log positions.

A revision is `seq.index`: the batch, and the event in it. Packed into one integer it orders as the log does, so uids
and epochs, which are revisions, always grow and are never used again.
"""

from __future__ import annotations

from holdfast.core.model.values.structs import Revision, Row

INDEX_BITS = 20
INDEX_MAX = (1 << INDEX_BITS) - 1
SEQ_MAX = (1 << 63 - INDEX_BITS) - 1
#: No revision has as many digits; longer numbers are rejected unread.
DIGITS_MAX = 20
#: Bytes of a digest that distinguish a batch from any other that ever had its sequence number.
DIGEST_START_BYTES = 8


def pack_revision(seq: int, index: int = 0) -> Revision:
    """Return the revision of an event in a batch."""
    assert 0 <= index <= INDEX_MAX, index
    return (seq << INDEX_BITS) | index


def seq_of(packed: Revision) -> int:
    """Return the sequence number of a revision's batch."""
    return packed >> INDEX_BITS


def index_of(packed: Revision) -> int:
    return packed & INDEX_MAX


def format_revision(packed: Revision) -> str:
    """Return the displayed form of a revision, such as `41.3`."""
    return f"{seq_of(packed)}.{index_of(packed)}"


def parse_revision(text: str) -> Revision | None:
    """Return the revision with this displayed form; None if the text is no revision, or exceeds 63 bits."""
    seq, dot, index = text.partition(".")
    if not dot or not all(part.isascii() and part.isdecimal() and len(part) < DIGITS_MAX for part in (seq, index)):
        return None
    if int(index) > INDEX_MAX or int(seq) > SEQ_MAX:
        return None
    return pack_revision(int(seq), int(index))


class RevisionToken(Row, frozen=True):
    """A reader's position: enough to detect a store that went backwards or to another branch (RULES 9)."""

    log_id: str
    term: int
    seq: int
    digest_start: bytes


def token_of(log_id: str, term: int, seq: int, digest: bytes) -> RevisionToken:
    return RevisionToken(log_id, term, seq, digest[:DIGEST_START_BYTES])


def format_digest(digest: bytes) -> str:
    """Return the displayed start of a digest."""
    return digest[:DIGEST_START_BYTES].hex()


def is_formatted_digest(text: str) -> bool:
    """Whether the text is the displayed start of a digest."""
    return len(text) == 2 * DIGEST_START_BYTES and set(text) <= set("0123456789abcdef")
