"""Where the servers are, who is asking, and how patient they are."""

from __future__ import annotations

import os
from collections.abc import Callable

from msgspec import Struct

from holdfast import __version__
from holdfast.core.model.values.addresses import is_exposed


class ClientConfig(Struct, frozen=True, kw_only=True):
    """What a client needs to know before its first call.

    One request is repeated for `patience_ms`, counted anew for each page of a list and each slice of a batch. An
    attempt that began within it may last `timeout_ms` longer.
    """

    #: Names or URLs of the servers of one ledger, in the order in which they are tried.
    servers: tuple[str, ...]
    #: A bearer token, `hf_NAME_SECRET`; empty where the carrier proves who we are, or nobody asks.
    token: str = ""
    #: The tenant of tenanted objects for which none is named.
    tenant: str = ""
    retry_for_ms: int = 30_000
    timeout_ms: int = 10_000
    #: How long a watch's stream may be silent before it is taken for broken.
    idle_ms: int = 45_000
    agent: str = f"holdfast-python/{__version__}"
    #: Whether plain http to other machines is meant: something else keeps the wire private.
    insecure: bool = False

    def __post_init__(self) -> None:
        if not self.servers:
            raise ValueError("a client needs at least one server")
        exposed = [one for one in self.servers if is_exposed(one)]
        if self.token and exposed and not self.insecure:
            raise ValueError(f"the token would travel in the clear to {exposed[0]}: use https, or insecure=True")

    def __repr__(self) -> str:
        """Without the token: this ends up in logs."""
        return f"Access(servers={self.servers!r}, tenant={self.tenant!r}, token={'***' if self.token else ''!r})"


# os.urandom rather than `secrets` and `random`: the same bytes, without modules that a command's start would pay for.


def new_key(at: int) -> str:
    """A new idempotency key. It says when it was made, so that a repeat much later can be told from a first attempt."""
    return f"{at:013d}-{os.urandom(12).hex()}"


def key_created_at(key: str) -> int:
    """When a key of ours was made, in milliseconds since 1970; 0 for a key that somebody else made."""
    at, dash, rest = key.partition("-")
    is_ours = dash and len(at) == 13 and at.isascii() and at.isdigit() and len(rest) == 24
    return int(at) if is_ours else 0


def random_fraction() -> float:
    """Somewhere in [0, 1), so that clients which failed together do not come back together."""
    return int.from_bytes(os.urandom(4)) / (1 << 32)


class ClientRuntime(Struct, frozen=True):
    """Time and chance, which come in through the door. Milliseconds."""

    #: An even clock, for durations.
    now: Callable[[], int]
    #: The calendar clock, for what machines say about when they first sent a command.
    wall: Callable[[], int]
    #: Keys of one's own; None: new ones, which say when they were made.
    keys: Callable[[], str] | None = None
    jitter: Callable[[], float] = random_fraction
