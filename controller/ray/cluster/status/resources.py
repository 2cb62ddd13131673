"""The sums of the resources that a RayCluster's pods request: `status.desiredCPU` and the like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.apimachinery.quantity import ZERO, Quantity
from controller.ray.pods.start_command import is_gpu, quantities

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.ray.api.raycluster import ClusterSpec

_TPU = "google.com/tpu"


def desired_resources(spec: ClusterSpec) -> dict[str, str]:
    """Return the four `desired...` fields as canonical quantities, `"0"` when zero.

    The sums include the head and the replicas of every group that is not suspended, as specified
    and not clamped (behaviour 9). Containers that the operator adds do not count.
    """
    total: dict[str, Quantity] = {"cpu": ZERO, "memory": ZERO, "gpu": ZERO, "tpu": ZERO}
    _add(total, spec.head_group_spec.template, times=1)
    for group in spec.worker_group_specs:
        if not group.suspend:
            _add(total, group.template, times=(group.replicas or 0) * group.hosts)
    return {
        "desiredCPU": str(total["cpu"]),
        "desiredMemory": str(total["memory"]),
        "desiredGPU": str(total["gpu"]),
        "desiredTPU": str(total["tpu"]),
    }


def _add(total: dict[str, Quantity], template: Mapping[str, Any], *, times: int) -> None:
    for container in template["spec"]["containers"]:
        resources = container.get("resources", {})
        asked = quantities(resources.get("limits", {})) | quantities(resources.get("requests", {}))
        for name in sorted(asked):
            key = "gpu" if is_gpu(name) else "tpu" if name == _TPU else name
            if key in total:
                total[key] += asked[name] * times
