"""An authority and what it signs: what each certificate is good for, and what is not signed unless it is meant."""

from __future__ import annotations

import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

from holdfast.transports.certificates import certificate_facts
from holdfast.transports.tls import TlsConfig, client_context, principal_of, server_context
from holdfast.wiring.certificate_authority import (
    AUTHORITY_LIFE,
    LIFE_LONGEST,
    CertificateOptions,
    IssuedFiles,
    NotIssued,
    invalid_certificate_options,
    issue,
    new_authority,
)

NOW = datetime.now(UTC).replace(microsecond=0)
LONG_AGO = NOW - timedelta(days=300)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    new_authority(tmp_path / "ca", "ours", AUTHORITY_LIFE, LONG_AGO)
    return tmp_path


def signed(folder: Path, name: str = "one", **wish: Any) -> IssuedFiles:
    return issue(folder / "ca", folder, name, CertificateOptions(**wish), NOW)


def loaded(files: IssuedFiles) -> x509.Certificate:
    return x509.load_pem_x509_certificate(files.certificate.read_bytes())


def usages(files: IssuedFiles) -> list[x509.ObjectIdentifier]:
    return list(loaded(files).extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)


def shaken(server: TlsConfig, client: TlsConfig, host: str = "localhost") -> str:
    """The principal that a server finds proven after a handshake; raises where there is none."""
    ours, theirs = socket.socketpair()
    found: list[str] = []
    failed: list[Exception] = []

    def serve() -> None:
        try:
            with server_context(server).wrap_socket(theirs, server_side=True) as connection:
                found.append(principal_of(connection))
                connection.sendall(b"x")
        except OSError as error:
            failed.append(error)

    serving = threading.Thread(target=serve)
    serving.start()
    try:
        with client_context(client).wrap_socket(ours, server_hostname=host) as connection:
            if connection.recv(1) != b"x":
                raise ssl.SSLError("it was turned away")
    finally:
        ours.close()
        serving.join(20)
        theirs.close()
    return found[0]


def tls(folder: Path, files: IssuedFiles | None = None, **more: Any) -> TlsConfig:
    own = (str(files.certificate), str(files.key)) if files is not None else ("", "")
    return TlsConfig(*own, str(folder / "ca" / "authority.pem"), **more)


def test_an_authority_signs_no_further_authority_and_its_key_is_its_owners(folder: Path) -> None:
    made = IssuedFiles(folder / "ca" / "authority.pem", folder / "ca" / "authority.key")
    found = loaded(made).extensions.get_extension_for_class(x509.BasicConstraints)
    assert (found.critical, found.value.ca, found.value.path_length) == (True, True, 0)
    assert made.key.stat().st_mode & 0o777 == 0o600
    assert certificate_facts(made.certificate.read_bytes()).is_authority


def test_a_server_and_an_agent_know_each_other_by_what_was_signed(folder: Path) -> None:
    server = signed(folder, "server", hosts=("LocalHost", "127.0.0.1", "[::1]"))
    agent = signed(folder, "agent", principal="agent/n1")
    assert agent.key.stat().st_mode & 0o777 == 0o600
    assert shaken(tls(folder, server, require_client=True), tls(folder, agent)) == "agent/n1"
    assert shaken(tls(folder, server), tls(folder, agent), "127.0.0.1") == "agent/n1"
    assert shaken(tls(folder, server), tls(folder), "::1") == ""


def test_a_server_may_ask_with_its_certificate_and_proves_nobody_by_it(folder: Path) -> None:
    server = signed(folder, "server", hosts=("localhost",))
    assert usages(server) == [Usage.SERVER_AUTH, Usage.CLIENT_AUTH]
    assert shaken(tls(folder, server, require_client=True), tls(folder, server)) == ""


def test_nobody_passes_for_a_server_with_the_certificate_of_a_principal(folder: Path) -> None:
    agent = signed(folder, principal="agent/localhost")
    assert usages(agent) == [Usage.CLIENT_AUTH]
    with pytest.raises(ssl.SSLError, match=r"unsuitable certificate purpose|unsupported certificate purpose"):
        shaken(tls(folder, agent), tls(folder))


