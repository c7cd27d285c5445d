"""An authority for tests, and certificates that it signs: for servers on the loopback, and for principals."""

from __future__ import annotations

import datetime
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from holdfast.transports.tls import TlsConfig


class Authority:
    """Signs what it is asked to, into a folder of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._authority = trustme.CA()
        self._authority.cert_pem.write_to_path(folder / "authorities.pem")
        self.authorities = str(folder / "authorities.pem")

    def server(self, host: str = "127.0.0.1", *, require_client: bool = False) -> TlsConfig:
        """What a server on this host has."""
        issued = self._authority.issue_cert(host)
        path = self._new_file()
        issued.private_key_and_cert_chain_pem.write_to_path(path)
        return TlsConfig(str(path), str(path), self.authorities, require_client)

    def client(self, *uris: str, believes: str = "") -> TlsConfig:
        """What a client has whose certificate names these URIs; without any it has no certificate."""
        if not uris:
            return TlsConfig(authorities=believes or self.authorities)
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._signed(key.public_key(), uris)
        path = self._new_file()
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return TlsConfig(str(path), str(path), believes or self.authorities)

    def _new_file(self) -> Path:
        return self._folder / f"{len(list(self._folder.iterdir()))}.pem"

    def _signed(self, public: ec.EllipticCurvePublicKey, uris: tuple[str, ...]) -> x509.Certificate:
        # By hand: trustme signs for hosts and addresses of mail, but not for URIs.
        issuer = x509.load_pem_x509_certificate(self._authority.cert_pem.bytes())
        signing = serialization.load_pem_private_key(self._authority.private_key_pem.bytes(), None)
        assert isinstance(signing, ec.EllipticCurvePrivateKey)
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a client")]))
            .issuer_name(issuer.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(uri) for uri in uris]), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(
                    issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
                ),
                False,
            )
            .sign(signing, hashes.SHA256())
        )
