"""Probes, which check a replica's process: startup, readiness and liveness.

    starting ──startup passes──▶ running ──readiness passes──▶ ready ──▶ serving
       │                           ▲                            │          │
       │                           └──────readiness fails───────┴──────────┘
       └─startup fails─▶ failed ◀─liveness fails, from any of the others

Without a startup probe a process is running once it has started; without a readiness probe it is ready once it is
running. A probe that the template does not declare is never made.
"""

from __future__ import annotations

from holdfast.core.model.values.structs import Document, Duration


class HttpProbe(Document, frozen=True):
    """A GET request to a path; status 200 to 399 passes. `port` is the index of one of the replica's ports, from 0."""

    path: str
    port: int = 0


class TcpProbe(Document, frozen=True):
    """A connection to one of the replica's ports; an accepted one passes. `port` is the port's index, from 0."""

    port: int = 0


class ExecProbe(Document, frozen=True):
    """A command, run next to the process and in the same way; exit code 0 passes."""

    command: tuple[str, ...]


class Probe(Document, frozen=True):
    """A repeated check in one of three ways: HTTP, TCP or a command.

    The first check comes `delay` after the process was started. Checks then repeat at short intervals until one passes
    or one `period` has passed; after that, every `period`. A check without an answer within `timeout` has failed. The
    probe fails after `failures` failed checks in a row and passes with one answer.
    """

    http: HttpProbe | None = None
    tcp: TcpProbe | None = None
    exec: ExecProbe | None = None
    delay: Duration = 0
    period: Duration = 10_000
    timeout: Duration = 1_000
    failures: int = 3
