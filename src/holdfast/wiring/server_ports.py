"""A server's access to its machine, in one record; and what is made of its settings: transport, limits, credentials.

Only `server` puts a server together. `machine_ports` gives it files, sockets, threads and the machine's randomness; the
simulator gives the same server its own ports.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from msgspec import Struct

from holdfast.api.server.limits import ServerLimits
from holdfast.core.ledger.reconciler import Reconciler
from holdfast.core.region.queries.endpoints import EndpointCheck
from holdfast.core.scheduling.framework import Plugins
from holdfast.host.controllers.controller import ControllerOptions
from holdfast.host.controllers.workqueue import QueueOptions
from holdfast.host.ledger.server_token import DrawSecret, PrivateFile
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.endpoint_prober import EndpointOptions, EndpointProber
from holdfast.host.ports.index_store import AuditStore, DecisionStore
from holdfast.host.ports.store import Store
from holdfast.host.ports.transport import Pairs, Transport
from holdfast.host.runtime.telemetry import Logger
from holdfast.host.storage.snapshots import SnapshotPolicy
from holdfast.observe import log_output
from holdfast.stores.registry import open_audit, open_decisions
from holdfast.transports.connection_registry import ConnectionCaps
from holdfast.transports.http_connection import ConnectionLimits as CarrierLimits
from holdfast.transports.http_transport import HttpTransport
from holdfast.transports.tls import TlsConfig
from holdfast.wiring import storage
from holdfast.wiring.config import private_files
from holdfast.wiring.config.private_files import NoToken, TokenCredentials
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.process import StartupError, raise_open_file_limit
from holdfast.wiring.scheduler import plugins

READY = "ready.json"
#: A controller processes this many keys at a time, so that their commands share one batch of the log.
CONTROLLER_OPTIONS = ControllerOptions(queue=QueueOptions(per_second=5_000, burst=5_000), workers=64)
#: Only the first line of an answer is read.
LINE_BYTES = 4_096
#: Characters of a path beside letters and digits. Tenants write paths, which must not become a second request.
_SAFE = "/%?=&;:@!$'()*+,~-._"
#: Files that a server opens for itself, including its connections to others.
RESERVED_FILES = 512
#: Overhead of a request around its body: the transport accepts that much more than the API.
REQUEST_OVERHEAD_BYTES = 64 << 10


class ServerTransport(Transport, Protocol):
    """A transport that is opened and closed."""

    async def start(self) -> None:
        """Listen. `OSError` if that fails, `ssl.SSLError` if the certificates are not valid."""

    async def close(self) -> None:
        """Stop answering. It may be called repeatedly."""

    def last_error(self) -> str:
        """Return what is wrong with the transport, or soon will be; empty: nothing."""


class ServerPorts(Struct, frozen=True, kw_only=True):
    """The ports of one server. Each function is called once per server, and may raise `StartupError`."""

    clock: Clock
    store: Callable[[], Awaitable[Store]]
    transport: Callable[[], ServerTransport]
    #: A region's credentials for each request to its platform.
    proof: Callable[[], Callable[[], Pairs]]
    asker: EndpointProber
    plugins: Callable[[Logger], Plugins]
    decisions: Callable[[], DecisionStore]
    audit: Callable[[], AuditStore]
    own_token: PrivateFile
    operator_token: PrivateFile
    #: Randomness: a unique part of a name, and a secret.
    draw: DrawSecret
    #: Called with the content of the ready file once the server is ready, and with None at its end.
    ready: Callable[[dict[str, Any] | None], None]
    #: Called with the last message of a server that cannot start or has to stop.
    say: Callable[[str], None]
    snapshot_policy: SnapshotPolicy
    limits: ServerLimits
    controller_options: ControllerOptions = CONTROLLER_OPTIONS
    habits: EndpointOptions = EndpointOptions()
    #: Controllers of the platform beside those of the registry.
    planners: tuple[Reconciler[Any], ...] = ()


def machine_ports(settings: ServerSettings, clock: Clock) -> ServerPorts:
    data = Path(settings.data)

    def proof() -> Callable[[], Pairs]:
        return credentials(settings).headers

    return ServerPorts(
        clock=clock,
        store=lambda: storage.open_server_store(settings),
        transport=lambda: transport(settings, clock),
        proof=proof,
        asker=SocketProber(),
        plugins=plugins,
        decisions=lambda: open_decisions(settings.store, data),
        audit=lambda: open_audit(settings.store, data),
        own_token=private_files.ServerTokenFile(data / private_files.SERVER_TOKEN_FILE),
        operator_token=private_files.OwnerFile(Path(settings.bootstrap_file)),
        draw=private_files.draw_secret,
        ready=lambda said: _tell(data / READY, said),
        say=lambda text: log_output.print_status(f"holdfast server: {text}"),
        snapshot_policy=SnapshotPolicy(settings.snapshot_bytes, settings.snapshot_batches, settings.retention),
        limits=limits(settings),
    )


def _tell(file: Path, said: dict[str, Any] | None) -> None:
    """Write the ready file in the server's folder, or remove it."""
    if said is None:
        file.unlink(missing_ok=True)
    else:
        private_files.write_private(file, json.dumps({"pid": os.getpid(), **said}) + "\n", mode=0o644)


