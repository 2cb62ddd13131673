"""The StatefulSet of a Workspace that brings a pod template of its own."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

from controller.apimachinery.custom_object import mapping
from controller.kaito.api.options import Provisioner
from controller.kaito.presets import UnknownGPUs, find_instance_type, gpus_of_node, gpus_of_slice
from controller.kaito.workloads.pods import (
    asks_for_gpus,
    default_tolerations,
    node_affinity,
    node_terms,
)
from controller.kaito.workloads.revisions import child, pod_labels
from controller.kube.resources import STATEFUL_SETS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import ResourceSpec, WorkspaceSpec
    from controller.kaito.presets import NodeGPUs
    from controller.kaito.workloads.pods import Body
    from controller.kaito.workloads.revisions import Revision
    from controller.kube.objects import ObjectMeta


# The GPUs that a workload has on each of its nodes.


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


def template_stateful_set(
    workspace: ObjectMeta,
    spec: WorkspaceSpec,
    nodes: int,
    revision: Revision,
    options: KaitoOptions,
    *,
    uses_earlier_nodes: bool = False,
) -> Body:
    """Return the body that is created for a Workspace with a template.

    The user's affinity is replaced and the tolerations are added to, as in Kaito, but not those of
    GPUs and spot machines on own nodes if no container asks for a GPU: such pods would take
    the places of those that do. Kaito writes no revision here, because it never applies an edit.
    """
    assert spec.inference is not None
    selected = pod_labels(workspace)
    return {
        **child(STATEFUL_SETS, workspace, workspace.name, annotations=revision.annotations),
        "spec": {
            "replicas": nodes,
            "selector": {"matchLabels": selected},
            "template": _template(
                workspace,
                spec,
                node_terms(
                    workspace, spec.resource, options, uses_earlier_nodes=uses_earlier_nodes
                ),
                options,
            ),
        },
    }


def _template(
    workspace: ObjectMeta, spec: WorkspaceSpec, terms: list[list[Body]], options: KaitoOptions
) -> Body:
    assert spec.inference is not None
    template: Body = copy.deepcopy(spec.inference.template or {})
    metadata = mapping(template.get("metadata"))
    own_labels = {**mapping(metadata.get("labels")), **pod_labels(workspace)}
    return {
        **template,
        "metadata": {**metadata, "labels": own_labels},
        "spec": _pod_spec(mapping(template.get("spec")), terms, options),
    }


def _pod_spec(given: Body, terms: list[list[Body]], options: KaitoOptions) -> Body:
    rest = {key: value for key, value in given.items() if key != "affinity"}
    tolerations = given.get("tolerations")
    own = cast("list[Any]", tolerations) if isinstance(tolerations, list) else []
    # Nodes that are provisioned for the Workspace are tainted, and its pods run nowhere else.
    on_tainted_nodes = options.provisioner is not Provisioner.OWN_NODES
    added = default_tolerations(options) if on_tainted_nodes or asks_for_gpus(given) else []
    return {
        **rest,
        **node_affinity(terms),
        **({"tolerations": [*own, *added]} if own or added else {}),
    }
