"""Metrics and log lines of one host: numbers in memory, events with fields through the standard library."""

from __future__ import annotations

import logging
from typing import Any

from msgspec import Struct

Labels = tuple[tuple[str, str], ...]

#: Upper bounds of the buckets of a histogram, in milliseconds.
BUCKETS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000)


class Histogram(Struct):
    """Numbers of values per bound; the last count is of larger values."""

    counts: list[int]
    total: float = 0.0
    longest: float = 0.0


class Metrics:
    """The metrics of one host."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, Labels], int] = {}
        self.gauges: dict[tuple[str, Labels], float] = {}
        self.timings: dict[tuple[str, Labels], Histogram] = {}

    def count(self, name: str, by: int = 1, **labels: str) -> None:
        """Increase a counter by `by`."""
        key = (name, tuple(sorted(labels.items())) if labels else ())
        self.counts[key] = self.counts.get(key, 0) + by

    def counted(self, name: str, **labels: str) -> int:
        """Return the value of a counter."""
        return self.counts.get((name, tuple(sorted(labels.items()))), 0)

    def gauge(self, name: str, value: float, **labels: str) -> None:
        self.gauges[name, tuple(sorted(labels.items()))] = value

    def gauged(self, name: str, **labels: str) -> float:
        """Return the value of a gauge; zero before the first."""
        return self.gauges.get((name, tuple(sorted(labels.items()))), 0.0)

    def time(self, name: str, took_ms: float, **labels: str) -> None:
        """Add a duration to a histogram."""
        key = (name, tuple(sorted(labels.items())))
        timing = self.timings.get(key)
        if timing is None:
            timing = self.timings[key] = Histogram([0] * (len(BUCKETS) + 1))
        place = next((index for index, bound in enumerate(BUCKETS) if took_ms <= bound), len(BUCKETS))
        timing.counts[place] += 1
        timing.total += took_ms
        timing.longest = max(timing.longest, took_ms)


class Logger:
    """The log of one part of a host. `about` is on every line."""

    def __init__(self, part: str, **about: Any) -> None:
        self._logger = logging.getLogger(f"holdfast.{part}")
        self._about = about

    def info(self, event: str, **fields: Any) -> None:
        """Log an event that an operator may want to know afterwards."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log a problem that the host is dealing with."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, error: BaseException | None = None, **fields: Any) -> None:
        """Log an event that needs an operator, with the exception, if there was one."""
        self._write(logging.ERROR, event, fields, error)

    def _write(self, level: int, event: str, fields: dict[str, Any], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            everything = {**self._about, **fields}
            text = " ".join([event, *(f"{name}={value}" for name, value in everything.items())])
            self._logger.log(level, text, exc_info=error, extra={"event": event, "fields": everything})
