"""The workload and the services that serve a preset, and how they change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from controller.apimachinery.patches import escaped
from controller.kaito.api import labels
from controller.kaito.api.options import KaitoOptions, Runtime
from controller.kaito.api.revisions import Revision, RevisionState
from controller.kaito.api.workspace import Body, InferenceSpec, ResourceSpec, WorkspaceSpec, child
from controller.kaito.presets.runtimes import (
    RAY_PORT,
    needs_cuda_toolkit,
    needs_deep_gemm,
    with_optional_flags,
)
from controller.kaito.workloads import pods
from controller.kaito.workloads.pods import PodParts, as_list, variable
from controller.kaito.workloads.server import (
    BEHIND_SIDECAR_PORT,
    BENCHMARK_SCRIPT,
    SERVER_PORT,
    Server,
    Serving,
    headless_service_name,
    pod_labels,
    server_probes,
)
from controller.kube.objects import ObjectMeta, ServerContainer, StatefulSet
from controller.kube.resources import SERVICES, STATEFUL_SETS

# Source of names and values: kaito-project/kaito at 056b8280,
# pkg/workspace/inference/preset_inferences.go, pkg/workspace/manifests/manifests.go.
KV_EVENTS_PORT: Final = 5557
_CUDA_HOME: Final = "/opt/kaito/cuda/129"
_INSTALL_CUDA: Final = 'flock "$1" /workspace/cuda-provision.sh "$1"'
_CUDA_VOLUME: Final = "cuda-toolkit-hostpath"
_POD_IP: Final = "status.podIP"
_POD_INDEX: Final = "metadata.labels['apps.kubernetes.io/pod-index']"
_PLAIN_HTTP: Final = "--secure-proxy=false"
_TOKEN: Final = "HF_TOKEN"  # noqa: S105  name of a key
_CLAIMS_OUTLIVE_SCALING: Final = {"whenScaled": "Retain", "whenDeleted": "Delete"}


def preset_stateful_set(
    workspace: ObjectMeta, spec: WorkspaceSpec, serving: Serving, options: KaitoOptions
) -> Body:
    """Return the body that is created for a preset: one pod for each node, with all its GPUs."""
    assert spec.inference is not None
    server = Server(workspace, spec.inference, serving, options)
    selected = pod_labels(workspace)
    template = {"metadata": {"labels": dict(selected)}, "spec": _pod_spec(server, spec.resource)}
    claims = (
        [pods.weights_claim(serving.model, workspace.name)]
        if serving.on_local_disk and not server.local_weights
        else []
    )
    return {
        **child(STATEFUL_SETS, workspace, workspace.name, annotations=serving.revision.annotations),
        "spec": {
            "replicas": serving.nodes,
            "podManagementPolicy": "Parallel",
            "persistentVolumeClaimRetentionPolicy": dict(_CLAIMS_OUTLIVE_SCALING),
            "serviceName": headless_service_name(workspace.name),
            "selector": {"matchLabels": selected},
            "template": template,
            **({"volumeClaimTemplates": claims} if claims else {}),
        },
    }


def _pod_spec(server: Server, resource: ResourceSpec) -> Body:
    options, earlier = server.options, server.serving.uses_earlier_nodes
    parts = _parts(server)
    terms = pods.node_terms(server.workspace, resource, options, uses_earlier_nodes=earlier)
    secrets = pods.pull_secret_references(server.inference.adapters)
    init_containers = as_list(parts.init_containers)
    return {
        **({"initContainers": init_containers} if init_containers else {}),
        "containers": [
            _main_container(server, resource, parts),
            *([_sidecar()] if server.has_sidecar else []),
        ],
        **({"imagePullSecrets": secrets} if secrets else {}),
        **pods.node_affinity(terms),
        "tolerations": pods.serving_tolerations(resource, options),
        "volumes": as_list(parts.volumes),
    }


def _parts(server: Server) -> PodParts:
    """Return the parts that the concerns add to the pod, in Kaito's order."""
    pod_index = (pods.field_variable("POD_INDEX", _POD_INDEX),)
    return (
        pods.config_volume(server.inference.config)
        + _weights(server)
        + _cuda_toolkit(server)
        + pods.shared_memory()
        + PodParts(env=(*_runtime_env(server), *_token(server.inference)))
        + pods.adapter_parts(server.inference.adapters)
        + PodParts(env=pod_index if server.is_distributed else ())
        + _system_disk(server)
    )


def _main_container(server: Server, resource: ResourceSpec, parts: PodParts) -> Body:
    ports: list[Body] = [{"name": "http", "containerPort": server.port}]
    if server.is_vllm:
        ports.append({"name": "kv-events", "containerPort": KV_EVENTS_PORT})
    return pods.container(
        server.workspace.name,
        pods.base_image(server.options),
        command=server.command(),
        ports=ports,
        env=as_list(parts.env),
        resources=pods.gpu_request(pods.gpu_resource(resource), server.serving.gpus.count),
        volumeMounts=as_list(parts.mounts),
        **server_probes(server),
    )


