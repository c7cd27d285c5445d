"""Counters, gauges and timings of one host: plain numbers in memory, exported by whoever wants them.

A name is a metric, its labels are sorted pairs. Timings are counted into fixed buckets, so that two hosts can be added.
"""

from __future__ import annotations

from msgspec import Struct

Labels = tuple[tuple[str, str], ...]

#: Upper bounds of the buckets of a timing, in milliseconds.
BUCKETS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)


class Timing(Struct):
    """How often something took at most each bound; the last count is of what took longer."""

    counts: list[int]
    total: float = 0.0
    longest: float = 0.0


class Meters:
    """The numbers of one host."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, Labels], int] = {}
        self.gauges: dict[tuple[str, Labels], float] = {}
        self.timings: dict[tuple[str, Labels], Timing] = {}

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Something happened, `by` times."""
        key = (name, tuple(sorted(labels.items())) if labels else ())
        self.counts[key] = self.counts.get(key, 0) + by

    def counted(self, name: str, **labels: str) -> int:
        """How often it happened."""
        return self.counts.get((name, tuple(sorted(labels.items()))), 0)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        """Something has this value now."""
        self.gauges[name, tuple(sorted(labels.items()))] = value

    def gauged(self, name: str, **labels: str) -> float:
        """The value it has now; zero before the first."""
        return self.gauges.get((name, tuple(sorted(labels.items()))), 0.0)

    def time(self, name: str, took_ms: float, **labels: str) -> None:
        """Something took this long."""
        key = (name, tuple(sorted(labels.items())))
        timing = self.timings.get(key)
        if timing is None:
            timing = self.timings[key] = Timing([0] * (len(BUCKETS) + 1))
        place = next((index for index, bound in enumerate(BUCKETS) if took_ms <= bound), len(BUCKETS))
        timing.counts[place] += 1
        timing.total += took_ms
        timing.longest = max(timing.longest, took_ms)
