"""Credentials from kubeconfig files: the only module that uses `kubernetes_asyncio`.

The library runs exec plugins. It costs 35 MiB of memory, so it is imported only for a user who has
one, never for a token or a certificate.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import ssl
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import yaml
from msgspec import Struct

from controller.kube.credentials import (
    ClientCertificate,
    Credentials,
    ExecCredential,
    ExecCredentialRefresher,
    InClusterCredentials,
    RotatedFile,
    ServerEndpoint,
    client_context,
)
from controller.kube.errors import ConfigurationError
from informers import Clock

DEFAULT_PATH = Path("~/.kube/config")

_NO_YAML: Final = (yaml.YAMLError, AttributeError, LookupError, RecursionError, ValueError)
"""Errors of the YAML library, for values that do not fit their form too."""


class KubeconfigCredentials:
    """`Credentials` of one context of a kubeconfig, created by `load_kubeconfig`."""

    def __init__(
        self,
        endpoint: ServerEndpoint,
        *,
        authority: bytes,
        verify: bool,
        static: ExecCredential,
        token_file: RotatedFile | None = None,
        plugin: ExecCredentialRefresher | None = None,
        namespace: str = "",
    ) -> None:
        self._endpoint = endpoint
        self._namespace = namespace
        self._authority = authority
        self._verify = verify
        self._static = static
        self._token_file = token_file
        self._plugin = plugin
        self._context: ssl.SSLContext | None = None
        self._context_of: ClientCertificate | None = None

    @property
    def endpoint(self) -> ServerEndpoint:
        """The cluster's server."""
        return self._endpoint

    @property
    def namespace(self) -> str:
        """The namespace of the context."""
        return self._namespace

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return a new context after each change of the plugin's certificate."""
        if not self._endpoint.url.startswith("https:"):
            return None
        given = self._plugin.latest.certificate if self._plugin else None
        certificate = given or self._static.certificate
        if self._context is None or certificate != self._context_of:
            self._context = client_context(
                self._authority, certificate=certificate, verify=self._verify
            )
            self._context_of = certificate
        return self._context

    async def authorization(self) -> str:
        """Return the token of the plugin, the token file or the kubeconfig, in this order."""
        if self._plugin is not None:
            return (await self._plugin.current()).authorization
        if self._token_file is not None:
            return f"Bearer {self._token_file.read().decode().strip()}"
        return self._static.authorization

    async def refresh(self) -> None:
        """Run the plugin again, if there is one."""
        if self._plugin is not None:
            await self._plugin.refresh()

    async def aclose(self) -> None:
        """End a running plugin."""
        if self._plugin is not None:
            await self._plugin.aclose()


async def load_kubeconfig(
    paths: str | None = None,
    context: str | None = None,
    *,
    environment: Mapping[str, str],
    clock: Clock,
    wall: Callable[[], datetime],
) -> KubeconfigCredentials:
    """Read kubeconfig files and return the credentials of one context. No file is written.

    The files are one path, or several separated as in `KUBECONFIG`, else that variable, else
    `~/.kube/config`; if several set a value, the first one wins. Without a `context` the current
    one counts.

    Raises:
        ConfigurationError: no usable credentials; the message names the cause and the remedy.
    """
    files = _existing(paths or environment.get("KUBECONFIG") or str(DEFAULT_PATH))
    chosen = _choose(files, context)
    plugin = None
    if chosen.user.get("exec"):
        plugin = ExecCredentialRefresher(_ExecPlugin(chosen).run, clock=clock, wall=wall)
    credentials = KubeconfigCredentials(
        _endpoint(chosen),
        authority=_content(chosen.cluster, "certificate-authority", chosen.cluster_folder),
        verify=not chosen.cluster.get("insecure-skip-tls-verify"),
        static=_static_credential(chosen),
        token_file=_token_file(chosen),
        plugin=plugin,
        namespace=chosen.namespace,
    )
    if plugin is not None:
        await plugin.start()
    credentials.ssl_context()
    return credentials


class _Choice(Struct, frozen=True):
    """A context with its cluster and user; relative paths start at the folders of their files."""

    context: str
    namespace: str
    cluster: Mapping[str, Any]
    cluster_folder: Path
    user: Mapping[str, Any]
    user_folder: Path


