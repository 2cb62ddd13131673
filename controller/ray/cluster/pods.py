"""Head and worker pods: the user's template plus everything that makes it a Ray node.

The Ray container is always the first one. What is built here is the same for all pods of a
group, so it is built once per RayCluster object; a single pod is a shallow assembly around it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.ray.api import labels
from controller.ray.api.feature_gates import MULTI_HOST_INDEXING
from controller.ray.cluster import autoscaler, hashing
from controller.ray.cluster.environment import (
    Environment,
    add_head_location,
    add_ray_environment,
)
from controller.ray.cluster.probes import add_probes
from controller.ray.cluster.start_command import (
    METRICS_PORT,
    Role,
    container_command,
    render_start_command,
    start_parameters,
)
from controller.ray.cluster.volumes import add_scratch_volume, add_shared_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.raycluster import ClusterSpec, HeadGroup, RayCluster, WorkerGroup
    from controller.ray.cluster.identity import Identity
    from controller.ray.cluster.place import Place
    from controller.ray.cluster.settings import ClusterSettings

Body = dict[str, Any]

_OWN_LABELS: Final = (labels.CLUSTER, labels.NODE_TYPE, labels.GROUP)
_WAIT_SCRIPT: Final = """\
waited=0
until if [ "$waited" -lt 120 ]; then ray health-check --address {address} > /dev/null 2>&1; \
else ray health-check --address {address}; fi; do
  echo "$waited seconds: the GCS at {address} does not answer yet."
  waited=$((waited + 5))
  sleep 5
