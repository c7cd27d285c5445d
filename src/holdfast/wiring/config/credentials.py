"""The credentials of a machine at a ledger, or of a region at its platform: the token in a file, reloaded when it
changes.

A token is replaced without a restart: write the new one to the file, then revoke the old one. A thread reads the file:
while its mount is unresponsive, requests continue with the last valid token.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from holdfast.core.model.objects.principals import parse_token
from holdfast.host.ports.transport import Pairs
from holdfast.host.runtime.telemetry import Logger
from holdfast.wiring.config.private_files import NotPrivate, read_private

#: At most every LOOK_EVERY_S the file is checked; a request waits for that for at most LOOK_S.
LOOK_EVERY_S, LOOK_S = 0.1, 0.05


class NoToken(Exception):
    """There is no valid token."""


class TokenCredentials:
    """The token in a file. `NoToken` if there is none at the start; later the last valid one is used."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._logger = Logger("credentials", file=str(file))
        self._seen: tuple[int, int] = (0, 0)
        self._token = self._read()
        self._looks: threading.Thread | None = None
        self._looked = time.monotonic()

    def headers(self) -> Pairs:
        """Return the headers that authenticate a request."""
        is_due = time.monotonic() >= self._looked + LOOK_EVERY_S
        if is_due and (self._looks is None or not self._looks.is_alive()):
            self._looked = time.monotonic()
            self._looks = threading.Thread(target=self._look, name="credentials", daemon=True)
            self._looks.start()
            self._looks.join(LOOK_S)
        return (("authorization", f"Bearer {self._token}"),)

    def _look(self) -> None:
        """Reload the token, if the file has changed."""
        try:
            if self._stamp() != self._seen:
                self._token = self._read()
                self._logger.info("token-read-again")
        except (NoToken, OSError) as error:
            self._logger.warning("token-not-read", why=error)

    def speaking_as(self, actor: str) -> Callable[[], Pairs]:
        """Return headers with an actor, for a token such as `agent/*` that many principals share."""
        return lambda: (*self.headers(), ("holdfast-actor", actor))

    def _read(self) -> str:
        """Read the token from the file. Its length shows whether it is complete."""
        try:
            seen = self._stamp()
            text = read_private(self._file) or ""
        except (NotPrivate, OSError) as error:
            raise NoToken(str(error)) from error
        if parse_token(text) is None:  # the file may be half written
            raise NoToken(f"there is no token in {self._file}")
        self._seen = seen
        return text

    def _stamp(self) -> tuple[int, int]:
        found = os.stat(self._file)
        return found.st_ino, found.st_mtime_ns
