"""`manta run`: the operator against a kubeconfig or, in a pod, against its own cluster."""

from __future__ import annotations

import socket
from functools import partial
from typing import TYPE_CHECKING

import structlog

import controller
from controller.command.kinds import kinds_of
from controller.command.run.check import require_version
from controller.command.run.election import elected, lease_namespace
from controller.command.run.operator import operator_for
from controller.command.signals import shift_level_on_signals, stop_on_signals
from controller.kube.authentication.incluster import InClusterCredentials
from controller.kube.authentication.load import load_credentials
from controller.kube.errors import ConfigurationError
from controller.kube.http import limit_read_buffers
from controller.runtime.logs import configure_logging

if TYPE_CHECKING:
    from controller.command.kinds import KindSettings
    from controller.kube.authentication.credentials import Credentials
    from controller.runtime.settings import Settings

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

    Args:
        settings: everything that can be set, already validated.
        kind_settings: settings of the kinds.
        use_proxy: whether Ray's dashboards are reached through the API server; None decides by
            whether this process runs in a pod of the cluster.
        kubeconfig: path or colon-separated paths; None means `KUBECONFIG`, then a pod's service
            account, then `~/.kube/config`.
        context: kubeconfig context, None for the current one.

    Raises:
        ConfigurationError: no usable credentials, the log file cannot be written, or the API server
            is too old for a feature gate.
    """
    log_as(settings)
    limit_read_buffers()
    shift_level_on_signals()
    stop = stop_on_signals()
    credentials = await load_credentials(kubeconfig=kubeconfig, context=context)
    announce(credentials, settings, kind_settings)
    gates = kind_settings.cluster.feature_gates
    await require_version(gates, kubeconfig=kubeconfig, context=context)
    outside = is_outside(credentials)
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
    ) as operator:
        return await operator.run(stop)


def announce(credentials: Credentials, settings: Settings, kind_settings: KindSettings) -> None:
    """Log what runs where, before anything else: the first line of every run."""
    gates = kind_settings.cluster.feature_gates.chosen
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
