"""The line between an agent and a guard: small messages in JSON over a socket in the slot's folder.

The guard tells what is when somebody comes and whenever it changes; an agent asks to extend, to stop, to run a command
beside the process, to go. The socket keeps messages apart and ends with either side. Sending never waits: a guard that
does not read its messages is not renewed, and ends what it guards at its deadline, as it should.
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

#: Called with what the guard said; with None when it has gone.
OnGuardMessage = Callable[[GuardReport | ExecResult | None], None]


class GuardConnection:
    """One connection to a guard. `heard` is called from the event loop."""

    def __init__(self, connection: socket.socket, heard: OnGuardMessage) -> None:
        self._socket = connection
        self._heard = heard
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection.fileno(), self._read)

    def extend(self, message: bytes) -> bool:
        """Send what `extension` made, the same for all; whether it was sent."""
        return self._send(message)

    def stop(self, grace_ms: int, why: ExitReason) -> bool:
        """Ask it to end what it guards, for this reason; whether that was sent."""
        return self._send(msgspec.json.encode({"stop": grace_ms, "why": why}))

    def run(self, number: int, command: tuple[str, ...], limit_ms: int) -> bool:
        """Ask it to run a command beside what it guards, for no longer than that; whether that was sent."""
        return self._send(msgspec.json.encode({"run": number, "command": command, "limit": limit_ms}))

    def cancel(self, number: int) -> None:
        """Nobody waits for that command any more."""
        self._send(msgspec.json.encode({"cancel": number}))

    def go(self) -> None:
        """What it guarded is forgotten."""
        self._send(b'{"go": true}')

    def close(self) -> None:
        """Hang up. Nothing is heard any more."""
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
    """The message that gives a guard until then, and no more grace after that."""
    return msgspec.json.encode({"extend": deadline, "grace": grace_ms})


def connect(folder: Path) -> socket.socket | None:
    """A connection to the guard of this folder; None when nobody is there. `OSError` when that cannot be found out, as
    `BlockingIOError` when it takes no more calls for the time being. May take as long as the disk of the folder."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    try:
        # By a descriptor of the folder: an address has room for a hundred characters, and a path may have more.
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
