"""The command `manager`: starts the operator as KubeRay's flags or configuration file say."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog
from msgspec.structs import replace

from controller import __version__
from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_mapping
from controller.command.kinds import KindSettings
from controller.command.output import with_option
from controller.command.process import run_operator
from controller.command.run import log_as, run
from controller.kube.errors import ConfigurationError
from controller.ray.api import FeatureGates
from controller.ray.settings import CERT_MANAGER
from controller.runtime.settings import LogLevel, Settings

# KubeRay's configuration file: `config.ray.io/v1alpha1`, kind `Configuration`.
#
# Fields and defaults are those of the flags; additional fields hold sidecars and defaults of pods.
# Unknown fields are ignored, as KubeRay does; a value of the wrong type is an error.

_KIND: Final = ("config.ray.io/v1alpha1", "Configuration")

_AT: Final = re.compile(r"at `\$\.(\w+)")
"""Where an error of the decoder names the key."""

_LIMITS: Final = YamlLimits(bytes=1 << 20)
"""No ConfigMap can hold more."""


class Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """The operator's settings, from flags or from a file. The names are KubeRay's."""

    qps: float | None = None
    burst: int | None = None
    enable_leader_election: bool = True
    leader_election_namespace: str = ""
    metrics_addr: str = ":8080"
    probe_addr: str = ":8082"
    log_file: str = ""
    log_file_encoder: str = "json"
    log_stdout_encoder: str = "json"
    batch_scheduler: str = ""
    enable_batch_scheduler: bool = False
    mtls_issuer: str = CERT_MANAGER
    watch_namespace: str = ""
    head_sidecar_containers: tuple[dict[str, Any], ...] = ()
    worker_sidecar_containers: tuple[dict[str, Any], ...] = ()
    default_container_envs: tuple[dict[str, Any], ...] = ()
    default_pod_annotations: dict[str, str] = {}
    default_pod_labels: dict[str, str] = {}
    reconcile_concurrency: int = 1
    use_kubernetes_proxy: bool = False
    enable_metrics: bool = False


def read_configuration(path: Path) -> Configuration:
    """Return the configuration in a file.

    Raises:
        ValueError: it cannot be read; the message names the file and, where known, the field.
    """
    try:
        text = path.read_text()
        found = read_yaml_mapping(text, _LIMITS)
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from error
    except InvalidYaml as error:
        raise ValueError(f"the configuration in {path} {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    if (found.get("apiVersion"), found.get("kind")) != _KIND:
        raise ValueError(f"{path}: apiVersion and kind must be {' and '.join(_KIND)}")
    given = {key: value for key, value in found.items() if value is not None}
    try:
        return msgspec.convert(given, Configuration)
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}{_place(text, str(error))}: {error}") from error


def _place(text: str, error: str) -> str:
    """Return line and key of the value that an error is about; empty if they are not known."""
    at = _AT.search(error)
    if at is None:
        return ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.partition(":")[0].strip(" \"'") == at[1]:
            return f", line {number}, {at[1]}"
    return ""


# Command lines as Go's `flag` package reads them.
#
# One dash or two, `-flag=value` or `-flag value`; a boolean flag takes a value only after `=`.
# Reading ends at `--` or the first word that is not a flag. Only empty words may follow: KubeRay's
# chart adds one if no feature gate is set.

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def truth(text: str) -> bool:
    """Parse a boolean as `strconv.ParseBool` does. Raises `ValueError` for anything else."""
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError("neither true nor false")


def parse(
    arguments: Sequence[str], flags: Mapping[str, Callable[[str], object]]
) -> dict[str, object]:
    """Return the values of the given flags by name; of a repeated flag the last one counts.

    `flags` reads the value of each; `truth` makes it a boolean one.

    Raises:
        ValueError: a flag does not exist, lacks its value or cannot be read; the message names it.
    """
    found: dict[str, object] = {}
    words = list(arguments)
    while words:
        word = words.pop(0)
        if not word.startswith("-") or word in {"-", "--"}:
            if word != "--":
                words.insert(0, word)
            break
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if name not in flags:
            raise ValueError(f"-{name}: there is no such flag; see -help")
        if not equals:
            value = _next_value(name, words, boolean=flags[name] is truth)
        try:
            found[name] = flags[name](value)
        except ValueError as error:
            raise ValueError(f"-{name}={value}: {error}") from error
    if left := next(filter(None, words), ""):
        raise ValueError(f"{left!r} is not a flag; see -help")
    return found


def _next_value(name: str, words: list[str], *, boolean: bool) -> str:
    if boolean:
        return "true"
    if not words:
        raise ValueError(f"-{name}: a value is missing")
    return words.pop(0)


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


class _Flag(msgspec.Struct, frozen=True):
    """A flag's parser, a word for the help, and the field that it sets if that has another name."""

    read: Callable[[str], object]
    help: str = ""
    field: str = ""


