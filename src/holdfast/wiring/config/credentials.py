"""What a machine shows to a ledger, as a region to its platform: the token in a file, read anew when that is another.

So a token is replaced without a restart: put the new one into the file, then revoke the old one. A thread looks at the
file: on a mount that hangs the last good token is shown, and whoever shows it goes on.
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

#: The file is looked at so often at the most, and for so long that is waited for.
LOOK_EVERY_S, LOOK_S = 0.1, 0.05


class NoToken(Exception):
    """There is no token that could be shown."""


class TokenCredentials:
    """The token of one server. `NoToken` when there is none at the start; later the last good one is kept."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._logger = Logger("credentials", file=str(file))
        self._seen: tuple[int, int] = (0, 0)
        self._token = self._read()
        self._looks: threading.Thread | None = None
        self._looked = time.monotonic()

    def headers(self) -> Pairs:
        """What proves who asks."""
        is_due = time.monotonic() >= self._looked + LOOK_EVERY_S
        if is_due and (self._looks is None or not self._looks.is_alive()):
            self._looked = time.monotonic()
            self._looks = threading.Thread(target=self._look, name="credentials", daemon=True)
            self._looks.start()
            self._looks.join(LOOK_S)
        return (("authorization", f"Bearer {self._token}"),)

    def _look(self) -> None:
        """Read it anew, if it is another."""
        try:
            if self._stamp() != self._seen:
                self._token = self._read()
                self._logger.info("token-read-again")
        except (NoToken, OSError) as error:
            self._logger.warning("token-not-read", why=error)

    def speaking_as(self, actor: str) -> Callable[[], Pairs]:
        """The same, for one of those whom a token of many, such as `agent/*`, stands for."""
        return lambda: (*self.headers(), ("holdfast-actor", actor))

    def _read(self) -> str:
        """The token in the file, whole: every token ends with a secret of one length."""
        try:
            seen = self._stamp()
            text = read_private(self._file) or ""
        except (NotPrivate, OSError) as error:
            raise NoToken(str(error)) from error
        if parse_token(text) is None:  # it may be half written
            raise NoToken(f"there is no token in {self._file}")
        self._seen = seen
        return text

    def _stamp(self) -> tuple[int, int]:
        found = os.stat(self._file)
        return found.st_ino, found.st_mtime_ns
