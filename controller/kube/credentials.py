"""What authenticates requests: tokens and certificates, read again when their files change."""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import structlog
from msgspec import Struct

from controller.kube.errors import ConfigurationError, NotSent
from informers import Clock

# Credentials: the address of an API server and the means to authenticate to it.
#
# Credentials change while connections live, so a transport asks for the header and the TLS context
# before each request. `InClusterCredentials` and `kubeconfig.py` implement them.


class ServerEndpoint(Struct, frozen=True):
    """Address of an API server.

    Attributes:
        url: scheme, host, port and, behind some proxies, a path; no slash at the end.
        proxy: URL of an HTTP proxy, empty for none. The environment is never consulted.
        server_name: name expected in the server's certificate, empty for the host of the URL.
        context: context of the kubeconfig that names it; empty if none does.
    """

    url: str
    proxy: str = ""
    server_name: str = ""
    context: str = ""

    @property
    def host(self) -> str:
        """`host:port`, as metrics and the log name it: without a password."""
        return self.url.partition("://")[2].partition("/")[0].rpartition("@")[2]


class Credentials(Protocol):
    """Authentication to one API server, kept up to date."""

    @property
    def endpoint(self) -> ServerEndpoint:
        """The server; it never changes."""
        ...

    @property
    def namespace(self) -> str:
        """The default namespace of commands; empty if the credentials name none."""
        ...

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context for new connections; a new object after a change of certificates.

        None for plain HTTP.
        """
        ...

    async def authorization(self) -> str:
        """Return the value of the `Authorization` header, empty for none."""
        ...

    async def refresh(self) -> None:
        """Replace credentials that the server rejected (401), if there are others."""
        ...

    async def aclose(self) -> None:
        """Stop refreshing."""
        ...


class StaticCredentials:
    """Credentials that never change, such as those of the embedded server."""

    namespace = ""

    def __init__(
        self, url: str, *, ssl_context: ssl.SSLContext | None = None, authorization: str = ""
    ) -> None:
        self.endpoint = ServerEndpoint(url.rstrip("/"))
        self._ssl_context = ssl_context
        self._authorization = authorization

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the given context."""
        return self._ssl_context

    async def authorization(self) -> str:
        """Return the given header."""
        return self._authorization

    async def refresh(self) -> None:
        """Do nothing: there are no other credentials."""

    async def aclose(self) -> None:
        """Do nothing."""


# Reads files that change while the process runs: tokens and certificate authorities.


