"""Builds head and worker pods from the user's template.

The Ray container is always the first one. All pods of a group are the same except for name and
replica labels, so a group's pod is built once per RayCluster object and shared.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from controller.apimachinery.custom_object import mapping
from controller.ray.api import labels
from controller.ray.api.feature_gates import MULTI_HOST_INDEXING
from controller.ray.api.names import METRICS_PORT, users_metadata
from controller.ray.api.raycluster import (
    ClusterSpec,
    HeadGroup,
    RayCluster,
    WorkerGroup,
    token_secret_name,
)
from controller.ray.head import Identity
from controller.ray.pods.environment import (
    Environment,
    PodDraft,
    Role,
    add_fleet_environment,
    add_head_location,
    add_ray_environment,
    container_command,
    render_start_command,
    start_parameters,
)
from controller.ray.pods.fault_tolerance import (
    EmbeddedStorage,
    StateStorage,
    add_state_storage,
    state_storage,
)
from controller.ray.pods.features import (
    WAIT_CONTAINER,
    add_certificates,
    add_graceful_termination,
    add_probes,
    add_shared_memory,
    add_token,
    share_scratch_volume,
)
from controller.ray.pods.gang import marks_of
from controller.ray.pods.hashes import field_digests, recreate_digest, template_digest
from controller.ray.pods.sidecars import (
    add_collector,
    add_event_export,
    add_wait_gcs_ready,
    autoscaler_sidecar,
)
from controller.ray.settings import RaySettings

# The position of a worker in its group: its replica, and its host in the replica.


class ReplicaPosition(msgspec.Struct, frozen=True):
    """A worker's position, which labels of the pod show to Ray and to users.

    Attributes:
        replica_name: name of the replica, if one replica has several hosts; else empty.
    """

    index: int
    replica_name: str = ""
    host_index: int = 0

    def labels(self) -> dict[str, str]:
        """Return the labels of a pod in this position."""
        replica = {labels.REPLICA_INDEX: str(self.index)}
        if not self.replica_name:
            return replica
        return replica | {
            labels.REPLICA_NAME: self.replica_name,
            labels.HOST_INDEX: str(self.host_index),
        }


# Options of the whole cluster with which a pod is made, besides the template of its group.
#
# Each pod carries them, so that a pod that was made before such an option changed is recognised. A
# change of them replaces no pod but under `Recreate`.

_READ_LIVE: Final = frozenset({"idleTimeoutSeconds", "upscalingMode"})
"""Options of the autoscaler that it reads from the RayCluster each time, and not from its pod."""


def _kept_in(storage: StateStorage, raw_spec: Mapping[str, Any]) -> list[Any]:
    """Return the values from which a head learns where the state is."""
    if isinstance(storage, EmbeddedStorage):
        return [storage.claim, storage.sub_path]
    return [storage.namespace, raw_spec.get("gcsFaultToleranceOptions")]


Body = dict[str, Any]


class PodBuilder:
    """Builds the pods of one RayCluster object."""

    def __init__(
        self, cluster: RayCluster, spec: ClusterSpec, identity: Identity, settings: RaySettings
    ) -> None:
        self._object = cluster
        self._cluster = cluster.metadata
        self._annotations = cluster.metadata.annotations or {}
        self._raw_spec: dict[str, Any] = cluster.spec
        self._spec = spec
        self._identity = identity
        self._settings = settings
        self._storage = state_storage(cluster, spec)
        self.hashes = {"": template_digest(mapping(self._raw_spec.get("headGroupSpec")))}
        """Hashes of new pods by group; the name of the head's group is empty."""
        for group in map(mapping, self._raw_spec.get("workerGroupSpecs") or ()):
            self.hashes[group["groupName"]] = template_digest(group)
        self._options: dict[Role, dict[str, Any]] = {}

    def for_gcs_port(self, port: str) -> PodBuilder:
        """Return the builder of pods whose head listens on this port, whatever is specified now."""
        if port == self._identity.gcs_port:
            return self
        identity = replace(self._identity, gcs_port=port)
        return PodBuilder(self._object, self._spec, identity, self._settings)

    def head(self, name: str) -> Body:
        """Return the head pod of this name."""
        draft = self._draft("head", labels.HEAD_GROUP, self._spec.head_group_spec)
        if self._spec.autoscaling:
            self._add_autoscaler(draft)
        draft.annotations.update(self.head_stamps)
        draft.annotations[labels.TEMPLATE_HASH] = self.hashes[""]
        return _named(self._finished(draft, self._settings.head_sidecars), name, {})

    def workers(self, group: WorkerGroup) -> Callable[[str, ReplicaPosition | None], Body]:
        """Return a function that returns worker pods, with the labels of their positions if any.

        The pods share what does not differ. It is not kept: of thousands of clusters it would fill
        more memory than the objects themselves.
        """
        draft = self._draft("worker", group.group_name, group)
        if self._settings.init_container:
            add_wait_gcs_ready(draft, self._identity.head_address)
        draft.annotations[labels.TEMPLATE_HASH] = self.hashes[group.group_name]
        template = self._finished(draft, self._settings.worker_sidecars)
        is_indexed = self._settings.feature_gates.enabled(MULTI_HOST_INDEXING)

        def worker(name: str, position: ReplicaPosition | None) -> Body:
            return _named(template, name, position.labels() if position and is_indexed else {})

        return worker

    @cached_property
    def head_stamps(self) -> dict[str, str]:
        """Annotations of a new head that say from which specification which operator made it."""
        return {
            labels.RECREATE_HASH: recreate_digest(self._raw_spec),
            labels.KUBERAY_VERSION: self._settings.version,
        }

    def options(self, role: Role) -> dict[str, Any]:
        """Return the options of the cluster with which a new pod of this role is made.

        Those that are not set are left out; a worker depends on fewer of them.
        """
        if role not in self._options:
            self._options[role] = self._options_of(role)
        return self._options[role]

    def _options_of(self, role: Role) -> dict[str, Any]:
        options: dict[str, Any] = {}
        spec, raw_spec, auth = self._spec, self._raw_spec, self._spec.auth_options
        if auth is not None and auth.by_token:
            secret = token_secret_name(self._identity.name, auth)
            options["authOptions"] = auth.by_kubernetes or secret
        if self._storage is not None:
            kept = _kept_in(self._storage, raw_spec)
            options["gcsFaultToleranceOptions"] = role == "head" and kept
        if spec.graceful_termination_options is not None:
            graceful = msgspec.to_builtins(spec.graceful_termination_options)
            options["gracefulTerminationOptions"] = graceful
        if spec.history_server_options is not None:
            options["historyServerOptions"] = raw_spec.get("historyServerOptions")
        if spec.has_mtls:
            options["tlsOptions"] = True
        if spec.autoscaling and role == "head":
            given = mapping(raw_spec.get("autoscalerOptions"))
            options["autoscalerOptions"] = {k: v for k, v in given.items() if k not in _READ_LIVE}
            options["enableInTreeAutoscaling"] = True
        return options

    def _draft(self, role: Role, group_name: str, group: HeadGroup | WorkerGroup) -> PodDraft:
        """Return the user's template as a pod, with the parameters of `ray start`."""
        template = group.template
        metadata: Body = template.get("metadata", {})
        body: Body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": self._identity.namespace,
                "labels": self._labels(role, group_name, group),
                "annotations": {
                    **self._settings.pod_annotations,
                    **users_metadata(metadata.get("annotations")),
                },
                "ownerReferences": [self._identity.owner],
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        if "finalizers" in metadata:
            body["metadata"]["finalizers"] = list(metadata["finalizers"])
        if self._own_command_only(metadata):
            body["metadata"]["annotations"][labels.OVERWRITE_CONTAINER_COMMAND] = "true"
        if self._spec.autoscaler_version == "v2":
            body["spec"]["restartPolicy"] = "Never"
        ray: Body = body["spec"]["containers"][0]
        return PodDraft(
            role, body, self._parameters(role, group, ray), Environment(ray.get("env", ()))
        )

    def _labels(
        self, role: Role, group_name: str, group: HeadGroup | WorkerGroup
    ) -> dict[str, str]:
        own = self._identity.labels_of(role, group_name, group)
        merged = {**self._settings.pod_labels, **own}
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

    def _add_autoscaler(self, draft: PodDraft) -> None:
        """Run the autoscaler as a sidecar instead of the monitor in the Ray container."""
        draft.parameters["no-monitor"] = "true"
        draft.spec["serviceAccountName"] = self._identity.service_account
        sidecar = autoscaler_sidecar(self._identity, self._spec, draft.spec)
        draft.spec["containers"].append(sidecar)
        version = self._spec.autoscaler_version
        if version:
            draft.env.append("RAY_enable_autoscaler_v2", str(version == "v2").lower())

    def _finished(self, draft: PodDraft, sidecars: Iterable[Mapping[str, Any]]) -> Body:
        """Add what both roles have in common, in KubeRay's order."""
        draft.annotations[labels.CLUSTER_OPTIONS] = field_digests(self.options(draft.role))
        add_state_storage(draft, self._storage)
        _add_metrics_port(draft.ray)
        add_token(draft, self._identity.name, self._spec.auth_options)
        if self._spec.has_mtls:
            add_certificates(draft, self._identity.name, WAIT_CONTAINER)
        add_shared_memory(draft)
        if draft.role == "head" and self._spec.autoscaling:
            share_scratch_volume(draft, draft.spec["containers"][-1])
        add_collector(draft, self._identity, self._spec, self._cluster.labels or {})
        start = render_start_command(draft.role, draft.parameters)
        if not self._own_command_only(draft.body["metadata"]):
            command = container_command(draft.ray, start, login_shell=self._settings.login_shell)
            if command is not None:
                draft.ray["command"], draft.ray["args"] = command
        self._add_environment(draft, start)
        add_graceful_termination(draft, self._spec.graceful_termination_options)
        if self._settings.probes:
            serving = self._identity.origin == "RayService"
            add_probes(draft, ray_version=self._spec.ray_version, serving=serving)
        draft.spec["containers"] += copy.deepcopy(list(sidecars))
        group = draft.body["metadata"]["labels"][labels.GROUP]
        marks = marks_of(self._settings.batch_scheduler, self._cluster, self._spec, group)
        marks.mark(draft.body["metadata"], draft.spec)
        return draft.body

    def _add_environment(self, draft: PodDraft, start: str) -> None:
        for container in draft.spec.get("initContainers", ()):
            init_env = Environment(container.get("env", ()))
            add_head_location(init_env, self._identity.head_fqdn)
            container["env"] = init_env.as_list()
        for entry in self._settings.container_env:
            draft.env.default_entry(entry)
        add_ray_environment(
            draft.env,
            draft.role,
            start=start,
            identity=self._identity,
            version=self._settings.version,
        )
        add_fleet_environment(draft.env, self._annotations)
        if self._spec.history_server_options is not None:
            add_event_export(draft.env)
        draft.ray["env"] = draft.env.as_list()

    def _own_command_only(self, metadata: Mapping[str, Any]) -> bool:
        """Return whether an annotation of cluster or pod disables the generated command."""
        annotations = metadata.get("annotations", {})
        key = labels.OVERWRITE_CONTAINER_COMMAND
        return "true" in (
            self._annotations.get(key, "").lower(),
            annotations.get(key, "").lower(),
        )


def _named(template: Body, name: str, more_labels: Mapping[str, str]) -> Body:
    metadata = template["metadata"] | {"name": name}
    if more_labels:
        metadata["labels"] = metadata["labels"] | more_labels
    return template | {"metadata": metadata}


def _add_metrics_port(ray: Body) -> None:
    ports: list[Body] = ray.setdefault("ports", [])
    if all(port.get("name") != "metrics" for port in ports):
        ports.append({"name": "metrics", "containerPort": METRICS_PORT})
