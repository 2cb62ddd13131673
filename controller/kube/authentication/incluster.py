"""Credentials of a pod: its service account, which the kubelet rotates.

Not taken from the library for kubeconfig files, which would double the memory of the process.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from controller.kube.authentication.credentials import ServerEndpoint
from controller.kube.authentication.files import RotatedFile
from controller.kube.authentication.tls import client_context
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class InClusterCredentials:
    """`Credentials` of the pod's service account.

    Args:
        environment: environment variables; the kubelet sets the server's address.
        folder: where the kubelet mounts `token` and `ca.crt`.

    Raises:
        ConfigurationError: the process does not run in a pod, or no service account is mounted.
    """

    namespace = ""  # nothing says: the operator serves other namespaces than its own

    def __init__(self, environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> None:
        host = environment.get("KUBERNETES_SERVICE_HOST", "")
        port = environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ConfigurationError(
                "This process does not run in a pod: KUBERNETES_SERVICE_HOST and "
                "KUBERNETES_SERVICE_PORT are not set. Outside a cluster, name a kubeconfig with "
                "--kubeconfig or KUBECONFIG."
            )
        self.endpoint = ServerEndpoint(
            f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        )
        self._token = RotatedFile(folder / "token", "service account token")
        self._authority = RotatedFile(folder / "ca.crt", "certificate authority")
        self._trusted = self._authority.read()
        self._context = client_context(self._trusted)

    def ssl_context(self) -> ssl.SSLContext:
        """Return a context with the mounted authority, or the previous one if it is invalid."""
        authority = self._authority.read()
        if authority != self._trusted:
            self._trusted = authority
            with suppress(ConfigurationError):
                self._context = client_context(authority)
        return self._context

    async def authorization(self) -> str:
        """Return the mounted token."""
        return f"Bearer {self._token.read().decode().strip()}"

    async def refresh(self) -> None:
        """Do nothing: the file is checked before each request."""

    async def aclose(self) -> None:
        """Do nothing."""