def _existing(paths: str) -> dict[Path, Mapping[str, Any]]:
    """Return the files among `paths` that exist, with their content. Empty files are left out."""
    candidates = [Path(path).expanduser() for path in paths.split(os.pathsep) if path]
    found = {path: _parse(path) for path in candidates if path.exists()}
    if not found:
        raise ConfigurationError(
            f"No kubeconfig found: {', '.join(map(str, candidates))} does not exist. Name a file "
            "with --kubeconfig or KUBECONFIG, or run in a pod."
        )
    return {path: content for path, content in found.items() if content}


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        content = yaml.safe_load(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(
            f"Cannot read the kubeconfig {path}: {error.strerror}. Check its permissions."
        ) from error
    except _NO_YAML as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError(
            f"The kubeconfig {path} is not valid YAML: {reason}. Correct or recreate it."
        ) from error
    if content is not None and not isinstance(content, dict):
        raise ConfigurationError(f"The kubeconfig {path} is not a mapping. Correct or recreate it.")
    parsed = cast("dict[str, Any]", content or {})
    for section in ("clusters", "contexts", "users"):
        _check_entries(path, section, parsed.get(section) or [])
    return parsed


def _check_entries(path: Path, section: str, entries: Any) -> None:
    """Check what the library assumes of each entry."""
    listed = cast("list[Any]", entries if isinstance(entries, list) else [None])
    for entry in listed:
        if not isinstance(entry, dict) or not cast("dict[str, Any]", entry).get("name"):
            raise ConfigurationError(
                f"The kubeconfig {path}: {section} must be a list of mappings, each with a name. "
                "Correct or recreate the file."
            )


def _choose(files: Mapping[Path, Mapping[str, Any]], context: str | None) -> _Choice:
    named = context or next(
        (
            content["current-context"]
            for content in files.values()
            if content.get("current-context")
        ),
        None,
    )
    if not files:
        raise ConfigurationError("The kubeconfig is empty. Recreate it.")
    listing = ", ".join(map(str, files))
    contexts = _Section.merge("contexts", files)
    if named is None:
        raise ConfigurationError(
            f"No current context is set in {listing}. Choose one with --context or "
            f"`kubectl config use-context`; available: {contexts.names()}."
        )
    chosen, _ = contexts.find(named, f"in {listing}")
    whose = f"for context {named!r} in {listing}"
    cluster, cluster_folder = _Section.merge("clusters", files).find(
        chosen.get("cluster", ""), whose
    )
    user: Mapping[str, Any] = {}
    user_folder = cluster_folder
    if chosen.get("user"):
        user, user_folder = _Section.merge("users", files).find(chosen["user"], whose)
    namespace = str(chosen.get("namespace") or "")
    return _Choice(named, namespace, cluster, cluster_folder, user, user_folder)


class _Section(Struct, frozen=True):
    """The entries of one section in all files, by name; the first of several with a name wins."""

    singular: str
    entries: Mapping[str, tuple[Any, Path]]

    @classmethod
    def merge(cls, section: str, files: Mapping[Path, Mapping[str, Any]]) -> _Section:
        singular = section.removesuffix("s")
        entries: dict[str, tuple[Any, Path]] = {}
        for path, content in files.items():
            listed: list[Mapping[str, Any]] = content.get(section) or []
            for entry in listed:
                entries.setdefault(str(entry["name"]), (entry.get(singular), path))
        return cls(singular, entries)

    def names(self) -> str:
        return ", ".join(self.entries) or "none"

    def find(self, name: Any, whose: str) -> tuple[Mapping[str, Any], Path]:
        """Return the content of a named entry and the folder of the file that contains it."""
        if str(name) not in self.entries:
            raise ConfigurationError(
                f"There is no {self.singular} {name!r} {whose}. There are: {self.names()}."
            )
        content, path = self.entries[str(name)]
        if content is not None and not isinstance(content, dict):
            raise ConfigurationError(
                f"The {self.singular} {name!r} {whose} is not a mapping. Correct it."
            )
        return cast("dict[str, Any]", content or {}), path.absolute().parent


def _endpoint(chosen: _Choice) -> ServerEndpoint:
    server = str(chosen.cluster.get("server", "")).rstrip("/")
    if not server.startswith(("https://", "http://")):
        raise ConfigurationError(
            f"The cluster of context {chosen.context!r} has no usable server ({server!r}). It must "
            "begin with https:// or http://."
        )
    proxy = str(chosen.cluster.get("proxy-url") or "")
    if proxy and not proxy.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"The proxy-url {proxy!r} of context {chosen.context!r} is not supported. "
            "Use an HTTP proxy."
        )
    name = str(chosen.cluster.get("tls-server-name") or "")
    return ServerEndpoint(server, proxy, name, context=chosen.context)


