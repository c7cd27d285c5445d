"""What else runs for a replica while it lives, as its probes do: with its variables, its folder and its user, in its
cgroup, counted into its limits, and ended with it.

An agent asks for a command on its line, and is told its exit code there. It ends with all that it started when its time
is over, when its agent no longer waits or is gone, and with the replica.
"""

from __future__ import annotations

import json
import select
import socket
from contextlib import suppress

from holdfast.agent.guard.child import keep
from holdfast.agent.guard.kernel import boot_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.agent.guard.namespaces import SharedNamespaces

#: So many at a time: a replica has three probes.
COMMANDS_MAX = 16


class ExecCommand:
    """One that runs: who asked for it under which number, its keeper, and the line to that."""

    def __init__(self, agent: socket.socket, number: int, keeper: int, line: socket.socket) -> None:
        self.agent = agent
        self.number = number
        self.keeper = keeper
        self.line = line
        self.since = boot_ms()
        self.said = b""

    def end(self) -> None:
        """Nobody waits for it any more: by this its keeper knows."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)


class ExecCommands:
    """Those of one guard, by the line on which their keepers speak."""

    def __init__(self, order: dict[str, Any], poll: select.poll, namespaces: SharedNamespaces) -> None:
        self._order = order
        self._poll = poll
        self._namespaces = namespaces
        self.by_line: dict[int, ExecCommand] = {}

    def keepers(self) -> list[int]:
        """The pids of all keepers: they are the guard's own, and use nothing of the replica's."""
        return [one.keeper for one in self.by_line.values()]

    def begin(self, agent: socket.socket, asked: dict[str, Any], *, is_ending: bool) -> None:
        """Run a command for an agent: `run` is its number there, `limit` how many milliseconds it has. Nothing begins
        for a process that ends."""
        failed = "ending 0" if is_ending else "busy 0" if len(self.by_line) >= COMMANDS_MAX else ""
        try:
            if not failed:
                self._begin(agent, asked)
        except OSError as error:  # no room for another process, for one: the guard goes on
            failed = f"fork {error.errno}"
        if failed:
            _answer(agent, {"ran": asked["run"], "failed": failed})

    def _begin(self, agent: socket.socket, asked: dict[str, Any]) -> None:
        line, theirs = socket.socketpair()
        with theirs:
            keeper = self._namespaces.fork()
            if keeper == 0:
                order = {**self._order, "command": asked["command"]}
                keep(order, asked["limit"], theirs.fileno(), self._namespaces)
        self.by_line[line.fileno()] = ExecCommand(agent, asked["run"], keeper, line)
        self._poll.register(line, select.POLLIN)

    def hear(self, file: int) -> None:
        """What a keeper says; when it has gone, its agent is told. One that was killed was so with its command."""
        one = self.by_line[file]
        piece = one.line.recv(256)
        one.said += piece
        if piece:
            return
        self._poll.unregister(file)
        del self.by_line[file]
        one.line.close()
        _answer(one.agent, {"ran": one.number, **(json.loads(one.said) if one.said else {"code": -9})})

    def end(self, agent: socket.socket, number: int | None = None) -> None:
        """End what an agent asked for: one command, or all of them."""
        for one in self.by_line.values():
            if one.agent is agent and number in (None, one.number):
                one.end()

    def end_older(self, than: int) -> None:
        """End those that began before then."""
        for one in self.by_line.values():
            if one.since < than:
                one.end()


def _answer(agent: socket.socket, said: dict[str, object]) -> None:
    with suppress(OSError):  # whoever has gone waits for no answer
        agent.send(json.dumps(said).encode())
