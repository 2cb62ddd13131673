"""On which nodes pods may be: tolerations, and labels that a node must have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controller.kaito.api import labels
from controller.kaito.api.options import Provisioner
from controller.kaito.presets import Cloud

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import ResourceSpec
    from controller.kaito.workloads.pod_parts import Body
    from controller.kube.objects import ObjectMeta

GPU: Final = "nvidia.com/gpu"
_SLICE: Final = "nvidia.com/mig-"
_EFFECT: Final = "NoSchedule"
_SPOT: Final = "kubernetes.azure.com/scalesetpriority"


def gpu_resource(resource: ResourceSpec) -> str:
    """The resource that a pod asks for: GPUs, or slices of a profile."""
    partition = resource.partition
    if partition is not None and partition.mode == "mig" and partition.profile:
        return f"{_SLICE}{partition.profile}"
    return GPU


def gpu_request(resource: str, count: int) -> Body:
    """`resources` of a container that gets so many of them for itself."""
    amount = {resource: str(count)}
    return {"requests": amount, "limits": dict(amount)}


def default_tolerations(options: KaitoOptions) -> list[Body]:
    """Tolerations of all model servers."""
    return [
        {"key": GPU, "operator": "Exists", "effect": _EFFECT},
        {"key": "sku", "operator": "Equal", "value": "gpu", "effect": _EFFECT},
        *_spot_machines(options),
    ]


def serving_tolerations(resource: ResourceSpec, options: KaitoOptions) -> list[Body]:
    """Tolerations of a preset, which may run on nodes that are tainted with their slices."""
    slices = gpu_resource(resource)
    own = [{"key": slices, "operator": "Exists", "effect": _EFFECT}] if slices != GPU else []
    return [*default_tolerations(options), *own]


def tuning_tolerations(options: KaitoOptions) -> list[Body]:
    """Tolerations of tuning."""
    return [
        {"key": "gpu", "operator": "Equal", "effect": _EFFECT},
        {"key": "sku", "value": "gpu", "effect": _EFFECT},
        *_spot_machines(options),
    ]


def node_requirements(resource: ResourceSpec) -> list[Body]:
    """The user's requirements of nodes, sorted; reserved labels count for nothing."""
    wanted = resource.node_labels
    return [_requirement(key, wanted[key]) for key in sorted(wanted)]


def own_node_requirements(workspace: ObjectMeta, options: KaitoOptions) -> list[Body]:
    """The labels of nodes that were provisioned for this Workspace; none without provisioner."""
    if options.provisioner is Provisioner.OWN_NODES:
        return []
    keys = (labels.WORKSPACE, labels.WORKSPACE_NAMESPACE)
    if options.provisioner is Provisioner.NODE_POOLS:
        keys = (labels.POOL_WORKSPACE, labels.POOL_WORKSPACE_NAMESPACE)
    name, namespace = keys
    return [_requirement(name, workspace.name), _requirement(namespace, workspace.namespace)]


def node_affinity(requirements: list[Body]) -> dict[str, Any]:
    """`affinity` as a field of a pod; none without requirements, which the API server refuses."""
    if not requirements:
        return {}
    terms = [{"matchExpressions": requirements}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def _spot_machines(options: KaitoOptions) -> list[Body]:
    if options.cloud is not Cloud.AZURE:
        return []
    return [{"key": _SPOT, "operator": "Equal", "value": "spot", "effect": _EFFECT}]


def _requirement(key: str, value: str) -> Body:
    return {"key": key, "operator": "In", "values": [value]}
