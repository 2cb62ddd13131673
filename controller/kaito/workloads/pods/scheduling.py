"""Scheduling of pods: tolerations and required node labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import mapping, mappings
from controller.kaito.api import labels
from controller.kaito.api.options import Provisioner
from controller.kaito.presets import Cloud, find_instance_type

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import ResourceSpec
    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kube.objects import ObjectMeta

GPU: Final = "nvidia.com/gpu"
_NVIDIA: Final = "nvidia.com/"
_SLICE: Final = f"{_NVIDIA}mig-"
_EFFECT: Final = "NoSchedule"
_SPOT: Final = "kubernetes.azure.com/scalesetpriority"


def gpu_resource(resource: ResourceSpec) -> str:
    """Return the resource that a pod asks for: GPUs, or slices of a profile."""
    partition = resource.partition
    if partition is not None and partition.mode == "mig" and partition.profile:
        return f"{_SLICE}{partition.profile}"
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

    Args:
        workspace: for which nodes are provisioned.
        resource: with the user's requirements.
        options: options of the operator.
        uses_earlier_nodes: whether some nodes did not come with the NodePool and lack its labels.
            In Kaito, pods never run on these (KAI-21).
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
    return [{"key": _SPOT, "operator": "Equal", "value": "spot", "effect": _EFFECT}]


def _requirement(key: str, value: str) -> Body:
    return {"key": key, "operator": "In", "values": [value]}
