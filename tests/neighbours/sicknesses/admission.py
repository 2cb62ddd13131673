"""Webhooks and other controllers change what the operator creates.

At the end they are gone, and what they left crippled is deleted by its user.
"""

from __future__ import annotations

import copy
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from controller.kube.errors import KubeError
from controller.kube.resources import PODS
from tests.neighbours.neighbourhood import Tenant
from tests.neighbours.sickness import KAITO, UPGRADES, Course, Sickness
from tests.neighbours.sicknesses.others import CREATED, PODS_ONLY, contested_by

Manifest = dict[str, Any]

CHILDREN = CREATED | {str(PODS): PODS}
"""What kinds create."""

OURS = re.compile(r"(.+\.)?(ray\.io|kaito\.sh)/")
"""Labels that kinds give what they create, `inferenceset.kaito.sh/created-by` too."""

NOBODY = "00000000-0000-0000-0000-000000000000"
"""A uid that no object has."""


def webhook(change: Callable[[Manifest], object], resource: str = "") -> Course:
    """Each object of the resource, or of what the kind creates, is changed like this."""

    @asynccontextmanager
    async def course(sick: Tenant) -> AsyncIterator[None]:
        with sick.mutating(resource or sick.column.creates, change):
            yield
        await _delete_crippled(sick)

    return course


def at_once(strip: Manifest, field: str) -> Course:
    """Another controller strips this field off what the kind creates, after its creation."""

    @asynccontextmanager
    async def course(sick: Tenant) -> AsyncIterator[None]:
        resource = CHILDREN[sick.column.creates]

        async def react(user: Any, event: Any) -> None:
            meta = event.current.object["metadata"]
            if meta.get(field):
                await user.merge_patch(resource, sick.namespace, meta["name"], strip)

        with sick.reacting(resource, react):
            yield
        await _delete_crippled(sick)

    return course


async def _delete_crippled(sick: Tenant) -> None:
    """Delete what lost its owner reference, and pods that lost their labels."""
    resource = CHILDREN[sick.column.creates]
    for each in sick.objects(resource):
        meta = each["metadata"]
        labelled = any(map(OURS.match, meta.get("labels") or {}))
        if not (meta.get("ownerReferences") and (labelled or resource is not PODS)):
            with suppress(KubeError):
                await sick.user.delete(resource, sick.namespace, meta["name"])


def inject_sidecar(pod: Manifest) -> None:
    """Do what Istio does: a proxy, its volume, and marks."""
    spec, meta = pod["spec"], pod["metadata"]
    if all(each["name"] != "istio-proxy" for each in spec["containers"]):
        spec["containers"].insert(0, {"name": "istio-proxy", "image": "istio/proxyv2"})
        spec.setdefault("initContainers", []).insert(0, {"name": "istio-init", "image": "istio"})
        spec.setdefault("volumes", []).append({"name": "istio-envoy", "emptyDir": {}})
    meta.setdefault("annotations", {})["sidecar.istio.io/status"] = "injected"
    meta.setdefault("labels", {})["security.istio.io/tlsMode"] = "istio"


def enforce_policy(found: Manifest) -> None:
    """Do what Kyverno does: images of a mirror, limits, tolerations and labels."""
    found["metadata"].setdefault("labels", {})["policy"] = "enforced"
    for spec in _pod_specs(found):
        spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        for container in spec["containers"]:
            limits = container.setdefault("resources", {}).setdefault("limits", {})
            limits["ephemeral-storage"] = "1Gi"
            if not container["image"].startswith("mirror/"):
                container["image"] = f"mirror/{container['image']}"


def _pod_specs(found: Manifest) -> list[Manifest]:
    spec = found.get("spec", {})
    match found["kind"]:
        case "Pod":
            return [spec]
        case "StatefulSet":
            return [spec["template"]["spec"]]
        case "RayJob":
            spec = spec["rayClusterSpec"]
        case "Workspace":
            return []
    groups = (spec["headGroupSpec"], *spec.get("workerGroupSpecs", ()))
    return [group["template"]["spec"] for group in groups]


def drop_labels(found: Manifest) -> None:
    labels = found["metadata"].get("labels") or {}
    found["metadata"]["labels"] = {
        name: value for name, value in labels.items() if not OURS.match(name)
    }


def drop_owner(found: Manifest) -> None:
    found["metadata"].pop("ownerReferences", None)


