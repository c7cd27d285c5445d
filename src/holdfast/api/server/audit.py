"""What people did, and what they were denied: read from the log itself, newest first.

Every accepted command of a person lies beside the log with its batch; denials are records of the log. Nothing is kept
apart from it, so nothing can differ from it; the log is read backwards until enough was found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from holdfast.api.documents.commands import show_command
from holdfast.api.documents.scalars import format_instant as show_instant
from holdfast.api.documents.scalars import parse_instant
from holdfast.api.problems import problem
from holdfast.api.server.call import Call, Trouble, answer
from holdfast.api.server.desk import Desk
from holdfast.api.server.rights import sees, sees_principal
from holdfast.core.ledger.codec import Evidence, read_evidence
from holdfast.core.ledger.denials import DenialsRecorded
from holdfast.core.ledger.envelope import ABSENT, PRESENT
from holdfast.core.ledger.revision import revision
from holdfast.core.ledger.revision import show as show_revision
from holdfast.core.model.evidence import AuditEvent
from holdfast.core.model.shapes import Instant, Revision
from holdfast.host.denials import tenant_in
from holdfast.host.store import Stored, StoreError, Trimmed
from holdfast.host.transport import Reply

#: How many batches are read at once, and how many for one answer.
STEP = 256
BATCHES_MAX = 20_000
READ_BYTES = 8 << 20
ITEMS_MAX = 500


class Asked(Struct, frozen=True):
    """Which entries, how many, and from which place on backwards: a batch, less its newest entries that were told."""

    wanted: dict[str, str]
    limit: int
    since: Instant
    first: int
    skip: int


async def audit(desk: Desk, call: Call) -> Reply:
    """The newest entries that the caller may see and asked for; `continue` goes on further back."""
    full = desk.lists.take(call.caller.actor)
    if full is not None:
        raise Trouble(full)
    try:
        return await _newest(desk, call, _asked(desk, call))
    finally:
        desk.lists.leave(call.caller.actor)


async def _newest(desk: Desk, call: Call, asked: Asked) -> Reply:
    items: list[dict[str, Any]] = []
    last, skip = asked.first + 1, asked.skip
    stop = max(1, last - BATCHES_MAX)
    while last > stop:
        for stored in reversed(await _batches(desk, max(stop, last - STEP), last)):
            found = [one for one in _entries(desk, call, stored) if _is_wanted(call, one, asked)][::-1]
            items += found[skip:]
            if len(items) > asked.limit or (asked.since and _at(desk, stored) < asked.since):
                told = len(found) - (len(items) - asked.limit)
                more = {"continue": f"{stored.seq}.{told}"} if len(items) > asked.limit else {}
                return answer({"kind": "AuditList", "items": items[: asked.limit], "metadata": more})
            skip = 0
        last = max(stop, last - STEP)
        await asyncio.sleep(0)
    more = {"continue": f"{last - 1}.0"} if last > 1 else {}
    return answer({"kind": "AuditList", "items": items, "metadata": more})


def _asked(desk: Desk, call: Call) -> Asked:
    wanted = {word: call.query(word) for word in ("actor", "command", "outcome") if call.query(word)}
    head = desk.state.facts.seq
    said = dict(reversed(call.request.query))
    since = parse_instant(said["since"]) if "since" in said else 0
    seq, _, skip = said.get("continue", f"{head}.0").partition(".")
    if since is None or not all(part.isascii() and part.isdigit() and len(part) < 16 for part in (seq, skip)):
        raise Trouble(problem("unreadable", "since is a time in RFC 3339, and continue what an answer gave"))
    return Asked(wanted, call.count("limit", 50, ITEMS_MAX), since, min(int(seq), head), int(skip))


def _at(desk: Desk, stored: Stored) -> Instant:
    book = desk.ledger.book
    records = book.batches.read(stored.raw, book.batches.header(stored.raw).previous, stored.digest).records
    return max((record.at for record in records), default=0)


async def _batches(desk: Desk, first: int, last: int) -> list[Stored]:
    """The batches from first to before last, as far as the log reaches back."""
    found: list[Stored] = []
    try:
        while first < last:
            read = [one for one in await desk.ledger.store.read(first, READ_BYTES) if one.seq < last]
            if not read:
                break
            found += read
            first = read[-1].seq + 1
    except Trimmed:
        return await _above_floor(desk, last)
    except StoreError as error:
        raise Trouble(problem("unavailable", f"the log cannot be read: {error}")) from error
    return found


async def _above_floor(desk: Desk, last: int) -> list[Stored]:
    floor = (await desk.ledger.store.head()).floor
    return await _batches(desk, floor + 1, last) if floor + 1 < last else []


def _entries(desk: Desk, call: Call, stored: Stored) -> Iterator[dict[str, Any]]:
    book = desk.ledger.book
    batch = book.batches.read(stored.raw, book.batches.header(stored.raw).previous, stored.digest)
    evidence: dict[int, list[Evidence]] = {}
    for one in book.batches.evidence(stored.raw):
        evidence.setdefault(one.record, []).append(one)
    position = revision(stored.seq)
    for number, record in enumerate(batch.records):
        for one in evidence.get(number, ()):
            found = _read(one.payload)
            if found is not None:
                yield _done(book, call, found, position)
        for event in record.events:
            if isinstance(event, DenialsRecorded):
                yield from [_denied(denial, position) for denial in event.denials]
            position += 1


def _read(payload: bytes) -> AuditEvent | None:
    try:
        found = read_evidence(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return found if isinstance(found, AuditEvent) else None


def _done(book: Any, call: Call, found: AuditEvent, position: int) -> dict[str, Any]:
    return {
        "at": show_instant(found.at),
        "actor": found.actor,
        "command": found.command,
        "body": _command(book, call, found.body),
        "revision": show_revision(position),
        "outcome": "accepted",
        **({"expected": _expected(found.expect)} if found.expect else {}),
        **({"via": found.via} if found.via else {}),
    }


def _expected(expect: Revision) -> str:
    """What a sender expected of the object, as in the header by which it was said."""
    return {ABSENT: "none", PRESENT: "*"}.get(expect) or show_revision(expect)


def _command(book: Any, call: Call, body: bytes) -> Any:
    """The command as it was sent, in the words of documents. What this version cannot read is left out, and what is a
    tenant's own to whoever may not see that tenant: that it was done is theirs to know, and what it holds is not."""
    found = book.envelopes.command(body)
    return None if found is None or not sees(call.caller, tenant_in(found)) else show_command(found)


def _denied(denial: Any, position: int) -> dict[str, Any]:
    return {
        "at": show_instant(denial.last),
        "actor": denial.actor,
        "command": denial.what,
        "tenant": denial.tenant,
        "count": denial.count,
        "revision": show_revision(position),
        "outcome": denial.code,
    }


def _is_wanted(call: Call, item: dict[str, Any], asked: Asked) -> bool:
    if asked.since and (parse_instant(item["at"]) or 0) < asked.since:
        return False
    is_asked_for = all(item.get(word) == said for word, said in asked.wanted.items())
    return is_asked_for and sees_principal(call.caller, item["actor"])
