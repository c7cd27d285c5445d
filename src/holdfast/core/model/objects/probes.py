"""How a process is run and watched over: what runs it, when it is started again, and the probes that ask it.

    starting ──startup passes──▶ running ──readiness passes──▶ ready ──▶ serving
       │                           ▲                            │          │
       │                           └──────readiness fails───────┴──────────┘
       └─startup fails─▶ failed ◀─liveness fails, from any of the others

Without a startup probe a process runs as soon as it was started; without a readiness probe it is ready as soon as it
runs. What is not asked for is never asked.
"""

from __future__ import annotations

from holdfast.core.model.values.structs import Document, Duration


class HttpProbe(Document, frozen=True):
    """A GET of a path; an answer from 200 to 399 passes. `port` is the place of one of its ports among them, from 0."""

    path: str
    port: int = 0


class TcpProbe(Document, frozen=True):
    """A connection to one of its ports; one that is taken passes. `port` is its place among them, from 0."""

    port: int = 0


class ExecProbe(Document, frozen=True):
    """A command, run as the process is, beside it; one that ends with 0 passes."""

    command: tuple[str, ...]


class Probe(Document, frozen=True):
    """A question that is asked again and again, in one of three ways.

    First `delay` after the process was started, at short intervals until it passes or one `period` is over; then every
    `period`. What was not answered within `timeout` has failed;
    so many `failures` in a row, and the probe has. One answer, and it passes.
    """

    http: HttpProbe | None = None
    tcp: TcpProbe | None = None
    exec: ExecProbe | None = None
    delay: Duration = 0
    period: Duration = 10_000
    timeout: Duration = 1_000
    failures: int = 3
