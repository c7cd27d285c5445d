"""How endpoints are asked: the port through which that is done, and how often, how long and how many at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.core.region.queries.endpoints import EndpointCheck

#: The number of a question, and why it was not answered; empty: it was.
ProbeDone = Callable[[int, str | Exception], None]


class EndpointProber(Protocol):
    """The way from here to where replicas are."""

    async def probe(self, question: EndpointCheck) -> str:
        """Why it was not answered; empty: it was. It takes as long as it takes: who asks knows how long to wait."""

    async def probe_all(self, questions: Sequence[EndpointCheck], answered: ProbeDone) -> None:
        """Ask all of them at a time. Of each it is said what `ask` gives, or raises, as soon as that is known."""

        async def one(number: int, question: EndpointCheck) -> None:
            try:
                answered(number, await self.probe(question))
            except Exception as error:
                answered(number, error)

        await asyncio.gather(*(one(*numbered) for numbered in enumerate(questions)))


class EndpointOptions(Struct, frozen=True):
    """How endpoints are asked: how long an answer may take, how often those are asked that serve, how many failures in
    a row are too many, how many are asked at a time, and how many of those that serve in a second. Those that do not
    answer at first are asked again soon, and everything is looked at again once in `resync_ms`."""

    ask_ms: int = 1_000
    again_ms: int = 5_000
    failures: int = 3
    workers: int = 32
    again_per_second: int = 200
    retry_most_ms: int = 5_000
    resync_ms: int = 60_000
    submit_ms: int = 10_000
