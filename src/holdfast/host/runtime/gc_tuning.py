"""The garbage collector at a million objects: a full pass takes a third of a second, and nothing here makes cycles.

It is off while a state is loaded; what is loaded is then frozen, so that no pass looks at it again; and full passes do
not come by themselves (RULES 22). This is about the whole process: a host asks for it once. Where many hosts come and
go in one process, as in a simulation, none of them decides for it: whoever lets them come looks after it
(`gc_borrowed`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Young objects are looked at now and then, the oldest generation never by itself.
YOUNG, NEVER = 10_000, 1_000_000_000
#: How often it is borrowed before a pass looks at everything, what was there before included.
FULL_EVERY = 16

_is_borrowed = False
_times = 0


@contextmanager
def gc_borrowed() -> Iterator[None]:
    """What comes into being in here is gone at the end: until then no pass looks at it, and then one pass looks at
    nothing else. What hosts ask for in here does not count."""
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
    """No collection in here; afterwards what there is counts as permanent."""
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
    """Leave the oldest generation alone from now on."""
    if not _is_borrowed:
        gc.set_threshold(YOUNG, gc.get_threshold()[1], NEVER)


def freeze() -> None:
    """What there is now is permanent: no pass looks at it again."""
    if not _is_borrowed:
        gc.freeze()
