"""How a region's leader asks endpoints in a made-up world: what really lives there answers, if the way is open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.core.region.endpoints import Question
from holdfast.host.asker import Answered, Asker
from holdfast.sim.world import Process

#: How long a question and its answer are under way.
WAY_MS = 5
#: What is sent into a partition is never answered: longer than anybody waits.
NEVER_MS = 3_600_000

#: Whether a process lives where a machine asks a question.
Lives = Callable[[str, Question], bool]


class SimAsker(Asker):
    """Asks from the machine of a process. The address of a node is the name of its machine."""

    def __init__(self, process: Process, lives: Lives) -> None:
        self._process = process
        self._lives = lives

    async def ask(self, question: Question) -> str:
        await self._process.clock.sleep(WAY_MS)
        if not self._is_open(question):
            await self._process.clock.sleep(NEVER_MS)
        return self._found(question)

    async def ask_all(self, questions: Sequence[Question], answered: Answered) -> None:
        await self._process.clock.sleep(WAY_MS)
        heard = [number for number, question in enumerate(questions) if self._is_open(question)]
        for number in heard:
            answered(number, self._found(questions[number]))
        if len(heard) < len(questions):
            await self._process.clock.sleep(NEVER_MS)

    def _is_open(self, question: Question) -> bool:
        return self._process.transport.network.is_open(self._process.machine, question.host)

    def _found(self, question: Question) -> str:
        return "" if self._lives(self._process.machine, question) else "connection refused"
