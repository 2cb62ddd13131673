"""Credentials of a pod: its service account, read again whenever the kubelet rotates it.

Written by hand because the library for kubeconfig files would double the memory of the process.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from controller.kube.credentials import ServerEndpoint
from controller.kube.errors import ConfigurationError
from controller.kube.files import RotatedFile
from controller.kube.tls import client_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class InClusterCredentials:
    """`Credentials` of the pod's service account.

    Args:
        environment: of the process; the kubelet puts the server's address into it.
        folder: where the kubelet mounts `token` and `ca.crt`.

    Raises:
        ConfigurationError: this is no pod, or its service account is not mounted.
    """

    def __init__(self, environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> None:
        host = environment.get("KUBERNETES_SERVICE_HOST", "")
        port = environment.get("KUBERNETES_SERVICE_PORT", "")
        if not host or not port:
            raise ConfigurationError(
                "This process runs in no pod: KUBERNETES_SERVICE_HOST and "
                "KUBERNETES_SERVICE_PORT are not set. Outside a cluster name a kubeconfig with "
                "--kubeconfig or KUBECONFIG."
            )
        self._endpoint = ServerEndpoint(
            f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        )
        self._token = RotatedFile(folder / "token", "service account token")
        self._authority = RotatedFile(folder / "ca.crt", "certificate authority")
        self._trusted = self._authority.read()
        self._context = client_context(self._trusted)

    @property
    def endpoint(self) -> ServerEndpoint:
        """The `kubernetes` service as the pod sees it."""
        return self._endpoint

    def ssl_context(self) -> ssl.SSLContext:
        """Trusts the mounted authority; the former one while the present file is unusable."""
        authority = self._authority.read()
        if authority != self._trusted:
            self._trusted = authority
            with suppress(ConfigurationError):
                self._context = client_context(authority)
        return self._context

    async def authorization(self) -> str:
        """The mounted token."""
        return f"Bearer {self._token.read().decode().strip()}"

    async def refresh(self) -> None:
        """Nothing to do: the file is looked at before each request."""

    async def aclose(self) -> None:
        """Nothing to end."""
