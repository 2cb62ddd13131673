"""The Workspace of one replica, and the labels that are added to it later."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Final

from controller.apimachinery.custom_object import dig
from controller.apimachinery.ownership import owner_reference
from controller.kaito.api import labels
from controller.kaito.api.inferenceset import INFERENCE_SETS
from controller.kaito.api.workspace import WORKSPACES

if TYPE_CHECKING:
    from controller.kaito.api.inferenceset import InferenceSet, InferenceSetSpec
    from controller.kaito.api.options import KaitoOptions
    from controller.kaito.api.workspace import Workspace

_INHERITED: Final = (labels.INFERENCE_ROLE, labels.CREATED_BY_MULTI_ROLE)


def workspace_body(
    inference_set: InferenceSet, spec: InferenceSetSpec, name: str, options: KaitoOptions
) -> dict[str, Any]:
    """Return the body to create for a replica.

    Args:
        inference_set: the set.
        spec: its valid specification.
        name: name of the Workspace.
        options: options of the operator.
    """
    meta = inference_set.metadata
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": meta.namespace,
        "labels": _labels(inference_set, spec),
        "ownerReferences": [owner_reference(INFERENCE_SETS, meta)],
    }
    annotations = _annotations(inference_set, spec)
    if annotations:
        metadata["annotations"] = annotations
    return {
        "apiVersion": WORKSPACES.api_version,
        "kind": WORKSPACES.kind,
        "metadata": metadata,
        "resource": _resource(inference_set, spec, options),
        "inference": copy.deepcopy(spec.template.inference),
    }


def label_changes(
    inference_set: InferenceSet, spec: InferenceSetSpec, workspace: Workspace
) -> dict[str, Any]:
    """Return the merge patch that adds the labels of an edit; empty if none is missing.

    It also adds a label that another writer has taken off: the one that names the set is the name
    under which its servers serve the model. Labels are never removed, because others may have set
    them.
    """
    present = workspace.metadata.labels or {}
    wanted = _labels(inference_set, spec)
    missing = {key: wanted[key] for key in wanted if present.get(key) != wanted[key]}
    return {"metadata": {"labels": missing}} if missing else {}


def _labels(inference_set: InferenceSet, spec: InferenceSetSpec) -> dict[str, str]:
    meta = inference_set.metadata
    own = meta.labels or {}
    inherited = {key: own[key] for key in _INHERITED if key in own}
    creator = {labels.CREATED_BY_INFERENCE_SET: meta.name}
    return {**spec.template.metadata.labels, **inherited, **creator}


def _annotations(inference_set: InferenceSet, spec: InferenceSetSpec) -> dict[str, str]:
    own = inference_set.metadata.annotations or {}
    disabled = own.get(labels.DISABLE_BENCHMARK) == "true"
    opt_out = {labels.DISABLE_BENCHMARK: "true"} if disabled else {}
    return {**spec.template.metadata.annotations, **opt_out}


def _resource(
    inference_set: InferenceSet, spec: InferenceSetSpec, options: KaitoOptions
) -> dict[str, Any]:
    """Return the nodes of one replica; the instance type is that of nodes to be provisioned."""
    resource: dict[str, Any] = {
        "labelSelector": copy.deepcopy(dig(inference_set.spec, "labelSelector"))
    }
    partition = dig(inference_set.spec, "template", "resource", "partition")
    if partition is not None:
        resource["partition"] = copy.deepcopy(partition)
    instance_type = spec.template.resource.instance_type
    if instance_type and not options.has_own_nodes:
        resource["instanceType"] = instance_type
    return resource
