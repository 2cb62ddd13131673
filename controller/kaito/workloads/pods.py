"""The pods of models: images, adapters, volumes, and where they are scheduled."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

from msgspec import Struct

from controller.apimachinery.custom_object import mapping, mappings
from controller.kaito.api import labels
from controller.kaito.api.fields import image_problem, split_domain
from controller.kaito.api.options import KaitoOptions, Provisioner, Runtime
from controller.kaito.api.workspace import Adapter, Body, DataSource, ResourceSpec
from controller.kaito.presets.gpus import Cloud, disk_request, find_instance_type
from controller.kaito.presets.models import Model
from controller.kaito.presets.runtimes import WEIGHTS_PATH
from controller.kube.objects import ObjectMeta


class PodParts(Struct, frozen=True):
    """Parts of a pod; those of a container are for the main one."""

    volumes: tuple[Body, ...] = ()
    mounts: tuple[Body, ...] = ()
    env: tuple[Body, ...] = ()
    init_containers: tuple[Body, ...] = ()

    def __add__(self, other: PodParts) -> PodParts:
        """Return the parts of both, in this order."""
        return PodParts(
            self.volumes + other.volumes,
            self.mounts + other.mounts,
            self.env + other.env,
            self.init_containers + other.init_containers,
        )


def variable(name: str, value: str) -> Body:
    """Return a variable with a value; Go leaves an empty value out."""
    return {"name": name, "value": value} if value else {"name": name}


def field_variable(name: str, path: str) -> Body:
    """Return a variable with the value of a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def container(name: str, image: str, **fields: Any) -> Body:
    """Return a container without the fields that are empty."""
    return {"name": name, "image": image, **{key: each for key, each in fields.items() if each}}


def as_list(bodies: tuple[Body, ...]) -> list[Body]:
    """Return the bodies as a field of another body."""
    return [dict(each) for each in bodies]


# Source: kaito-project/kaito at 056b8280, presets/workspace/models/supported_models.yaml (base),
# pkg/workspace/image, pkg/utils/common_preset.go, pkg/utils/consts/consts.go.
BASE_TAG: Final = "0.5.0"
"""Tag of the image that serves and tunes all models."""

_ENGINE_VERSIONS: Final = {Runtime.VLLM: "0.25.1", Runtime.TRANSFORMERS: "5.14.1"}

PULLER: Final = "mcr.microsoft.com/aks/skopeo:1.14.4-6"
PUSHER: Final = "ghcr.io/oras-project/oras:v1.2.2"
DOWNLOADER: Final = "curlimages/curl"
WEIGHTS_DOWNLOADER: Final = "mcr.microsoft.com/oss/v2/oras-project/oras:v1.2.3"
ROUTING_SIDECAR: Final = "mcr.microsoft.com/oss/v2/llm-d/llm-d-routing-sidecar:v0.8.0"

_TAG_BESIDE_DIGEST: Final = re.compile(r"(:[\w][\w.-]*)(?=@)", re.ASCII)


def engine_metadata(runtime: Runtime) -> dict[str, str]:
    """Return the engine's part of a measurement. Here Kaito knows no model's quantization."""
    version = _ENGINE_VERSIONS[runtime]
    return {"engine": runtime.value, "engineVersion": version, "quantization": ""}


def base_image(options: KaitoOptions) -> str:
    """Return the image that serves and tunes models."""
    return f"{options.preset_registry}/kaito-base:{BASE_TAG}"


def complete_reference(image: str) -> str:
    """Return the reference with registry and tag; a digest replaces the tag.

    A text that is no reference stays as it is, so that the tool that gets it names it.
    """
    if image_problem(image):
        return image
    domain, remainder = split_domain(image)
    if "@" in remainder:
        return f"{domain}/{_TAG_BESIDE_DIGEST.sub('', remainder)}"
    tag = "" if ":" in remainder else ":latest"
    return f"{domain}/{remainder}{tag}"


# Source of names and paths: kaito-project/kaito at 056b8280, pkg/utils/common_preset.go.
WEIGHTS: Final = "model-weights-volume"
LOCAL_DISK_CLASS: Final = "kaito-local-nvme-disk"
"""The StorageClass of disks that are part of the machine."""

DATA_PATH: Final = "/mnt/data"
ADAPTER_PATH: Final = "/mnt/adapter"


def config_volume(config_map: str) -> PodParts:
    """Return the options of a ConfigMap; nothing if none is named."""
    if not config_map:
        return PodParts()
    return _volume("config-volume", "/mnt/config", {"configMap": {"name": config_map}})


def shared_memory() -> PodParts:
    """Return memory that processes share."""
    return _volume("dshm", "/dev/shm", {"emptyDir": {"medium": "Memory"}})  # noqa: S108


def weights_mount() -> PodParts:
    """Return the mount of the model's weights, on whatever volume."""
    return PodParts(mounts=({"name": WEIGHTS, "mountPath": WEIGHTS_PATH},))


