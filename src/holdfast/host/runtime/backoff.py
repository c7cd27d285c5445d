"""Exponential back-off, jitter by identity, and a token bucket."""

from __future__ import annotations

from hashlib import blake2b

from holdfast.host.ports.clock import Clock


def jittered(most_ms: int, *identity: object) -> int:
    """Return a value between half of the limit and the limit, fixed by the identity, whose parts need a stable repr."""
    name = "\x1f".join(repr(part) for part in identity).encode()
    drawn = int.from_bytes(blake2b(name, digest_size=8).digest())
    half = most_ms // 2
    return most_ms - drawn % (half + 1)


def exponential(first_ms: int, most_ms: int, attempt: int) -> int:
    """Return the wait before this attempt, counted from 1: doubled each time, up to the limit."""
    return min(most_ms, first_ms << min(attempt - 1, 40))


class TokenBucket:
    """A token bucket: `burst` tokens at once, `per_second` on average."""

    def __init__(self, clock: Clock, per_second: int, burst: int) -> None:
        assert min(per_second, burst) > 0, (per_second, burst)
        self._clock = clock
        self._cost_us = max(1, 1_000_000 // per_second)
        self._burst_us = burst * self._cost_us
        #: When the bucket will be full again, which determines its content at any time.
        self._full_at_us = 0

    def take(self) -> int:
        """Take a token and return zero, or return the milliseconds until there is one."""
        now_us = self._clock.boot() * 1000
        full_at = max(self._full_at_us, now_us) + self._cost_us
        early_us = full_at - self._burst_us - now_us
        if early_us > 0:
            return -(-early_us // 1000)
        self._full_at_us = full_at
        return 0
