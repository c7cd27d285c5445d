"""A process that has no descriptors left: nothing can be opened, whatever is asked of it."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Nothing can be opened meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = os.dup(0)
    os.close(taken)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
