"""Options and startup of a process that connects to a region: servers, credentials, and where it serves metrics.

Schedulers and agents are such processes. Each adds options of its own.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from holdfast.core.model.values.addresses import address_problem, is_exposed, without_user
from holdfast.host.ports.clock import Clock
from holdfast.host.ports.transport import Pairs
from holdfast.host.runtime.telemetry import Logger, Metrics
from holdfast.observe.prometheus import metrics_handler
from holdfast.transports.http_connection import ConnectionLimits
from holdfast.transports.http_transport import HttpTransport
from holdfast.transports.tls import TlsConfig
from holdfast.wiring.config.private_files import NoToken, TokenCredentials
from holdfast.wiring.config.validation import is_loopback, parse_listen
from holdfast.wiring.process import StartupError

#: Suggested address for metrics, on this machine.
LISTEN = "127.0.0.1:7480"
#: Limits for scrapers: their requests are small and quick.
EXPORT_LIMITS = ConnectionLimits(body_bytes=0, head_bytes=8 << 10, request_ms=5_000, idle_ms=75_000, drain_ms=500)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,126}[a-z0-9])?")


class MachineOptions(Struct, frozen=True):
    """The options of such a process: its kind and name, the region's servers, and its credentials."""

    kind: str
    servers: tuple[str, ...]
    name: str
    token_file: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    tls_trust: str = ""
    insecure: bool = False
    log_level: str = "info"
    log_form: str = "text"
    #: Where it serves metrics; empty: nowhere.
    listen: str = ""

    @property
    def actor(self) -> str:
        """The principal that it acts as."""
        return f"{self.kind}/{self.name}"

    @property
    def tls(self) -> TlsConfig | None:
        """The TLS configuration of its requests."""
        if not self.tls_certificate and not self.tls_trust:
            return None
        return TlsConfig(self.tls_certificate, self.tls_key, self.tls_trust)

    @property
    def is_guarded(self) -> bool:
        """Whether scrapers can be required to show a certificate."""
        return bool(self.tls_certificate and self.tls_key and self.tls_trust)


def invalid_machine_options(options: MachineOptions) -> Iterator[str]:
    """Yield why these options are rejected, each with a remedy."""
    if not options.servers:
        yield "no server is given; use --server with the URL of a server of the region"
    for url in options.servers:
        why = address_problem(url)
        if why:
            yield f"server {without_user(url)} {why}"
        elif is_exposed(url) and not options.insecure:
            yield f"server {url} is remote, without TLS: the token would travel in the clear; use https or --insecure"
    if not _NAME.fullmatch(options.name):
        yield f"{options.name!r} is no name for {_a(options.kind)}; use small letters, digits, - and ."
    if not options.token_file and not options.tls_certificate:
        yield f"there is no credential for {options.actor}; use --token-file FILE, or --tls-certificate and --tls-key"
    if bool(options.tls_certificate) != bool(options.tls_key):
        yield "--tls-certificate and --tls-key are only valid together; use both or none"
    if options.listen and parse_listen(options.listen) is None:
        yield f"listen {options.listen!r} is no address and port; use one such as {LISTEN}"
    elif options.listen and not is_loopback(options.listen) and not options.is_guarded and not options.insecure:
        yield (
            f"listen {options.listen} is reachable from other machines, and is open to all; use --tls-certificate, "
            "--tls-key and --tls-trust, so that only clients with a certificate can read them, or --insecure"
        )


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


@asynccontextmanager
async def connected(options: MachineOptions, clock: Clock, metrics: Metrics) -> AsyncIterator[HttpTransport]:
    """Yield a connection to the region, and serve metrics meanwhile. `StartupError` if that is not possible."""
    if options.insecure:
        why = "requests to other machines are sent without TLS; the token can be read on the network"
        Logger(options.kind, actor=options.actor).warning("insecure", why=why)
    transport = HttpTransport(clock, tls=options.tls, insecure=options.insecure)
    try:
        await transport.start()
    except (ssl.SSLError, OSError) as error:
        raise StartupError(f"the certificates are not valid: {error}") from error
    try:
        async with _exports(options, clock, metrics):
            yield transport
    finally:
        await transport.close()


@asynccontextmanager
async def _exports(options: MachineOptions, clock: Clock, metrics: Metrics) -> AsyncIterator[None]:
    """Serve metrics meanwhile, if an address is set: to all on this machine, else to clients with a certificate."""
    if not options.listen:
        yield
        return
    guarded = options.is_guarded and not is_loopback(options.listen)
    tls = (
        TlsConfig(options.tls_certificate, options.tls_key, options.tls_trust, require_client=True) if guarded else None
    )
    exports = HttpTransport(clock, listen=options.listen, tls=tls, limits=EXPORT_LIMITS)
    exports.serve(metrics_handler(metrics))
    try:
        await exports.start()
    except OSError as error:  # certificates were checked already, by the transport
        hint = "hint: another process uses it, or it is no address of this machine; use --listen ADDRESS:PORT"
        raise StartupError(f"listening on {options.listen}: {error.strerror or error}\n{hint}") from error
    try:
        yield
    finally:
        await exports.close()


def credentials(options: MachineOptions) -> Callable[[], Pairs]:
    """Return the credentials of each request. `StartupError` if there is no token."""
    if not options.token_file:
        return tuple
    try:
        return TokenCredentials(Path(options.token_file).expanduser()).speaking_as(options.actor)
    except NoToken as error:
        hint = f"hint: save there, mode 0600: `holdfast token create --principal {options.actor} --ttl 90d`"
        raise StartupError(f"{error}\n{hint}") from error