def test_a_server_is_believed_for_its_own_hosts_alone(folder: Path) -> None:
    server = signed(folder, hosts=("other.example",))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shaken(tls(folder, server), tls(folder))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({}, "no host or principal is given;"),
        ({"hosts": ("*.example",)}, "stands for many hosts"),
        ({"hosts": ("a.*.example",), "wildcard": True}, "is no name or address of a host"),
        ({"hosts": ("http://a",)}, "is no name or address of a host"),
        ({"hosts": ("a:7400",)}, "is no name or address of a host"),
        ({"hosts": ("a b",)}, "is no name or address of a host"),
        ({"hosts": ("fe80::1%eth0",)}, "is no name or address of a host"),
        ({"principal": "agent/*"}, "stands for every agent"),
        ({"principal": "region/eu"}, "acts for its region"),
        ({"principal": "region/eu/s1", "server_principal": True}, "is a server, which authenticates"),
        ({"principal": "platform/s1", "server_principal": True}, "is a server, which authenticates"),
        ({"principal": "root"}, "is not a principal"),
        ({"principal": "person/A B"}, "is not a principal"),
        ({"principal": "person/a\nb"}, "is not a principal"),
        ({"principal": "person/a", "life": LIFE_LONGEST + timedelta(days=1)}, "at most 398 days"),
        ({"principal": "person/a", "life": timedelta()}, "at most 398 days"),
    ],
)
def test_what_is_not_plainly_meant_is_not_signed(folder: Path, said: dict[str, Any], why: str) -> None:
    (found,) = invalid_certificate_options(CertificateOptions(**said))
    assert why in found
    with pytest.raises(NotIssued):
        signed(folder, **said)
    assert not (folder / "one.pem").exists()


def test_what_is_plainly_meant_is_signed(folder: Path) -> None:
    files = signed(folder, hosts=("*.example",), principal="region/eu", wildcard=True, server_principal=True)
    facts = certificate_facts(files.certificate.read_bytes())
    assert (facts.hosts, facts.principal) == (("*.example",), "region/eu")
    assert signed(folder, "two", principal="agent/*", wildcard=True)


def test_nothing_is_replaced_unless_that_is_said(folder: Path) -> None:
    first = signed(folder, principal="agent/n1").certificate.read_bytes()
    with pytest.raises(NotIssued, match="is there already; --force replaces it"):
        signed(folder, principal="agent/n1")
    (folder / "one.pem").unlink()
    with pytest.raises(NotIssued, match=r"one\.key is there already"):
        signed(folder, principal="agent/n1")
    again = issue(folder / "ca", folder, "one", CertificateOptions(principal="agent/n1"), NOW, force=True)
    assert again.certificate.read_bytes() != first
    with pytest.raises(NotIssued, match="is there already"):
        new_authority(folder / "ca", "ours", AUTHORITY_LIFE, NOW)
    with pytest.raises(NotIssued, match="use another --name"):
        issue(folder / "ca", folder / "ca", "authority", CertificateOptions(principal="agent/n1"), NOW, force=True)


def test_a_certificate_ends_no_later_than_its_authority(folder: Path) -> None:
    new_authority(folder / "ca", "short", timedelta(days=5), NOW, force=True)
    facts = certificate_facts(signed(folder, principal="agent/n1").certificate.read_bytes())
    assert facts.ends == NOW + timedelta(days=5)
    with pytest.raises(NotIssued, match="expired on"):
        issue(folder / "ca", folder, "two", CertificateOptions(principal="agent/n1"), NOW + timedelta(days=5))


def test_a_key_that_others_can_read_and_what_is_no_authority_are_told(folder: Path) -> None:
    key = folder / "ca" / "authority.key"
    with pytest.raises(NotIssued, match="holdfast certificate authority --out"):
        issue(folder / "none", folder, "one", CertificateOptions(principal="agent/n1"), NOW)
    key.chmod(0o644)
    with pytest.raises(NotIssued, match="other users may read it"):
        signed(folder, principal="agent/n1")
    key.chmod(0o600)
    other = new_authority(folder / "other", "other", AUTHORITY_LIFE, NOW)
    key.write_bytes(other.key.read_bytes())
    with pytest.raises(NotIssued, match="is not the one of the certificate beside it"):
        signed(folder, principal="agent/n1")
    key.write_text("no key", encoding="utf-8")
    with pytest.raises(NotIssued, match="is no authority"):
        signed(folder, principal="agent/n1")
