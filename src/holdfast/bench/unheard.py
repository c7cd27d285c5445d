"""What servers log while they are measured, where it is meant so and no part of the table."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def unheard(below: int) -> Iterator[None]:
    """Nothing of Holdfast that is less grave is logged in here."""
    ours = logging.getLogger("holdfast")
    before = ours.level
    ours.setLevel(below)
    try:
        yield
    finally:
        ours.setLevel(before)
