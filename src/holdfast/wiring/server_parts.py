"""Transport, API limits and credentials of a server, each made from its settings."""

from __future__ import annotations

import os
from pathlib import Path

from holdfast.api.server.limits import ServerLimits
from holdfast.host.ports.clock import Clock
from holdfast.transports.connection_registry import ConnectionCaps
from holdfast.transports.http_connection import ConnectionLimits as CarrierLimits
from holdfast.transports.http_transport import HttpTransport
from holdfast.transports.tls import TlsConfig
from holdfast.wiring.config.private_files import NoToken, TokenCredentials
from holdfast.wiring.config.server_settings import ServerSettings
from holdfast.wiring.process import StartupError, raise_open_file_limit

#: Files that a server opens for itself, including its connections to others.
RESERVED_FILES = 512
#: Overhead of a request around its body: the transport accepts that much more than the API.
REQUEST_OVERHEAD_BYTES = 64 << 10


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