def _static_credential(chosen: _Choice) -> ExecCredential:
    """Return what the file itself contains: a token, a password or a certificate."""
    user = chosen.user
    for unsupported in ("as", "as-groups", "as-user-extra", "as-uid"):
        if user.get(unsupported):
            raise ConfigurationError(
                f"The user of context {chosen.context!r} impersonates another one "
                f"({unsupported}), which is not supported. Use that user's own credentials."
            )
    if user.get("auth-provider"):
        raise ConfigurationError(
            f"The user of context {chosen.context!r} has an auth-provider, which kubectl no longer "
            "supports for most clouds either. Use an exec plugin, for OIDC for example kubelogin."
        )
    chain = _content(user, "client-certificate", chosen.user_folder)
    key = _content(user, "client-key", chosen.user_folder)
    if bool(chain) != bool(key):
        raise ConfigurationError(
            f"The user of context {chosen.context!r} has only one of client-certificate and "
            "client-key. Both are needed."
        )
    authorization = ""
    if user.get("token"):
        authorization = f"Bearer {str(user['token']).strip()}"
    elif user.get("username"):
        plain = f"{user['username']}:{user.get('password') or ''}"
        authorization = f"Basic {base64.b64encode(plain.encode()).decode()}"
    return ExecCredential(authorization, ClientCertificate(chain, key) if chain else None)


def _token_file(chosen: _Choice) -> RotatedFile | None:
    path = chosen.user.get("tokenFile")
    return RotatedFile(chosen.user_folder / path, "token file") if path else None


def _content(section: Mapping[str, Any], field: str, folder: Path) -> bytes:
    """Return `<field>-data` or the file that `<field>` names; empty if neither is set."""
    data, path = section.get(f"{field}-data"), section.get(field)
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"{field}-data in the kubeconfig is not base64 ({error}). Recreate the file."
            ) from error
    if path:
        return RotatedFile(folder / path, field).read()
    return b""


class _ExecPlugin:
    """Runs the program of a user's `exec` section."""

    def __init__(self, chosen: _Choice) -> None:
        section: dict[str, Any] = dict(chosen.user["exec"])
        command = str(section.get("command", ""))
        if os.sep in command:
            section["command"] = str(chosen.user_folder / command)
        self._section = section
        self._name = command or "(no command)"

    async def run(self) -> ExecCredential:
        """Run it once. Raises `ConfigurationError`."""
        from kubernetes_asyncio.config.config_exception import (  # noqa: PLC0415  see the docstring above
            ConfigException,
        )
        from kubernetes_asyncio.config.exec_provider import ExecProvider  # noqa: PLC0415  same
        from kubernetes_asyncio.config.kube_config import ConfigNode  # noqa: PLC0415  same

        try:
            status: Any = await ExecProvider(ConfigNode("exec", self._section)).run()
        except FileNotFoundError as error:
            hint = self._section.get("installHint") or "Install it, or correct its path."
            raise ConfigurationError(
                f"The exec plugin {self._name!r} of the kubeconfig is not installed. {hint}"
            ) from error
        except (ConfigException, OSError, ValueError, TypeError, KeyError) as error:
            raise ConfigurationError(
                f"The exec plugin {self._name!r} of the kubeconfig failed: {error}. "
                "Run it by hand to see why; often a login has expired."
            ) from error
        return self._parse(status)

    def _parse(self, status: Any) -> ExecCredential:
        try:
            token, expires = status.get("token"), status.get("expirationTimestamp")
            chain, key = status.get("clientCertificateData"), status.get("clientKeyData")
            credential = ExecCredential(
                f"Bearer {token}" if token else "",
                ClientCertificate(chain.encode(), key.encode()) if chain else None,
                datetime.fromisoformat(expires) if expires else None,
            )
        except (AttributeError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"The exec plugin {self._name!r} returned an unusable result ({error}). Update it."
            ) from error
        if not credential.authorization and credential.certificate is None:
            raise ConfigurationError(
                f"The exec plugin {self._name!r} returned neither a token nor a certificate. "
                "Update it."
            )
        return credential


# Chooses the credentials of a process: a kubeconfig or the pod's service account.


def _utc_now() -> datetime:
    return datetime.now(UTC)


async def load_credentials(
    *,
    kubeconfig: str | None = None,
    context: str | None = None,
    environment: Mapping[str, str] = os.environ,
    wall: Callable[[], datetime] = _utc_now,
) -> Credentials:
    """Find credentials.

    The order is the usual one of operators: the arguments, then `KUBECONFIG`, then the pod's
    service account, then `~/.kube/config`. A `context` implies that a kubeconfig is wanted.

    Raises:
        ConfigurationError: no usable credentials; the message names the cause and the remedy.
    """
    wanted = kubeconfig or context or environment.get("KUBECONFIG")
    if not wanted and environment.get("KUBERNETES_SERVICE_HOST"):
        return InClusterCredentials(environment)
    return await load_kubeconfig(
        kubeconfig,
        context,
        environment=environment,
        clock=asyncio.get_running_loop(),
        wall=wall,
    )
