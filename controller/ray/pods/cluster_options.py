"""Options of the whole cluster with which a pod is made, besides the template of its group.

Each pod carries them, so that a pod that was made before such an option changed is recognised. A
change of them replaces no pod but under `Recreate`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping
from controller.ray.api.token import token_secret_name
from controller.ray.pods.features.fault_tolerance import EmbeddedStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.pods.features.fault_tolerance import StateStorage
    from controller.ray.pods.start_command import Role

_READ_LIVE: Final = frozenset({"idleTimeoutSeconds", "upscalingMode"})
"""Options of the autoscaler that it reads from the RayCluster each time, and not from its pod."""


def options_of(
    role: Role,
    cluster_name: str,
    raw_spec: Mapping[str, Any],
    spec: ClusterSpec,
    storage: StateStorage | None,
) -> dict[str, Any]:
    """Return the options that a pod is made with; those that are not set are left out.

    Args:
        role: of the pod; a worker depends on fewer options.
        cluster_name: from which the name of the token's Secret follows.
        raw_spec: the specification as in the manifest.
        spec: the same, parsed.
        storage: of the GCS, from the specification or from annotations.
    """
    options: dict[str, Any] = {}
    auth = spec.auth_options
    if auth is not None and auth.by_token:
        options["authOptions"] = auth.by_kubernetes or token_secret_name(cluster_name, auth)
    if storage is not None:
        options["gcsFaultToleranceOptions"] = role == "head" and _kept_in(storage, raw_spec)
    if spec.autoscaling and role == "head":
        given = mapping(raw_spec.get("autoscalerOptions"))
        options["autoscalerOptions"] = {k: v for k, v in given.items() if k not in _READ_LIVE}
        options["enableInTreeAutoscaling"] = True
    return options


def _kept_in(storage: StateStorage, raw_spec: Mapping[str, Any]) -> list[Any]:
    """Return the values from which a head learns where the state is."""
    if isinstance(storage, EmbeddedStorage):
        return [storage.claim, storage.sub_path]
    return [storage.namespace, raw_spec.get("gcsFaultToleranceOptions")]
