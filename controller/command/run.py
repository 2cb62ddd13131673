"""`manta run`, and operators of other kinds: against a kubeconfig or, in a pod, its own cluster.

One process of several works. The lease is that of KubeRay's operator, so that the two never run
side by side in one namespace.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import socket
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog
from prometheus_client import CollectorRegistry

import controller
from controller.command.connection import connected, with_remedy
from controller.command.kinds import KindSettings, kinds_of
from controller.command.operator import WebhookSettings, assembled, connect, operator_for
from controller.command.process import (
    identity,
    shift_level_on_signals,
    stop_on_signals,
    wall,
)
from controller.kube.credentials import SERVICE_ACCOUNT, Credentials, InClusterCredentials
from controller.kube.errors import ConfigurationError, KubeError
from controller.kube.http import HttpTransport, limit_read_buffers
from controller.kube.kubeconfig import load_credentials
from controller.ray.api import FeatureGates
from controller.ray.api.feature_gates import SIDECAR_SUBMITTER_RESTART
from controller.runtime.election import AlwaysLeader, ThreadedElection, awake_or_not
from controller.runtime.elector import ElectionMetrics, Elector, LeaseLock, election_client
from controller.runtime.kind import Kind
from controller.runtime.settings import ElectionTiming, Settings, configure_logging

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
    """Return the election of this process, with connections of its own."""
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


# `manta run --check`, and the requirements of the API server that are checked at every start.

_CHECK_USER_AGENT = f"manta-check/{controller.__version__}"

_NEEDS: Final = f"the feature gate {SIDECAR_SUBMITTER_RESTART} needs Kubernetes 1.35"
_WITH_RESTART_POLICIES: Final = (1, 35)
_VERSION: Final = re.compile(r"v(\d+)\.(\d+)")


async def check(gates: FeatureGates, *, kubeconfig: str | None, context: str | None) -> int:
    """Print whether the operator could start here; returns the exit status.

    Raises:
        ConfigurationError: no usable credentials.
    """
    try:
        version = await _server_version(kubeconfig, context)
        problem = _version_problem(version, gates)
    except KubeError as error:
        version, problem = "", with_remedy(error)
    if problem:
        sys.stderr.write(f"manta: the operator could not start here: {problem}\n")
        return 1
    sys.stdout.write(f"manta {controller.__version__} can start; the API server is {version}\n")
    return 0


async def require_version(
    gates: FeatureGates, *, kubeconfig: str | None, context: str | None
) -> None:
    """Check that the API server is recent enough for the feature gates, as KubeRay does.

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
    opened = connected(_CHECK_USER_AGENT, kubeconfig=kubeconfig, context=context)
    async with opened as (client, _):
        version: dict[str, Any] = await client.request_json("GET", "/version")
    return str(version.get("gitVersion", "of unknown version"))


USER_AGENT = f"manta-operator/{controller.__version__}"

_log = structlog.stdlib.get_logger("manta.operator")


async def run(
    settings: Settings,
    *,
    kind_settings: KindSettings,
    use_proxy: bool | None,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Run the operator until a signal; returns the exit status.

    `use_proxy` reaches Ray's dashboards through the API server; None does so outside a cluster.
    Without a kubeconfig that of `KUBECONFIG` is used, then a pod's service account, then
    `~/.kube/config`.

    Raises:
        ConfigurationError: no usable credentials, the log file cannot be written, or the API server
            is too old for a feature gate.
    """
    stop = _begin(settings)
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    announce(credentials, settings, kind_settings)
    gates = kind_settings.ray.feature_gates
    await require_version(gates, kubeconfig=kubeconfig, context=context)
    outside = is_outside(credentials)
    webhook = WebhookSettings.from_environment(os.environ)
    elect, lease_in = None, ""
    if settings.leader_election:
        lease_in = lease_namespace(settings.leader_election_namespace)
        elect = partial(
            elected,
            namespace=lease_in,
            user_agent=USER_AGENT,
            kubeconfig=kubeconfig,
            context=context,
        )
    async with operator_for(
        credentials,
        settings,
        user_agent=USER_AGENT,
        kind_settings=kind_settings,
        use_proxy=outside if use_proxy is None else use_proxy,
        own_pod="" if outside else socket.gethostname(),
        elect=elect,
        lease_in=lease_in,
        webhook=webhook,
    ) as operator:
        return await operator.run(stop)


def _begin(settings: Settings) -> asyncio.Event:
    """Set up log, connections and signals; returns what a signal sets."""
    log_as(settings)
    limit_read_buffers()
    shift_level_on_signals()
    return stop_on_signals()


def announce(credentials: Credentials, settings: Settings, kind_settings: KindSettings) -> None:
    """Log what runs where, before anything else: the first line of every run."""
    gates = kind_settings.ray.feature_gates.chosen
    _log.info(
        "operator.starting",
        version=controller.__version__,
        server=credentials.endpoint.host,
        context=credentials.endpoint.context or None,
        namespaces=list(settings.namespaces) or "all",
        kinds=[kind.name for kind in kinds_of(kind_settings, None)],
        feature_gates=dict(gates),
    )


def log_as(settings: Settings) -> None:
    """Log from now on as the settings say.

    Raises:
        ConfigurationError: the log file cannot be written.
    """
    try:
        configure_logging(
            level=settings.log_level,
            format=settings.log_format,
            file=settings.log_file,
            file_format=settings.log_file_format,
        )
    except OSError as error:
        raise ConfigurationError(f"the log file cannot be written: {error}") from error


def is_outside(credentials: Credentials) -> bool:
    """Return whether this process runs outside the cluster, where service names do not resolve."""
    return not isinstance(credentials, InClusterCredentials)


async def run_kinds(
    kinds: Sequence[Kind[Any]], settings: Settings, kubeconfig: str | None, context: str | None
) -> int:
    """Run an operator of kinds of somebody else's; returns the exit status."""
    stop, name, registry = _begin(settings), kinds[0].name, CollectorRegistry()
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    election = AlwaysLeader()
    if settings.leader_election:
        election = elected(
            registry,
            namespace=lease_namespace(settings.leader_election_namespace),
            user_agent=name,
            kubeconfig=kubeconfig,
            context=context,
            name=name,
        )
    transport, client = connect(
        credentials, settings, user_agent=name, election=election, registry=registry
    )
    operator = assembled(client, kinds, settings, election, registry)
    try:
        return await operator.run(stop)
    finally:
        await transport.aclose()