def rewrite_owner(found: Manifest) -> None:
    """Name an owner that does not exist: the garbage collector deletes what it would own."""
    for reference in found["metadata"].get("ownerReferences") or ():
        reference["uid"] = NOBODY


@asynccontextmanager
async def rewritten_owners(sick: Tenant) -> AsyncIterator[None]:
    """Another controller does so with what the kind creates, after its creation."""
    resource = CHILDREN[sick.column.creates]

    async def react(user: Any, event: Any) -> None:
        found = copy.deepcopy(event.current.object)
        meta = found["metadata"]
        if any(each["uid"] != NOBODY for each in meta.get("ownerReferences") or ()):
            rewrite_owner(found)
            patch = {"metadata": {"ownerReferences": meta["ownerReferences"]}}
            await user.merge_patch(resource, sick.namespace, meta["name"], patch)

    with sick.reacting(resource, react):
        yield


def rename_ports(service: Manifest) -> None:
    """Name ports after their protocol, as meshes want it."""
    for port in service["spec"].get("ports", ()):
        if not port.get("name", "").startswith("tcp-"):
            port["name"] = f"tcp-{port.get('name', '')}"


def drop_annotations(found: Manifest) -> None:
    found["metadata"].pop("annotations", None)


UNKNOWN_CLUSTER = {"RayService": "lacks the annotation manta.dev/made-from.*exempt RayClusters"}

TAKEN = {
    "RayCluster": "admission changed owner reference.*then delete the object",
    "RayService": "took its owner reference away.*delete the cluster",
}
DISOWNED = dict.fromkeys(
    ("RayJob", "RayService", "RayCronJob", "RayClusterFleet", *KAITO),
    "changes the owner reference of .*garbage collector.*exempt it from that webhook",
)
SELDOM = 300.0
"""Seconds after which what is lost again and again is made anew, at the latest."""

ORPHANED = {
    "RayService": "took its owner reference away.*delete the cluster",
    "RayClusterFleet": "belongs to no controller: delete it",
}

SICKNESSES = (
    Sickness(
        name="a webhook injects sidecars", course=webhook(inject_sidecar, "pods"), spares=KAITO
    ),
    Sickness(name="a webhook enforces images, limits and labels", course=webhook(enforce_policy)),
    Sickness(
        name="a webhook takes labels off what is created",
        course=webhook(drop_labels),
        named=contested_by("InferenceSet")
        | {"RayCluster": "its labels say ray.io/group=.*put them back"},
    ),
    Sickness(
        name="a webhook takes owner references off what is created",
        course=webhook(drop_owner),
        spares=UPGRADES,
        named=TAKEN,
    ),
    Sickness(
        name="a webhook names owners that do not exist",
        course=webhook(rewrite_owner),
        spares=UPGRADES,
        named=DISOWNED
        | {"RayCluster": "admission changed owner reference.*then delete the object"},
        lingers=SELDOM,
    ),
    Sickness(
        name="a webhook takes annotations off what is created",
        course=webhook(drop_annotations),
        # a RayJob has ended before, and a StatefulSet needs none after its creation
        named=contested_by("RayCluster", "RayClusterFleet", "InferenceSet") | UNKNOWN_CLUSTER,
    ),
    Sickness(
        name="a webhook renames the ports of services",
        course=webhook(rename_ports, "services"),
        spares=UPGRADES,  # their services are there already, and stay
    ),
    Sickness(
        name="another controller takes all labels off what is created",
        course=at_once({"metadata": {"labels": None}}, "labels"),
    ),
    Sickness(
        name="another controller names owners that do not exist",
        course=rewritten_owners,
        spares=UPGRADES,
        named=DISOWNED | {"RayCluster": "PodDeleted.*changed its owner reference"},
        lingers=SELDOM,
    ),
    Sickness(
        name="another controller takes annotations off what is created",
        course=at_once({"metadata": {"annotations": None}}, "annotations"),
        named=contested_by("RayCluster", "RayCronJob", "RayClusterFleet", *KAITO) | UNKNOWN_CLUSTER,
    ),
    Sickness(
        name="another controller takes owner references off what is created",
        course=at_once({"metadata": {"ownerReferences": None}}, "ownerReferences"),
        spares=PODS_ONLY,  # pods are then lost again and again, which is a row of its own
        named=ORPHANED,
    ),
)
