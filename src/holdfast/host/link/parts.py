"""A full list cut into parts, in its own order: what a later object needs comes before it or with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from holdfast.core.ledger.codec import encode
from holdfast.core.region.commands import Ship, Shipped


def in_parts(whole: Ship, puts: Iterable[Shipped | None], objects: int, size_bytes: int) -> Iterator[Ship | None]:
    """The list of these as shipments of at most so many objects and bytes each, at least one object; the last one says
    so.

    Each is cut when it is asked for: nobody waits until all of a large list is looked through. A None is handed on:
    others may have their turn.
    """
    part: list[Shipped] = []
    number, size = 0, 0
    for put in puts:
        if put is None:
            yield None
            continue
        more = len(encode(put))
        if part and (len(part) == objects or size + more > size_bytes):
            yield replace(whole, puts=tuple(part), part=number, last=False)
            part, number, size = [], number + 1, 0
        part.append(put)
        size += more
    yield replace(whole, puts=tuple(part), part=number, last=True)
