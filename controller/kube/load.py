"""Chooses the credentials of a process: a kubeconfig or the pod's service account."""

from __future__ import annotations

import asyncio
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from controller.kube.credentials import InClusterCredentials
from controller.kube.kubeconfig import load_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controller.kube.credentials import Credentials


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
    service account, then `~/.kube/config`.

    Args:
        kubeconfig: path or paths of kubeconfig files.
        context: a context of the kubeconfig; a value implies that a kubeconfig is wanted.
        environment: environment variables, read at the time of the call.
        wall: the current time in UTC, compared with the expiry of tokens.

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
