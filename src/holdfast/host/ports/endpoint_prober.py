"""The port through which endpoints are probed, and the options of probes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.core.region.queries.endpoints import EndpointCheck

#: Receives the index of a check, and why it failed; empty: it succeeded.
ProbeDone = Callable[[int, str | Exception], None]


class EndpointProber(Protocol):
    """Probes the addresses of replicas from this host."""

    async def probe(self, question: EndpointCheck) -> str:
        """Return why the probe failed; empty: it succeeded. The caller sets the timeout."""

    async def probe_all(self, questions: Sequence[EndpointCheck], answered: ProbeDone) -> None:
        """Run all probes at a time. Pass each result of `probe`, or its exception, to `answered` as it arrives."""

        async def one(number: int, question: EndpointCheck) -> None:
            try:
                answered(number, await self.probe(question))
            except Exception as error:
                answered(number, error)

        await asyncio.gather(*(one(*numbered) for numbered in enumerate(questions)))


class EndpointOptions(Struct, frozen=True):
    """Periods and limits of endpoint probes.

    A probe times out after `ask_ms`; at most `workers` run at a time. A serving endpoint is probed every `again_ms`, at
    most `again_per_second` of them per second, and fails after `failures` failed probes in a row. A ready replica is
    probed with back-off, up to `retry_most_ms`. All nodes are examined every `resync_ms`.
    """

    ask_ms: int = 1_000
    again_ms: int = 5_000
    failures: int = 3
    workers: int = 32
    again_per_second: int = 200
    retry_most_ms: int = 5_000
    resync_ms: int = 60_000
    submit_ms: int = 10_000
