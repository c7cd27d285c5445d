"""What one process of a world answers, by path. Its parts add theirs, and it serves them all; the rest is the API's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from holdfast.host import transport
from holdfast.host.transport import Flow, Request, Serving, serve_nothing

#: From the body of a question to the body of its answer.
Answer = Callable[[bytes], Awaitable[bytes]]


class Paths:
    """Every path that is known, and who answers it. Whatever else is asked goes to somebody else, if there is one."""

    def __init__(self, otherwise: Serving = serve_nothing) -> None:
        self._answers: dict[str, Answer] = {}
        self._otherwise = otherwise

    def add(self, path: str, answer: Answer) -> None:
        """Answer this path, which nobody does yet."""
        assert path not in self._answers, f"{path} is answered already"
        self._answers[path] = answer

    async def serve(self, request: Request) -> transport.Reply | Flow:
        """What the transport is given."""
        answer = self._answers.get(request.path)
        if answer is None:
            return await self._otherwise(request)
        return transport.Reply(body=await answer(request.body))


def post(path: str, body: bytes) -> Request:
    """The question that a path is asked with."""
    return Request("POST", path, body=body)
