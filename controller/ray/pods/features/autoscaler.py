"""The sidecar of the head pod that runs Ray's autoscaler.

The autoscaler reads the RayCluster, writes its `replicas` and `workersToDelete`, and watches the
pods.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.ray.api import labels
from controller.ray.head.endpoint import AUTOSCALER
from controller.ray.pods.features.authentication import add_token_to_container

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.head.identity import Identity

Body = dict[str, Any]

_COMMAND: Final = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) "
    "--cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)


def sidecar(identity: Identity, spec: ClusterSpec, pod_spec: Body) -> Body:
    """Return the autoscaler container for a head that is under construction."""
    container: Body = {
        "name": AUTOSCALER,
        "image": pod_spec["containers"][0].get("image", ""),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c", "--"],
        "args": [_COMMAND],
        "env": [
            _from_field("RAY_CLUSTER_NAME", f"metadata.labels['{labels.CLUSTER}']"),
            _from_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace"),
            _from_field("RAY_HEAD_POD_NAME", "metadata.name"),
            {"name": "KUBERAY_CRD_VER", "value": "v1"},
            {"name": "KUBERAY_GEN_AUTOSCALER_START_CMD", "value": _COMMAND},
        ],
        "resources": {
            "requests": {"cpu": "500m", "memory": "512Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
    }
    add_token_to_container(pod_spec, container, identity.name, spec.auth_options)
    _apply_options(container, spec)
    return container


def _apply_options(container: Body, spec: ClusterSpec) -> None:
    options = spec.autoscaler_options
    if options is None:
        return
    replaced = {
        "resources": options.resources,
        "image": options.image,
        "imagePullPolicy": options.image_pull_policy,
        "securityContext": options.security_context,
        "command": list(options.command),
        "args": list(options.args),
    }
    container |= {key: copy.deepcopy(value) for key, value in replaced.items() if value}
    appended = {
        "env": options.env,
        "envFrom": options.env_from,
        "volumeMounts": options.volume_mounts,
    }
    for key, entries in appended.items():
        if entries:
            container[key] = [*container.get(key, ()), *copy.deepcopy(entries)]


def _from_field(name: str, path: str) -> Body:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
