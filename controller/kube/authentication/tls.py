"""Builds TLS contexts from certificates in memory."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path

from controller.kube.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate chain and its private key, both PEM."""

    chain: bytes
    key: bytes


def client_context(
    authority: bytes = b"",
    *,
    certificate: ClientCertificate | None = None,
    verify: bool = True,
) -> ssl.SSLContext:
    """Return a context for connections to an API server.

    Args:
        authority: trusted PEM certificates; empty for those of the system.
        certificate: the client certificate.
        verify: False accepts any server (`insecure-skip-tls-verify`).

    Raises:
        ConfigurationError: a certificate or key is invalid.
    """
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") or None)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigurationError(
            f"The certificate authority of the API server is not a PEM certificate ({error}). "
            "Check `certificate-authority` of the cluster, or the pod's ca.crt."
        ) from error
    # Many clusters' authorities lack the key identifiers that Python requires since 3.13.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load(context, certificate)
    return context


def _load(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    # OpenSSL reads keys only from files: written to a private folder and deleted at once.
    with tempfile.TemporaryDirectory(prefix="manta-") as folder:
        chain, key = Path(folder, "chain"), Path(folder, "key")
        for path, content in ((chain, certificate.chain), (key, certificate.key)):
            path.touch(mode=0o600)
            path.write_bytes(content)
        try:
            context.load_cert_chain(chain, key, password=_no_password)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"The client certificate and its key do not match or are not PEM ({error}). "
                "Encrypted keys are not supported: use an unencrypted one or an exec plugin."
            ) from error


def _no_password() -> str:
    """Return no password; otherwise OpenSSL would ask on the terminal."""
    return ""