def weights_on_the_system_disk() -> PodParts:
    """Return the volume for weights that lives as long as the pod."""
    return PodParts(volumes=({"name": WEIGHTS, "emptyDir": {}},))


def weights_claim(model: Model, workspace_name: str) -> Body:
    """Return the claim template for weights on a disk of the machine."""
    return {
        "metadata": {"name": WEIGHTS, "labels": {labels.WORKSPACE: workspace_name}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": LOCAL_DISK_CLASS,
            "resources": {"requests": {"storage": disk_request(model)}},
        },
    }


def weights_of_the_node(path: str) -> PodParts:
    """Return the weights that are in the node's image."""
    source = {"hostPath": {"path": path, "type": "Directory"}}
    return _volume("model-weights-hostpath", path, source, readOnly=True)


def data_volume(source: Mapping[str, Any] | None = None) -> PodParts:
    """Return the volume that a tuning reads."""
    return _volume("data-volume", DATA_PATH, source or {"emptyDir": {}})


def results_volume(folder: str, source: Mapping[str, Any] | None) -> PodParts:
    """Return the volume to which a tuning writes."""
    return _volume("results-volume", folder, source or {"emptyDir": {}})


def pull_secrets(purpose: str, secrets: Sequence[str]) -> PodParts:
    """Return credentials of registries, one file for each secret."""
    sources = [_credentials(secret, f"{secret}.json") for secret in secrets]
    path = f"/root/.docker/config.d/{purpose}"
    return _volume(f"docker-config-{purpose}", path, {"projected": {"sources": sources}})


def push_secret(secret: str) -> PodParts:
    """Return credentials of the registry for results."""
    sources = [_credentials(secret, "config.json")]
    return _volume("docker-config", "/root/.docker", {"projected": {"sources": sources}})


def _credentials(secret: str, file: str) -> Body:
    return {"secret": {"name": secret, "items": [{"key": ".dockerconfigjson", "path": file}]}}


def _volume(name: str, path: str, source: Mapping[str, Any], **mount: Any) -> PodParts:
    volume = {**source, "name": name}
    return PodParts((volume,), ({"name": name, "mountPath": path, **mount},))


_PULLED: Final = _volume("adapter-volume", ADAPTER_PATH, {"emptyDir": {}})
"""The folder of adapters that come as images."""


def adapter_parts(adapters: Sequence[Adapter]) -> PodParts:
    """Return the parts that the adapters add to the pod of a model server.

    The strength of an adapter is a variable with its name, as the server expects it.
    """
    pulled = [each for each in adapters if _source(each).volume is None]
    parts = _PULLED if pulled else PodParts()
    for adapter in pulled:
        parts += _pulled(adapter)
    for adapter in adapters:
        name, volume = _source(adapter).name, _source(adapter).volume
        if volume is not None:
            parts += _volume(f"adapter-volume-{name}", f"{ADAPTER_PATH}/{name}", volume)
            parts += _strength(adapter)
    return parts


def pull_secret_references(adapters: Sequence[Adapter]) -> list[Body]:
    """Return `imagePullSecrets` of the pod, in the order of the adapters."""
    secrets = (secret for each in adapters for secret in _source(each).image_pull_secrets)
    return [{"name": secret} for secret in secrets]


def puller(name: str, image: str, destination: str, mounts: PodParts) -> Body:
    """Return the container that puts the data of an image into a folder."""
    line = script("pull.sh", image=complete_reference(image), destination=destination)
    mounted = [dict(each) for each in mounts.mounts]
    return container(name, PULLER, command=["/bin/sh", "-c"], args=[line], volumeMounts=mounted)


def _pulled(adapter: Adapter) -> PodParts:
    source = _source(adapter)
    credentials = PodParts()
    if source.image_pull_secrets:
        credentials = pull_secrets(f"{source.name}-inference-adapter", source.image_pull_secrets)
    mounts = _PULLED + credentials
    pulls = puller(f"puller-{source.name}", source.image, f"{ADAPTER_PATH}/{source.name}", mounts)
    return PodParts(volumes=credentials.volumes, init_containers=(pulls,)) + _strength(adapter)


def _strength(adapter: Adapter) -> PodParts:
    if adapter.strength is None:
        return PodParts()
    return PodParts(env=(variable(_source(adapter).name, adapter.strength),))


def _source(adapter: Adapter) -> DataSource:
    """Return the source; for an adapter without one the API server reports the error."""
    return adapter.source or DataSource()


GPU: Final = "nvidia.com/gpu"
_NVIDIA: Final = "nvidia.com/"
_EFFECT: Final = "NoSchedule"


def gpu_resource(resource: ResourceSpec) -> str:
    """Return the resource that a pod asks for: GPUs, or slices of a profile."""
    partition = resource.partition
    if partition is not None and partition.mode == "mig" and partition.profile:
        return f"{_NVIDIA}mig-{partition.profile}"
    return GPU


