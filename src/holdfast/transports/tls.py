"""Certificates: how a process shows who it is, whom it believes, and which principal a certificate proves.

A principal is named by a URI among the certificate's alternative names, `holdfast:agent/n1`. The authorities are the
cluster's own: whatever certificate they sign is believed, so they sign a principal's name for its owner only.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import Iterable
from functools import cache
from typing import Any

from msgspec import Struct

PRINCIPAL = "holdfast:"


class TlsConfig(Struct, frozen=True):
    """Paths of PEM files. Without authorities: those of the machine, to ask; nobody's certificate, to serve."""

    certificate: str = ""
    key: str = ""
    authorities: str = ""
    #: Serving: whether somebody without a certificate is turned away in the handshake.
    require_client: bool = False


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """How connections are taken. A certificate that is shown must be good, also where none is required."""
    assert tls.certificate, "whoever serves TLS has a certificate"
    assert tls.authorities or not tls.require_client, "whoever requires certificates names their authorities"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.certificate, tls.key or None, _no_password)
    if tls.authorities:
        context.load_verify_locations(tls.authorities)
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client else ssl.CERT_OPTIONAL
    return context


def client_context(tls: TlsConfig | None) -> ssl.SSLContext:
    """How connections are made: the peer's certificate must be good, and must name the host that was asked for."""
    if tls is None:
        return _system_context()
    context = ssl.create_default_context(cafile=tls.authorities or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key or None, _no_password)
    return context


def connect_error_text(error: Exception) -> str:
    """Why a connection could not be made, as people are told."""
    reason: object = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not believed: {reason.verify_message.rstrip('.')}"
    return str(reason) or type(reason).__name__


def _no_password() -> str:
    """A key that is locked is refused: OpenSSL would ask the terminal, where nobody is."""
    return ""


@cache
def _system_context() -> ssl.SSLContext:
    """One for all who ask so: to read a machine's authorities takes 45 ms."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def principal_of(connection: Any) -> str:
    """The principal that the other end of a TLS connection has proven; empty where it has not."""
    # `getpeercert` is empty unless the certificate was verified against our authorities.
    names = (connection.getpeercert() or {}).get("subjectAltName", ()) if connection is not None else ()
    return principal_among([name for kind, name in names if kind == "URI"])


def certificate_expiry(connection: Any) -> float:
    """When the certificate of the other end is over, in seconds since 1970; never, where none was shown."""
    shown = (connection.getpeercert() or {}) if connection is not None else {}
    return float(ssl.cert_time_to_seconds(shown["notAfter"])) if "notAfter" in shown else math.inf


def principal_among(uris: Iterable[str]) -> str:
    """The principal that a certificate with these URIs proves; empty: none.

    One that names two principals proves neither: whoever signed it did not mean what we would guess.
    """
    found = [uri for uri in uris if uri.startswith(PRINCIPAL)]
    return found[0].removeprefix(PRINCIPAL) if len(found) == 1 else ""
