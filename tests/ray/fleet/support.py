"""A fleet, its RayClusters and a cache around them, all made of plain values."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controller.apimachinery.patches import apply_merge_patch
from controller.apimachinery.validation import Problem
from controller.ray.api.raycluster import RAYCLUSTERS, RayCluster
from controller.ray.api.rayclusterfleet import RAYCLUSTERFLEETS, RayClusterFleet, validate_fleet
from controller.ray.fleet import RayClusterFleetKind
from controller.ray.fleet.kind import copy_body
from controller.ray.fleet.observe import FleetGoal, template_hash
from controller.runtime.plan import Create, Delete, Plan, Write
from controller.testing.reads import FakeReads
from tests.ray.cluster.support import manifest

UID = "uid-of-fleet"
NOW = datetime(2026, 8, 20, 10, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(hours=1)
OLD, NEW, THIRD = ("rayproject/ray:2.50.0", "rayproject/ray:2.51.0", "rayproject/ray:2.52.0")


def stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def cluster_spec(image: str = NEW, **changes: Any) -> dict[str, Any]:
    spec = copy.deepcopy(manifest()["spec"]) | changes
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["template"]["spec"]["containers"][0]["image"] = image
    return spec


def fleet(
    image: str = NEW,
    replicas: int = 3,
    *,
    generation: int = 2,
    status: dict[str, Any] | None = None,
    template: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    terminating: bool = False,
    **strategy: Any,
) -> RayClusterFleet:
    body: dict[str, Any] = {
        "metadata": {
            "name": "fleet",
            "namespace": "default",
            "uid": UID,
            "generation": generation,
            "resourceVersion": "7",
            "annotations": annotations,
            "deletionTimestamp": stamp(NOW) if terminating else None,
        },
        "spec": {
            "replicas": replicas,
            "strategy": strategy,
            "template": template or {"spec": cluster_spec(image)},
        },
        "status": status or {},
    }
    return msgspec.convert(body, RayClusterFleet)


def goal(obj: RayClusterFleet) -> FleetGoal:
    spec = validate_fleet(obj)
    assert not isinstance(spec, Problem), spec
    return FleetGoal(spec, template_hash(spec.template))


def member(
    index: int,
    image: str = NEW,
    *,
    of: RayClusterFleet | None = None,
    ready: bool = True,
    once: bool = False,
    head: bool = False,
    suspended: bool = False,
    terminating: bool = False,
    since: datetime = LONG_AGO,
    message: str = "group workers: 1 of 2 workers are ready",
    **changes: Any,
) -> RayCluster:
    """The copy as it was created for this index and image, or for the template of a fleet.

    Args:
        once: whether it was ready before, if it is not now.
        head: whether its head is ready, if not all of it is.
    """
    made_for = of or fleet(image)
    body = copy_body(made_for.metadata, goal(made_for), index)
    body["metadata"] |= {
        "uid": f"uid-of-{body['metadata']['name']}",
        "resourceVersion": "5",
        "creationTimestamp": stamp(since),
        "deletionTimestamp": stamp(NOW) if terminating else None,
    }
    body["spec"] |= changes
    conditions = {
        "Ready": (ready, "" if ready else message),
        "HeadPodReady": (ready or head, ""),
        "RayClusterProvisioned": (ready or once, ""),
        "RayClusterSuspended": (suspended, ""),
    }
    body["status"] = {
        "conditions": [
            {
                "type": kind,
                "status": str(value),
                "message": text,
                "lastTransitionTime": stamp(since),
            }
            for kind, (value, text) in conditions.items()
        ]
    }
    return msgspec.convert(body, RayCluster)


def reads(obj: RayClusterFleet, *clusters: RayCluster, **more: Any) -> FakeReads:
    return (
        FakeReads(RayClusterFleetKind(), **more)
        .add(RAYCLUSTERFLEETS, obj)
        .add(RAYCLUSTERS, *clusters)
    )


def plan(obj: RayClusterFleet, *clusters: RayCluster, now: datetime = NOW, **more: Any) -> Plan:
    kind = RayClusterFleetKind()
    seen = kind.observe(obj.metadata.key, reads(obj, *clusters, **more))
    assert seen is not None
    return kind.plan(seen, now)


def with_status(obj: RayClusterFleet, made: Plan) -> RayClusterFleet:
    """The object after the plan's status was written."""
    assert made.status is not None
    status = apply_merge_patch(obj.status, made.status.wanted)
    return msgspec.structs.replace(obj, status=status)


def writes(made: Plan) -> list[Write]:
    return [write for stage in (*made.stages, made.independent) for write in stage]


def index(name: str) -> int:
    return int(name.split("-")[1])


def created(made: Plan) -> list[int]:
    return [index(write.target.name) for write in writes(made) if isinstance(write, Create)]


def deleted(made: Plan) -> list[str]:
    return [write.target.name for write in writes(made) if isinstance(write, Delete)]


def condition(made: Plan, kind: str) -> tuple[str, str, str]:
    assert made.status is not None
    (found,) = [each for each in made.status.wanted["conditions"] if each["type"] == kind]
    return found["status"], found["reason"], found["message"]


def told(made: Plan) -> list[str]:
    of_status = made.status.events if made.status else ()
    return [event.reason for event in (*made.events, *of_status)]
