"""The garbage collector at a million objects: a full pass takes a third of a second, and nothing here makes cycles.

It is off while a state is loaded; what is loaded is then frozen, so that no pass looks at it again; and full passes do
not come by themselves (RULES 22). This is about the whole process: a host asks for it once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Young objects are looked at now and then, the oldest generation never by itself.
YOUNG, NEVER = 10_000, 1_000_000_000


@contextmanager
def paused() -> Iterator[None]:
    """No collection in here; afterwards what there is counts as permanent."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


def no_full_passes() -> None:
    """Leave the oldest generation alone from now on."""
    gc.set_threshold(YOUNG, gc.get_threshold()[1], NEVER)


def freeze() -> None:
    """What there is now is permanent: no pass looks at it again."""
    gc.freeze()