done
echo "The GCS at {address} is ready."
"""


class PodBuilder:
    """Builds the pods of one RayCluster object.

    Args:
        cluster: the object.
        spec: its parsed, valid specification.
        identity: names and addresses of its parts.
        settings: what an administrator decided.
    """

    def __init__(
        self,
        cluster: RayCluster,
        spec: ClusterSpec,
        identity: Identity,
        settings: ClusterSettings,
    ) -> None:
        self._annotations = cluster.metadata.annotations or {}
        self._raw_spec: dict[str, Any] = cluster.spec
        self._spec = spec
        self._identity = identity
        self._settings = settings
        self._templates: dict[str, Body] = {}
        self._hashes: dict[str, str] = {}

    def head(self, name: str) -> Body:
        """The head pod under this name."""
        template = self._templates.get(labels.HEAD_GROUP)
        if template is None:
            template = self._templates[labels.HEAD_GROUP] = self._build_head()
        return _named(template, name, {})

    def worker(self, group: WorkerGroup, name: str, place: Place | None) -> Body:
        """A worker pod of the group under this name; it tells its place if there is one."""
        key = f"worker/{group.group_name}"
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = self._build_worker(group)
        if place is None or not self._settings.feature_gates.enabled(MULTI_HOST_INDEXING):
            return _named(template, name, {})
        return _named(template, name, place.labels())

    @property
    def head_hash(self) -> str:
        """Hash that a head made now carries as `manta.dev/pod-template-hash`."""
        return self._hash(labels.HEAD_GROUP, self._raw_spec.get("headGroupSpec") or {})

    def worker_hash(self, group: WorkerGroup) -> str:
        """Hash that a worker of this group made now carries."""
        for raw in self._raw_spec.get("workerGroupSpecs") or ():
            if raw.get("groupName") == group.group_name:
                return self._hash(f"worker/{group.group_name}", raw)
        raise KeyError(group.group_name)

    def head_labels(self) -> dict[str, str]:
        """The labels of the head pod, by which the head service must select."""
        return self._labels("head", labels.HEAD_GROUP, self._spec.head_group_spec)

    def _hash(self, key: str, raw: dict[str, Any]) -> str:
        if key not in self._hashes:
            self._hashes[key] = hashing.template_digest(raw)
        return self._hashes[key]

    def _build_head(self) -> Body:
        group = self._spec.head_group_spec
        pod = self._skeleton("head", labels.HEAD_GROUP, group)
        metadata, pod_spec = pod["metadata"], pod["spec"]
        ray: Body = pod_spec["containers"][0]
        parameters = self._parameters("head", group, ray)
        env = Environment(ray.get("env", ()))
        if self._spec.autoscaling:
            parameters["no-monitor"] = "true"
            pod_spec["serviceAccountName"] = self._identity.service_account
            pod_spec["containers"].append(autoscaler.sidecar(self._spec, ray))
            version = self._spec.autoscaler_version
            if version:
                env.append("RAY_enable_autoscaler_v2", str(version == "v2").lower())
        metadata["annotations"] |= {
            labels.FT_ENABLED: str(self._fault_tolerant).lower(),
            labels.RECREATE_HASH: hashing.recreate_digest(self._raw_spec),
            labels.KUBERAY_VERSION: self._settings.version,
            labels.TEMPLATE_HASH: self.head_hash,
        }
        self._finish(pod, "head", parameters, env)
        pod_spec["containers"] += copy.deepcopy(list(self._settings.head_sidecars))
        return pod

    def _build_worker(self, group: WorkerGroup) -> Body:
        pod = self._skeleton("worker", group.group_name, group)
        pod_spec = pod["spec"]
        ray: Body = pod_spec["containers"][0]
        if self._settings.init_container:
            waiting = _wait_for_head(ray, self._identity.head_address)
            pod_spec.setdefault("initContainers", []).append(waiting)
        pod["metadata"]["annotations"][labels.TEMPLATE_HASH] = self.worker_hash(group)
        parameters = self._parameters("worker", group, ray)
        self._finish(pod, "worker", parameters, Environment(ray.get("env", ())))
        pod_spec["containers"] += copy.deepcopy(list(self._settings.worker_sidecars))
        return pod

    def _skeleton(self, role: Role, group_name: str, group: HeadGroup | WorkerGroup) -> Body:
        template = group.template
        metadata: Body = template.get("metadata", {})
        pod: Body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": self._identity.namespace,
                "labels": self._labels(role, group_name, group),
                "annotations": {
                    **self._settings.pod_annotations,
                    **metadata.get("annotations", {}),
                },
                "ownerReferences": [self._identity.owner],
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        if "finalizers" in metadata:
            pod["metadata"]["finalizers"] = list(metadata["finalizers"])
        if self._own_command_only(metadata):
            pod["metadata"]["annotations"][labels.OVERWRITE_CONTAINER_COMMAND] = "true"
        if self._spec.autoscaler_version == "v2":
            pod["spec"]["restartPolicy"] = "Never"
        return pod

    def _labels(
        self, role: Role, group_name: str, group: HeadGroup | WorkerGroup
    ) -> dict[str, str]:
        defaults = self._identity.pod_labels(role, group_name)
        given = group.template.get("metadata", {}).get("labels", {}) | (group.labels or {})
        merged = {**self._settings.pod_labels, **defaults, **given}
        merged |= {key: defaults[key] for key in _OWN_LABELS}
        if self._identity.origin == "RayService":
            merged[labels.SERVE] = str(role == "worker").lower()
        return merged

    def _parameters(
        self, role: Role, group: HeadGroup | WorkerGroup, ray: Mapping[str, Any]
    ) -> dict[str, str]:
        return start_parameters(
            role,
            given=group.ray_start_params,
            resources=group.resources,
            labels=group.labels,
            container=ray,
            head_address=self._identity.head_address,
        )

    def _finish(self, pod: Body, role: Role, parameters: dict[str, str], env: Environment) -> None:
        """What both roles get once their parameters are complete."""
        pod_spec = pod["spec"]
        ray: Body = pod_spec["containers"][0]
        _add_metrics_port(ray)
        add_shared_memory(pod_spec, ray, parameters)
        if role == "head" and self._spec.autoscaling:
            add_scratch_volume(pod_spec, [ray, pod_spec["containers"][-1]])
        start = render_start_command(role, parameters)
        if not self._own_command_only(pod["metadata"]):
            command = container_command(ray, start, login_shell=self._settings.login_shell)
            if command is not None:
                ray["command"], ray["args"] = command
        self._add_environment(pod_spec, role, start, env)
        if self._settings.probes:
            add_probes(
                ray,
                role,
                parameters=parameters,
                ray_version=self._spec.ray_version,
                serving=self._identity.origin == "RayService",
            )

    def _add_environment(self, pod_spec: Body, role: Role, start: str, env: Environment) -> None:
        for container in pod_spec.get("initContainers", ()):
            init_env = Environment(container.get("env", ()))
            add_head_location(init_env, self._identity.head_fqdn)
            container["env"] = init_env.as_list()
        for entry in self._settings.container_env:
            env.default_entry(entry)
        add_ray_environment(
            env,
            role,
            start=start,
            head_fqdn=self._identity.head_fqdn,
            port=self._identity.gcs_port,
            origin=self._identity.origin,
            version=self._settings.version,
        )
        pod_spec["containers"][0]["env"] = env.as_list()

    def _own_command_only(self, metadata: Mapping[str, Any]) -> bool:
        """Whether user and cluster agree that the container's command is not ours to write."""
        annotations = metadata.get("annotations", {})
        key = labels.OVERWRITE_CONTAINER_COMMAND
        return "true" in (
            self._annotations.get(key, "").lower(),
            annotations.get(key, "").lower(),
        )

    @property
    def _fault_tolerant(self) -> bool:
        legacy = self._annotations.get(labels.FT_ENABLED, "").lower() == "true"
        return legacy or self._spec.gcs_fault_tolerance_options is not None


def _named(template: Body, name: str, more_labels: Mapping[str, str]) -> Body:
    metadata = template["metadata"] | {"name": name}
    if more_labels:
        metadata["labels"] = metadata["labels"] | more_labels
    return template | {"metadata": metadata}


def _add_metrics_port(ray: Body) -> None:
    ports: list[Body] = ray.setdefault("ports", [])
    if all(port.get("name") != "metrics" for port in ports):
        ports.append({"name": "metrics", "containerPort": METRICS_PORT})


def _wait_for_head(ray: Body, address: str) -> Body:
    """The init container that keeps a worker from starting before the head answers."""
    container: Body = {
        "name": "wait-gcs-ready",
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
