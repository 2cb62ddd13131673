"""The election of `manta run`: one process of several works.

The lease is that of KubeRay's operator, so that the two never run side by side in one namespace.
"""

from __future__ import annotations

import asyncio
import os
import random
import socket
import uuid
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from controller.command.process import wall
from controller.kube.credentials import SERVICE_ACCOUNT
from controller.kube.errors import ConfigurationError
from controller.kube.http import HttpTransport
from controller.kube.kubeconfig import load_credentials
from controller.runtime.election import ThreadedElection, awake_or_not
from controller.runtime.elector import Elector
from controller.runtime.lease import ElectionMetrics, ElectionTiming, LeaseLock, election_client

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from prometheus_client import CollectorRegistry

LEASE_NAME: Final = "ray-operator-leader"

_TIMING: Final = ElectionTiming()


def lease_namespace(asked: str, folder: Path = SERVICE_ACCOUNT) -> str:
    """Return the namespace of the lease: the one asked for, or that of this process's pod.

    Raises:
        ConfigurationError: none is given, and this process does not run in a pod.
    """
    if asked:
        return asked
    try:
        return (folder / "namespace").read_text().strip()
    except OSError as error:
        raise ConfigurationError(
            "leader election needs the namespace of its lease, since this process does not run in "
            "a pod: name it with --leader-election-namespace, or turn the election off with "
            "--enable-leader-election=false"
        ) from error


def elected(
    registry: CollectorRegistry,
    *,
    namespace: str,
    user_agent: str,
    kubeconfig: str | None,
    context: str | None,
    name: str = LEASE_NAME,
) -> ThreadedElection:
    """Return the election of this process, with connections of its own.

    Args:
        registry: where its metrics are registered.
        namespace: namespace of the lease.
        user_agent: sent with each request.
        kubeconfig: as for `load_credentials`.
        context: as for `load_credentials`.
        name: name of the lease.
    """
    metrics = ElectionMetrics(registry, name)

    @asynccontextmanager
    async def candidate() -> AsyncGenerator[Elector]:
        credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
        transport = HttpTransport(credentials, user_agent=user_agent)
        client = election_client(
            transport, _TIMING, user_agent=user_agent, clock=asyncio.get_running_loop()
        )
        try:
            yield Elector(
                LeaseLock(client, namespace, name),
                identity(),
                _TIMING,
                now=awake_or_not,
                wall=wall,
                rng=random.Random(),
                metrics=metrics,
            )
        finally:
            await transport.aclose()

    return ThreadedElection(candidate)


def identity() -> str:
    """Return a name that no other process has, nor a container that is started again."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4()}"