def _weights(server: Server) -> PodParts:
    path = server.local_weights
    return pods.weights_of_the_node(path) if path else pods.weights_mount()


def _system_disk(server: Server) -> PodParts:
    if server.local_weights or server.serving.on_local_disk:
        return PodParts()
    return pods.weights_on_the_system_disk()


def _cuda_toolkit(server: Server) -> PodParts:
    """Return the parts that install a compiler for some models on the node, once for all pods."""
    if not needs_cuda_toolkit(server.serving.model):
        return PodParts()
    mount = {"name": _CUDA_VOLUME, "mountPath": _CUDA_HOME}
    source = {"path": _CUDA_HOME, "type": "DirectoryOrCreate"}
    provisioner = pods.container(
        "cuda-toolkit-provisioner",
        pods.base_image(server.options),
        command=[*("/bin/sh", "-c", _INSTALL_CUDA), *("sh", _CUDA_HOME)],
        volumeMounts=[dict(mount)],
    )
    volume = {"name": _CUDA_VOLUME, "hostPath": source}
    return PodParts((volume,), ({**mount, "readOnly": True},), (), (provisioner,))


def _runtime_env(server: Server) -> list[Body]:
    env: list[Body] = []
    model = server.serving.model
    if server.is_vllm:
        env.append(variable("VLLM_USE_FLASHINFER_SAMPLER", "0"))
        env.append(variable("VLLM_USE_DEEP_GEMM", "1" if needs_deep_gemm(model) else "0"))
    if needs_cuda_toolkit(model):
        env.append(variable("CUDA_HOME", _CUDA_HOME))
    if server.local_weights:
        env.append(variable("KAITO_PROCESSOR", server.local_weights))
    if server.role:
        env += [variable("KAITO_INFERENCE_ROLE", server.role), _side_channel()]
    return env


def _side_channel() -> Body:
    return pods.field_variable("VLLM_NIXL_SIDE_CHANNEL_HOST", _POD_IP)


def _token(inference: InferenceSpec) -> list[Body]:
    secret = inference.preset.preset_options.model_access_secret if inference.preset else ""
    if not secret:
        return []
    reference = {"name": secret, "key": _TOKEN, "optional": True}
    return [{"name": _TOKEN, "valueFrom": {"secretKeyRef": reference}}]


def _sidecar() -> Body:
    """Return the router in front of a server that decodes."""
    return pods.container(
        "llm-d-routing-sidecar",
        pods.ROUTING_SIDECAR,
        args=[f"--port={SERVER_PORT}", f"--vllm-port={BEHIND_SIDECAR_PORT}", _PLAIN_HTTP],
        ports=[{"name": "sidecar", "containerPort": SERVER_PORT, "protocol": "TCP"}],
        env=[pods.field_variable("POD_IP", _POD_IP), _side_channel()],
    )


_POD_NAME: Final = "statefulset.kubernetes.io/pod-name"


def services(workspace: ObjectMeta, options: KaitoOptions) -> tuple[Body, Body]:
    """Return the bodies of the services: one for requests, one that gives pods their names.

    A service is created if it is missing and never changed, as in Kaito.
    """
    headless = {
        **child(SERVICES, workspace, headless_service_name(workspace.name)),
        "spec": {
            "clusterIP": "None",
            "selector": {labels.WORKSPACE: workspace.name},
            "publishNotReadyAddresses": True,
        },
    }
    return _request_service(workspace, options), headless


def _request_service(workspace: ObjectMeta, options: KaitoOptions) -> Body:
    """Return the service that leads to the first pod, which serves for all of them."""
    annotations = workspace.annotations or {}
    is_public = annotations.get(labels.ENABLE_LOAD_BALANCER) == "True"
    ports = [
        _port("http", 80, SERVER_PORT),
        _port("ray", RAY_PORT),
        _port("dashboard", 8265),
    ]
    if options.runtime(annotations) is Runtime.VLLM and not is_public:
        ports.append(_port("kv-events", KV_EVENTS_PORT))
    selector = {labels.WORKSPACE: workspace.name, _POD_NAME: f"{workspace.name}-0"}
    return {
        **child(SERVICES, workspace, workspace.name),
        "spec": {
            "type": "LoadBalancer" if is_public else "ClusterIP",
            "ports": ports,
            "selector": selector,
            "publishNotReadyAddresses": True,
        },
    }


def _port(name: str, port: int, target: int = 0) -> Body:
    return {"name": name, "protocol": "TCP", "port": port, "targetPort": target or port}


# Changes of an existing StatefulSet as a JSON patch, empty if none is due.
#
# A model server restarts only for another revision of its Workspace, or when an upgrade of its
# image is requested. Changes by others stay: replicas, resources, images, affinity, probes, update
# strategy, labels. For a preset, a new revision replaces what follows from the editable fields
# (adapters, configuration); for a template, it replaces the pods' template.

