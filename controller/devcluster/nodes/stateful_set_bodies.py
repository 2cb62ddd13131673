"""The bodies of the pods of a StatefulSet, and of the claims that each pod has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.pods import PODS
from controller.devcluster.nodes.stateful_set_plan import REVISION_LABEL, revision
from controller.devcluster.nodes.views import STATEFUL_SETS
from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from controller.devcluster.nodes.views import ControlledStatefulSet

_POD_NAME = "statefulset.kubernetes.io/pod-name"
_POD_INDEX = "apps.kubernetes.io/pod-index"


def claim_bodies(stateful_set: ControlledStatefulSet, number: int) -> dict[str, dict[str, Any]]:
    """The claims of the pod of that number, by the names of their volumes. They outlive the set."""
    meta = stateful_set.metadata
    return {
        volume: {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "metadata": {
                "name": f"{volume}-{meta.name}-{number}",
                "namespace": meta.namespace,
                "labels": claim["metadata"].get("labels") or {},
            },
            "spec": claim.get("spec") or {},
        }
        for claim in stateful_set.spec.volume_claim_templates
        for volume in (claim["metadata"]["name"],)
    }


def pod_body(stateful_set: ControlledStatefulSet, number: int) -> dict[str, Any]:
    """The pod of that number."""
    meta, template = stateful_set.metadata, stateful_set.spec.template
    template_meta: dict[str, Any] = template.get("metadata") or {}
    name = f"{meta.name}-{number}"
    labels = {_POD_NAME: name, _POD_INDEX: str(number), REVISION_LABEL: revision(stateful_set)}
    owner = {
        "apiVersion": STATEFUL_SETS.api_version,
        "kind": STATEFUL_SETS.kind,
        "name": meta.name,
        "uid": meta.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": PODS.api_version,
        "kind": PODS.kind,
        "metadata": {
            "name": name,
            "namespace": meta.namespace,
            "labels": {**(template_meta.get("labels") or {}), **labels},
            "annotations": template_meta.get("annotations") or {},
            "finalizers": template_meta.get("finalizers") or [],
            "ownerReferences": [owner],
        },
        "spec": _spec(template.get("spec") or {}, stateful_set, number),
    }


def _spec(
    given: dict[str, Any], stateful_set: ControlledStatefulSet, number: int
) -> dict[str, Any]:
    claimed = {
        volume: {"name": volume, "persistentVolumeClaim": {"claimName": body["metadata"]["name"]}}
        for volume, body in claim_bodies(stateful_set, number).items()
    }
    others = [each for each in given.get("volumes") or () if each["name"] not in claimed]
    return {
        **given,
        "hostname": f"{stateful_set.metadata.name}-{number}",
        "subdomain": stateful_set.spec.service_name,
        "volumes": [*claimed.values(), *others],
    }
