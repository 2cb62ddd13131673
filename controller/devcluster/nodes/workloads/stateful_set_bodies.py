"""The bodies of the pods of a StatefulSet, and of the claims that each pod has of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controller.devcluster.nodes.objects.views import STATEFUL_SETS
from controller.devcluster.nodes.workloads.stateful_set_plan import REVISION_LABEL, revision
from controller.devcluster.nodes.workloads.workload_controller import pod_body
from controller.kube.resources import CLAIMS

if TYPE_CHECKING:
    from controller.devcluster.nodes.objects.views import ControlledStatefulSet

_POD_NAME = "statefulset.kubernetes.io/pod-name"
_POD_INDEX = "apps.kubernetes.io/pod-index"


def claim_bodies(stateful_set: ControlledStatefulSet, number: int) -> dict[str, dict[str, Any]]:
    """Return the claims of the pod of that number, by volume; they outlive the set."""
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


def numbered_pod(stateful_set: ControlledStatefulSet, number: int) -> dict[str, Any]:
    """Return the pod of that number."""
    name = f"{stateful_set.metadata.name}-{number}"
    return pod_body(
        STATEFUL_SETS,
        stateful_set,
        name=name,
        labels={
            _POD_NAME: name,
            _POD_INDEX: str(number),
            REVISION_LABEL: revision(stateful_set),
        },
        spec=_spec(stateful_set.spec.template.get("spec") or {}, stateful_set, number),
    )


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
