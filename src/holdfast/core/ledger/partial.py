"""Answers to commands with many parts: accepted parts become events, refused parts are listed in the answer."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.ledger.answers import Accepted, Code, Refused, too_large
from holdfast.core.ledger.codec import encode
from holdfast.core.model.values.structs import Revision, Row

#: The largest number of placements, moves, stops or slots that one command may name (RULES 11).
PARTS_MAX = 1_000


class RefusedPart(Row, frozen=True):
    """One refused part of a command: its index, the code, and the revision to wait for (0: waiting does not help)."""

    group: int
    index: int
    code: str
    detail: str
    catch_up_to: Revision = 0


_refused_parts = msgspec.msgpack.Decoder(list[RefusedPart])


def decode_refused_parts(answer: bytes) -> list[RefusedPart]:
    """Return the refused parts that the answer of an accepted command lists."""
    return _refused_parts.decode(answer) if answer else []


def partial_answer(
    events: tuple[Any, ...], lost: list[RefusedPart], view: Revision = 0, *, all_or_nothing: bool = False
) -> Accepted | Refused:
    """Return Accepted with the refused parts listed; Refused if no part is accepted, or all-or-nothing is not met."""
    if not lost or (events and not all_or_nothing):
        return Accepted(events, encode(lost) if lost else b"")
    first = lost[0]
    facts: dict[str, Any] = {"refused": [[u.group, u.index, u.code, u.detail, u.catch_up_to] for u in lost]}
    if first.catch_up_to:
        facts = {**facts, "key": first.detail, "seen": view, "catch_up_to": first.catch_up_to}
    message = f"{first.detail}: {first.code}" if len(lost) == 1 else f"{len(lost)} refused, the first {first.detail}"
    return Refused(Code(first.code), message, facts)


def wrong_count(count: int) -> Refused | None:
    """Refuse a command that names no part, or more than `PARTS_MAX`."""
    if 0 < count <= PARTS_MAX:
        return None
    return too_large("parts in a command, which needs at least one", count, PARTS_MAX)