class RotatedFile:
    """A small file that is read again after each replacement.

    While the file is missing, empty or unreadable, the last good content stays in use: the
    kubelet and other tools replace files, and a short gap must not end the process.

    Args:
        what: name for messages, such as `service account token`.

    Raises:
        ConfigurationError: the file cannot be read now.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._seen = self._signature()
        try:
            self._content = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(
                f"Cannot read the {what} {path}: {error.strerror}. Check that the file is there "
                "and readable by this process."
            ) from error
        if not self._content.strip():
            raise ConfigurationError(f"The {what} {path} is empty. Fill it or remove the setting.")

    def read(self) -> bytes:
        """Return the current content. Costs one `stat` while nothing changes."""
        signature = self._signature()
        if signature != self._seen:
            self._reread(signature)
        return self._content

    def _reread(self, signature: tuple[int, ...]) -> None:
        try:
            content = self.path.read_bytes()
        except OSError:
            return
        if content.strip():
            self._content = content
            self._seen = signature

    def _signature(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return (found.st_ino, found.st_mtime_ns, found.st_size)


# Builds TLS contexts from certificates in memory.


class ClientCertificate(Struct, frozen=True):
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

    It trusts an `authority` (PEM), or else those of the system; without `verify` any server
    (`insecure-skip-tls-verify`).

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
        try:
            load_certificate(context, certificate)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigurationError(
                f"The client certificate and its key do not match or are not PEM ({error}). "
                "Encrypted keys are not supported: use an unencrypted one or an exec plugin."
            ) from error
    return context


def load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """Present this certificate in the handshakes of a context from now on.

    Raises:
        ssl.SSLError: it is malformed, or the key is another's.
        ValueError: the key is encrypted.
    """
    # OpenSSL reads keys only from files: written to a private folder and deleted at once.
    with tempfile.TemporaryDirectory(prefix="manta-") as folder:
        chain, key = Path(folder, "chain"), Path(folder, "key")
        for path, content in ((chain, certificate.chain), (key, certificate.key)):
            path.touch(mode=0o600)
            path.write_bytes(content)
        context.load_cert_chain(chain, key, password=_no_password)


def _no_password() -> str:
    """Return no password; otherwise OpenSSL would ask on the terminal."""
    return ""


# Credentials of a pod: its service account, which the kubelet rotates.
#
# Not taken from the library for kubeconfig files, which would double the memory of the process.

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


# Refreshes the credentials of an exec plugin (`exec` in a kubeconfig).
#
# The plugin runs again before its credential expires, in the background while the old one is
# still valid. A failed run is retried with back-off.


_log = structlog.get_logger(__name__)

RENEW_BEFORE = timedelta(minutes=5)
"""Time before its expiry at which a credential is renewed; at most a fifth of its lifetime."""

SHORTEST_INTERVAL = 1.0
LONGEST_INTERVAL = 60.0
"""Seconds between runs after failures: doubled from the shortest to the longest."""

REFUSED_INTERVAL = 10.0
"""Least seconds between runs caused by rejected credentials."""

RUN_TIMEOUT = 120.0
"""Seconds for one run, which may have to wait for a person to log in."""


class ExecCredential(Struct, frozen=True):
    """The result of a plugin: a header, a certificate, or both; `expires` is in UTC."""

    authorization: str = ""
    certificate: ClientCertificate | None = None
    expires: datetime | None = None


class ExecCredentialRefresher:
    """Keeps the credential of one plugin valid.

    Args:
        run: runs the plugin once; raises `ConfigurationError` with cause and remedy.
        clock: for the intervals between runs.
        wall: the current time in UTC, compared with the expiry.
    """

    def __init__(
        self,
        run: Callable[[], Awaitable[ExecCredential]],
        *,
        clock: Clock,
        wall: Callable[[], datetime],
    ) -> None:
        self._run = run
        self._clock = clock
        self._wall = wall
        self._credential = ExecCredential()
        self._issued_at = wall()
        self._running: asyncio.Task[None] | None = None
        self._not_before = clock.time()
        self._interval = SHORTEST_INTERVAL
        self._failure: ConfigurationError | None = None

    @property
    def latest(self) -> ExecCredential:
        """The latest credential, which may have expired."""
        return self._credential

    async def start(self) -> None:
        """Run the plugin for the first time. Raises `ConfigurationError`."""
        await self._renew()
        if self._failure is not None:
            raise self._failure

    async def current(self) -> ExecCredential:
        """Return a credential that has not expired.

        Raises:
            NotSent: it has expired and the plugin returns no other one.
        """
        left = self._left()
        if left is None or left > self._margin():
            return self._credential
        if left > timedelta(0):
            self._start_run()
            return self._credential
        await self._renew()
        left = self._left()
        if left is not None and left <= timedelta(0):
            raise NotSent(f"credentials have expired and cannot be renewed: {self._failure}")
        return self._credential

    async def refresh(self) -> None:
        """Replace a credential that the server refused, unless the last run was too recent."""
        await self._renew()
        self._not_before = max(self._not_before, self._clock.time() + REFUSED_INTERVAL)

    async def aclose(self) -> None:
        """Cancel a running plugin."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def _left(self) -> timedelta | None:
        expires = self._credential.expires
        return None if expires is None else expires - self._wall()

    def _margin(self) -> timedelta:
        assert self._credential.expires is not None
        return min(RENEW_BEFORE, (self._credential.expires - self._issued_at) / 5)

    def _start_run(self) -> asyncio.Task[None] | None:
        """Return the current run, a new one if one is due, else None."""
        if self._running is not None and not self._running.done():
            return self._running
        if self._clock.time() < self._not_before:
            return None
        self._running = asyncio.create_task(self._run_once())
        return self._running

    async def _renew(self) -> None:
        running = self._start_run()
        if running is not None:
            await asyncio.shield(running)

    async def _run_once(self) -> None:
        try:
            async with asyncio.timeout(RUN_TIMEOUT):
                credential = await self._run()
        except TimeoutError:
            self._failed(ConfigurationError(f"The exec plugin took more than {RUN_TIMEOUT:g} s."))
        except ConfigurationError as error:
            self._failed(error)
        else:
            self._credential = credential
            self._issued_at = self._wall()
            self._failure = None
            self._interval = SHORTEST_INTERVAL
            self._not_before = self._clock.time()

    def _failed(self, error: ConfigurationError) -> None:
        _log.warning("exec plugin failed", error=str(error), retry_in=self._interval)
        self._failure = error
        self._not_before = self._clock.time() + self._interval
        self._interval = min(2 * self._interval, LONGEST_INTERVAL)