def gpu_request(resource: str, count: int) -> Body:
    """Return `resources` of a container that gets so many of them for itself."""
    amount = {resource: str(count)}
    return {"requests": amount, "limits": dict(amount)}


def asks_for_gpus(pod: Mapping[str, Any]) -> bool:
    """Return whether a container of a pod asks for GPUs, for slices of them, or for a claim."""
    if pod.get("resourceClaims"):
        return True
    asked = [
        name
        for field in ("initContainers", "containers")
        for container in mappings(pod.get(field))
        for kind in ("requests", "limits")
        for name in mapping(mapping(container.get("resources")).get(kind))
    ]
    return any(name.startswith(_NVIDIA) or name.endswith("/gpu") for name in asked)


def default_tolerations(options: KaitoOptions) -> list[Body]:
    """Return tolerations of all model servers."""
    return [
        {"key": GPU, "operator": "Exists", "effect": _EFFECT},
        {"key": "sku", "operator": "Equal", "value": "gpu", "effect": _EFFECT},
        *_spot_machines(options),
    ]


def serving_tolerations(resource: ResourceSpec, options: KaitoOptions) -> list[Body]:
    """Return the tolerations of a preset, whose nodes may be tainted with their slices."""
    slices = gpu_resource(resource)
    own = [{"key": slices, "operator": "Exists", "effect": _EFFECT}] if slices != GPU else []
    return [*default_tolerations(options), *own]


def tuning_tolerations(options: KaitoOptions) -> list[Body]:
    """Return tolerations of tuning."""
    return [
        {"key": "gpu", "operator": "Equal", "effect": _EFFECT},
        {"key": "sku", "value": "gpu", "effect": _EFFECT},
        *_spot_machines(options),
    ]


def node_requirements(resource: ResourceSpec) -> list[Body]:
    """Return the user's requirements of nodes, sorted; reserved labels count for nothing."""
    wanted = resource.node_labels
    return [_requirement(key, wanted[key]) for key in sorted(wanted)]


def node_terms(
    workspace: ObjectMeta,
    resource: ResourceSpec,
    options: KaitoOptions,
    *,
    uses_earlier_nodes: bool = False,
) -> list[list[Body]]:
    """Return the requirements of nodes that a server may run on, of which one list must be met.

    Earlier nodes did not come with the NodePool and lack its labels: in Kaito, pods never run on
    these (KAI-21).
    """
    wanted = node_requirements(resource)
    if options.provisioner is Provisioner.OWN_NODES:
        return [wanted]
    claimed = [*wanted, *_owner(workspace, labels.WORKSPACE, labels.WORKSPACE_NAMESPACE)]
    if options.provisioner is Provisioner.NODE_CLAIMS:
        return [claimed]
    pool = _owner(workspace, labels.POOL_WORKSPACE, labels.POOL_WORKSPACE_NAMESPACE)
    terms = [[*wanted, *pool]]
    if uses_earlier_nodes:
        terms += [claimed, [*wanted, *_of_nobody(resource, options)]]
    return terms


def node_affinity(terms: list[list[Body]]) -> dict[str, Any]:
    """Return `affinity` as a field of a pod; none without requirements."""
    if not all(terms):
        return {}
    required = {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"affinity": {"nodeAffinity": affinity}}


def _owner(workspace: ObjectMeta, name_label: str, namespace_label: str) -> list[Body]:
    """Return the requirements of nodes that were provisioned for this Workspace."""
    name = _requirement(name_label, workspace.name)
    return [name, _requirement(namespace_label, workspace.namespace)]


def _of_nobody(resource: ResourceSpec, options: KaitoOptions) -> list[Body]:
    """Return the requirements of nodes of the wanted type that belong to no Workspace."""
    known = find_instance_type(options.cloud, resource.instance_type)
    absent = (labels.NODE_POOL, labels.WORKSPACE, labels.POOL_WORKSPACE)
    return [
        _requirement(labels.INSTANCE_TYPE, known.name if known else resource.instance_type),
        *({"key": key, "operator": "DoesNotExist"} for key in absent),
    ]


def _spot_machines(options: KaitoOptions) -> list[Body]:
    if options.cloud is not Cloud.AZURE:
        return []
    return [
        {
            "key": "kubernetes.azure.com/scalesetpriority",
            "operator": "Equal",
            "value": "spot",
            "effect": _EFFECT,
        }
    ]


def _requirement(key: str, value: str) -> Body:
    return {"key": key, "operator": "In", "values": [value]}


def script(name: str, **values: str) -> str:
    """Return the shell script of this name, which begins with an assignment of each value."""
    lines = [f"{key.upper()}={shlex.quote(value)}" for key, value in values.items()]
    return "\n".join(["set -eu", *lines, _text(name)])


@cache
def _text(name: str) -> str:
    folder = resources.files("controller.kaito.workloads").joinpath("scripts")
    return folder.joinpath(name).read_text(encoding="utf-8")
