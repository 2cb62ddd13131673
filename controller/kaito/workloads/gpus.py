"""The GPUs that a workload has on each of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controller.kaito.presets import UnknownGPUs, find_instance_type, gpus_of_node, gpus_of_slice

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import ResourceSpec
    from controller.kaito.presets import NodeGPUs


def workload_gpus(
    resource: ResourceSpec, options: KaitoOptions, node: tuple[str, Mapping[str, str]] | None = None
) -> NodeGPUs:
    """Return the GPUs of each node.

    Args:
        resource: resource of the Workspace.
        options: options of the operator.
        node: name and labels of a ready node that matches; used where nodes are not provisioned.

    Raises:
        UnknownGPUs: no node is ready yet, its labels do not name its GPUs, or the instance type is
            not known; the message is Kaito's.
    """
    partition = resource.partition
    if options.mig and partition is not None and partition.mode == "mig":
        return gpus_of_slice(partition.profile)
    if not options.has_own_nodes:
        known = find_instance_type(options.cloud, resource.instance_type)
        if known is None:
            raise UnknownGPUs(
                f"invalid value: Unsupported SKU '{resource.instance_type}' for cloud provider: sku"
            )
        return known.gpus
    if node is None:
        wanted = ",".join(f"{key}={value}" for key, value in sorted(resource.node_labels.items()))
        raise UnknownGPUs(
            "no ready nodes found matching the workspace's label selector"
            + (f": {wanted}" if wanted else "")
        )
    gpus = gpus_of_node(*node)
    if options.accelerators and partition is not None and partition.mode == "accelerator":
        return gpus.some(partition.count or 1)
    return gpus
