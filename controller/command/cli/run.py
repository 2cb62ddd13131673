"""The arguments of `manta run`, and of operators of other kinds."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any, Final

from controller.command.cli.arguments import (
    Commands,
    add_kind_settings,
    add_kubeconfig,
    add_log_level,
    feature_gates,
    kind_settings,
)
from controller.command.output import with_option
from controller.kube.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from controller.runtime.kind import Kind
    from controller.runtime.settings import Settings

_SETTINGS: Final = {
    "workers": (
        "--workers --reconcile-concurrency",
        "NUMBER",
        "concurrent reconciles of each kind, apart from those whose requests hang",
    ),
    "metrics_address": (
        "--metrics-address --metrics-addr",
        "HOST:PORT",
        "address of /metrics; 0 turns it off",
    ),
    "health_address": (
        "--health-address --health-probe-bind-address",
        "HOST:PORT",
        "address of /healthz, /livez and /readyz; 0 turns them off",
    ),
    "debug_port": (
        "--debug-port",
        "PORT",
        "port of /debug on the loopback interface (default: off)",
    ),
    "page_port": (
        "--page-port",
        "PORT",
        "port of the web page on the loopback interface (default: off)",
    ),
    "grace_seconds": (
        "--grace-period",
        "SECONDS",
        "seconds that running reconciles get after SIGTERM",
    ),
    "sync_timeout_seconds": (
        "--sync-timeout",
        "SECONDS",
        "seconds after which caches that cannot be filled end the process",
    ),
}
"""The options of settings that are numbers or text: their names, what they take, and the help."""
_OPTIONS: Final = {
    "namespaces": "--namespace",
    **{setting: names.partition(" ")[0] for setting, (names, _, _) in _SETTINGS.items()},
}
"""Options by the settings that they set."""


class _WithDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Prints defaults, except where the help describes what an absent option means."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default:
            return super()._get_help_string(action)
        return action.help


def add(commands: Commands) -> None:
    """Add `manta run`."""
    run = commands.add_parser(
        "run",
        help="run the operator against a cluster",
        description="Run the operator. Inside a pod it uses the pod's service account, elsewhere "
        "a kubeconfig.",
    )
    add_operator_options(run)
    run.add_argument(
        "--use-kubernetes-proxy",
        type=_truth,
        nargs="?",
        const=True,
        metavar="BOOL",
        help="reach Ray's dashboards through the API server's proxy (default: only outside a pod)",
    )
    run.add_argument(
        "--check", action="store_true", help="print whether the API server can be reached, and exit"
    )
    add_kind_settings(run)
    run.set_defaults(start=_start)


def add_operator_options(run: argparse.ArgumentParser) -> None:
    """Add the options that any operator has, whatever its kinds."""
    from controller.runtime.settings import Settings  # noqa: PLC0415  keeps `manta --help` quick

    run.formatter_class = _WithDefaults
    add_kubeconfig(run)
    run.add_argument(
        "--namespace",
        "--watch-namespace",
        dest="namespaces",
        type=lambda text: tuple(name for name in text.split(",") if name),
        default=(),
        metavar="NAME,...",
        help="namespaces to watch, separated by commas (default: all)",
    )
    for setting, (names, metavar, text) in _SETTINGS.items():
        default: str | int | float = getattr(Settings(), setting)
        run.add_argument(
            *names.split(),
            dest=setting,
            type=type(default),
            default=default,
            metavar=metavar,
            help=text,
        )
    run.add_argument(
        "--enable-leader-election",
        dest="leader_election",
        type=_truth,
        nargs="?",
        const=True,
        metavar="BOOL",
        help="write only while this process holds the lease, and stand by until then (default: "
        "only in a pod)",
    )
    run.add_argument(
        "--leader-election-namespace",
        default="",
        metavar="NAMESPACE",
        help="namespace of the lease (default: that of the pod)",
    )
    add_log_level(run)
    run.add_argument(
        "--log-format",
        choices=["auto", "console", "json"],
        default="auto",
        help="format of the log; auto is console on a terminal and json elsewhere",
    )


def _start(options: argparse.Namespace) -> int:
    from controller.command.process import run_operator  # noqa: PLC0415  only what it needs
    from controller.command.run import run  # noqa: PLC0415

    if options.check:
        from controller.command.run import check  # noqa: PLC0415

        gates = feature_gates(options)
        return asyncio.run(check(gates, kubeconfig=options.kubeconfig, context=options.context))
    try:
        settings = settings_of(options)
    except ValueError as error:
        raise ConfigurationError(with_option(error, _OPTIONS)) from error
    return run_operator(
        run(
            settings,
            kind_settings=kind_settings(options),
            use_proxy=options.use_kubernetes_proxy,
            kubeconfig=options.kubeconfig,
            context=options.context,
        )
    )


def settings_of(options: argparse.Namespace) -> Settings:
    """Return the settings that the arguments name.

    Raises:
        ValueError: one of them is unusable.
    """
    from controller.runtime.settings import Settings  # noqa: PLC0415

    fields = Settings.__struct_fields__
    given = {key: value for key, value in vars(options).items() if key in fields}
    if options.leader_election is None:  # a person at a keyboard starts one process
        from_file = options.kubeconfig or options.context or os.environ.get("KUBECONFIG")
        in_pod = not from_file and bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
        given["leader_election"] = in_pod
    return Settings(**given)


def _truth(text: str) -> bool:
    """Read the words that KubeRay's flags accept."""
    if text.lower() in {"1", "t", "true"}:
        return True
    if text.lower() in {"0", "f", "false"}:
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def run_kinds(kinds: Sequence[Kind[Any]], arguments: Sequence[str] | None = None) -> int:
    """Run an operator of these kinds until a signal; returns the exit status.

    The kubeconfig, or the pod's service account, and everything else is chosen by the options of
    `manta run`; `--help` lists them. In a pod one process of several works, elected by a lease that
    has the name of the first kind. Without arguments the command line is this process's own.
    """
    from controller.command import run  # noqa: PLC0415
    from controller.command.process import run_operator  # noqa: PLC0415

    parser = argparse.ArgumentParser(description=f"Run {', '.join(each.name for each in kinds)}.")
    add_operator_options(parser)
    options = parser.parse_args(arguments)
    try:
        settings = settings_of(options)
        return run_operator(run.run_kinds(kinds, settings, options.kubeconfig, options.context))
    except (ValueError, ConfigurationError) as error:
        sys.stderr.write(f"{parser.prog}: {error}\n")
        return 2