Operations = tuple[dict[str, Any], ...]
_POD: Final = "/spec/template/spec"


def preset_changes(
    present: StatefulSet, desired: Body, inference: InferenceSpec, revision: Revision
) -> Operations:
    """Return the changes to the server of a preset, desired with weights where it has them."""
    position = _main_position(present)
    if revision.state_of(present.metadata) is not RevisionState.OUTDATED or position is None:
        return _mark(present, revision)
    command = _command_change(present.spec.template.spec.containers[position], inference, position)
    pod: Body = desired["spec"]["template"]["spec"]
    main: Body = pod["containers"][0]
    container = f"{_POD}/containers/{position}"
    return (
        *_mark(present, revision),
        *command,
        _set(f"{container}/env", main.get("env", [])),
        _set(f"{container}/volumeMounts", main.get("volumeMounts", [])),
        _set(f"{_POD}/initContainers", pod.get("initContainers", [])),
        _set(f"{_POD}/volumes", pod["volumes"]),
    )


def template_changes(present: StatefulSet, desired: Body, revision: Revision) -> Operations:
    """Return the changes to the server of a template."""
    if revision.state_of(present.metadata) is not RevisionState.OUTDATED:
        return _mark(present, revision)
    return (*_mark(present, revision), _set("/spec/template", _template(present, desired)))


def image_upgrade(
    workspace: ObjectMeta, present: StatefulSet, desired: Body, revision: Revision
) -> Operations:
    """Return the changes that give the server of a preset the present image, if requested.

    A label of the Workspace names the version, so that a forgotten label has no effect later.
    """
    main: Body = desired["spec"]["template"]["spec"]["containers"][0]
    version = (workspace.labels or {}).get(labels.UPGRADE_TO, "")
    is_due = server_image(present) != main["image"]
    if not version or not main["image"].endswith(f":{version}") or not is_due:
        return ()
    retention = "persistentVolumeClaimRetentionPolicy"
    return (
        *(_mark(present, revision) or _precondition(present)),
        _set("/spec/template", _template(present, desired)),
        _set("/spec/replicas", desired["spec"]["replicas"]),
        _set(f"/spec/{retention}", desired["spec"][retention]),
    )


def server_image(present: StatefulSet) -> str:
    """Return the image of the server's container; empty if there is none."""
    container = _main_container_of(present)
    return container.image if container is not None else ""


def is_benchmarked(present: StatefulSet) -> bool:
    """Return whether the server is measured when it starts; Kaito's older ones are not."""
    container = _main_container_of(present)
    probe = container.startup_probe if container is not None else None
    command = probe.exec.command if probe is not None and probe.exec is not None else ()
    return any(BENCHMARK_SCRIPT in word for word in command)


def is_on_local_disk(present: StatefulSet) -> bool:
    """Return whether the weights of its pods are on a disk of the machine."""
    return any(each.metadata.name == pods.WEIGHTS for each in present.spec.volume_claim_templates)


def _template(present: StatefulSet, desired: Body) -> Body:
    """Return the desired template with the StatefulSet's selected labels, which never change."""
    template: Body = desired["spec"]["template"]
    selected = present.spec.selector.match_labels or {}
    metadata: Body = template["metadata"]
    return {**template, "metadata": {**metadata, "labels": {**metadata["labels"], **selected}}}


def _main_container_of(present: StatefulSet) -> ServerContainer | None:
    position = _main_position(present)
    return None if position is None else present.spec.template.spec.containers[position]


def _main_position(present: StatefulSet) -> int | None:
    """Return the position of the server's container: the one with its name, else the first."""
    names = [each.name for each in present.spec.template.spec.containers]
    if present.metadata.name in names:
        return names.index(present.metadata.name)
    return 0 if names else None


def _command_change(
    container: ServerContainer, inference: InferenceSpec, position: int
) -> Iterator[dict[str, Any]]:
    for number, word in enumerate(container.command):
        changed = with_optional_flags(
            word, with_adapters=bool(inference.adapters), with_config=bool(inference.config)
        )
        if changed != word:
            yield _set(f"{_POD}/containers/{position}/command/{number}", changed, op="replace")


def _mark(present: StatefulSet, revision: Revision) -> Operations:
    """Return the annotations of a revision, if they differ."""
    found = present.metadata.annotations
    wanted = revision.annotations
    if found is not None and found.get(labels.REVISION) == wanted[labels.REVISION]:
        return ()
    path = "/metadata/annotations"
    if found is None:
        return (*_precondition(present), _set(path, wanted))
    marks = (_set(f"{path}/{escaped(key)}", text) for key, text in wanted.items())
    return (*_precondition(present), *marks)


def _precondition(present: StatefulSet) -> Operations:
    revision = present.metadata.resource_version
    return ({"op": "test", "path": "/metadata/resourceVersion", "value": revision},)


def _set(path: str, value: Any, op: str = "add") -> dict[str, Any]:
    return {"op": op, "path": path, "value": value}
