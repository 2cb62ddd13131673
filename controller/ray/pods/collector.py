"""The sidecar of every pod that stores Ray's logs and events for KubeRay's history server.

Its variables are those of KubeRay, whose images read them.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from controller.ray.api import labels
from controller.ray.api.names import COLLECTOR, DASHBOARD_PORT
from controller.ray.api.raycluster import ClusterSpec, CollectorOptions
from controller.ray.head import Identity
from controller.ray.pods.environment import Environment, PodDraft, port_of
from controller.ray.pods.features import add_token_to_container, share_scratch_volume

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
