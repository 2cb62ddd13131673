"""The example under RollingUpdate as plain values: its pods, what Ray says, and what is decided."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from controller.apimachinery.conditions import ConditionSet, rfc3339
from controller.kube.objects import Pod
from controller.ray.api import RayCluster, labels
from controller.ray.cluster import RayClusterKind
from controller.ray.cluster.observation import ClusterObservation
from controller.ray.cluster.rolling import decide, with_rollout
from controller.ray.cluster.rolling_units import set_turns
from controller.ray.cluster.rollout import ASSUMED, RayView, Rollout
from controller.ray.dashboard import Head
from controller.ray.dashboard.client import RayNode, RayNodes
from controller.ray.dashboard.probes import ProbeObservation
from controller.ray.dashboard.responses import RayVersion
from controller.ray.pods.hashes import template_digest
from tests.ray.cluster.support import (
    NOW,
    UID,
    cluster,
    manifest,
    pod,
    reads,
    seen_with,
    with_status,
)

IMAGE = "rayproject/ray:2.60.0"
OLD = "3-OF-AN-OLDER-TEMPLATE"
HEAD = "example-head-aaaaaaaa"
ADDRESS = "10.0.0.7"
"""Of every pod of `support.pod`."""


def rolling(*replicas: int, image: str = IMAGE, **settings: Any) -> dict[str, Any]:
    """The example with a group of so many workers each: `workers`, `workers-1`, and so on."""
    raw = manifest()
    spec = raw["spec"]
    spec["rayVersion"] = ""
    (group,) = spec["workerGroupSpecs"]
    spec["workerGroupSpecs"] = [
        msgspec.convert(group, dict[str, Any])
        | {"groupName": f"workers-{index}" if index else "workers", "replicas": count}
        for index, count in enumerate(replicas or (2,))
    ]
    for each in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        set_image(each, IMAGE if each is spec["headGroupSpec"] else image)
    spec["upgradeStrategy"] = {"type": "RollingUpdate", "rollingUpdate": settings}
    return raw


def without_rolling(*groups: int) -> dict[str, Any]:
    return with_spec(rolling(*groups), upgradeStrategy={"type": "None"})


def set_image(group: dict[str, Any], image: str) -> None:
    """The group with another image, sharing nothing with other groups."""
    group["template"] = {"spec": {"containers": [{"name": "ray", "image": image}]}}


def with_spec(raw: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return raw | {"spec": raw["spec"] | spec}


def new(raw: dict[str, Any], name: str, group: int = 0, **more: Any) -> Pod:
    """A worker that is made from the present template."""
    wanted = raw["spec"]["workerGroupSpecs"][group]
    return _stamped(name, wanted["groupName"], str(template_digest(wanted)), **more)


def old(name: str, group: str = "workers", **more: Any) -> Pod:
    """A worker that is created from an older template."""
    return _stamped(name, group, OLD, **more)


def the_head(raw: dict[str, Any], *, outdated: bool = False, **more: Any) -> Pod:
    """The head; the image that it runs is the usual one."""
    wanted = str(template_digest(raw["spec"]["headGroupSpec"]))
    made = _stamped(HEAD, "headgroup", OLD if outdated else wanted, **more)
    (container,) = made.spec.containers
    spec = msgspec.structs.replace(
        made.spec, containers=(msgspec.structs.replace(container, image=IMAGE),)
    )
    return msgspec.structs.replace(made, spec=spec)


def recorded(raw: dict[str, Any], *conditions: dict[str, Any], **numbers: Any) -> Any:
    """The cluster with pods that were counted at a generation, and the status at another one."""
    numbers = {"counted": 1, "observed": 1} | numbers
    counted = {"type": "HeadPodReady", "observedGeneration": numbers["counted"]}
    status = {"observedGeneration": numbers["observed"], "conditions": [counted, *conditions]}
    return with_status(cluster(raw), status)


def draining(seconds: float = 10) -> dict[str, str]:
    """The annotation of a pod that has been draining for so long."""
    return {labels.DRAINING_SINCE: rfc3339(NOW - timedelta(seconds=seconds))}


def observed(
    raw: dict[str, Any], *pods: Pod, conditions: tuple[dict[str, Any], ...] = (), **changes: Any
) -> ClusterObservation:
    """The cluster as the kind sees it, with all that Ray says taken for granted."""
    obj = with_status(cluster(raw), {"conditions": list(conditions)})
    return observed_object(obj, *pods, **changes)


def observed_object(
    obj: RayCluster, *pods: Pod, begun: dict[str, int] | None = None, **changes: Any
) -> ClusterObservation:
    kept = reads(obj, *pods, begun=begun or {})
    seen = RayClusterKind().observe("default/example", kept)
    assert isinstance(seen, ClusterObservation)
    return replace(seen, now=NOW, **({"ray": ASSUMED} | changes))


def with_begun(seen: ClusterObservation, *names: str) -> ClusterObservation:
    """The same cluster when the turn of these groups has been recorded."""
    conditions = ConditionSet(seen.stored.conditions, seen.cluster.metadata.generation, NOW)
    set_turns(conditions, names)
    status = {"conditions": conditions.as_list()}
    return seen_with(seen, status)


def decision(seen: ClusterObservation) -> Rollout | None:
    """What is decided once the turns are recorded, None if there is nothing to decide."""
    first = decide(seen)
    if first is None or not first.begun:
        return first
    return decide(with_begun(seen, *first.begun))


def decided(seen: ClusterObservation) -> Rollout:
    found = decision(seen)
    assert found is not None
    return found


def rolled_out(seen: ClusterObservation) -> ClusterObservation:
    return with_rollout(seen)


def upgrading(
    reason: str = "Rolling", status: str = "True", *, seconds: float = 60
) -> dict[str, Any]:
    """The condition, as it has been for so long."""
    since = rfc3339(NOW - timedelta(seconds=seconds))
    return {"type": "Upgrading", "status": status, "reason": reason, "lastTransitionTime": since}


def answering(
    *nodes: RayNode, version: str = "2.60.0", head_pod: Pod | None = None, **changes: Any
) -> RayView:
    """A Ray that answers, with these nodes."""
    probes = {
        "nodes": ProbeObservation(RayNodes.of(nodes), NOW, NOW),
        "health": ProbeObservation(RayVersion(version), NOW, NOW),
    }
    return replace(RayView(the_dashboard(), head_pod), **(probes | changes))


def the_dashboard(restarts: int = 0) -> Head:
    return Head(UID, f"uid-of-{HEAD}", restarts, "default", "example-head-svc", 8265, "")


def failing(value: Any = None, error: str = "connection refused") -> ProbeObservation:
    """A probe whose requests fail, with the last answer before."""
    return ProbeObservation(value, NOW, None, NOW - timedelta(minutes=1), error)


def _stamped(
    name: str, group: str, stamp: str, *, annotations: dict[str, str] | None = None, **more: Any
) -> Pod:
    return pod(name, group, annotations={labels.TEMPLATE_HASH: stamp} | (annotations or {}), **more)
