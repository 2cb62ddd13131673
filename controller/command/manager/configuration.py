"""KubeRay's configuration file: `config.ray.io/v1alpha1`, kind `Configuration`.

Fields and defaults are those of the flags; additional fields hold sidecars and defaults of pods.
Unknown fields are ignored, as KubeRay does; a value of the wrong type is an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from controller.apimachinery.user_yaml import InvalidYaml, YamlLimits, read_yaml_mapping

if TYPE_CHECKING:
    from pathlib import Path

_KIND: Final = ("config.ray.io/v1alpha1", "Configuration")

_LIMITS: Final = YamlLimits(bytes=1 << 20)
"""No ConfigMap can hold more."""


class Configuration(msgspec.Struct, frozen=True, rename="camel"):
    """The operator's settings, from flags or from a file. The names are KubeRay's.

    Attributes:
        qps: maximum requests a second to the API server; None for no limit.
        burst: requests that may be sent at once; None for no limit.
    """

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
        found = read_yaml_mapping(path.read_text(), _LIMITS)
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
        raise ValueError(f"{path}: {error}") from error
