"""KubeRay's flags, by name: how each is read, what it sets, and what has no effect here."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.command.manager.configuration import Configuration, read_configuration
from controller.command.manager.go_flags import parse, truth
from controller.runtime.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from controller.runtime.settings import LogLevel

_LEVELS: Final[Mapping[str, LogLevel]] = {
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "error": "error",
    "panic": "error",
}


def _level(text: str) -> LogLevel:
    if text in _LEVELS:
        return _LEVELS[text]
    if text.isdecimal() and int(text) > 0:
        return "debug"  # verbosity, as logr counts it
    raise ValueError(f"a level is one of {', '.join(_LEVELS)}, or a number above 0")


@dataclass(frozen=True, slots=True)
class _Flag:
    """A flag's parser, the field of `Configuration` that it sets, and a word for the help."""

    read: Callable[[str], object]
    field: str
    help: str


_FLAGS: Final[Mapping[str, _Flag]] = {
    "metrics-addr": _Flag(str, "metrics_addr", "address of /metrics"),
    "health-probe-bind-address": _Flag(str, "probe_addr", "address of /healthz and /readyz"),
    "enable-leader-election": _Flag(
        truth, "enable_leader_election", "write only while this process holds the lease"
    ),
    "leader-election-namespace": _Flag(
        str, "leader_election_namespace", "namespace of the lease; empty for that of the pod"
    ),
    "reconcile-concurrency": _Flag(
        int, "reconcile_concurrency", "concurrent reconciles of each kind, at most 1000"
    ),
    "watch-namespace": _Flag(
        str, "watch_namespace", "namespaces to watch, separated by commas; empty for all"
    ),
    "log-file-path": _Flag(str, "log_file", "a file for the log, besides standard error"),
    "log-file-encoder": _Flag(str, "log_file_encoder", "json or console"),
    "log-stdout-encoder": _Flag(str, "log_stdout_encoder", "json or console"),
    "batch-scheduler": _Flag(str, "batch_scheduler", "not supported: an error if it is given"),
    "enable-batch-scheduler": _Flag(truth, "enable_batch_scheduler", "the same"),
    "use-kubernetes-proxy": _Flag(
        truth, "use_kubernetes_proxy", "reach Ray's dashboards through the API server"
    ),
    "enable-metrics": _Flag(truth, "enable_metrics", "without effect: /metrics has all of them"),
    "qps": _Flag(float, "qps", "requests a second to the API server; no limit if not given"),
    "burst": _Flag(int, "burst", "requests to the API server at once; 200 if only qps is given"),
}
_OTHERS: Final[Mapping[str, Callable[[str], object]]] = {
    "config": Path,
    "feature-gates": str,
    "kubeconfig": str,
    "zap-log-level": _level,
    "grace-period": float,
    "debug-port": int,
    "forced-cluster-upgrade": truth,
    "zap-devel": truth,
    "zap-encoder": str,
    "zap-stacktrace-level": str,
    "zap-time-encoding": str,
    "version": truth,
    "h": truth,
    "help": truth,
}
_WITHOUT_EFFECT: Final = frozenset(
    {
        "enable-metrics",
        "forced-cluster-upgrade",
        "zap-devel",
        "zap-encoder",
        "zap-stacktrace-level",
        "zap-time-encoding",
    }
)


@dataclass(frozen=True, slots=True)
class ManagerOptions:
    """The options of a command line.

    Attributes:
        configuration: configuration from the flags, or from the file that they name.
        feature_gates: feature gates of the flag, which may be combined with a file.
        kubeconfig: path of a kubeconfig; empty for the usual places.
        log_level: lowest severity to log.
        grace_seconds: seconds from the request to stop until the process ends.
        debug_port: port of /debug on the loopback interface, 0 for none.
        without_effect: flags that were given and change nothing.
        wants_help: whether just the help is wanted.
        wants_version: whether just the version is wanted.
    """

    configuration: Configuration
    feature_gates: str = ""
    kubeconfig: str = ""
    log_level: LogLevel = "info"
    grace_seconds: float = Settings().grace_seconds
    debug_port: int = Settings().debug_port
    without_effect: tuple[str, ...] = ()
    wants_help: bool = False
    wants_version: bool = False


def read_options(arguments: Sequence[str]) -> ManagerOptions:
    """Read the command line. A file replaces most flags, as for KubeRay.

    Raises:
        ValueError: a flag or the file is unusable; the message names it.
    """
    known = {name: flag.read for name, flag in _FLAGS.items()} | dict(_OTHERS)
    given = parse(arguments, known)
    fields: dict[str, Any] = {
        _FLAGS[name].field: value for name, value in given.items() if name in _FLAGS
    }
    ignored = [name for name in given if name in _WITHOUT_EFFECT]
    file: Any = given.get("config")
    if file is None:
        configuration = Configuration(**fields)
    else:
        configuration = read_configuration(file)
        encoders = {key: value for key, value in fields.items() if key.endswith("_encoder")}
        configuration = msgspec.structs.replace(configuration, **encoders)
        ignored += [name for name in given if name in _FLAGS and not name.endswith("-encoder")]
    _refuse_unsupported(configuration)
    level: Any = given.get("zap-log-level", "info")
    grace: Any = given.get("grace-period", Settings().grace_seconds)
    debug_port: Any = given.get("debug-port", Settings().debug_port)
    return ManagerOptions(
        configuration,
        str(given.get("feature-gates", "")),
        str(given.get("kubeconfig", "")),
        level,
        grace,
        debug_port,
        tuple(dict.fromkeys(ignored)),
        wants_help=bool(given.get("help") or given.get("h")),
        wants_version=bool(given.get("version")),
    )


def help_text() -> str:
    """Return the flags, one a line."""
    lines = [f"  -{name:<28} {flag.help}" for name, flag in _FLAGS.items()]
    others = ", ".join(f"-{name}" for name in _OTHERS)
    return "\n".join(["The operator with the flags of KubeRay's:", *lines, f"  besides: {others}"])


def _refuse_unsupported(configuration: Configuration) -> None:
    """Refuse batch schedulers: a user who relies on gang scheduling must not lose it silently."""
    scheduler = configuration.batch_scheduler
    if configuration.enable_batch_scheduler and not scheduler:
        scheduler = "volcano"
    if scheduler:
        raise ValueError(
            f"batch scheduler {scheduler!r}: batch schedulers are not supported yet. Take the flag "
            "out if pods may be scheduled one by one; otherwise stay with KubeRay"
        )
    for name in ("log_stdout_encoder", "log_file_encoder"):
        value = getattr(configuration, name)
        if value not in {"json", "console"}:
            raise ValueError(f"-{name.replace('_', '-')}={value}: it is neither json nor console")
