"""Certificate authorities and what they issue, for who has no cert-manager.

`cryptography` is loaded with this module, so import it only where a certificate is really made.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from msgspec import Struct

from controller.kube.credentials import ClientCertificate, load_certificate

_EARLIER = timedelta(hours=1)  # for clocks that differ
_FOR_A_LEAF, _FOR_AN_AUTHORITY = ("digital_signature",), ("key_cert_sign", "crl_sign")
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


class Certificate(Struct, frozen=True):
    """A certificate and its key.

    Attributes:
        key: its private key, PEM.
    """

    chain: bytes
    key: bytes

    def load_into(self, context: ssl.SSLContext) -> None:
        """Present this certificate in the handshakes of a context from now on.

        Raises:
            ssl.SSLError: it is malformed, or the key is another's.
        """
        load_certificate(context, ClientCertificate(self.chain, self.key))

    def context(self) -> ssl.SSLContext:
        """Return the context of a server with this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.load_into(context)
        return context


class Authority(Struct, frozen=True):
    """Issues certificates.

    Attributes:
        certificate: what clients trust, PEM.
        key: its private key, PEM; who has it can issue.
    """

    certificate: bytes
    key: bytes

    @classmethod
    def new(cls, name: str, now: datetime, lifetime: timedelta) -> Authority:
        """Make an authority with this common name, valid from `now` on (UTC)."""
        key = ec.generate_private_key(ec.SECP256R1())
        identity = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        signed = (
            _certificate(_name(name), _name(name), key, now, lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(_FOR_AN_AUTHORITY), critical=True)
            .add_extension(identity, critical=False)
            .sign(key, SHA256())
        )
        return cls(signed.public_bytes(Encoding.PEM), _pem(key))

    def issue(
        self,
        name: str,
        hosts: Iterable[str],
        now: datetime,
        lifetime: timedelta,
        *,
        for_clients: bool = False,
    ) -> Certificate:
        """Issue the certificate of a server with this common name, names and addresses.

        With `for_clients` the server may show it to other servers, too.

        Raises:
            ValueError: the authority's certificate or key is malformed.
        """
        authority = x509.load_pem_x509_certificate(self.certificate)
        signing = load_pem_private_key(self.key, password=None)
        if not isinstance(signing, ec.EllipticCurvePrivateKey):
            raise ValueError("the authority's key is not of an elliptic curve")  # noqa: TRY004
        identity = x509.SubjectKeyIdentifier.from_public_key(signing.public_key())
        key = ec.generate_private_key(ec.SECP256R1())
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identity)
        usages = [ExtendedKeyUsageOID.SERVER_AUTH]
        usages += [ExtendedKeyUsageOID.CLIENT_AUTH] if for_clients else []
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        signed = (
            _certificate(_name(name), authority.subject, key, now, lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(_FOR_A_LEAF), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(own, critical=False)
            .add_extension(issuer, critical=False)
            .add_extension(names, critical=False)
            .sign(signing, SHA256())
        )
        return Certificate(signed.public_bytes(Encoding.PEM), _pem(key))


def issued_once(
    name: str, hosts: Iterable[str], now: datetime, lifetime: timedelta
) -> tuple[bytes, Certificate]:
    """Return a certificate, after that of an authority whose key is discarded.

    Nothing else can be issued in its name. The arguments are those of `Authority.issue`.
    """
    authority = Authority.new(f"{name}-ca", now, lifetime)
    return authority.certificate, authority.issue(name, hosts, now, lifetime)


def expiry(certificate: bytes) -> datetime:
    """Return until when a certificate, which is PEM, is valid.

    Raises:
        ValueError: it is malformed.
    """
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def _certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + lifetime)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _key_usage(allowed: tuple[str, ...]) -> x509.KeyUsage:
    return x509.KeyUsage(**{usage: usage in allowed for usage in _USAGES})


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
