"""The contents of a certificate: subject, hosts, principal, issuer, and validity."""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from msgspec import Struct

from holdfast.transports.tls import principal_among

_E = TypeVar("_E", bound=x509.ExtensionType)


class InvalidCertificate(Exception):
    """The file contains no certificate."""


class CertificateFacts(Struct, frozen=True):
    """The contents of one certificate, for users."""

    subject: str
    hosts: tuple[str, ...]
    #: Empty: it proves no principal.
    principal: str
    issuer: str
    begins: datetime
    ends: datetime
    #: Its SHA-256, in pairs of hexadecimal digits.
    fingerprint: str
    is_authority: bool


def certificate_facts(pem: bytes) -> CertificateFacts:
    """Return the contents of the first certificate in a PEM file; its chain may follow."""
    try:
        found = x509.load_pem_x509_certificate(pem)
        names = _extension(found, x509.SubjectAlternativeName)
        constraints = _extension(found, x509.BasicConstraints)
    except ValueError as error:
        raise InvalidCertificate(str(error).partition(".")[0] or "it contains no certificate in PEM form") from error
    dns = names.get_values_for_type(x509.DNSName) if names is not None else []
    ips = names.get_values_for_type(x509.IPAddress) if names is not None else []
    uris = names.get_values_for_type(x509.UniformResourceIdentifier) if names is not None else []
    return CertificateFacts(
        subject=_shown(found.subject),
        hosts=(*dns, *map(str, ips)),
        principal=principal_among(uris),
        issuer=_shown(found.issuer),
        begins=found.not_valid_before_utc,
        ends=found.not_valid_after_utc,
        fingerprint=found.fingerprint(hashes.SHA256()).hex(":"),
        is_authority=constraints is not None and constraints.ca,
    )


def _extension(certificate: x509.Certificate, kind: type[_E]) -> _E | None:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _shown(name: x509.Name) -> str:
    """Return the common name, if there is nothing else, or the complete name."""
    only = list(name)
    if len(only) == 1 and only[0].oid == x509.NameOID.COMMON_NAME:
        return str(only[0].value)
    return name.rfc4514_string()
