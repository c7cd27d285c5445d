"""Client configuration: servers, credentials, timeouts, and the sources of time and randomness."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct

from holdfast import __version__
from holdfast.core.model.values.addresses import is_exposed


class ClientConfig(Struct, frozen=True, kw_only=True):
    """Configuration of a client.

    A request is retried for `retry_for_ms`. Each page of a list and each slice of a batch has that time for itself. An
    attempt that starts within it may last `timeout_ms` longer.
    """

    #: Names or URLs of the servers of one ledger, in the order in which they are tried.
    servers: tuple[str, ...]
    #: A bearer token, `hf_NAME_SECRET`; empty if a client certificate or the transport authenticates the caller.
    token: str = ""
    #: Default tenant, for tenant-scoped objects without one.
    tenant: str = ""
    retry_for_ms: int = 30_000
    timeout_ms: int = 10_000
    #: Longest silence on a watch's stream; after it the stream counts as broken.
    idle_ms: int = 45_000
    agent: str = f"holdfast-python/{__version__}"
    #: Allow plain http to other machines, for networks that are private by other means.
    insecure: bool = False

    def __post_init__(self) -> None:
        if not self.servers:
            raise ValueError("a client needs at least one server")
        exposed = [one for one in self.servers if is_exposed(one)]
        if self.token and exposed and not self.insecure:
            raise ValueError(f"the token would travel in the clear to {exposed[0]}: use https, or insecure=True")

    def __repr__(self) -> str:
        """Omit the token, because this text ends up in logs."""
        return f"ClientConfig(servers={self.servers!r}, tenant={self.tenant!r}, token={'***' if self.token else ''!r})"


# `os.urandom` instead of `secrets` and `random`: the same bytes without two imports at the start of each command.


def new_key(at: int) -> str:
    """Return a new idempotency key. It begins with its creation time, so that a late retry is recognized."""
    return f"{at:013d}-{os.urandom(12).hex()}"


def key_created_at(key: str) -> int:
    """Return when this client made the key, in ms since 1970; 0 for a key of other origin."""
    at, dash, rest = key.partition("-")
    is_ours = dash and len(at) == 13 and at.isascii() and at.isdigit() and len(rest) == 24
    return int(at) if is_ours else 0


def random_fraction() -> float:
    """Return a random number in [0, 1): jitter that spreads the retries of clients which failed together."""
    return int.from_bytes(os.urandom(4)) / (1 << 32)


class ClientRuntime(Struct, frozen=True):
    """Clocks and randomness, passed in so that tests control them. Times in milliseconds."""

    #: A monotonic clock, for durations.
    now: Callable[[], int]
    #: The calendar clock, for the first-sent time in envelopes and keys.
    wall: Callable[[], int]
    #: A source of idempotency keys. None: `new_key`, whose keys contain their creation time.
    keys: Callable[[], str] | None = None
    jitter: Callable[[], float] = random_fraction
