"""The StatefulSet that serves a preset: one pod for each node, which takes all of its GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controller.kaito.presets import needs_cuda_toolkit, needs_deep_gemm
from controller.kaito.workloads.identity import child, headless_service_name, pod_labels
from controller.kaito.workloads.inference.server import BEHIND_SIDECAR_PORT, SERVER_PORT, Server
from controller.kaito.workloads.pods import volumes
from controller.kaito.workloads.pods.adapters import adapter_parts, pull_secret_references
from controller.kaito.workloads.pods.images import ROUTING_SIDECAR, base_image
from controller.kaito.workloads.pods.pod_parts import (
    PodParts,
    as_list,
    container,
    field_variable,
    variable,
)
from controller.kaito.workloads.pods.scheduling import (
    gpu_request,
    gpu_resource,
    node_affinity,
    node_terms,
    serving_tolerations,
)
from controller.kube.resources import STATEFUL_SETS

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import InferenceSpec, ResourceSpec, WorkspaceSpec
    from controller.kaito.workloads.inference.server import Serving
    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kube.objects import ObjectMeta

# Source of names and values: kaito-project/kaito at 056b8280,
# pkg/workspace/inference/preset_inferences.go, pkg/workspace/manifests/manifests.go.
KV_EVENTS_PORT: Final = 5557
_CUDA_HOME: Final = "/opt/kaito/cuda/129"
_CUDA_VOLUME: Final = "cuda-toolkit-hostpath"
_POD_IP: Final = "status.podIP"
_POD_INDEX: Final = "metadata.labels['apps.kubernetes.io/pod-index']"
_TOKEN: Final = "HF_TOKEN"  # noqa: S105  name of a key
_CLAIMS_OUTLIVE_SCALING: Final = {"whenScaled": "Retain", "whenDeleted": "Delete"}


def preset_stateful_set(
    workspace: ObjectMeta, spec: WorkspaceSpec, serving: Serving, options: KaitoOptions
) -> Body:
    """Return the body that is created for a Workspace with a preset."""
    assert spec.inference is not None
    server = Server(workspace, spec.inference, serving, options)
    selected = pod_labels(workspace)
    template = {"metadata": {"labels": dict(selected)}, "spec": _pod_spec(server, spec.resource)}
    claims = (
        [volumes.weights_claim(serving.model, workspace.name)]
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
    options = server.options
    parts = _parts(server)
    terms = node_terms(
        server.workspace,
        resource,
        options,
        uses_earlier_nodes=server.serving.uses_earlier_nodes,
    )
    secrets = pull_secret_references(server.inference.adapters)
    init_containers = as_list(parts.init_containers)
    return {
        **({"initContainers": init_containers} if init_containers else {}),
        "containers": [
            _main_container(server, resource, parts),
            *([_sidecar()] if server.has_sidecar else []),
        ],
        **({"imagePullSecrets": secrets} if secrets else {}),
        **node_affinity(terms),
        "tolerations": serving_tolerations(resource, options),
        "volumes": as_list(parts.volumes),
    }


def _parts(server: Server) -> PodParts:
    """Return the parts that the concerns add to the pod, in Kaito's order."""
    return (
        volumes.config_volume(server.inference.config)
        + _weights(server)
        + _cuda_toolkit(server)
        + volumes.shared_memory()
        + PodParts(env=(*_runtime_env(server), *_role_env(server), *_token(server.inference)))
        + adapter_parts(server.inference.adapters)
        + PodParts(env=(field_variable("POD_INDEX", _POD_INDEX),) if server.is_distributed else ())
        + _system_disk(server)
    )


def _main_container(server: Server, resource: ResourceSpec, parts: PodParts) -> Body:
    ports: list[Body] = [{"name": "http", "containerPort": server.port}]
    if server.is_vllm:
        ports.append({"name": "kv-events", "containerPort": KV_EVENTS_PORT})
    return container(
        server.workspace.name,
        base_image(server.options),
        command=server.command(),
        ports=ports,
        env=as_list(parts.env),
        resources=gpu_request(gpu_resource(resource), server.serving.gpus.count),
        volumeMounts=as_list(parts.mounts),
        **server.probes(),
    )


def _weights(server: Server) -> PodParts:
    path = server.local_weights
    return volumes.weights_of_the_node(path) if path else volumes.weights_mount()


def _system_disk(server: Server) -> PodParts:
    if server.local_weights or server.serving.on_local_disk:
        return PodParts()
    return volumes.weights_on_the_system_disk()


def _cuda_toolkit(server: Server) -> PodParts:
    """Return the parts that install a compiler for some models on the node, once for all pods."""
    if not needs_cuda_toolkit(server.serving.model):
        return PodParts()
    mount = {"name": _CUDA_VOLUME, "mountPath": _CUDA_HOME}
    source = {"path": _CUDA_HOME, "type": "DirectoryOrCreate"}
    provisioner = container(
        "cuda-toolkit-provisioner",
        base_image(server.options),
        command=[
            *("/bin/sh", "-c"),
            'flock "$1" /workspace/cuda-provision.sh "$1"',
            *("sh", _CUDA_HOME),
        ],
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
    return env


def _role_env(server: Server) -> list[Body]:
    if not server.role:
        return []
    return [variable("KAITO_INFERENCE_ROLE", server.role), _side_channel()]


def _side_channel() -> Body:
    return field_variable("VLLM_NIXL_SIDE_CHANNEL_HOST", _POD_IP)


def _token(inference: InferenceSpec) -> list[Body]:
    secret = inference.preset.preset_options.model_access_secret if inference.preset else ""
    if not secret:
        return []
    reference = {"name": secret, "key": _TOKEN, "optional": True}
    return [{"name": _TOKEN, "valueFrom": {"secretKeyRef": reference}}]


def _sidecar() -> Body:
    """Return the router in front of a server that decodes."""
    return container(
        "llm-d-routing-sidecar",
        ROUTING_SIDECAR,
        args=[
            f"--port={SERVER_PORT}",
            f"--vllm-port={BEHIND_SIDECAR_PORT}",
            "--secure-proxy=false",
        ],
        ports=[{"name": "sidecar", "containerPort": SERVER_PORT, "protocol": "TCP"}],
        env=[field_variable("POD_IP", _POD_IP), _side_channel()],
    )
