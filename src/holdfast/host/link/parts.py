"""A full list cut into parts, in its own order: what a later object needs comes before it or with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from holdfast.core.ledger.codec import encode
from holdfast.core.region.commands import Ship, Shipped


def in_parts(whole: Ship, objects: int, size_bytes: int) -> Iterator[Ship]:
    """The list as shipments of at most so many objects and bytes each, at least one object; the last one says so.

    Each is cut when it is asked for: nobody waits until all of a large list is looked through.
    """
    puts, part, begin = whole.puts, 0, 0
    while True:
        end = _end(puts, begin, objects, size_bytes)
        last = end == len(puts)
        yield replace(whole, puts=puts[begin:end], part=part, last=last)
        if last:
            return
        part, begin = part + 1, end


def _end(puts: Sequence[Shipped], begin: int, objects: int, size_bytes: int) -> int:
    end, size = begin, 0
    for put in puts[begin : begin + objects]:
        size += len(encode(put))
        if size > size_bytes and end > begin:
            break
        end += 1
    return end
