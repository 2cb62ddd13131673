"""Containers that Manta adds to pods: the autoscaler, the wait for the GCS, the collector."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from controller.ray.api import labels
from controller.ray.api.names import AUTOSCALER, COLLECTOR, DASHBOARD_PORT
from controller.ray.api.raycluster import ClusterSpec, CollectorOptions
from controller.ray.head import Identity
from controller.ray.pods.environment import Environment, PodDraft, port_of
from controller.ray.pods.features import (
    WAIT_CONTAINER,
    add_certificates_to_container,
    add_token_to_container,
    share_scratch_volume,
)

# The sidecar of the head pod that runs Ray's autoscaler.
#
# The autoscaler reads the RayCluster, writes its `replicas` and `workersToDelete`, and watches the
# pods.

Body = dict[str, Any]

_COMMAND: Final = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) "
    "--cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)


def autoscaler_sidecar(identity: Identity, spec: ClusterSpec, pod_spec: Body) -> Body:
    """Return the autoscaler container for a head that is under construction."""
    env = Environment()
    env.append_field("RAY_CLUSTER_NAME", f"metadata.labels['{labels.CLUSTER}']")
    env.append_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace")
    env.append_field("RAY_HEAD_POD_NAME", "metadata.name")
    env.append("KUBERAY_CRD_VER", "v1")
    env.append("KUBERAY_GEN_AUTOSCALER_START_CMD", _COMMAND)
    container: Body = {
        "name": AUTOSCALER,
        "image": pod_spec["containers"][0].get("image", ""),
        "imagePullPolicy": "IfNotPresent",
        "command": ["/bin/bash", "-c", "--"],
        "args": [_COMMAND],
        "env": env.as_list(),
        "resources": {
            "requests": {"cpu": "500m", "memory": "512Mi"},
            "limits": {"cpu": "500m", "memory": "512Mi"},
        },
    }
    add_token_to_container(pod_spec, container, identity.name, spec.auth_options)
    if spec.has_mtls:
        add_certificates_to_container(container)
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


# Adds the init container in which a worker waits until the GCS answers.

_WAIT_SCRIPT: Final = """\
until if ((SECONDS < 120)); then ray health-check --address {address} > /dev/null 2>&1; \
else ray health-check --address {address}; fi; do
  echo "$SECONDS seconds: the GCS at {address} does not answer yet."
  sleep 5
done
echo "The GCS at {address} is ready."
"""


def add_wait_gcs_ready(draft: PodDraft, address: str) -> None:
    """Make a pod wait for the GCS at `host:port`, unless the user has defined the container.

    A container of that name without an image has what the user changes of ours, such as resources.
    Call it before other features change the Ray container, from which it copies fields.
    """
    containers: list[Body] = draft.spec.setdefault("initContainers", [])
    for container in containers:
        if container.get("name") == WAIT_CONTAINER:
            if not container.get("image"):
                container.update(_wait_for_head(draft.ray, address) | container)
            return
    containers.append(_wait_for_head(draft.ray, address))


def _wait_for_head(ray: Body, address: str) -> Body:
    container: Body = {
        "name": WAIT_CONTAINER,
        "image": ray.get("image", ""),
        "command": ["/bin/bash", "-c", "--"],
        "args": [_WAIT_SCRIPT.format(address=address)],
        "resources": {
            "requests": {"cpu": "200m", "memory": "256Mi"},
            "limits": {"cpu": "200m", "memory": "256Mi"},
        },
    }
    for key in ("imagePullPolicy", "securityContext", "env", "volumeMounts"):
        if key in ray:
            container[key] = copy.deepcopy(ray[key])
    return container


# The sidecar of every pod that stores Ray's logs and events for KubeRay's history server.
#
# Its variables are those of KubeRay, whose images read them.

_EVENTS_PORT: Final = 8084
_ROLES: Final = {"head": "Head", "worker": "Worker"}
_OWNER: Final = {"OWNER_KIND": labels.ORIGIN_KIND, "OWNER_NAME": labels.ORIGIN_NAME}
_RESOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "limits": {"cpu": "200m", "memory": "256Mi"},
    "requests": {"cpu": "50m", "memory": "64Mi"},
}
_EVENTS: Final = (
    "TASK_DEFINITION_EVENT,TASK_LIFECYCLE_EVENT,ACTOR_TASK_DEFINITION_EVENT,TASK_PROFILE_EVENT,"
    "DRIVER_JOB_DEFINITION_EVENT,DRIVER_JOB_LIFECYCLE_EVENT,ACTOR_DEFINITION_EVENT,"
    "ACTOR_LIFECYCLE_EVENT,NODE_DEFINITION_EVENT,NODE_LIFECYCLE_EVENT"
)
_EXPORTER: Final = "RAY_DASHBOARD_AGGREGATOR_AGENT"
_EXPORTS: Final[Mapping[str, str]] = {
    "RAY_enable_ray_event": "true",
    "RAY_enable_core_worker_ray_event_to_aggregator": "true",
    f"{_EXPORTER}_EVENTS_EXPORT_ADDR": f"http://localhost:{_EVENTS_PORT}/v1/events",
    f"{_EXPORTER}_EXPOSABLE_EVENT_TYPES": _EVENTS,
    f"{_EXPORTER}_PUBLISHER_HTTP_ENDPOINT_EXPOSABLE_EVENT_TYPES": _EVENTS,
}


def add_collector(
    draft: PodDraft, identity: Identity, spec: ClusterSpec, cluster_labels: Mapping[str, str]
) -> None:
    """Add the collector to a pod, and share Ray's directory of logs with it."""
    options = spec.history_server_options and spec.history_server_options.collector_options
    if not options:
        return
    container = _collector(draft, identity, options, cluster_labels)
    add_token_to_container(draft.spec, container, identity.name, spec.auth_options)
    draft.spec["containers"].append(container)
    share_scratch_volume(draft, container)


def add_event_export(env: Environment) -> None:
    """Have Ray send its events to the collector, unless the user has set how."""
    for name, value in _EXPORTS.items():
        env.default(name, value)


def _collector(
    draft: PodDraft,
    identity: Identity,
    options: CollectorOptions,
    cluster_labels: Mapping[str, str],
) -> dict[str, Any]:
    env = Environment()
    env.append_field("POD_IP", "status.podIP")
    env.append("RAY_CLUSTER_NAME", identity.name)
    env.append("RAY_CLUSTER_NAMESPACE", identity.namespace)
    env.append("RAY_ROLE", _ROLES[draft.role])
    env.append("EVENTS_PORT", str(_EVENTS_PORT))
    env.append("FQ_RAY_IP", identity.head_fqdn)
    for name, label in _OWNER.items():
        if cluster_labels.get(label):
            env.append(name, cluster_labels[label])
    users = {each.get("name") for each in options.env}
    if draft.role == "head" and "RAY_DASHBOARD_ADDRESS" not in users:
        # KubeRay takes 8265 for granted, and its collector finds no dashboard at another port
        port = port_of(draft.parameters, "dashboard-port", DASHBOARD_PORT)
        env.append("RAY_DASHBOARD_ADDRESS", f"http://localhost:{port}")
    for entry in options.env:
        env.append_entry(entry)
    return {
        "name": COLLECTOR,
        "image": options.image or "",
        "imagePullPolicy": options.image_pull_policy or "IfNotPresent",
        "resources": copy.deepcopy(options.resources or _RESOURCES),
        "env": env.as_list(),
    }
