"""The TLS files, read again when they change: a certificate is renewed without a restart.

    unchanged ──files changed──▶ settling ──no change since──▶ read ──valid──▶ used by new connections
                                                                └──invalid──▶ a warning; the last valid files stay

A change is read when two polls in a row see the same files, since key and certificate are replaced one after the other.
A thread polls, not the loop: on an unresponsive mount the last valid files stay in use.
"""

from __future__ import annotations

import os
import ssl
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from holdfast.core.model.values.structs import Instant
from holdfast.host.runtime.telemetry import Logger
from holdfast.transports.tls import TlsConfig, client_context, server_context

POLL_INTERVAL_S = 1.0
DAY_MS = 86_400_000
#: A certificate's end is reported from 14 days before, once a day.
EXPIRY_WARNING_MS, WARN_INTERVAL_MS = 14 * DAY_MS, DAY_MS

#: Inode, times of the last write and change, and size of a file; None: there is none.
_Stamp = tuple[int, int, int, int] | None
_Stamps = tuple[_Stamp, ...]


class TlsContexts(Struct, frozen=True):
    """The loaded contexts for outgoing and incoming connections, and the end of the own certificate."""

    client: ssl.SSLContext
    server: ssl.SSLContext | None = None
    ends: Instant | None = None
    #: Whether any user of the machine can read the key.
    is_open: bool = False


class TlsReloader:
    """The contexts of one process. The constructor reads the files and raises `ssl.SSLError` or `OSError` if they are
    bad."""

    def __init__(self, tls: TlsConfig | None, wall: Callable[[], Instant], logger: Logger) -> None:
        self._tls = tls
        self._wall = wall
        self._logger = logger
        self._used = self._seen = self._stamps()
        self._why_not = ""
        self._told_at: Instant | None = None
        self._closed = threading.Event()
        #: Replaced as one object; new connections use it.
        self.contexts = self._read()
        self._tell_open()

    def start(self) -> None:
        """Start polling in a thread that nothing waits for: it may block with its files."""
        if self._tls is not None:
            threading.Thread(target=self._run, name="tls-files", daemon=True).start()

    def close(self) -> None:
        """Stop polling."""
        self._closed.set()

    def last_error(self) -> str:
        """Return what an operator must fix; empty: nothing."""
        if self._why_not:
            return "the TLS files have changed and are not valid: the old ones stay in use; the log has the reason"
        if self.contexts.is_open:
            return "every user of its machine can read its key"
        ends = self.contexts.ends
        left = ends - self._wall() if ends is not None else EXPIRY_WARNING_MS + 1
        if left > EXPIRY_WARNING_MS:
            return ""
        return f"the certificate expires in {left // DAY_MS} days" if left > 0 else "the certificate has expired"

    def look(self) -> None:
        """Read the files again if they have changed, and warn of a certificate that ends soon."""
        stamps = self._stamps()
        if stamps != self._used and stamps == self._seen and not self._why_not:
            self._take(stamps)
        elif stamps != self._seen:
            self._seen, self._why_not = stamps, ""
        self._tell()

    def _tell(self) -> None:
        now, ends = self._wall(), self.contexts.ends
        if (
            ends is None
            or ends - now > EXPIRY_WARNING_MS
            or (self._told_at is not None and now < self._told_at + WARN_INTERVAL_MS)
        ):
            return
        self._told_at, file = now, self._tls.certificate if self._tls is not None else ""
        self._logger.warning("certificate-ends", file=file, days=(ends - now) // DAY_MS)

    def _run(self) -> None:
        while not self._closed.is_set():
            self.look()
            self._closed.wait(POLL_INTERVAL_S)

    def _take(self, stamps: _Stamps) -> None:
        try:
            found = self._read()
            if found.ends is not None and found.ends <= self._wall():
                raise ssl.SSLError("the certificate has expired")
        except (OSError, ValueError) as error:  # an SSLError is an OSError
            self._why_not = str(error) or type(error).__name__
            self._logger.warning("certificates-not-read", why=error, then="the last valid ones are used")
            return
        if self._stamps() == stamps:  # otherwise, they were replaced while they were read
            self.contexts, self._used, self._told_at = found, stamps, None
            self._logger.info("certificates-read-again", ends=found.ends)
            self._tell_open()

    def _read(self) -> TlsContexts:
        tls = self._tls
        if tls is None or not tls.certificate:
            return TlsContexts(client_context(tls))
        is_open = bool(os.stat(tls.key or tls.certificate).st_mode & stat.S_IROTH)
        return TlsContexts(client_context(tls), server_context(tls), _end_of(tls.certificate), is_open)

    def _tell_open(self) -> None:
        if self.contexts.is_open and self._tls is not None:
            file = self._tls.key or self._tls.certificate
            self._logger.warning("key-open", file=file, why="every user of this machine can read it", then="chmod 600")

    def _stamps(self) -> _Stamps:
        tls = self._tls
        paths = (tls.certificate, tls.key, tls.authorities) if tls is not None else ()
        return tuple(_stamp(path) for path in paths if path)


def _stamp(path: str) -> _Stamp:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size


def _end_of(path: str) -> Instant | None:
    """Return when the certificate ends; None if it cannot be parsed, although it is valid for TLS."""
    from holdfast.transports.certificates import InvalidCertificate, certificate_facts

    try:
        return int(certificate_facts(Path(path).read_bytes()).ends.timestamp() * 1000)
    except InvalidCertificate:
        return None
