"""Ray's autoscaler: the sidecar of the head pod, and what it is allowed to do.

It reads the RayCluster, writes `replicas` and `workersToDelete` into it, and watches the pods.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.ray.api import labels
from controller.ray.api.names import checked_name
from controller.ray.cluster.authentication import add_token_to_container

if TYPE_CHECKING:
    from controller.ray.api.raycluster import ClusterSpec
    from controller.ray.cluster.identity import Identity

Body = dict[str, Any]

_COMMAND: Final = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) "
    "--cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)
_RULES: Final = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["patch"]},
    {"apiGroups": ["ray.io"], "resources": ["rayclusters"], "verbs": ["get", "patch"]},
)
_RBAC: Final = "rbac.authorization.k8s.io"


def sidecar(identity: Identity, spec: ClusterSpec, ray: Body) -> Body:
    """The autoscaler container; `ray` is the head's Ray container."""
    container: Body = {
        "name": "autoscaler",
        "image": ray.get("image", ""),
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
    add_token_to_container(container, identity.name, spec.auth_options)
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


def service_account(identity: Identity) -> Body:
    """The ServiceAccount that the head pod runs as."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(identity, identity.service_account),
    }


def role(identity: Identity) -> Body:
    """What the autoscaler may do in its namespace."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "Role",
        "metadata": _metadata(identity, checked_name(identity.name)),
        "rules": copy.deepcopy(list(_RULES)),
    }


def role_binding(identity: Identity) -> Body:
    """Gives the role to the service account."""
    name = checked_name(identity.name)
    account = {
        "kind": "ServiceAccount",
        "name": identity.service_account,
        "namespace": identity.namespace,
    }
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": _metadata(identity, name),
        "subjects": [account],
        "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
    }


def _metadata(identity: Identity, name: str) -> Body:
    return {
        "name": name,
        "namespace": identity.namespace,
        "labels": {
            labels.CLUSTER: identity.name,
            labels.APP_NAME: labels.APP_NAME_VALUE,
            labels.CREATED_BY: labels.CREATED_BY_VALUE,
        },
        "ownerReferences": [identity.owner],
    }
