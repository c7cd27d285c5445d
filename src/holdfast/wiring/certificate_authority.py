"""A private certificate authority: it signs certificates for servers, and for the principals of machines and users.

    DIR/authority.pem   trusted by all parties: `tlsTrust` of servers, `--tls-trust`, `authorities` of a context
    DIR/authority.key   its holder can act as any principal: keep it where no server runs

A server's certificate is valid for both ends of a connection, since servers call one another, and names no principal
unless one is given. A principal's certificate is valid for clients only, so it cannot be used to impersonate a server.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from msgspec import Struct

from holdfast.core.model.records.servers import is_server_name
from holdfast.core.platform.decide.checks import refuse_name
from holdfast.transports.tls import PRINCIPAL
from holdfast.wiring.config.private_files import NotPrivate, read_private, write_private

AUTHORITY = "authority"
#: The default and the longest validity of an authority and of a certificate.
AUTHORITY_LIFE, AUTHORITY_LIFE_LONGEST = timedelta(days=3_650), timedelta(days=7_300)
LIFE, LIFE_LONGEST = timedelta(days=90), timedelta(days=398)
#: Validity begins this much earlier, for machines whose clocks are behind.
EARLIER = timedelta(hours=1)
#: The kind of a region's principal.
REGION = "region"
_COMMON_NAME_MAX = 64
_HOST = re.compile(r"(\*\.)?([a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?)(\.[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?)*")

_Names = list[x509.GeneralName]


class NotIssued(Exception):
    """A certificate or authority cannot be made; the message may have a hint in its second line."""


class CertificateOptions(Struct, frozen=True):
    """The purpose of a certificate: the hosts of a server, a client principal, or both."""

    hosts: tuple[str, ...] = ()
    principal: str = ""
    life: timedelta = LIFE
    #: Whether a name with a `*` is intended, and the principal of a region for its servers.
    wildcard: bool = False
    server_principal: bool = False

    @property
    def name(self) -> str:
        """Return the default name of its files: after the principal, or the first host."""
        return (self.principal or self.hosts[0]).replace("/", "-").replace("*", "any").replace(":", "-")


class IssuedFiles(Struct, frozen=True):
    """The files of a certificate and its key."""

    certificate: Path
    key: Path


def invalid_certificate_options(options: CertificateOptions) -> Iterator[str]:
    """Yield why no certificate is signed with these options, each with a remedy."""
    if not options.hosts and not options.principal:
        yield "no host or principal is given; use --server HOST, or --principal agent/NAME"
    for host in options.hosts:
        if not _is_ip(host) and not _HOST.fullmatch(host.lower()):
            yield f"{host!r} is no name or address of a host; give it without scheme and port"
        elif "*" in host and not options.wildcard:
            yield f"{host} stands for many hosts, and so does its key; name each host, or add --wildcard"
    kind = options.principal.partition("/")[0]
    if is_server_name(options.principal):
        yield f"{options.principal} is a server, which authenticates with its own token; use --server HOST alone"
    elif options.principal and refuse_name("Principal", options.principal):
        yield f"{options.principal!r} is not a principal: use agent/NAME, scheduler/NAME, person/NAME or tenant/NAME"
    elif options.principal.endswith("/*") and not options.wildcard:
        yield f"{options.principal} stands for every {kind}, and so does its key; name one, or add --wildcard"
    elif kind == REGION and not options.server_principal:
        yield f"{options.principal} acts for its region, which has a token for that; add --server-principal"
    if not timedelta() < options.life <= LIFE_LONGEST:
        yield f"a certificate is valid for more than 0 and at most {LIFE_LONGEST.days} days; use --life {LIFE.days}d"


def new_authority(folder: Path, name: str, life: timedelta, now: datetime, *, force: bool = False) -> IssuedFiles:
    """Create an authority in this folder. `NotIssued` if there is one, unless `force` is set."""
    if not timedelta() < life <= AUTHORITY_LIFE_LONGEST:
        raise NotIssued(f"an authority is valid for more than 0 and at most {AUTHORITY_LIFE_LONGEST.days} days")
    if not 0 < len(name) <= _COMMON_NAME_MAX:
        raise NotIssued(f"the name of an authority has 1 to {_COMMON_NAME_MAX} characters")
    files = _free(folder, AUTHORITY, force, "\nhint: certificates of the existing authority would no longer be trusted")
    key, subject = ec.generate_private_key(ec.SECP256R1()), _named(name)
    builder = _begun(subject, subject, key.public_key(), now, now + life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_others=True), critical=True)
    return _written(files, key, builder.sign(key, hashes.SHA256()))


def issue(
    authority: Path, folder: Path, name: str, options: CertificateOptions, now: datetime, *, force: bool = False
) -> IssuedFiles:
    """Sign a certificate, and write it and its new key. It ends no later than its authority. `NotIssued`."""
    for why in invalid_certificate_options(options):
        raise NotIssued(why)
    signed_by, signing = _loaded(authority)
    if now >= signed_by.not_valid_after_utc:
        raise NotIssued(f"the authority in {authority} expired on {signed_by.not_valid_after_utc:%Y-%m-%d}")
    if name == AUTHORITY:
        raise NotIssued(f"{name} is the file name of authorities; use another --name")
    files = _free(folder, name, force)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named((options.principal or options.hosts[0])[:_COMMON_NAME_MAX])
    ends = min(now + options.life, signed_by.not_valid_after_utc)
    builder = _begun(subject, signed_by.subject, key.public_key(), now, ends)
    known = signed_by.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if options.hosts:
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    builder = (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_others=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternatives(options)), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(known), critical=False)
    )
    return _written(files, key, builder.sign(signing, hashes.SHA256()))


def _free(folder: Path, name: str, force: bool, why: str = "") -> IssuedFiles:
    if not name or "/" in name or name.startswith("."):
        raise NotIssued(f"{name!r} is no name for files")
    files = IssuedFiles(folder / f"{name}.pem", folder / f"{name}.key")
    for path in (files.certificate, files.key):
        if path.exists() and not force:
            raise NotIssued(f"{path} is there already; --force replaces it{why}")
    return files


def _loaded(folder: Path) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    files = IssuedFiles(folder / f"{AUTHORITY}.pem", folder / f"{AUTHORITY}.key")
    try:
        pem, key = files.certificate.read_bytes(), read_private(files.key)
        if key is None:
            raise FileNotFoundError(2, "No such file or directory", str(files.key))
        certificate = x509.load_pem_x509_certificate(pem)
        signing = serialization.load_pem_private_key(key.encode(), None)
    except NotPrivate as error:
        raise NotIssued(str(error)) from error
    except OSError as error:
        hint = f"hint: `holdfast certificate authority --out {folder}` makes one"
        raise NotIssued(f"there is no authority in {folder}: {error.filename}: {error.strerror}\n{hint}") from error
    except (ValueError, TypeError) as error:
        raise NotIssued(f"the content of {folder} is no authority: {error}") from error
    if not isinstance(signing, ec.EllipticCurvePrivateKey) or signing.public_key() != certificate.public_key():
        raise NotIssued(f"the key in {folder} is not the one of the certificate beside it")
    return certificate, signing


def _begun(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _written(files: IssuedFiles, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> IssuedFiles:
    """Write the key first, since a certificate without its key is useless."""
    pem, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    try:
        write_private(files.key, key.private_bytes(pem, form, serialization.NoEncryption()).decode())
        write_private(files.certificate, certificate.public_bytes(pem).decode(), mode=0o644)
    except OSError as error:
        raise NotIssued(f"{error.filename}: {error.strerror}") from error
    return files


def _alternatives(options: CertificateOptions) -> _Names:
    hosts: _Names = [
        x509.IPAddress(ipaddress.ip_address(host.strip("[]"))) if _is_ip(host) else x509.DNSName(host.lower())
        for host in options.hosts
    ]
    return [*hosts, *([x509.UniformResourceIdentifier(PRINCIPAL + options.principal)] if options.principal else [])]


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return "%" not in host


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _usage(*, signs_others: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_others,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_others,
        crl_sign=signs_others,
        encipher_only=False,
        decipher_only=False,
    )
