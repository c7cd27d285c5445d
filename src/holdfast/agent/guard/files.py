"""The files in a slot's folder: their names, atomic writes, and logs of bounded size."""

from __future__ import annotations

import json
import os
from contextlib import suppress

RECORD, RESULT, WHO, SOCKET, LOGS = "record.json", "result.json", "who", "guard.sock", "logs"


def write_atomically(path: str, said: dict[str, object]) -> None:
    """Write a file durably, so that a reader sees either all of it or its former content."""
    with open(f"{path}.new", "w", encoding="utf-8") as file:
        json.dump(said, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{path}.new", path)


class RunLog:
    """One stream of the process in files of bounded size: NAME, then NAME.1 and so on, which are older."""

    def __init__(self, path: str, size_bytes: int, files: int) -> None:
        self.names = [path, *(f"{path}.{number}" for number in range(1, files))]
        self.limit = self.size = size_bytes
        self.file = os.open(os.devnull, os.O_WRONLY)

    def keep(self, pipe: int) -> None:
        """Copy the pipe until it closes. Output that a full disk does not accept is lost, since the process must not
        block."""
        while piece := os.read(pipe, min(65_536, self.limit)):
            with suppress(OSError):
                if self.size + len(piece) > self.limit:
                    self.turn_over()
                self.size += os.write(self.file, piece)

    def turn_over(self) -> None:
        """Begin the next file, and discard the oldest."""
        for number in range(len(self.names) - 1, 0, -1):
            with suppress(FileNotFoundError):
                os.replace(self.names[number - 1], self.names[number])
        fresh = os.open(self.names[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.close(self.file)
        self.file, self.size = fresh, 0
