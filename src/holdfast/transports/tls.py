"""TLS contexts: the own certificate, the trusted authorities, and the principal that a certificate proves.

A URI among the certificate's alternative names contains the principal: `holdfast:agent/n1`. The authorities are the
cluster's own. Every certificate that they sign is trusted, so they must sign a principal's name for its owner only.
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
    """Paths of PEM files. Without authorities, a client trusts those of the machine; a server trusts no certificate."""

    certificate: str = ""
    key: str = ""
    authorities: str = ""
    #: Whether a server rejects a client without a certificate in the handshake.
    require_client: bool = False


def server_context(tls: TlsConfig) -> ssl.SSLContext:
    """Return the context of incoming connections. A certificate must be valid if one is shown, even if none is
    required."""
    assert tls.certificate, "a TLS server needs a certificate"
    assert tls.authorities or not tls.require_client, "a server that requires certificates needs authorities"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.certificate, tls.key or None, _no_password)
    if tls.authorities:
        context.load_verify_locations(tls.authorities)
        context.verify_mode = ssl.CERT_REQUIRED if tls.require_client else ssl.CERT_OPTIONAL
    return context


def client_context(tls: TlsConfig | None) -> ssl.SSLContext:
    """Return the context of outgoing connections: the peer's certificate must be valid and name the requested host."""
    if tls is None:
        return _system_context()
    context = ssl.create_default_context(cafile=tls.authorities or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if tls.certificate:
        context.load_cert_chain(tls.certificate, tls.key or None, _no_password)
    return context


def connect_error_text(error: Exception) -> str:
    """Return the reason for a failed connection, for users."""
    reason: object = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {reason.verify_message.rstrip('.')}"
    return str(reason) or type(reason).__name__


def _no_password() -> str:
    """Reject an encrypted key: OpenSSL would prompt for a password on the terminal."""
    return ""


@cache
def _system_context() -> ssl.SSLContext:
    """Return one shared context: reading a machine's authorities takes 45 ms."""
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def principal_of(connection: Any) -> str:
    """Return the principal that the peer of a TLS connection has proven; empty if none."""
    # `getpeercert` is empty unless the certificate was verified against our authorities.
    names = (connection.getpeercert() or {}).get("subjectAltName", ()) if connection is not None else ()
    return principal_among([name for kind, name in names if kind == "URI"])


def certificate_expiry(connection: Any) -> float:
    """Return the end of the peer's certificate in seconds since 1970; infinity if it showed none."""
    shown = (connection.getpeercert() or {}) if connection is not None else {}
    return float(ssl.cert_time_to_seconds(shown["notAfter"])) if "notAfter" in shown else math.inf


def principal_among(uris: Iterable[str]) -> str:
    """Return the principal that a certificate with these URIs proves; empty: none.

    A certificate that names two principals proves neither, since the intent is ambiguous.
    """
    found = [uri for uri in uris if uri.startswith(PRINCIPAL)]
    return found[0].removeprefix(PRINCIPAL) if len(found) == 1 else ""
