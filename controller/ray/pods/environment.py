"""Environment variables of Ray containers, in KubeRay's order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.ray.api import labels
from controller.ray.api.pod_state import START_COMMAND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controller.ray.head.identity import Identity
    from controller.ray.pods.start_command import Role

_FLEET_VARIABLES: Final = {
    "MANTA_CLUSTER_INDEX": labels.CLUSTER_INDEX,
    "MANTA_CLUSTER_COUNT": labels.CLUSTER_COUNT,
}
"""Variables by the annotation of the RayCluster that has their value."""


class Environment:
    """A container's `env` under construction; the user's entries come first and are kept."""

    def __init__(self, entries: Iterable[Mapping[str, Any]] = ()) -> None:
        self._entries = [dict(entry) for entry in entries]

    def append(self, name: str, value: str) -> None:
        """Add at the end; the last entry of a name takes effect."""
        self.append_entry({"name": name, "value": value})

    def append_entry(self, entry: Mapping[str, Any]) -> None:
        """Add a whole entry at the end."""
        self._entries.append(dict(entry))

    def append_field(self, name: str, path: str) -> None:
        """Add a value that the kubelet fills in from the pod."""
        self.append_entry({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}})

    def default(self, name: str, value: str) -> None:
        """Add unless there is an entry of that name."""
        self.default_entry({"name": name, "value": value})

    def default_entry(self, entry: Mapping[str, Any]) -> None:
        """Add a whole entry unless there is one of its name."""
        if all(present.get("name") != entry["name"] for present in self._entries):
            self.append_entry(entry)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the entries in order."""
        return self._entries


def add_head_location(env: Environment, head_fqdn: str) -> None:
    """Add the head's address under the two names that scripts use."""
    env.append("FQ_RAY_IP", head_fqdn)
    env.append("RAY_IP", head_fqdn.split(".", 1)[0])


def add_ray_environment(
    env: Environment, role: Role, *, start: str, identity: Identity, version: str
) -> None:
    """Add the variables of every Ray container, after those of its features.

    Args:
        env: changed in place.
        role: head or worker.
        start: the rendered `ray start` command.
        identity: identity of the cluster.
        version: value of `ray.io/kuberay-version`.
    """
    port, origin = identity.gcs_port, identity.origin
    if role == "worker":
        add_head_location(env, identity.head_fqdn)
    env.append_field("RAY_CLUSTER_NAME", f"metadata.labels['{labels.CLUSTER}']")
    env.append_field("RAY_CLUSTER_NAMESPACE", "metadata.namespace")
    env.append_field("RAY_CLOUD_INSTANCE_ID", "metadata.name")
    env.append_field("RAY_NODE_TYPE_NAME", f"metadata.labels['{labels.GROUP}']")
    env.append(START_COMMAND, start)
    env.default("RAY_PORT", port)
    if origin == "RayService":
        env.default("RAY_timeout_ms_task_wait_for_death_info", "0")
        env.default("RAY_gcs_server_request_timeout_seconds", "5")
        env.default("RAY_SERVE_KV_TIMEOUT_S", "5")
    host = "127.0.0.1" if role == "head" else identity.head_fqdn
    env.default("RAY_ADDRESS", f"{host}:{port}")
    env.default("RAY_USAGE_STATS_KUBERAY_IN_USE", "1")
    if role == "head":
        tags = f"kuberay_version={version};kuberay_crd={origin}"
        env.append("RAY_USAGE_STATS_EXTRA_TAGS", tags)
    env.default("RAY_DASHBOARD_ENABLE_K8S_DISK_USAGE", "1")


def add_fleet_environment(env: Environment, annotations: Mapping[str, str]) -> None:
    """Add the index of the cluster in its RayClusterFleet, and the number of copies.

    Args:
        env: changed in place; the user's entries win.
        annotations: annotations of the RayCluster; without them no variables are added.
    """
    for name, annotation in _FLEET_VARIABLES.items():
        if annotation in annotations:
            env.default(name, annotations[annotation])
