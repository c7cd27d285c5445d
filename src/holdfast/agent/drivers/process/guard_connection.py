"""The connection between an agent and a guard: small JSON messages over a socket in the slot's folder.

The guard sends its report when an agent connects and after each change; an agent sends extend, stop, run and go. The
socket preserves message boundaries and closes with either side. Sending never waits: a guard that does not read its
messages is not renewed, and ends its process at the deadline, as it should.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from holdfast.agent.drivers.driver import OWN_ERRNOS, ExitReason
from holdfast.agent.drivers.process.guard_files import ExecResult, GuardReport, read_report
from holdfast.agent.guard import files

#: Called with each message of the guard; with None when it has gone.
OnGuardMessage = Callable[[GuardReport | ExecResult | None], None]


class GuardConnection:
    """One connection to a guard. `heard` is called from the event loop."""

    def __init__(self, connection: socket.socket, heard: OnGuardMessage) -> None:
        self._socket = connection
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection.fileno(), self._read)

    def extend(self, message: bytes) -> bool:
        """Send a message made by `extension`, the same for all guards; whether it was sent."""
        return self._send(message)

    def stop(self, grace_ms: int, why: ExitReason) -> bool:
        """Request the end of the process, for this reason; whether the request was sent."""
        return self._send(msgspec.json.encode({"stop": grace_ms, "why": why}))

    def run(self, number: int, command: tuple[str, ...], limit_ms: int) -> bool:
        """Request a command beside the process, for at most `limit_ms`; whether the request was sent."""
        return self._send(msgspec.json.encode({"run": number, "command": command, "limit": limit_ms}))

    def cancel(self, number: int) -> None:
        """Cancel a command: its caller no longer waits."""
        self._send(msgspec.json.encode({"cancel": number}))

    def go(self) -> None:
        """Let the guard exit: its run is forgotten."""
        self._send(b'{"go": true}')

    def close(self) -> None:
        """Disconnect. No more messages are received."""
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()

    def _send(self, message: bytes) -> bool:
        try:
            return self._socket.send(message) == len(message)
        except OSError:
            return False

    def _read(self) -> None:
        said = None
        with suppress(OSError, msgspec.MsgspecError, UnicodeDecodeError):
            said = read_report(self._socket.recv(65_536))
        if said is None:
            self.close()
        self._heard(said)


def extension(deadline: int, grace_ms: int) -> bytes:
    """Return the message that extends a guard's deadline and bounds its grace."""
    return msgspec.json.encode({"extend": deadline, "grace": grace_ms})


def connect(folder: Path) -> socket.socket | None:
    """Return a connection to the folder's guard; None if none listens. `OSError` if that is uncertain, such as
    `BlockingIOError` while its queue is full. It may block on the disk."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        # by a descriptor: a socket address holds about a hundred characters
        there = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            connection.connect(f"/proc/self/fd/{there}/{files.SOCKET}")
        finally:
            os.close(there)
    except OSError as error:
        connection.close()
        if error.errno in OWN_ERRNOS or isinstance(error, BlockingIOError):
            raise
        return None
    return connection