_FLAGS: Final[Mapping[str, _Flag]] = {
    "metrics-addr": _Flag(str, "address of /metrics"),
    "health-probe-bind-address": _Flag(str, "address of /healthz and /readyz", "probe_addr"),
    "enable-leader-election": _Flag(truth, "write only while this process holds the lease"),
    "leader-election-namespace": _Flag(str, "namespace of the lease; empty for that of the pod"),
    "reconcile-concurrency": _Flag(int, "concurrent reconciles of each kind, at most 1000"),
    "watch-namespace": _Flag(str, "namespaces to watch, separated by commas; empty for all"),
    "log-file-path": _Flag(str, "a file for the log, besides standard error", "log_file"),
    "log-file-encoder": _Flag(str, "json or console"),
    "log-stdout-encoder": _Flag(str, "json or console"),
    "batch-scheduler": _Flag(
        str, "scheduler of all pods: volcano, yunikorn, kai-scheduler or scheduler-plugins"
    ),
    "enable-batch-scheduler": _Flag(truth, "deprecated: volcano"),
    "mtls-issuer": _Flag(
        str, "who issues certificates of clusters with mTLS: cert-manager or manta"
    ),
    "use-kubernetes-proxy": _Flag(truth, "reach Ray's dashboards through the API server"),
    "enable-metrics": _Flag(truth, "without effect: /metrics has all of them"),
    "qps": _Flag(float, "requests a second to the API server; no limit if not given"),
    "burst": _Flag(int, "requests to the API server at once; 200 if only qps is given"),
}
"""Flags that set fields of `Configuration`."""

_OTHERS: Final[Mapping[str, _Flag]] = {
    "config": _Flag(Path),
    "feature-gates": _Flag(str),
    "kubeconfig": _Flag(str),
    "zap-log-level": _Flag(_level, field="log_level"),
    "grace-period": _Flag(float, field="grace_seconds"),
    "debug-port": _Flag(int),
    "page-port": _Flag(int),
    "forced-cluster-upgrade": _Flag(truth),
    "zap-devel": _Flag(truth),
    "zap-encoder": _Flag(str),
    "zap-stacktrace-level": _Flag(str),
    "zap-time-encoding": _Flag(str),
    "version": _Flag(truth, field="wants_version"),
    "h": _Flag(truth, field="wants_help"),
    "help": _Flag(truth, field="wants_help"),
}
"""Flags that set fields of `ManagerOptions`."""

_WITHOUT_EFFECT: Final = (
    "forced-cluster-upgrade", "zap-devel", "zap-encoder", "zap-stacktrace-level",
    "zap-time-encoding",
)  # fmt: skip


class ManagerOptions(msgspec.Struct, frozen=True):
    """The options of a command line, with the configuration from flags or the file that they name.

    `without_effect` are flags that were given and change nothing.
    """

    configuration: Configuration
    without_effect: tuple[str, ...] = ()
    feature_gates: str = ""
    kubeconfig: str = ""
    log_level: LogLevel = "info"
    grace_seconds: float = Settings().grace_seconds
    debug_port: int = Settings().debug_port
    page_port: int = Settings().page_port
    wants_help: bool = False
    wants_version: bool = False


def read_options(arguments: Sequence[str]) -> ManagerOptions:
    """Read the command line. A file replaces most flags, as for KubeRay.

    Raises:
        ValueError: a flag or the file is unusable; the message names it.
    """
    given = parse(arguments, {name: flag.read for name, flag in (_FLAGS | _OTHERS).items()})
    ignored = [name for name in given if name in {*_WITHOUT_EFFECT, "enable-metrics"}]
    fields, others = _fields(given, _FLAGS), _fields(given, _OTHERS, without=_WITHOUT_EFFECT)
    file: Path | None = others.pop("config", None)
    if file is None:
        configuration = Configuration(**fields)
    else:
        configuration = read_configuration(file)
        encoders = {key: value for key, value in fields.items() if key.endswith("_encoder")}
        configuration = msgspec.structs.replace(configuration, **encoders)
        ignored += [name for name in given if name in _FLAGS and not name.endswith("-encoder")]
    _refuse_unsupported(configuration)
    return ManagerOptions(configuration, tuple(dict.fromkeys(ignored)), **others)


def _fields(
    given: Mapping[str, object], flags: Mapping[str, _Flag], without: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the given values of these flags by the fields that they set."""
    return {
        flags[name].field or name.replace("-", "_"): value
        for name, value in given.items()
        if name in flags and name not in without
    }


def help_text() -> str:
    """Return the flags, one a line."""
    lines = [f"  -{name:<28} {flag.help}" for name, flag in _FLAGS.items()]
    others = ", ".join(f"-{name}" for name in _OTHERS)
    return "\n".join(["The operator with the flags of KubeRay's:", *lines, f"  besides: {others}"])


def _refuse_unsupported(configuration: Configuration) -> None:
    """Refuse formats of the log that do not exist."""
    for name in ("log_stdout_encoder", "log_file_encoder"):
        value = getattr(configuration, name)
        if value not in {"json", "console"}:
            raise ValueError(f"-{name.replace('_', '-')}={value}: it is neither json nor console")


_OPTIONS: Final = {
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
        raise ValueError(with_option(error, _OPTIONS)) from error


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
    ray = replace(
        settings.ray,
        head_sidecars=said.head_sidecar_containers,
        worker_sidecars=said.worker_sidecar_containers,
        container_env=said.default_container_envs,
        pod_annotations=said.default_pod_annotations,
        pod_labels=said.default_pod_labels,
    )
    return replace(settings, ray=ray)


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
