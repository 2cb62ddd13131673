"""`manta run --check`, and the requirements of the API server that are checked at every start."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, Any, Final

import controller
from controller.command.remedies import with_remedy
from controller.kube.authentication.load import load_credentials
from controller.kube.client import Client
from controller.kube.errors import ConfigurationError, KubeError
from controller.kube.http import HttpTransport
from controller.ray.api.feature_gates import SIDECAR_SUBMITTER_RESTART

if TYPE_CHECKING:
    from controller.ray.api import FeatureGates

USER_AGENT = f"manta-check/{controller.__version__}"

_NEEDS: Final = f"the feature gate {SIDECAR_SUBMITTER_RESTART} needs Kubernetes 1.35"
_WITH_RESTART_POLICIES: Final = (1, 35)
_VERSION: Final = re.compile(r"v(\d+)\.(\d+)")


async def check(gates: FeatureGates, *, kubeconfig: str | None, context: str | None) -> int:
    """Print whether the operator could start here; returns the exit status.

    Args:
        gates: feature gates that it would have.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.

    Raises:
        ConfigurationError: no usable credentials.
    """
    try:
        version = await _server_version(kubeconfig, context)
    except KubeError as error:
        sys.stderr.write(f"manta: the operator could not start here: {with_remedy(error)}\n")
        return 1
    if problem := _version_problem(version, gates):
        sys.stderr.write(f"manta: the operator could not start here: {problem}\n")
        return 1
    sys.stdout.write(f"manta {controller.__version__} can start; the API server is {version}\n")
    return 0


async def require_version(
    gates: FeatureGates, *, kubeconfig: str | None, context: str | None
) -> None:
    """Check that the API server is recent enough for the feature gates, as KubeRay does.

    Args:
        gates: feature gates of the operator.
        kubeconfig: see `manta run`.
        context: kubeconfig context, None for the current one.

    Raises:
        ConfigurationError: the server is too old, or its version is unknown.
    """
    if not gates.enabled(SIDECAR_SUBMITTER_RESTART):
        return
    try:
        version = await _server_version(kubeconfig, context)
    except KubeError as error:
        raise ConfigurationError(
            f"{_NEEDS}, and the version of the server cannot be read: {with_remedy(error)}"
        ) from error
    if problem := _version_problem(version, gates):
        raise ConfigurationError(problem)


def _version_problem(version: str, gates: FeatureGates) -> str:
    """Return which gate needs a later server, empty if none does.

    Kubernetes 1.34 drops the restart policy of a container unless one of its own gates is on, and
    a submitter that fails would not be started again.
    """
    found = _VERSION.match(version)
    recent = found is not None and tuple(map(int, found.groups())) >= _WITH_RESTART_POLICIES
    if recent or not gates.enabled(SIDECAR_SUBMITTER_RESTART):
        return ""
    return f"{_NEEDS}, and this server is {version}; upgrade it, or turn the gate off"


async def _server_version(kubeconfig: str | None, context: str | None) -> str:
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    transport = HttpTransport(credentials, user_agent=USER_AGENT)
    client = Client(transport, user_agent=USER_AGENT, clock=asyncio.get_running_loop())
    try:
        version: dict[str, Any] = await client.request_json("GET", "/version")
    finally:
        await transport.aclose()
    return str(version.get("gitVersion", "of unknown version"))
