"""Commands that run beside a replica while it lives, such as probes: with its variables, folder and user, in its cgroup
and within its limits.

An agent requests a command over its connection, and receives the exit code there. The command ends with all that it
started when its time is over, when its agent stops waiting or disconnects, and with the replica.
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

#: Largest number of commands at a time; a replica has three probes.
COMMANDS_MAX = 16


class ExecCommand:
    """A running command: the agent and number of its request, its keeper, and the connection to the keeper."""

    def __init__(self, agent: socket.socket, number: int, keeper: int, line: socket.socket) -> None:
        self.agent = agent
        self.number = number
        self.keeper = keeper
        self.line = line
        self.since = boot_ms()
        self.said = b""

    def end(self) -> None:
        """Signal the keeper that no agent waits for it any more."""
        with suppress(OSError):
            self.line.shutdown(socket.SHUT_WR)


class ExecCommands:
    """The commands of one guard, by the connection to their keepers."""

    def __init__(self, order: dict[str, Any], poll: select.poll, namespaces: SharedNamespaces) -> None:
        self._order = order
        self._poll = poll
        self._namespaces = namespaces
        self.by_line: dict[int, ExecCommand] = {}

    def keepers(self) -> list[int]:
        """Return the pids of all keepers: they are the guard's processes, outside the replica's limits."""
        return [one.keeper for one in self.by_line.values()]

    def begin(self, agent: socket.socket, asked: dict[str, Any], *, is_ending: bool) -> None:
        """Run a command for an agent: `run` is its number, `limit` its time in milliseconds. An ending process gets no
        commands."""
        failed = "ending 0" if is_ending else "busy 0" if len(self.by_line) >= COMMANDS_MAX else ""
        try:
            if not failed:
                self._begin(agent, asked)
        except OSError as error:  # such as no free process: the guard goes on
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
        """Read a keeper's message; when it has ended, report to the agent. A killed keeper ends with its command."""
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
        """End what an agent requested: one command, or all of them."""
        for one in self.by_line.values():
            if one.agent is agent and number in (None, one.number):
                one.end()

    def end_older(self, than: int) -> None:
        """End those that began before then."""
        for one in self.by_line.values():
            if one.since < than:
                one.end()


def _answer(agent: socket.socket, said: dict[str, object]) -> None:
    with suppress(OSError):  # an agent that disconnected waits for no answer
        agent.send(json.dumps(said).encode())
