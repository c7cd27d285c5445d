"""How many files a process may have open: each agent of a region is two connections, and systems begin with 1,024."""

from __future__ import annotations

import resource

#: Enough for every agent of a large region, and for all watches that a server takes.
WANTED = 65_536


def allow_many_files() -> int:
    """Raise what this process may have open as far as it is wanted and allowed; how many that is at least."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = WANTED if hard == resource.RLIM_INFINITY else min(WANTED, hard)
    if soft == resource.RLIM_INFINITY:
        return WANTED
    if soft >= most:
        return soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