class SocketProber(EndpointProber):
    """Probes from this machine. A connection is used for one probe, and closed at once."""

    async def probe(self, question: EndpointCheck) -> str:
        """Return why the probe failed; empty: it passed, over HTTP with a status from 200 to 399."""
        try:
            reader, writer = await asyncio.open_connection(question.host, question.port, limit=LINE_BYTES)
        except OSError as error:
            return error.strerror or str(error)
        try:
            if not question.path:
                return ""
            writer.write(_request(question))
            line = await reader.readline()
        except (OSError, ValueError) as error:
            return str(error) or type(error).__name__
        finally:
            writer.transport.abort()
        return _judged(line)


def _request(question: EndpointCheck) -> bytes:
    host = f"[{question.host}]" if ":" in question.host else question.host
    lines = (
        f"GET {quote(question.path, safe=_SAFE)} HTTP/1.1",
        f"Host: {host}:{question.port}",
        "User-Agent: holdfast-endpoints",
        "Connection: close",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def _judged(line: bytes) -> str:
    """Return why this first line of an answer, such as `HTTP/1.1 200 OK`, fails the probe; empty: it passes."""
    parts = line.split(maxsplit=2)
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/") or not parts[1].isdigit():
        return "the answer is not HTTP" if line else "the connection was closed without an answer"
    status = int(parts[1])
    return "" if 200 <= status < 400 else f"HTTP {status}"


def transport(settings: ServerSettings, clock: Clock) -> HttpTransport:
    """Return the server's transport, not started."""
    most = ConnectionCaps(
        min(settings.connections, max(RESERVED_FILES, raise_open_file_limit() - RESERVED_FILES)),
        settings.caller_connections,
        settings.stranger_connections,
    )
    limits = CarrierLimits(body_bytes=settings.body_bytes + REQUEST_OVERHEAD_BYTES, most=most)
    return HttpTransport(clock, listen=settings.listen, tls=_tls(settings), limits=limits, insecure=settings.insecure)


def limits(settings: ServerSettings) -> ServerLimits:
    """Return the limits of the API."""
    return ServerLimits(
        body_bytes=settings.body_bytes,
        batch_items=settings.batch_items,
        writes_per_second=settings.writes_per_second,
        writes_burst=settings.writes_burst,
        lists_at_a_time=settings.lists_at_a_time,
        list_items=settings.list_items,
        watches=settings.watches,
        timeout_ms=settings.timeout,
        timeout_most_ms=settings.timeout_most,
    )


def credentials(settings: ServerSettings) -> TokenCredentials:
    """Return a region's credentials for its platform."""
    try:
        return TokenCredentials(Path(settings.token_file))
    except NoToken as error:
        made = f"`holdfast token create --principal region/{settings.region} --ttl 90d`"
        hint = f"hint: save the output of {made} there, mode 0600"
        raise StartupError(f"{error}\n{hint}") from error


def _tls(settings: ServerSettings) -> TlsConfig | None:
    if not settings.tls_certificate and not settings.tls_trust:
        return None
    for path in (settings.tls_certificate, settings.tls_key, settings.tls_trust):
        if path and not os.access(path, os.R_OK):
            raise StartupError(f"{path} cannot be read\nhint: `holdfast server --show-settings` shows where it is set")
    return TlsConfig(settings.tls_certificate, settings.tls_key, settings.tls_trust, settings.tls_require_clients)
