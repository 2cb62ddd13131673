"""The StatefulSet of a Workspace that brings a pod template of its own."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

from controller.apimachinery.custom_object import mapping
from controller.kaito.api.options import Provisioner
from controller.kaito.workloads.identity import child, pod_labels
from controller.kaito.workloads.pods.scheduling import (
    asks_for_gpus,
    default_tolerations,
    node_affinity,
    node_terms,
)
from controller.kube.resources import STATEFUL_SETS

if TYPE_CHECKING:
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import WorkspaceSpec
    from controller.kaito.workloads.pods.pod_parts import Body
    from controller.kaito.workloads.revisions.revision import Revision
    from controller.kube.objects import ObjectMeta


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
