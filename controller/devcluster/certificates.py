"""A certificate for one run of the embedded API server, with an authority of its own.

The authority's key is discarded at once, so nothing else can be issued in its name.
"""

from __future__ import annotations

import ipaddress
import ssl
import tempfile
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_EARLIER = timedelta(hours=1)  # for clocks that differ
_LIFETIME = timedelta(days=365)
_FOR_A_SERVER, _FOR_AN_AUTHORITY = ("digital_signature",), ("key_cert_sign", "crl_sign")
_USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


@dataclass(frozen=True, slots=True)
class ServingCertificate:
    """The certificate of a server.

    Attributes:
        authority: certificate that clients trust, PEM.
        chain: the server's certificate, PEM.
        key: its private key, PEM.
    """

    authority: bytes
    chain: bytes
    key: bytes

    def context(self) -> ssl.SSLContext:
        """Return the context of a server with this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # OpenSSL reads keys only from files: written to a private folder and deleted at once.
        with tempfile.TemporaryDirectory(prefix="manta-") as folder:
            file = Path(folder, "certificate")
            file.touch(mode=0o600)
            file.write_bytes(self.chain + self.key)
            context.load_cert_chain(file)
        return context


def serving_certificate(hosts: Iterable[str], now: datetime) -> ServingCertificate:
    """Issue a certificate for a year.

    Args:
        hosts: names and addresses of the server.
        now: the time in UTC.
    """
    issuer_key = ec.generate_private_key(ec.SECP256R1())
    issuer = _name("manta-dev-ca")
    issuer_id = x509.SubjectKeyIdentifier.from_public_key(issuer_key.public_key())
    authority = (
        _certificate(issuer, issuer, issuer_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(_FOR_AN_AUTHORITY), critical=True)
        .add_extension(issuer_id, critical=False)
        .sign(issuer_key, SHA256())
    )
    key = ec.generate_private_key(ec.SECP256R1())
    from_issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(issuer_id)
    server = (
        _certificate(_name("manta-dev"), issuer, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(_FOR_A_SERVER), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(from_issuer, critical=False)
        .add_extension(
            x509.SubjectAlternativeName([_alternative(host) for host in hosts]), critical=False
        )
        .sign(issuer_key, SHA256())
    )
    return ServingCertificate(
        authority.public_bytes(Encoding.PEM),
        server.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _LIFETIME)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _key_usage(allowed: tuple[str, ...]) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in allowed for usage in _USAGES})


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
