"""Starts the operator as KubeRay's flags or configuration file say."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from controller import __version__
from controller.command.kinds import KindSettings
from controller.command.manager.flags import help_text, read_options
from controller.command.option_names import with_option
from controller.command.process import run_operator
from controller.command.run.run import log_as, run
from controller.kube.errors import ConfigurationError
from controller.ray.api import FeatureGates
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.command.manager.flags import ManagerOptions

_FLAGS: Final = {
    "burst": "-burst",
    "debug_port": "-debug-port",
    "health_address": "-health-probe-bind-address",
    "metrics_address": "-metrics-addr",
    "page_port": "-page-port",
    "namespaces": "-watch-namespace",
    "qps": "-qps",
    "workers": "-reconcile-concurrency",
}
"""Flags by the settings that they set."""

_log = structlog.stdlib.get_logger("manta.manager")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the operator; returns the exit status: 0 a clean stop, 1 failed, 2 unusable input."""
    try:
        options = read_options(sys.argv[1:] if arguments is None else arguments)
        if options.wants_help or options.wants_version:
            text = help_text() if options.wants_help else f"manta {__version__}"
            sys.stdout.write(f"{text}\n")
            return 0
        settings, kind_settings = settings_of(options), kind_settings_of(options)
        return run_operator(_run(options, settings, kind_settings))
    except (ValueError, ConfigurationError) as error:
        sys.stderr.write(f"manager: {error}\n")
        return 2


def settings_of(options: ManagerOptions) -> Settings:
    """Return the settings of the runtime.

    Raises:
        ValueError: one of them is unusable.
    """
    said = options.configuration
    usual = Settings()
    try:
        return Settings(
            namespaces=tuple(name for name in said.watch_namespace.split(",") if name),
            workers=said.reconcile_concurrency,
            metrics_address=said.metrics_addr,
            health_address=said.probe_addr,
            debug_port=options.debug_port,
            page_port=options.page_port,
            leader_election=said.enable_leader_election,
            leader_election_namespace=said.leader_election_namespace,
            qps=None if said.qps is None or said.qps < 0 else said.qps,  # as for client-go
            burst=usual.burst if said.burst is None else said.burst,
            grace_seconds=options.grace_seconds,
            log_level=options.log_level,
            log_format="json" if said.log_stdout_encoder == "json" else "console",
            log_file=said.log_file,
            log_file_format="json" if said.log_file_encoder == "json" else "console",
        )
    except ValueError as error:
        raise ValueError(with_option(error, _FLAGS)) from error


def kind_settings_of(options: ManagerOptions) -> KindSettings:
    """Return the settings of the kinds: KubeRay's variables, and what the file adds to pods.

    Raises:
        ValueError: a feature gate or a batch scheduler does not exist, or two are chosen.
    """
    try:
        gates = FeatureGates.parse(options.feature_gates)
    except ValueError as error:
        raise ValueError(f"-feature-gates: {error}") from error
    said = options.configuration
    settings = KindSettings.from_environment(
        gates,
        batch_scheduler=said.batch_scheduler,
        legacy_batch_scheduler=said.enable_batch_scheduler,
        mtls_issuer=said.mtls_issuer,
    )
    cluster = replace(
        settings.cluster,
        head_sidecars=said.head_sidecar_containers,
        worker_sidecars=said.worker_sidecar_containers,
        container_env=said.default_container_envs,
        pod_annotations=said.default_pod_annotations,
        pod_labels=said.default_pod_labels,
    )
    return replace(settings, cluster=cluster)


async def _run(options: ManagerOptions, settings: Settings, kind_settings: KindSettings) -> int:
    log_as(settings)
    for name in options.without_effect:
        _log.warning("flag.without_effect", flag=name)
    return await run(
        settings,
        kind_settings=kind_settings,
        use_proxy=options.configuration.use_kubernetes_proxy or None,
        kubeconfig=options.kubeconfig or None,
        context=None,
    )


if __name__ == "__main__":
    sys.exit(main())
