"""The garbage collector at a million objects: a full collection takes a third of a second, and the code makes no
cycles.

It is off while a state is loaded. The loaded state is then frozen, so that no collection examines it, and full
collections do not run automatically (RULES 22). This applies to the process: a host calls it once. In a simulation of
many hosts, the code that starts them controls the collector (`gc_borrowed`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Young objects are collected regularly, the oldest generation never automatically.
YOUNG, NEVER = 10_000, 1_000_000_000
#: Number of borrowings between two full collections, which include the objects from before.
FULL_EVERY = 16

_is_borrowed = False
_times = 0


@contextmanager
def gc_borrowed() -> Iterator[None]:
    """Collect nothing inside the block, and only the objects created in it at its end. Calls of hosts inside have no
    effect."""
    global _is_borrowed, _times
    if _is_borrowed:
        yield
        return
    was_on, _times, _is_borrowed = gc.isenabled(), _times + 1, True
    gc.disable()
    gc.freeze()
    try:
        yield
    finally:
        _is_borrowed = False
        if _times % FULL_EVERY == 0:
            gc.unfreeze()
        gc.collect()
        gc.unfreeze()
        if was_on:
            gc.enable()


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect nothing inside the block; afterwards treat all objects as permanent."""
    if _is_borrowed:
        yield
        return
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def disable_full_collections() -> None:
    """Stop collecting the oldest generation."""
    if not _is_borrowed:
        gc.set_threshold(YOUNG, gc.get_threshold()[1], NEVER)


def freeze() -> None:
    """Treat all present objects as permanent: no collection examines them again."""
    if not _is_borrowed:
        gc.freeze()
